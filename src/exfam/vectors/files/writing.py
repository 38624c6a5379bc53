"""Word vectors to files."""

import os
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float32

from exfam.checks import check_choice
from exfam.reading.streams import written
from exfam.vectors.files.binary import write_binary
from exfam.vectors.files.checks import check_vectors
from exfam.vectors.files.formats import FORMATS, format_of_name
from exfam.vectors.files.tensors import StoredVectors, write_tensors
from exfam.vectors.files.text import write_text

__all__ = ["write_vectors"]


def write_vectors(
    path: str | os.PathLike[str],
    words: Sequence[str],
    matrix: Float32[np.ndarray, "words dim"],
    *,
    format: str = "auto",
) -> None:
    """Write words and their vectors beside `path`, then rename the file in.

    `format`: "word2vec" (text), "word2vec-binary", "glove", "fasttext" (.vec), "safetensors", or
        "auto": by the name's ending, .txt, .bin, .vec or .safetensors; with .gz after it the file
        is packed (default "auto")

    Text is read back as the same float32. Raises DataError, naming the row, for words and matrix
    that do not fit, or a word with spaces, which only safetensors can hold; ExfamError for another
    format or ending.

    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp(), "vectors.txt")
    >>> write_vectors(path, ["the", "of"], np.eye(2, dtype=np.float32))
    >>> print(path.read_text(), end="")
    2 2
    the 1 0
    of 0 1
    """
    check_choice("format", format, ["auto", *FORMATS])
    check_vectors(words, matrix, name="matrix")
    if format == "auto":
        format = format_of_name(path)
    if format == "safetensors":
        write_tensors(path, StoredVectors(tuple(words), matrix))
        return
    with written(path) as file:
        if format == "word2vec-binary":
            write_binary(file, words, matrix)
        else:
            write_text(file, words, matrix, header=format != "glove")
