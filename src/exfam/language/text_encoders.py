"""A masked language model as an encoder of sentences: vectors, and attention between words."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int32, Int64
from torch import Tensor

from exfam.checks import DataError, ExfamError, UnknownItemError, check_choice, check_whole
from exfam.groups.batch import on_device
from exfam.language.networks.masked_lm import EncodedTokens, MaskedLM
from exfam.language.networks.sentence_networks import pooled
from exfam.language.networks.token_pieces import TokenPieces
from exfam.language.tokens import sentence_list
from exfam.reading.text.subwords import END, SPECIAL, START, Subwords, sentence_words
from exfam.vectors import WordVectors

# What marks tokens that begin a word, in vocabularies of byte-level BPE and of SentencePiece.
WORD_MARKS = ("\u0120", "\u2581")
# What marks tokens that go on with one, in vocabularies of WordPiece.
_PIECE_MARK = "##"


def whole_words(vocabulary: Mapping[str, int]) -> dict[str, int]:
    """Words that are one token, in order of their codes; none that only go on with a word."""
    marked = any(token.startswith(WORD_MARKS) for token in vocabulary)
    words: dict[str, int] = {}
    for token, code in sorted(vocabulary.items(), key=lambda pair: pair[1]):
        if token.startswith(WORD_MARKS):
            words.setdefault(token[1:], code)
        elif not marked and not token.startswith(_PIECE_MARK):
            words.setdefault(token, code)
    words.pop("", None)
    return words


def probe_words(vocabulary: Mapping[str, int]) -> list[str]:
    """Words of one token, of at least two letters a-z, sorted; none that only go on with a word."""
    words = whole_words(vocabulary)
    return sorted(word for word in words if word.isascii() and word.isalpha() and len(word) > 1)


def repeated_words(
    words: Sequence[str],
    length: int,
    vocabulary: Mapping[str, int],
    *,
    most: int,
    ends: Sequence[int] | None,
) -> Int64[Tensor, "words length"]:
    """Sentences of one word over and over, between special tokens if there are `ends`."""
    if length > most:
        raise ExfamError(f"`length` must be at most {most} for this encoder, got {length}.")
    codes = {**vocabulary, **whole_words(vocabulary)}
    for word in words:
        if word not in codes:
            raise UnknownItemError(f"`words` must be tokens that the encoder has, got {word!r}.")
    tokens = torch.tensor([codes[word] for word in words])[:, None].repeat(1, length)
    if ends is not None:
        tokens[:, 0], tokens[:, -1] = ends
    return tokens


def token_vectors(
    vocabulary: Mapping[str, int], matrix: np.ndarray, *, special: Collection[str]
) -> WordVectors:
    """The rows of all words that are one token, in order of the codes; `special` ones are none."""
    rows = {word: row for word, row in whole_words(vocabulary).items() if word not in special}
    return WordVectors(tuple(rows), matrix[np.array(list(rows.values()), dtype=np.int64)])


def attention_of_words(
    weights: Float[Tensor, "layers heads tokens tokens"],
    word: Sequence[int | None],
    *,
    n_words: int,
) -> Float[Tensor, "layers heads words words"]:
    """Columns summed and rows averaged over the tokens of each word.

    `word`: the index of the word that each token is of, None for special tokens
    """
    index = torch.tensor([n_words if of is None else of for of in word])
    member = torch.nn.functional.one_hot(index, n_words + 1)[:, :n_words].to(weights)
    from_words = (member / member.sum(0).clamp_min(1)).T @ weights
    return from_words @ member


def check_tokens(n_tokens: int, *, most: int, index: int) -> None:
    """Whether the encoder takes the sentence at `index`."""
    if n_tokens > most:
        raise DataError(
            f"Sentence {index} must have at most {most} tokens for this encoder, got {n_tokens}. "
            "Leave it out, or shorten it."
        )


# The vector of a sentence: the mean of its tokens, or the first token's.
SENTENCE_POOLINGS = ("mean", "first")
# What becomes of sentences of more tokens than the encoder has positions for.
LONG_SENTENCES = ("error", "cut")
# Padded tokens computed at a time.
_TOKENS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class TextEncoder:
    """A network, its vocabulary, and the term of its attention that is used.

    `term`: "both", or "contextual" or "positional" alone: see `MaskedLM.forward`
    `long_sentences`: "error", or "cut" to leave out what is beyond the last position
    """

    network: MaskedLM
    subwords: Subwords
    term: str = "both"
    long_sentences: str = "error"

    @property
    def most_tokens(self) -> int:
        """Tokens of a sentence at most, special ones included."""
        encodings = [self.network.added, self.network.layers[0].attention.encoding]
        limits = [own.n_positions for own in encodings if own.n_positions is not None]
        return min(limits, default=10**9)

    def word_vectors(self) -> WordVectors:
        """The vectors that tokens enter with, of all words that are one token."""
        matrix = self.network.words.table.weight.detach().float().cpu().numpy()
        return token_vectors(self.subwords.index, matrix, special=SPECIAL)

    def probe_words(self) -> list[str]:
        """Words of one token, of at least two letters a-z, sorted."""
        return probe_words(self.subwords.index)

    def repeated(
        self, words: Sequence[str], length: int, *, special_tokens: bool
    ) -> Float[Tensor, "words layers heads length length"]:
        """Attention of sentences of one word over and over."""
        index, most = self.subwords.index, self.most_tokens
        ends = (index[START], index[END]) if special_tokens else None
        tokens = repeated_words(words, length, index, most=most, ends=ends)
        encoded = self._run(tokens, None)
        layers = [weights.expand(len(tokens), -1, -1, -1) for weights in encoded.weights]
        return torch.stack(layers, 1)

    def word_attention(self, sentences: Any) -> list[Float[Tensor, "layers heads words words"]]:
        """Attention from each word of a sentence to each, special tokens left out.

        Attention to a word is summed over its tokens, that from a word is their mean. Nothing is
        cut: a sentence that is too long (see `fits`) is refused.
        """
        listed = sentence_list(sentences, name="sentences")
        coded = self.subwords.encode(listed)
        for index, sentence in enumerate(coded):
            check_tokens(len(sentence.codes) + 2, most=self.most_tokens, index=index)
        pieces = [self._piece([sentence.codes], index) for index, sentence in enumerate(coded)]
        attention: list[Tensor] = [torch.empty(0)] * len(coded)
        for indices, encoded, _ in self._batches(pieces):
            for row, index in enumerate(indices):
                words = coded[index].words.tolist()
                n_words = len(sentence_words(listed[index], int(index)))
                n = len(words) + 2
                own = torch.stack([w[row if len(w) > 1 else 0, :, :n, :n] for w in encoded.weights])
                attention[index] = attention_of_words(own, [None, *words, None], n_words=n_words)
        return attention

    def fits(self, sentences: Any) -> Bool[np.ndarray, "sentences"]:
        """Which sentences have no more tokens than the encoder takes, special ones included."""
        coded = self.subwords.encode(sentence_list(sentences, name="sentences"))
        return np.array([len(own.codes) + 2 <= self.most_tokens for own in coded], dtype=bool)

    def vectors(
        self, sentences: Any, *, layer: int = -1, pooling: str = "mean"
    ) -> Float32[np.ndarray, "sentences embed"]:
        """One vector per sentence, or pair of sentences in a tuple.

        `layer`: 0 for what enters the first layer, 1 for what leaves it, …; -1 for the last
        `pooling`: "mean" of the tokens, special ones included, or the "first" one
        """
        check_choice("pooling", pooling, SENTENCE_POOLINGS)
        n_layers = len(self.network.layers)
        check_whole("layer", layer, least=-1)
        if layer > n_layers:
            raise ExfamError(f"`layer` must be at most {n_layers}, got {layer}.")
        pieces = self.pieces(sentences)
        out = np.empty((len(pieces), self.network.words.dim), dtype=np.float32)
        for indices, encoded, present in self._batches(pieces):
            out[indices] = pooled(encoded.states[layer], present, pooling=pooling).cpu().numpy()
        return out

    def pieces(self, sentences: Any) -> list[Int32[np.ndarray, "_"]]:
        """Sentences, or pairs of them in tuples, as tokens between special ones.

        [CLS] first [SEP], or [CLS] first [SEP] second [SEP]. Where sentences are cut, a pair loses
        the end of its longer one first.
        """
        flat: list[Any] = []
        indices: list[int] = []
        for index, sentence in enumerate(sentence_list(sentences, name="sentences")):
            if isinstance(sentence, tuple) and len(sentence) != 2:
                raise DataError(
                    f"Sentence {index} must be a text, a list of words or a pair of these in a "
                    f"tuple, got a tuple of {len(sentence)}. Give words as a list."
                )
            flat.extend(sentence if isinstance(sentence, tuple) else [sentence])
            indices += [index] * (len(flat) - len(indices))
        parts: dict[int, list[np.ndarray]] = {}
        for index, coded in zip(indices, self.subwords.encode(flat, numbers=indices), strict=True):
            parts.setdefault(index, []).append(coded.codes)
        return [self._piece(own, index) for index, own in parts.items()]

    def _piece(self, parts: list[np.ndarray], index: int) -> Int32[np.ndarray, "_"]:
        n_tokens = 1 + sum(len(part) + 1 for part in parts)
        if self.long_sentences == "error":
            check_tokens(n_tokens, most=self.most_tokens, index=index)
        kept = [len(part) for part in parts]
        for _ in range(n_tokens - self.most_tokens):
            kept[kept.index(max(kept))] -= 1
        start, end = (np.array([self.subwords.index[token]]) for token in (START, END))
        codes = [start]
        for part, n in zip(parts, kept, strict=True):
            codes += [part[:n], end]
        return np.concatenate(codes).astype(np.int32)

    def _batches(
        self, pieces: list[np.ndarray]
    ) -> Iterator[tuple[np.ndarray, EncodedTokens, Tensor]]:
        """Indices of sentences of like length, their encoding, and where they have tokens."""
        source = TokenPieces(pieces, share=0.0, n_special=0)
        for indices in source.sequential_batches(max_tokens=_TOKENS_AT_ONCE):
            batch = source.pad(indices)
            encoded = self._run(batch.tokens, batch.visible)
            yield indices, encoded, batch.present.to(encoded.states[0].device)

    def _run(self, tokens: Tensor, present: Tensor | None) -> EncodedTokens:
        own = on_device((tokens, present), self.network.bias.device)
        with torch.inference_mode():
            encoded: EncodedTokens = self.network(*own, term=self.term)
        return encoded
