"""Words and their rows, of text or of word2vec's binary: read in blocks, checked and joined."""

import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BufferedIOBase
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int8, Int64

from exfam.checks import DataError

FilePath = str | os.PathLike[str]
# Entries of a matrix that are looked at at once.
_LOOKED_AT = 1 << 22
# Bytes of lines that are parsed at once.
_BYTES = 1 << 22
MAX_DIM = 1 << 20
# A word and the most numbers that there may be, of 32 letters each.
_LONGEST_LINE = 1 << 25
# Of word2vec's binary.
_BINARY_BYTES, _ENTRIES = 1 << 20, 1 << 18
_LONGEST_WORD = 1 << 14


class StoredVectors(NamedTuple):
    """Words and their vectors; `signs` are one +1 or -1 per column of tied context vectors."""

    words: tuple[str, ...]
    center: Float32[np.ndarray, "words dim"]
    context: Float32[np.ndarray, "_ _"] | None = None
    signs: Int8[np.ndarray, "_"] | None = None


def check_contexts(stored: StoredVectors) -> None:
    """Raises DataError unless there are contexts like the centers, or signs, or neither."""
    words, center, context, signs = stored
    n_words, dim = center.shape
    if context is not None and signs is not None:
        raise DataError(
            "`signs` must be None where `context` is given, got both. "
            "Tied context vectors follow from `center` and `signs`."
        )
    if context is not None:
        if context.shape != center.shape:
            raise DataError(
                f"`context` must have the shape of `center`, {n_words} x {dim}, "
                f"got {context.shape[0]} x {context.shape[1]}."
            )
        check_vectors(words, context, name="context")
    if signs is not None:
        if len(signs) != dim:
            raise DataError(
                f"`signs` must have one sign for each of {dim} columns, got {len(signs)}."
            )
        if len(bad := np.flatnonzero(abs(signs) != 1)):
            got = f"{signs[bad[0]]} in column {bad[0]}"
            raise DataError(f"`signs` must be -1 or +1, got {got}.")


def with_context(stored: StoredVectors, second: StoredVectors, *, name: FilePath) -> StoredVectors:
    """Vectors with the same words' vectors of a second file, `name`, as those of the context.

    Raises DataError if it lacks a word, or if the first has context vectors itself.
    """
    if stored.context is not None or stored.signs is not None:
        raise DataError(
            f"`context` must be None for a file that holds context vectors itself, got {name}."
        )
    index = {word: row for row, word in enumerate(second.words)}
    if missing := [word for word in stored.words if word not in index]:
        raise DataError(
            f"`context` must have a row for each of {len(stored.words)} words, got none for "
            f"{missing[0]!r} ({len(missing)} missing) in {name}."
        )
    rows = [index[word] for word in stored.words]
    return StoredVectors(stored.words, stored.center, second.center[rows])


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
    enough = math.inf if source.expected is None else source.expected + 1
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
        if len(words) >= min(enough, source.limit or math.inf):
            break
    _check_count(len(words), source)
    matrix = _joined(parts)
    if source.duplicates == "error":
        _index_words(words, name="path", location=source.location)
        return StoredVectors(tuple(words), matrix)
    kept = sorted(_first_rows(words).values())
    if len(kept) < len(words):
        matrix = matrix[kept]
    return StoredVectors(tuple(words[row] for row in kept), matrix)


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
        got = str(n_words)
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


def _first_rows(words: Sequence[str]) -> dict[str, int]:
    return {words[row]: row for row in range(len(words) - 1, -1, -1)}


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
    index = _first_rows(words)
    if len(index) < len(words):
        row, word = next((row, word) for row, word in enumerate(words) if index[word] != row)
        raise DataError(
            f"`{name}` must have each word once, got {word!r} at {location(index[word])} and again "
            f"at {location(row)} ({len(words) - len(index)} of {len(words)} rows repeat a word)."
        )
    return index


