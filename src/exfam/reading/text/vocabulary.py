"""The words of a corpus, their codes and counts; how often each is kept, and drawn as noise."""

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float64, Int64

from exfam.checks import DataError, UnknownItemError, check_positive


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Words in the order of their codes, and how often each was read.

    Words of one text are ordered by falling count (ties: alphabetical); those of later texts, by
    which it has grown, follow. `n_tokens`: all tokens read, those of words left out too.
    Raises DataError for a word twice, for counts that are negative or not one a word.
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
        """The vocabulary of all words of a mapping to their counts."""
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
        """This vocabulary and another: codes stay, new words follow, counts add up."""
        new = tuple(word for word in other.words if word not in self.index)
        index = self.index | {word: len(self) + k for k, word in enumerate(new)}
        counts = np.concatenate([self.counts, np.zeros(len(new), np.int64)])
        counts[np.array([index[word] for word in other.words], np.int64)] += other.counts
        return Vocabulary(self.words + new, counts, self.n_tokens + other.n_tokens)

    def write_json(self, path: str | os.PathLike[str]) -> None:
        """Write words, counts and `n_tokens`."""
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


def keep_probability(
    counts: Int64[np.ndarray, "words"], threshold: float | int
) -> Float64[np.ndarray, "words"]:
    """The probability that sub-sampling keeps a token of each word.

    With f the word's share of all tokens and t = `threshold`: sqrt(t / f) + t / f, at most 1;
    1 for words never seen, and for all words with a threshold of 0 (no sub-sampling).
    Raises ExfamError for a negative threshold, DataError for negative counts or none above 0.
    Source: word2vec.c, `sample`; Mikolov et al. (2013) have 1 - sqrt(t / f) of being dropped.
    """
    check_positive("threshold", threshold, zero=True)
    total = _total(counts)
    if threshold == 0:
        return np.ones(len(counts))
    ratio = threshold * total / np.maximum(counts, 1)
    return np.where(counts > 0, np.minimum(np.sqrt(ratio) + ratio, 1.0), 1.0)


def noise_probability(
    counts: Int64[np.ndarray, "words"], exponent: float | int
) -> Float64[np.ndarray, "words"]:
    """The probability of drawing each word as a negative: counts ** exponent, summing to 1.

    `exponent`: 1 draws as the text does, 0 draws all words alike, 0.75 is word2vec's; words never
    seen are never drawn, whatever it is

    Raises ExfamError for a negative exponent, DataError for negative counts or none above 0.
    Source: Mikolov et al. (2013), section 2.2.
    """
    check_positive("exponent", exponent, zero=True)
    _total(counts)
    # Divided by the largest first: no power overflows.
    weights = np.where(counts > 0, (counts / counts.max()) ** exponent, 0.0)
    return weights / weights.sum()


def _total(counts: np.ndarray) -> int:
    if np.any(counts < 0):
        at = int(np.argmax(counts < 0))
        raise DataError(f"`counts` must be >= 0, got {counts[at]} at word {at}.")
    total = int(counts.sum())
    if total == 0:
        raise DataError(
            f"`counts` must have one above 0, got {len(counts)} words without any. Pass the "
            "counts of a vocabulary."
        )
    return total
