"""Formats of word vectors, and which one a file has by its content."""

import os
from pathlib import Path
from typing import NamedTuple, NoReturn

from exfam.checks import DataError, ExfamError
from exfam.reading.streams import opened
from exfam.vectors.files.text import is_float, parse_header

# Of word2vec there is a text and a binary; fastText's .vec is word2vec's text.
VECTOR_FORMATS = ("word2vec", "word2vec-binary", "glove", "fasttext", "safetensors")
_ENDINGS = {
    ".txt": "word2vec",
    ".vec": "fasttext",
    ".bin": "word2vec-binary",
    ".safetensors": "safetensors",
}
_SAMPLE = 1 << 16
_TEXT = frozenset(range(0x20, 0x7F)) | {0x09, 0x0D}


class _Foreign(NamedTuple):
    start: bytes
    what: str
    advice: str


_FOREIGN = (
    _Foreign(b"\xba\x16\x4f\x2f", "a model of fastText (.bin)", "Use its .vec file."),
    _Foreign(b"PK\x03\x04", "a zip archive", "Unpack it first."),
    _Foreign(b"BZh", "a bzip2 file", "Unpack it first."),
    _Foreign(b"\x28\xb5\x2f\xfd", "a zstandard file", "Unpack it first."),
    _Foreign(b"\xfd7zXZ", "an xz file", "Unpack it first."),
    _Foreign(b"\x93NUMPY", "an array of NumPy", "It has no words: use WordVectors(words, array)."),
    _Foreign(b"\x89HDF", "an HDF5 file", "Save the vectors as word2vec text or binary."),
    _Foreign(b"PAR1", "a Parquet file", "Save the vectors as word2vec text or binary."),
    _Foreign(b"\x80", "a pickle, as gensim saves one,", "Use gensim's save_word2vec_format."),
    _Foreign(b"version https://git-lfs", "a pointer of Git LFS", "Run `git lfs pull`."),
    _Foreign(b"<", "a page of HTML or XML", "The download failed: get it anew."),
)


def detect_format(path: str | os.PathLike[str]) -> str:
    """The format of a file, "glove" for text without a header; fastText's counts as "word2vec".

    Raises DataError, saying what it seems to be, for a file of none of them.

    >>> from exfam.reading.streams import written
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "vectors")
    >>> with written(path) as file:
    ...     _ = file.write(b"the 0.1 0.2\\nof 0.3 0.4\\n")
    >>> detect_format(path)
    'glove'
    """
    with opened(path) as file:
        start = file.read(_SAMPLE)
    first, _, rest = start.partition(b"\n")
    if _is_safetensors(start):
        return "safetensors"
    if parse_header(first.removeprefix(b"\xef\xbb\xbf")):
        return "word2vec" if _is_text(rest) else "word2vec-binary"
    fields = first.split()
    if len(fields) > 1 and _is_text(first) and is_float(fields[-1]):
        return "glove"
    _refuse(path, start)


def format_of_name(path: str | os.PathLike[str]) -> str:
    """The format that a file to be written has by the ending of its name, .gz aside.

    Raises ExfamError for another ending.

    >>> format_of_name("vectors.vec.gz")
    'fasttext'
    """
    name = Path(path).name.lower().removesuffix(".gz")
    ending = os.path.splitext(name)[1]
    if ending not in _ENDINGS:
        raise ExfamError(
            f"`path` must end in {', '.join(_ENDINGS)} (and maybe .gz), got {os.fspath(path)!r}. "
            f"Or name the `format`: one of {', '.join(VECTOR_FORMATS)}."
        )
    return _ENDINGS[ending]


def _is_safetensors(start: bytes) -> bool:
    # A length, of which the upper half is zero, and the object of that length.
    return start[8:9] == b"{" and start[4:8] == b"\0\0\0\0"


def _is_text(rows: bytes) -> bool:
    """Whether all that follows the first word, up to the line's end, is plain text."""
    numbers = rows.partition(b"\n")[0].partition(b" ")[2]
    return _TEXT.issuperset(numbers)


def _refuse(path: str | os.PathLike[str], start: bytes) -> NoReturn:
    for foreign in _FOREIGN:
        if start.startswith(foreign.start):
            raise DataError(
                f"`path` must be a file of vectors, got {foreign.what} at {path}. {foreign.advice}"
            )
    raise DataError(
        f"`path` must be a file of vectors, got one that begins with {start[:20]!r} at {path}. "
        f"If it is one of {', '.join(VECTOR_FORMATS)}, name the `format`."
    )
