"""The words of a corpus, their codes and counts."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Int64

from exfam.checks import DataError, UnknownItemError

__all__ = ["Vocabulary"]


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Words by falling count (ties: alphabetical), and how often each was read.

    A word's code is its place. `n_tokens`: all tokens read, those of words left out too.
    Raises DataError for a word twice, counts that do not match the words or are negative.

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

    def code(self, word: str) -> int:
        """The code of a word; UnknownItemError if it is not in the vocabulary."""
        if word not in self.index:
            raise UnknownItemError(
                f"`word` must be one of the {len(self)} words of the vocabulary, got {word!r}."
            )
        return self.index[word]

    def write_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write words and counts; `n_tokens` goes into the file's metadata."""
        table = pa.table({"word": pa.array(self.words, pa.string()), "count": self.counts})
        table = table.replace_schema_metadata({"n_tokens": str(self.n_tokens)})
        pq.write_table(table, path)

    @classmethod
    def read_parquet(cls, path: str | os.PathLike[str]) -> "Vocabulary":
        """The vocabulary that `write_parquet` wrote."""
        table = pq.read_table(path)
        n_tokens = int((table.schema.metadata or {})[b"n_tokens"])
        words = tuple(table["word"].to_pylist())
        return cls(words, table["count"].to_numpy().astype(np.int64), n_tokens)