def _not_finite(matrix: Float[np.ndarray, "rows dim"]) -> Int64[np.ndarray, "bad"]:
    """Rows that hold a nan or inf, looked for some rows at a time."""
    at_once = max(1, _LOOKED_AT // max(1, matrix.shape[1]))
    bad = [
        first + np.flatnonzero(~np.isfinite(matrix[first : first + at_once]).all(axis=1))
        for first in range(0, len(matrix), at_once)
    ]
    return np.concatenate([np.empty(0, dtype=np.int64), *bad])


def parse_header(line: bytes) -> tuple[int, int] | None:
    """Numbers of words and of columns, if the line holds just them."""
    fields = line.split()
    if len(fields) != 2 or not all(field.isdigit() and len(field) < 19 for field in fields):
        return None
    n_words, dim = map(int, fields)
    return (n_words, dim) if 0 < dim <= MAX_DIM else None


def text_blocks(file: BufferedIOBase, source: RowSource, *, dim: int | None) -> Iterator[RowBlock]:
    """Blocks of the rows that follow, of `dim` numbers, or as many as the first line has."""
    row = 0
    for raw in _lines_at_once(file, source):
        lines = [text.replace(b"\t", b" ").rstrip() for text in raw]
        while lines and not lines[-1]:
            lines.pop()
        if lines:
            dim = len(lines[0].split()) - 1 if dim is None else dim
            yield _parsed_fast(lines, dim) or _parsed(lines, dim, source, row)
        row += len(raw)


def _lines_at_once(file: BufferedIOBase, source: RowSource) -> Iterator[list[bytes]]:
    kept = b""
    while block := file.read(_BYTES):
        head, end, tail = block.rpartition(b"\n")
        if end:
            yield (kept + head).split(b"\n")
            kept = b""
        kept += tail
        if len(kept) > _LONGEST_LINE:
            raise DataError(
                f"`path` must have lines of {_LONGEST_LINE:,} bytes at most, got a longer one in "
                f"{source.name}. It is a file of something else."
            )
    if kept:
        yield [kept]


def _parsed_fast(lines: list[bytes], dim: int) -> RowBlock | None:
    """All lines at once; None where one is not a word and `dim` numbers with single spaces."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = [line.partition(b" ") for line in lines]
    try:
        rests = pa.array([rest for _, _, rest in parts], pa.binary()).cast(pa.string())
        numbers = pc.split_pattern(rests, " ")
        if not (pc.list_value_length(numbers).to_numpy(zero_copy_only=False) == dim).all():
            return None
        flat = numbers.flatten().cast(pa.float32())
    except pa.ArrowInvalid:
        return None
    return RowBlock([word for word, _, _ in parts], flat.to_numpy().reshape(len(lines), dim))


def _parsed(lines: list[bytes], dim: int, source: RowSource, first: int) -> RowBlock:
    """One line after the other: slower, and any number of spaces anywhere."""
    words, rows = [], np.empty((len(lines), dim), dtype=np.float32)
    for row, line in enumerate(lines):
        where = f"at {source.location(first + row)}"
        fields = line.split()
        n_numbers = sum(1 for _ in itertools.takewhile(is_float, reversed(fields[1:])))
        if not dim or len(fields) <= dim or n_numbers > dim:
            got = f"(word {_shown(fields[0])})" if fields else "(a blank line)"
            raise DataError(
                f"`path` must have a word and {max(dim, 1)} numbers in each line, got {n_numbers} "
                f"{where} {got}. It may be cut short, or begin with a header of another format."
            )
        words.append(b" ".join(fields[:-dim]))
        if wrong := [field for field in fields[-dim:] if not is_float(field)]:
            raise DataError(
                f"`path` must have numbers after a word, got {_shown(wrong[0])} {where} (word "
                f"{_shown(words[-1])})."
            )
        with np.errstate(over="ignore"):  # what is too large for float32 counts as not finite
            rows[row] = [float(field) for field in fields[-dim:]]
    return RowBlock(words, rows)


def is_float(field: bytes) -> bool:
    """Whether these bytes are a number."""
    try:
        float(field)
    except ValueError:
        return False
    return True


def _shown(field: bytes) -> str:
    return repr(field[:40].decode(errors="replace"))


def binary_blocks(
    file: BufferedIOBase, source: RowSource, *, dim: int | None
) -> Iterator[RowBlock]:
    """Blocks of rows of `dim` numbers; DataError where there are fewer or more than expected."""
    assert dim is not None
    entries = _entries(file, 4 * dim, source)
    at_once = max(1, _ENTRIES // dim)
    while block := list(itertools.islice(entries, at_once)):
        data = b"".join(numbers for _, numbers in block)
        rows = np.frombuffer(data, dtype="<f4").reshape(len(block), dim)
        yield RowBlock([word for word, _ in block], rows.astype(np.float32, copy=False))


def _entries(file: BufferedIOBase, width: int, source: RowSource) -> Iterator[tuple[bytes, bytes]]:
    """The word and the bytes of the numbers of each row."""
    n_words, data, at, row = source.expected or 0, b"", 0, 0
    while row < n_words:
        space = data.find(b" ", at)
        stop = space + 1 + width
        if space >= 0 and stop <= len(data):
            yield data[at:space].lstrip(b"\n"), data[space + 1 : stop]
            at, row = stop, row + 1
            continue
        more = file.read(max(_BINARY_BYTES, width))
        if not more or (space < 0 and len(data) - at > _LONGEST_WORD):
            raise DataError(
                f"`path` must have {n_words} rows of a word and {width // 4} numbers, as its "
                f"header says, got {'no word' if more else 'the end'} in row {row} of "
                f"{source.name}. It is cut short, or its header is wrong."
            )
        data, at = data[at:] + more, 0
    if data[at:].strip(b"\n") or file.read(_BINARY_BYTES).strip(b"\n"):
        raise DataError(
            f"`path` must end after the {n_words} rows of {width // 4} numbers that its header "
            f"says, got more in {source.name}. Pass limit={n_words} to read just those."
        )
