"""Sentence vectors that know no language: the length alone, the words without their order."""

import zlib

import numpy as np
from jaxtyping import Float

from exfam.checks import check_whole


class LengthAlone:
    """An encoder whose vector has a 1 at the number of words.

    `longest`: longer sentences count as of this length (default 60)

    >>> LengthAlone(3)([["a"], ["a", "b", "c", "d"]])
    array([[1., 0., 0.],
           [0., 0., 1.]])
    """

    def __init__(self, longest: int = 60) -> None:
        check_whole("longest", longest)
        self.longest = longest

    def __call__(self, sentences: list[list[str]]) -> Float[np.ndarray, "sentences dim"]:
        """A vector for each sentence."""
        lengths = np.array([len(words) for words in sentences])
        return np.eye(self.longest)[np.clip(lengths, 1, self.longest) - 1]


class HashedWords:
    """An encoder whose vector counts words, whatever their case, at indices given by a hash.

    Two words share an index where their hashes do.

    `dim`: length of the vectors (default 1024)

    >>> bag = HashedWords(64)
    >>> bool((bag([["dog", "bites", "man"]]) == bag([["Man", "bites", "dog"]])).all())
    True
    """

    def __init__(self, dim: int = 1024) -> None:
        check_whole("dim", dim)
        self.dim = dim

    def __call__(self, sentences: list[list[str]]) -> Float[np.ndarray, "sentences dim"]:
        """A vector for each sentence."""
        counts = np.zeros((len(sentences), self.dim))
        for row, words in enumerate(sentences):
            for word in words:
                # Python's own hash differs from run to run.
                counts[row, zlib.crc32(word.lower().encode()) % self.dim] += 1
        return counts
