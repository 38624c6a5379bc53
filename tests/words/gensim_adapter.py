"""gensim's KeyedVectors with `WordVectors` inside: only what exfam spells in another way."""

import numpy as np

from exfam.vectors import WordVectors


class KeyedVectors:
    def __init__(self, vector_size):
        self.vector_size, self.own = vector_size, None

    @classmethod
    def holding(cls, own):
        adapter = cls(own.dim)
        adapter.own = own
        return adapter

    def __getattr__(self, name):
        return getattr(self.own, name)

    def __len__(self):
        return len(self.own)

    def __contains__(self, key):
        return key in self.own

    def __getitem__(self, keys):
        return self.own[keys]

    def __setitem__(self, keys, weights):
        self.add_vectors(keys, weights)

    def add_vectors(self, keys, weights, replace=False):
        if self.own is not None:
            self.own.add_vectors(keys, weights, replace)
        self.own = WordVectors(tuple(keys), np.array(weights, dtype=np.float32))

    def most_similar(self, positive=(), negative=(), topn=10, restrict_vocab=None):
        return self.own.most_similar(positive, negative, topn=topn, among=restrict_vocab)

    def vectors_for_all(self, keys, copy_vecattrs=False):
        inside = [key for key in keys if key in self.own]
        return self.holding(WordVectors(tuple(inside), self.own[inside]))

    def relative_cosine_similarity(self, a, b, topn):
        return self.own.similarity(a, b) / sum(
            near.score for near in self.own.most_similar(a, k=topn)
        )

    @classmethod
    def load(cls, path):
        return cls.holding(WordVectors.load(path))

    @classmethod
    def load_word2vec_format(
        cls, path, fvocab=None, binary=False, unicode_errors="strict", no_header=False, limit=None
    ):
        format = "word2vec-binary" if binary else "glove" if no_header else "word2vec"
        return cls.holding(
            WordVectors.load(path, format=format, limit=limit, errors=unicode_errors)
        )

    def save_word2vec_format(self, path, binary=False, write_header=True):
        format = "word2vec-binary" if binary else "word2vec" if write_header else "glove"
        self.own.save(path, format=format)


def loaded(cls, fname, binary, limit, binary_chunk_size):
    """gensim's private reader, whose blocks have another size here."""
    return cls.load_word2vec_format(fname, binary=binary, limit=limit)
