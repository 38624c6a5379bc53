"""Blocks of rows, as they are read, become one list of words and one matrix."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32

from exfam.checks import DataError
from exfam.vectors.files.checks import index_words, not_finite

__all__ = ["DUPLICATES", "ERRORS", "Block", "Source", "WordMatrix", "assemble"]

ERRORS = ("strict", "replace", "ignore")
DUPLICATES = ("error", "first")


class WordMatrix(NamedTuple):
    """Words and the vector of each, a row each."""

    words: tuple[str, ...]
    matrix: Float32[np.ndarray, "words dim"]


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of a file, the words as they stand there."""

    words: list[bytes]
    rows: Float32[np.ndarray, "rows dim"]


@dataclass(frozen=True)
class Source:
    """A file, and how its words are read.

    `expected`: rows that the file's header tells; None if there is no header
    `limit`: rows to read; None for all
    `errors`: "strict", "replace" or "ignore": what is done with bytes that are not UTF-8
    `duplicates`: "error", or "first" to keep a repeated word's first row
    `first_line`: where the first row stands in a text file; None for a binary one

    >>> Source("a.txt", first_line=2).place(0), Source("a.bin").place(0)
    ('line 2 of a.txt', 'row 0 of a.bin')
    """

    name: str
    expected: int | None = None
    limit: int | None = None
    errors: str = "strict"
    duplicates: str = "error"
    first_line: int | None = None

    def place(self, row: int) -> str:
        """Where a row, counted from 0, stands."""
        if self.first_line is None:
            return f"row {row} of {self.name}"
        return f"line {self.first_line + row} of {self.name}"


def assemble(blocks: Iterable[Block], source: Source) -> WordMatrix:
    """All words and their vectors.

    Raises DataError, naming file, row and word, for a word that is empty, not UTF-8 or there twice,
    a row that is not finite, and more or fewer rows than the header tells.

    >>> block = Block([b"cat"], np.ones((1, 2), dtype=np.float32))
    >>> assemble([block], Source("a.bin")).words
    ('cat',)
    """
    words: list[str] = []
    parts: list[Float32[np.ndarray, "rows dim"]] = []
    for block in blocks:
        room = len(block.words) if source.limit is None else source.limit - len(words)
        rows = block.rows[:room]
        decoded = _decoded(block.words[:room], source, first=len(words))
        _check_finite(rows, decoded, source, first=len(words))
        words += decoded
        parts.append(rows)
        if source.limit is not None and len(words) >= source.limit:
            break
        if source.expected is not None and len(words) > source.expected:
            break
    _check_count(len(words), source)
    return _unique(words, _joined(parts), source)


def _decoded(words: list[bytes], source: Source, *, first: int) -> list[str]:
    found = []
    for row, word in enumerate(words, first):
        try:
            text = word.decode(errors=source.errors)
        except UnicodeDecodeError as error:
            raise DataError(
                f"`path` must have words in UTF-8, got {word[:40]!r} at "
                f"{source.place(row)}. Pass errors='replace' or 'ignore', or convert the file; "
                "in a binary file the header may tell a wrong number of columns."
            ) from error
        if not text:
            raise DataError(
                f"`path` must have a word in each row, got none at {source.place(row)}."
            )
        found.append(text)
    return found


def _check_finite(
    rows: Float32[np.ndarray, "rows dim"], words: list[str], source: Source, *, first: int
) -> None:
    bad = not_finite(rows)
    if len(bad):
        row = int(bad[0])
        raise DataError(
            f"`path` must hold finite numbers, got nan or inf at "
            f"{source.place(first + row)} (word {words[row]!r}). Leave that word out."
        )


def _check_count(n_words: int, source: Source) -> None:
    if not n_words:
        raise DataError(f"`path` must hold at least one word, got none in {source.name}.")
    if source.expected is None or n_words == source.limit or n_words == source.expected:
        return
    got = "more" if n_words > source.expected else f"{n_words}"
    advice = (
        f"Pass limit={source.expected} to read just those."
        if n_words > source.expected
        else f"The file is cut short, or pass limit={n_words} to read what is there."
    )
    raise DataError(
        f"`path` must have as many rows as its header tells, {source.expected}, "
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
    words: list[str], matrix: Float32[np.ndarray, "words dim"], source: Source
) -> WordMatrix:
    if source.duplicates == "error":
        index_words(words, name="path", place=source.place)
        return WordMatrix(tuple(words), matrix)
    kept = _first_of_each(words)
    if kept.all():
        return WordMatrix(tuple(words), matrix)
    return WordMatrix(tuple(dict.fromkeys(words)), matrix[kept])


def _first_of_each(words: list[str]) -> Bool[np.ndarray, "words"]:
    first = {word: row for row, word in reversed(list(enumerate(words)))}
    kept = np.zeros(len(words), dtype=bool)
    kept[list(first.values())] = True
    return kept
