"""All vectors of some words to files and back."""

import os

import numpy as np

from exfam.checks import DataError, check_choice
from exfam.vectors.files import FORMATS, detect_format, read_vectors, write_vectors
from exfam.vectors.files.formats import format_of_name
from exfam.vectors.files.tensors import StoredVectors, read_tensors, write_tensors

__all__ = ["load_stored", "save_stored", "with_context"]


def save_stored(path: str | os.PathLike[str], stored: StoredVectors, *, format: str) -> None:
    """Write all that the format can hold: of safetensors everything, of others center vectors.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.bin")
    >>> center = np.ones((1, 2), dtype=np.float32)
    >>> save_stored(path, StoredVectors(("cat",), center, center), format="auto")
    >>> load_stored(path, format="auto").context is None
    True
    """
    check_choice("format", format, ["auto", *FORMATS])
    if format == "auto":
        format = format_of_name(path)
    if format == "safetensors":
        write_tensors(path, stored)
    else:
        write_vectors(path, stored.words, stored.center, format=format)


def load_stored(
    path: str | os.PathLike[str],
    *,
    format: str,
    limit: int | None = None,
    errors: str = "strict",
    duplicates: str = "error",
) -> StoredVectors:
    """All that the file holds; options are those of `read_vectors`.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.vec")
    >>> write_vectors(path, ["cat", "dog"], np.eye(2, dtype=np.float32))
    >>> load_stored(path, format="auto", limit=1).words
    ('cat',)
    """
    check_choice("format", format, ["auto", *FORMATS])
    if format == "auto":
        format = detect_format(path)
    read = read_vectors(path, format=format, limit=limit, errors=errors, duplicates=duplicates)
    if format != "safetensors":
        return StoredVectors(*read)
    stored = read_tensors(path)
    context = None if stored.context is None else stored.context[:limit]
    return StoredVectors(read.words, read.matrix, context, stored.signs)


def with_context(
    stored: StoredVectors, context: StoredVectors, *, path: str | os.PathLike[str]
) -> StoredVectors:
    """With the center vectors of a second file as context vectors, in the order of the words.

    `path`: the second file, for messages

    Raises DataError where it lacks a word, or if the first file has context vectors itself.

    >>> center = np.array([[1], [2]], dtype=np.float32)
    >>> first, second = StoredVectors(("a", "b"), center), StoredVectors(("b", "a"), center)
    >>> with_context(first, second, path="second.txt").context.tolist()
    [[2.0], [1.0]]
    """
    if stored.context is not None or stored.signs is not None:
        raise DataError(
            f"`context` must be None for a file that holds context vectors itself, got {path}."
        )
    index = {word: row for row, word in enumerate(context.words)}
    missing = [word for word in stored.words if word not in index]
    if missing:
        raise DataError(
            f"`context` must have a row for each of {len(stored.words)} words, got none for "
            f"{missing[0]!r} ({len(missing)} missing) in {path}."
        )
    rows = np.array([index[word] for word in stored.words], dtype=np.int64)
    return StoredVectors(stored.words, stored.center, context.center[rows])
