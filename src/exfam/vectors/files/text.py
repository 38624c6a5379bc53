"""Vectors as text: a word and its numbers a line. word2vec and fastText have a header, GloVe none.

A word with spaces in it, as GloVe's largest files have some, is all that precedes the numbers.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from io import BufferedIOBase

import numpy as np
from jaxtyping import Float32

from exfam.checks import DataError
from exfam.vectors.files.blocks import Block

__all__ = ["MAX_DIM", "check_writable", "parse_header", "text_blocks", "write_text"]

# Bytes of lines that are parsed at once, and entries that are written at once.
_BYTES, _ENTRIES = 1 << 22, 1 << 18
MAX_DIM = 1 << 20
# A word and the most numbers that there may be, of 32 letters each.
_LONGEST_LINE = 1 << 25


def parse_header(line: bytes) -> tuple[int, int] | None:
    """Numbers of words and of columns, if the line tells just them.

    >>> parse_header(b"75739 200"), parse_header(b"the 0.1 0.2")
    ((75739, 200), None)
    """
    fields = line.split()
    if len(fields) != 2 or not all(field.isdigit() and len(field) < 19 for field in fields):
        return None
    n_words, dim = map(int, fields)
    return (n_words, dim) if 0 < dim <= MAX_DIM else None


def text_blocks(
    file: BufferedIOBase, *, name: str, dim: int | None = None, first_line: int = 1
) -> Iterator[Block]:
    """Blocks of the rows that follow in the file.

    `dim`: numbers a line; None to be told by the first
    `first_line`: what messages call the first line

    Raises DataError, naming file and line, for another width, or what is no number, and for a line
    of more than 32 MiB.

    >>> from io import BytesIO
    >>> [block.rows for block in text_blocks(BytesIO(b"cat 1 2"), name="a.txt")]
    [array([[1., 2.]], dtype=float32)]
    """
    line = first_line
    for raw in _lines_at_once(file, name=name):
        lines = [each.replace(b"\t", b" ").rstrip() for each in raw]
        if not lines[-1]:
            lines = _without_blank_end(lines)
        if lines:
            dim = len(lines[0].split()) - 1 if dim is None else dim
            yield _parsed_fast(lines, dim) or _parsed(lines, dim, name=name, first_line=line)
        line += len(raw)


def _lines_at_once(file: BufferedIOBase, *, name: str) -> Iterator[list[bytes]]:
    """Some lines after the other."""
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


def _without_blank_end(lines: list[bytes]) -> list[bytes]:
    n_blank = sum(1 for _ in itertools.takewhile(lambda each: not each, reversed(lines)))
    return lines[: len(lines) - n_blank]


def _parsed_fast(lines: list[bytes], dim: int) -> Block | None:
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
    return Block([word for word, _, _ in parts], flat.to_numpy().reshape(len(lines), dim))


def _parsed(lines: list[bytes], dim: int, *, name: str, first_line: int) -> Block:
    """One line after the other: slower, and any number of spaces anywhere."""
    words, rows = [], np.empty((len(lines), dim), dtype=np.float32)
    for row, line in enumerate(lines):
        where = f"at line {first_line + row} of {name}"
        fields = line.split()
        n_numbers = _n_numbers(fields)
        if not dim or len(fields) <= dim or n_numbers > dim:
            told = f"(word {_shown(fields[0])})" if fields else "(a blank line)"
            raise DataError(
                f"`path` must have a word and {max(dim, 1)} numbers in each line, got {n_numbers} "
                f"{where} {told}. It may be cut short, or begin with a header of another format."
            )
        words.append(b" ".join(fields[:-dim]))
        with np.errstate(over="ignore"):  # what is too large for float32 is told as not finite
            rows[row] = _numbers(fields[-dim:], where=f"{where} (word {_shown(words[-1])})")
    return Block(words, rows)


def _n_numbers(fields: list[bytes]) -> int:
    """Numbers at the end of a line, its first field aside."""
    return sum(1 for _ in itertools.takewhile(_is_number, reversed(fields[1:])))


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _numbers(fields: list[bytes], *, where: str) -> list[float]:
    for field in fields:
        if not _is_number(field):
            raise DataError(f"`path` must have numbers after a word, got {_shown(field)} {where}.")
    return [float(field) for field in fields]


def _shown(field: bytes) -> str:
    return repr(field[:40].decode(errors="replace"))


def write_text(
    file: BufferedIOBase,
    words: Sequence[str],
    matrix: Float32[np.ndarray, "words dim"],
    *,
    header: bool,
) -> None:
    """A line for each word, with the shortest numbers that are read back as the same float32.

    Raises DataError, naming the row, for a word with spaces or line ends in it, or an empty one.

    >>> from io import BytesIO
    >>> file = BytesIO()
    >>> write_text(file, ["cat"], np.array([[1.5, -2.0]], dtype=np.float32), header=True)
    >>> file.getvalue()
    b'1 2\\ncat 1.5 -2\\n'
    """
    if header:
        file.write(f"{len(words)} {matrix.shape[1]}\n".encode())
    at_once = max(1, _ENTRIES // matrix.shape[1])
    for first in range(0, len(words), at_once):
        rows = matrix[first : first + at_once]
        named = check_writable(words[first : first + at_once], first=first)
        file.write(b"".join(_lines(named, rows)))


def check_writable(words: Sequence[str], *, first: int = 0) -> list[bytes]:
    """The words in UTF-8, once none is empty or holds what separates fields or lines.

    Raises DataError, naming the row; rows count from `first` (default 0).

    >>> check_writable(["cat"])
    [b'cat']
    """
    found = [word.encode(errors="surrogatepass") for word in words]
    for row, word in enumerate(found, first):
        if word.split() != [word]:
            raise DataError(
                f"`words` must not be empty or have spaces or line ends in this format, got "
                f"{word.decode(errors='replace')!r} in row {row}. Save as safetensors, or replace "
                "the spaces."
            )
    return found


def _lines(words: list[bytes], rows: Float32[np.ndarray, "rows dim"]) -> Iterable[bytes]:
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = pa.array(np.ascontiguousarray(rows).ravel()).cast(pa.string())
    ends = pa.array(np.arange(0, rows.size + 1, rows.shape[1], dtype=np.int32))
    joined = pc.binary_join(pa.ListArray.from_arrays(ends, numbers), " ")
    for word, line in zip(words, joined.cast(pa.binary()).to_pylist(), strict=True):
        yield b"%b %b\n" % (word, line)
