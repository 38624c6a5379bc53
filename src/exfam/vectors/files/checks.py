"""What every list of words with its matrix of vectors must be."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Int64

from exfam.checks import DataError

__all__ = ["check_vectors", "index_words", "not_finite"]

# Entries of a matrix that are looked at at once.
_ENTRIES = 1 << 22


def check_vectors(
    words: Sequence[str], matrix: Float[np.ndarray, "rows dim"], *, name: str
) -> dict[str, int]:
    """The row of each word, once the two are known to fit: a finite row for each different word.

    `name`: what the matrix is called in messages

    Raises DataError, naming row and word, for no words, another number of rows than of words, no
    columns, a word that is there twice, or a row that is not finite.

    >>> check_vectors(["a", "b"], np.eye(2), name="center")
    {'a': 0, 'b': 1}
    """
    if not words:
        raise DataError(f"`{name}` must hold at least one word, got none.")
    if len(matrix) != len(words) or not matrix.shape[1]:
        raise DataError(
            f"`{name}` must have a row for each of {len(words)} words and at least one column, "
            f"got {matrix.shape[0]} x {matrix.shape[1]}."
        )
    index = index_words(words, name=name)
    bad = not_finite(matrix)
    if len(bad):
        raise DataError(
            f"`{name}` must be finite, got nan or inf in row {bad[0]} (word {words[bad[0]]!r}; "
            f"{len(bad)} of {len(words)} rows). Leave those words out."
        )
    return index


def index_words(
    words: Sequence[str], *, name: str, place: Callable[[int], str] = "row {}".format
) -> dict[str, int]:
    """The row of each word. Raises DataError, naming word and rows, for one that is there twice.

    `place`: what messages call the row of a number that counts from 0

    >>> index_words(["of", "the"], name="vectors")
    {'of': 0, 'the': 1}
    """
    index = {word: row for row, word in enumerate(words)}
    if len(index) < len(words):
        first: dict[str, int] = {}
        row, word = next(
            (row, word) for row, word in enumerate(words) if first.setdefault(word, row) != row
        )
        raise DataError(
            f"`{name}` must have each word once, got {word!r} at {place(first[word])} and again at "
            f"{place(row)} ({len(words) - len(index)} of {len(words)} rows repeat a word)."
        )
    return index


def not_finite(matrix: Float[np.ndarray, "rows dim"]) -> Int64[np.ndarray, "bad"]:
    """Rows that hold a nan or inf, looked for some rows at a time.

    >>> not_finite(np.array([[0.0, 1.0], [np.nan, 0.0]]))
    array([1])
    """
    at_once = max(1, _ENTRIES // max(1, matrix.shape[1]))
    found = [
        first + np.flatnonzero(~np.isfinite(matrix[first : first + at_once]).all(axis=1))
        for first in range(0, len(matrix), at_once)
    ]
    return np.concatenate([np.empty(0, dtype=np.int64), *found])
