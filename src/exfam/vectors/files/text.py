"""Vectors as text, one word and its numbers per line, or as word2vec's binary, in row blocks."""

import itertools
from collections.abc import Iterator
from io import BufferedIOBase

import numpy as np

from exfam.checks import DataError
from exfam.vectors.files.rows import RowBlock

# Bytes of lines that are parsed at once.
_BYTES = 1 << 22
MAX_DIM = 1 << 20
# A word and the most numbers that there may be, of 32 letters each.
_LONGEST_LINE = 1 << 25


def parse_header(line: bytes) -> tuple[int, int] | None:
    """Numbers of words and of columns, if the line holds just them."""
    fields = line.split()
    if len(fields) != 2 or not all(field.isdigit() and len(field) < 19 for field in fields):
        return None
    n_words, dim = map(int, fields)
    return (n_words, dim) if 0 < dim <= MAX_DIM else None


def text_blocks(
    file: BufferedIOBase, *, name: str, dim: int | None = None, first_line: int = 1
) -> Iterator[RowBlock]:
    """Blocks of the rows that follow, of `dim` numbers, or as many as the first line has."""
    line = first_line
    for raw in _lines_at_once(file, name=name):
        lines = [text.replace(b"\t", b" ").rstrip() for text in raw]
        while lines and not lines[-1]:
            lines.pop()
        if lines:
            dim = len(lines[0].split()) - 1 if dim is None else dim
            yield _parsed_fast(lines, dim) or _parsed(lines, dim, name=name, first_line=line)
        line += len(raw)


def _lines_at_once(file: BufferedIOBase, *, name: str) -> Iterator[list[bytes]]:
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
                f"{name}. It is a file of something else."
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


def _parsed(lines: list[bytes], dim: int, *, name: str, first_line: int) -> RowBlock:
    """One line after the other: slower, and any number of spaces anywhere."""
    words, rows = [], np.empty((len(lines), dim), dtype=np.float32)
    for row, line in enumerate(lines):
        where = f"at line {first_line + row} of {name}"
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


_BINARY_BYTES, _ENTRIES = 1 << 20, 1 << 18
_LONGEST_WORD = 1 << 14


def binary_blocks(file: BufferedIOBase, *, dim: int, n_words: int, name: str) -> Iterator[RowBlock]:
    """Blocks of `n_words` rows of `dim` numbers; DataError where there are fewer or more."""
    entries = _entries(file, 4 * dim, n_words=n_words, name=name)
    at_once = max(1, _ENTRIES // dim)
    while block := list(itertools.islice(entries, at_once)):
        data = b"".join(numbers for _, numbers in block)
        rows = np.frombuffer(data, dtype="<f4").reshape(len(block), dim)
        yield RowBlock([word for word, _ in block], rows.astype(np.float32, copy=False))


def _entries(
    file: BufferedIOBase, width: int, *, n_words: int, name: str
) -> Iterator[tuple[bytes, bytes]]:
    """The word and the bytes of the numbers of each row."""
    data, at, row = b"", 0, 0
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
                f"header says, got {'the end' if not more else 'no word'} in row {row} of {name}. "
                "It is cut short, or its header is wrong."
            )
        data, at = data[at:] + more, 0
    if data[at:].strip(b"\n") or file.read(_BINARY_BYTES).strip(b"\n"):
        raise DataError(
            f"`path` must end after the {n_words} rows of {width // 4} numbers that its header "
            f"says, got more in {name}. Pass limit={n_words} to read just those."
        )
