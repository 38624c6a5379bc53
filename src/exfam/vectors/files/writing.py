"""Word vectors to files."""

import os
from collections.abc import Callable, Iterable, Sequence
from io import BufferedIOBase

import numpy as np
from jaxtyping import Float32

from exfam.checks import DataError, check_choice
from exfam.reading.streams import written
from exfam.vectors.files.formats import VECTOR_FORMATS, format_of_name
from exfam.vectors.files.rows import StoredVectors, check_vectors
from exfam.vectors.files.tensors import write_tensors

# Entries that are written at once.
_ENTRIES = 1 << 18


def write_vectors(
    path: str | os.PathLike[str], stored: StoredVectors, *, format: str = "auto"
) -> None:
    """Write words and their vectors beside `path`, then rename the file in.

    `format`: "word2vec" (text), "word2vec-binary", "glove", "fasttext" (.vec), "safetensors", or
        "auto": by the name's ending, .txt, .bin, .vec or .safetensors; with .gz after it the file
        is packed (default "auto")

    safetensors holds all vectors, the other formats those of the center alone. Text is read back as
    the same float32. Raises DataError, naming the row, for words and matrix that do not fit, or a
    word with spaces, which only safetensors can hold; ExfamError for another format or ending.

    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp(), "vectors.txt")
    >>> write_vectors(path, StoredVectors(("the", "of"), np.eye(2, dtype=np.float32)))
    >>> print(path.read_text(), end="")
    2 2
    the 1 0
    of 0 1
    """
    check_choice("format", format, ["auto", *VECTOR_FORMATS])
    words, center = stored.words, stored.center
    check_vectors(words, center, name="center")
    if format == "auto":
        format = format_of_name(path)
    if format == "safetensors":
        write_tensors(path, stored)
        return
    with written(path) as file:
        if format != "glove":
            file.write(f"{len(words)} {center.shape[1]}\n".encode())
        _write_rows(file, words, center, _binary if format == "word2vec-binary" else _texts)


def _write_rows(
    file: BufferedIOBase,
    words: Sequence[str],
    matrix: Float32[np.ndarray, "words dim"],
    encode: Callable[[Float32[np.ndarray, "rows dim"]], Iterable[bytes]],
) -> None:
    at_once = max(1, _ENTRIES // matrix.shape[1])
    for first in range(0, len(words), at_once):
        some = _encoded_words(words[first : first + at_once], first=first)
        numbers = encode(matrix[first : first + at_once])
        file.write(b"".join(b"%b %b\n" % pair for pair in zip(some, numbers, strict=True)))


def _encoded_words(words: Sequence[str], *, first: int) -> list[bytes]:
    """The words in UTF-8, once none is empty or holds what separates fields or lines."""
    for row, word in enumerate(words, first):
        if word.split() != [word]:
            raise DataError(
                f"`words` must not be empty or have spaces or line ends in this format, got "
                f"{word.encode(errors='replace').decode()!r} in row {row}. Save as safetensors, or "
                "replace the spaces."
            )
    return [word.encode(errors="surrogatepass") for word in words]


def _binary(rows: Float32[np.ndarray, "rows dim"]) -> Iterable[bytes]:
    return (row.tobytes() for row in rows.astype("<f4", copy=False))


def _texts(rows: Float32[np.ndarray, "rows dim"]) -> Iterable[bytes]:
    """The shortest numbers that are read back as the same float32."""
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = pa.array(np.ascontiguousarray(rows).ravel()).cast(pa.string())
    ends = pa.array(np.arange(0, rows.size + 1, rows.shape[1], dtype=np.int32))
    joined = pc.binary_join(pa.ListArray.from_arrays(ends, numbers), " ")
    lines: list[bytes] = joined.cast(pa.binary()).to_pylist()
    return lines
