"""Words and their vectors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float32, Int8, Int64

from exfam.analysis.vectors.lookup import unknown_word
from exfam.checks import DataError, check_choice
from exfam.data.vector_files.checks import check_vectors

__all__ = ["OF", "WordVectors"]

OF = ("center", "context", "both")


@dataclass(frozen=True, eq=False)
class WordVectors:
    """A vector for each word, or two: as the center of a window and as context of others.

    `words`: in order of the rows, by convention the most frequent first
    `context`: vectors of the words as context; None if there are none, or if they are tied
    `signs`: +1 or -1 for each column; context vectors are then the center's times these signs
        (tied by reflection) and are not stored

    Mapping-like: `vectors["cat"]` is the center vector, `"cat" in vectors`, `len(vectors)`,
    iteration over the words, `vectors.get("cat")`.
    Raises DataError, naming row and word, unless there is a finite row for each different word, and
    for `signs` other than -1 and +1 or given together with `context`.

    >>> vectors = WordVectors(("cat", "dog"), np.eye(2, dtype=np.float32))
    >>> "cat" in vectors, len(vectors), vectors["dog"]
    (True, 2, array([0., 1.], dtype=float32))
    """

    words: tuple[str, ...]
    center: Float32[np.ndarray, "words dim"]
    context: Float32[np.ndarray, "_ _"] | None = None
    signs: Int8[np.ndarray, "_"] | None = None

    def __post_init__(self) -> None:
        index = check_vectors(self.words, self.center, name="center")
        # As cached_property would have it, since the check makes it anyway.
        self.__dict__["index"] = index
        if self.context is not None:
            _check_context(self)
        if self.signs is not None:
            _check_signs(self)

    @cached_property
    def index(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    @property
    def dim(self) -> int:
        """Length of a word's vector."""
        return self.center.shape[1]

    @property
    def tied(self) -> bool:
        """Whether context vectors are the center's, reflected."""
        return self.signs is not None

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.index

    def __getitem__(self, word: str) -> Float32[np.ndarray, "dim"]:
        return self.center[self.code(word)]

    def get(self, word: str, default: Any = None) -> Any:
        """The word's center vector, or `default` for an unknown word."""
        row = self.index.get(word)
        return default if row is None else self.center[row]

    def code(self, word: str) -> int:
        """The word's row. Raises UnknownWordError, with near spellings, for an unknown word."""
        row = self.index.get(word)
        if row is None:
            raise unknown_word(word, self.words)
        return row

    def codes(self, words: Sequence[str]) -> Int64[np.ndarray, "chosen"]:
        """The words' rows. Raises UnknownWordError, with near spellings, for an unknown word."""
        return np.array([self.code(word) for word in words], dtype=np.int64)

    def matrix(self, of: str = "center") -> Float32[np.ndarray, "words dim"]:
        """All words' vectors: of the center, of the context, or of both: their sum.

        The sum is what GloVe releases and what hyperwords calls w+c. Of tied vectors it is zero
        where signs are -1. A center matrix is the array itself, not a copy.
        Raises ExfamError for another `of`; DataError for context vectors where there are none.

        >>> signs = np.array([1, -1], dtype=np.int8)
        >>> WordVectors(("cat", "dog"), np.ones((2, 2), np.float32), signs=signs).matrix("context")
        array([[ 1., -1.],
               [ 1., -1.]], dtype=float32)
        """
        check_choice("of", of, OF)
        if of == "center":
            return self.center
        if self.signs is not None:
            return self.center * (self.signs if of == "context" else self.signs + np.int8(1))
        if self.context is None:
            raise DataError(
                f"`of` must be 'center' for vectors without context vectors, got {of!r}. "
                "Give `context` or `signs`."
            )
        return self.context if of == "context" else self.center + self.context


def _check_context(vectors: WordVectors) -> None:
    context, center = vectors.context, vectors.center
    assert context is not None
    if vectors.signs is not None:
        raise DataError(
            "`signs` must be None where `context` is given, got both. "
            "Tied context vectors follow from `center` and `signs`."
        )
    if context.shape != center.shape:
        raise DataError(
            f"`context` must have the shape of `center`, {center.shape[0]} x {center.shape[1]}, "
            f"got {context.shape[0]} x {context.shape[1]}."
        )
    check_vectors(vectors.words, context, name="context")


def _check_signs(vectors: WordVectors) -> None:
    signs = vectors.signs
    assert signs is not None
    if len(signs) != vectors.dim:
        raise DataError(
            f"`signs` must have one sign for each of {vectors.dim} columns, got {len(signs)}."
        )
    if not np.isin(signs, (-1, 1)).all():
        bad = int(np.flatnonzero(~np.isin(signs, (-1, 1)))[0])
        raise DataError(f"`signs` must be -1 or +1, got {signs[bad]} in column {bad}.")
