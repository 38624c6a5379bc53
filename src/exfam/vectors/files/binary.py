"""Vectors as word2vec's binary: a line of two counts, then rows of word, space, float32 numbers.

The original tool ends each row with a line end, gensim does not; both are read.
"""

import itertools
from collections.abc import Iterator
from io import BufferedIOBase

import numpy as np

from exfam.checks import DataError
from exfam.vectors.files.rows import RowBlock

_BYTES, _ENTRIES = 1 << 20, 1 << 18
_LONGEST_WORD = 1 << 14


def binary_blocks(file: BufferedIOBase, *, dim: int, n_words: int, name: str) -> Iterator[RowBlock]:
    """Blocks of `n_words` rows of `dim` numbers that follow in the file.

    Raises DataError, naming file and row, where the file ends before or after that.
    """
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
        more = file.read(max(_BYTES, width))
        if not more or (space < 0 and len(data) - at > _LONGEST_WORD):
            raise DataError(
                f"`path` must have {n_words} rows of a word and {width // 4} numbers, as its "
                f"header says, got {'the end' if not more else 'no word'} in row {row} of {name}. "
                "It is cut short, or its header is wrong."
            )
        data, at = data[at:] + more, 0
    if data[at:].strip(b"\n") or file.read(_BYTES).strip(b"\n"):
        raise DataError(
            f"`path` must end after the {n_words} rows of {width // 4} numbers that its header "
            f"says, got more in {name}. Pass limit={n_words} to read just those."
        )
