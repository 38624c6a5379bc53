"""Words and their rows: what must hold of them, and blocks of rows joined into one matrix."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int8, Int64

from exfam.checks import DataError

# Entries of a matrix that are looked at at once.
_ENTRIES = 1 << 22


class StoredVectors(NamedTuple):
    """Words and their vectors; `signs` are one +1 or -1 per column of tied context vectors."""

    words: tuple[str, ...]
    center: Float32[np.ndarray, "words dim"]
    context: Float32[np.ndarray, "_ _"] | None = None
    signs: Int8[np.ndarray, "_"] | None = None


class RowBlock(NamedTuple):
    """Some rows of a file, the words as they stand there."""

    words: list[bytes]
    rows: Float32[np.ndarray, "rows dim"]


@dataclass(frozen=True)
class RowSource:
    """A file, and how its words are read.

    `expected`: rows that the file's header says; None if there is no header
    `errors`, `duplicates`, `limit`: see `read_vectors`
    `first_line`: where the first row stands in a text file; None for a binary one
    """

    name: str
    expected: int | None = None
    limit: int | None = None
    errors: str = "strict"
    duplicates: str = "error"
    first_line: int | None = None

    def location(self, row: int) -> str:
        """Where a row, counted from 0, stands."""
        if self.first_line is None:
            return f"row {row} of {self.name}"
        return f"line {self.first_line + row} of {self.name}"


def joined_blocks(blocks: Iterable[RowBlock], source: RowSource) -> StoredVectors:
    """All words and their vectors; DataError, naming file, row and word, for what is broken."""
    words: list[str] = []
    parts: list[Float32[np.ndarray, "rows dim"]] = []
    for block in blocks:
        room = None if source.limit is None else source.limit - len(words)
        rows = block.rows[:room]
        decoded = _decoded(block.words[:room], source, first=len(words))
        bad = _not_finite(rows)
        if len(bad):
            where = source.location(len(words) + int(bad[0]))
            raise DataError(
                f"`path` must hold finite numbers, got nan or inf at {where} (word "
                f"{decoded[bad[0]]!r}). Leave that word out."
            )
        words += decoded
        parts.append(rows)
        if source.limit is not None and len(words) >= source.limit:
            break
        if source.expected is not None and len(words) > source.expected:
            break
    _check_count(len(words), source)
    return _unique(words, _joined(parts), source)


def _decoded(words: list[bytes], source: RowSource, *, first: int) -> list[str]:
    decoded = []
    for row, word in enumerate(words, first):
        try:
            text = word.decode(errors=source.errors)
        except UnicodeDecodeError as error:
            raise DataError(
                f"`path` must have words in UTF-8, got {word[:40]!r} at "
                f"{source.location(row)}. Pass errors='replace' or 'ignore', or convert the file; "
                "in a binary file the header may name a wrong number of columns."
            ) from error
        if not text:
            raise DataError(
                f"`path` must have a word in each row, got none at {source.location(row)}."
            )
        decoded.append(text)
    return decoded


def _check_count(n_words: int, source: RowSource) -> None:
    if not n_words:
        raise DataError(f"`path` must hold at least one word, got none in {source.name}.")
    if source.expected is None or n_words == source.limit or n_words == source.expected:
        return
    got, advice = "more", f"Pass limit={source.expected} to read just those."
    if n_words < source.expected:
        got = f"{n_words}"
        advice = f"The file is cut short, or pass limit={n_words} to read what is there."
    raise DataError(
        f"`path` must have as many rows as its header says, {source.expected}, "
        f"got {got} in {source.name}. {advice}"
    )


def _joined(parts: list[Float32[np.ndarray, "rows dim"]]) -> Float32[np.ndarray, "words dim"]:
    matrix = np.empty((sum(map(len, parts)), parts[0].shape[1]), dtype=np.float32)
    stop = len(matrix)
    # From the last one, each let go once it is copied: all is in memory once, not twice.
    while parts:
        part = parts.pop()
        matrix[stop - len(part) : stop] = part
        stop -= len(part)
    return matrix


def _unique(
    words: list[str], matrix: Float32[np.ndarray, "words dim"], source: RowSource
) -> StoredVectors:
    if source.duplicates == "error":
        _index_words(words, name="path", location=source.location)
        return StoredVectors(tuple(words), matrix)
    first = dict(zip(reversed(words), range(len(words) - 1, -1, -1), strict=True))
    if len(first) < len(words):
        matrix = matrix[sorted(first.values())]
    return StoredVectors(tuple(dict.fromkeys(words)), matrix)


def check_vectors(
    words: Sequence[str], matrix: Float[np.ndarray, "rows dim"], *, name: str
) -> dict[str, int]:
    """The row of each word, once the two are known to fit: a finite row for each different word.

    `name`: what the matrix is called in messages.
    """
    if not words:
        raise DataError(f"`{name}` must hold at least one word, got none.")
    if len(matrix) != len(words) or not matrix.shape[1]:
        raise DataError(
            f"`{name}` must have a row for each of {len(words)} words and at least one column, "
            f"got {matrix.shape[0]} x {matrix.shape[1]}."
        )
    index = _index_words(words, name=name)
    bad = _not_finite(matrix)
    if len(bad):
        raise DataError(
            f"`{name}` must be finite, got nan or inf in row {bad[0]} (word {words[bad[0]]!r}; "
            f"{len(bad)} of {len(words)} rows). Leave those words out."
        )
    return index


def _index_words(
    words: Sequence[str], *, name: str, location: Callable[[int], str] = "row {}".format
) -> dict[str, int]:
    """The row of each word. Raises DataError, naming word and rows, for one that is there twice."""
    index = {word: row for row, word in enumerate(words)}
    if len(index) < len(words):
        first: dict[str, int] = {}
        row, word = next(
            (row, word) for row, word in enumerate(words) if first.setdefault(word, row) != row
        )
        raise DataError(
            f"`{name}` must have each word once, got {word!r} at {location(first[word])} and again "
            f"at {location(row)} ({len(words) - len(index)} of {len(words)} rows repeat a word)."
        )
    return index


def _not_finite(matrix: Float[np.ndarray, "rows dim"]) -> Int64[np.ndarray, "bad"]:
    """Rows that hold a nan or inf, looked for some rows at a time."""
    at_once = max(1, _ENTRIES // max(1, matrix.shape[1]))
    bad = [
        first + np.flatnonzero(~np.isfinite(matrix[first : first + at_once]).all(axis=1))
        for first in range(0, len(matrix), at_once)
    ]
    return np.concatenate([np.empty(0, dtype=np.int64), *bad])
