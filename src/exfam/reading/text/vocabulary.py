"""The words of a corpus, their codes and counts."""

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int64

from exfam.checks import DataError, UnknownItemError


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Words in the order of their codes, and how often each was read.

    Words of one text are ordered by falling count (ties: alphabetical); those of later texts, by
    which it has grown, follow. `n_tokens`: all tokens read, those of words left out too.
    Raises DataError for a word twice, for counts that are negative or not one a word.

    >>> known = Vocabulary.counted({"the": 5, "cat": 2, "a": 2})
    >>> known.words, known.code("cat"), known.n_tokens
    (('the', 'a', 'cat'), 2, 9)
    """

    words: tuple[str, ...]
    counts: Int64[np.ndarray, "words"]
    n_tokens: int

    def __post_init__(self) -> None:
        if len(self.words) != len(self.counts):
            raise DataError(
                f"`counts` must be one a word, got {len(self.counts)} for {len(self.words)} words."
            )
        if len(self.counts) and self.counts.min() < 0:
            at = int(self.counts.argmin())
            raise DataError(
                f"`counts` must be >= 0, got {self.counts[at]} for {self.words[at]!r} at code {at}."
            )
        if len(set(self.words)) < len(self.words):
            [(twice, _)] = Counter(self.words).most_common(1)
            raise DataError(f"`words` must hold each word once, got {twice!r} more than once.")

    @classmethod
    def counted(cls, counts: Mapping[str, int]) -> "Vocabulary":
        """The vocabulary of all words of a mapping to their counts.

        >>> Vocabulary.counted({"b": 1, "a": 1}).words
        ('a', 'b')
        """
        words = sorted(counts, key=lambda word: (-counts[word], word))
        numbers = np.array([counts[word] for word in words], np.int64)
        return cls(tuple(words), numbers, int(numbers.sum()))

    @cached_property
    def index(self) -> dict[str, int]:
        """Word -> code."""
        return {word: code for code, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.index

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} words, {self.n_tokens} tokens)"

    def code(self, word: str) -> int:
        """The code of a word; UnknownItemError if it is not in the vocabulary."""
        if word not in self.index:
            raise UnknownItemError(
                f"`word` must be one of the {len(self)} words of the vocabulary, got {word!r}."
            )
        return self.index[word]

    def grown(self, other: "Vocabulary") -> "Vocabulary":
        """This vocabulary and another: codes stay, new words follow, counts add up.

        >>> both = Vocabulary.counted({"a": 2, "b": 1}).grown(Vocabulary.counted({"c": 9, "b": 1}))
        >>> both.words, both.counts.tolist(), both.n_tokens
        (('a', 'b', 'c'), [2, 2, 9], 13)
        """
        index = self.index
        new = tuple(word for word in other.words if word not in index)
        codes = dict(zip(new, range(len(self), len(self) + len(new)), strict=True))
        counts = np.concatenate([self.counts, np.zeros(len(new), np.int64)])
        at = [index.get(word, -1) if word in index else codes[word] for word in other.words]
        counts[np.array(at, np.int64)] += other.counts
        return Vocabulary(self.words + new, counts, self.n_tokens + other.n_tokens)

    def write_json(self, path: str | os.PathLike[str]) -> None:
        """Write words, counts and `n_tokens`.

        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/words.json"
        >>> Vocabulary.counted({"a": 2}).write_json(path)
        >>> Vocabulary.read_json(path).words
        ('a',)
        """
        document = {"n_tokens": self.n_tokens, "words": self.words, "counts": self.counts.tolist()}
        with open(path, "w", encoding="ascii") as file:
            json.dump(document, file)

    @classmethod
    def read_json(cls, path: str | os.PathLike[str]) -> "Vocabulary":
        """The vocabulary that `write_json` wrote.

        Raises DataError if there is none at `path`, be it missing, damaged or something else.
        """
        try:
            with open(path, encoding="ascii") as file:
                document = json.load(file)
            words, n_tokens = tuple(map(str, document["words"])), int(document["n_tokens"])
            counts = np.array(document["counts"], np.int64)
        except (OSError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise DataError(
                f"`path` must be a file of a vocabulary, got {os.fspath(path)!r}: {error}."
            ) from error
        return cls(words, counts, n_tokens)
