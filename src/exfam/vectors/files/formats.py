"""Word vectors from files and to files: which format a file has, reading, writing."""

import os
from collections.abc import Iterable, Sequence
from io import BufferedIOBase
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from exfam.checks import DataError, ExfamError, check_choice, check_positive
from exfam.reading.streams import opened, written
from exfam.vectors.files.rows import (
    MAX_DIM,
    FilePath,
    RowSource,
    StoredVectors,
    binary_blocks,
    check_vectors,
    is_float,
    joined_blocks,
    parse_header,
    text_blocks,
)
from exfam.vectors.files.tensors import read_tensors, write_tensors

# Of word2vec there is a text and a binary; fastText's .vec is word2vec's text.
VECTOR_FORMATS = ("word2vec", "word2vec-binary", "glove", "fasttext", "safetensors")
_ENDINGS = {
    ".txt": "word2vec",
    ".vec": "fasttext",
    ".bin": "word2vec-binary",
    ".safetensors": "safetensors",
}
_SAMPLE = 1 << 16
_ERRORS, _DUPLICATES = ("strict", "replace", "ignore"), ("error", "first")
# Some editors begin a file of UTF-8 with this mark.
_MARK = b"\xef\xbb\xbf"
_LONGEST_HEADER = 256
# Entries that are written at once.
_ENTRIES = 1 << 18
_TEXT = frozenset(range(0x20, 0x7F)) | {0x09, 0x0D}
# Beginnings of files of something else, what they are, and what to do.
_FOREIGN = (
    (b"\xba\x16\x4f\x2f", "a model of fastText (.bin)", "Use its .vec file."),
    (b"PK\x03\x04", "a zip archive", "Unpack it first."),
    (b"BZh", "a bzip2 file", "Unpack it first."),
    (b"\x93NUMPY", "an array of NumPy", "It has no words: use WordVectors(words, array)."),
    (b"\x80", "a pickle, as gensim saves one,", "Use gensim's save_word2vec_format."),
    (b"version https://git-lfs", "a pointer of Git LFS", "Run `git lfs pull`."),
    (b"<", "a page of HTML or XML", "The download failed: get it anew."),
)


def detect_format(path: FilePath) -> str:
    """The format of a file, "glove" for text without a header; fastText's counts as "word2vec"."""
    with opened(path) as file:
        start = file.read(_SAMPLE)
    first, _, rest = start.partition(b"\n")
    # A length, of which the upper half is zero, and the object of that length.
    if start[8:9] == b"{" and start[4:8] == b"\0\0\0\0":
        return "safetensors"
    if parse_header(first.removeprefix(_MARK)):
        return "word2vec" if _is_text(rest) else "word2vec-binary"
    fields = first.split()
    if len(fields) > 1 and _is_text(first) and is_float(fields[-1]):
        return "glove"
    for beginning, what, advice in _FOREIGN:
        if start.startswith(beginning):
            raise DataError(f"`path` must be a file of vectors, got {what} at {path}. {advice}")
    raise DataError(
        f"`path` must be a file of vectors, got one that begins with {start[:20]!r} at {path}. "
        f"If it is one of {', '.join(VECTOR_FORMATS)}, name the `format`."
    )


def format_of_name(path: FilePath) -> str:
    """The format that a file to be written has by the ending of its name, .gz aside."""
    name = Path(path).name.lower().removesuffix(".gz")
    ending = os.path.splitext(name)[1]
    if ending not in _ENDINGS:
        raise ExfamError(
            f"`path` must end in {', '.join(_ENDINGS)} (and maybe .gz), got {os.fspath(path)!r}. "
            f"Or name the `format`: one of {', '.join(VECTOR_FORMATS)}."
        )
    return _ENDINGS[ending]


def _is_text(rows: bytes) -> bool:
    """Whether all that follows the first word, up to the line's end, is plain text."""
    numbers = rows.partition(b"\n")[0].partition(b" ")[2]
    return _TEXT.issuperset(numbers)


def read_vectors(
    path: FilePath,
    *,
    format: str = "auto",
    limit: int | None = None,
    errors: str = "strict",
    duplicates: str = "error",
) -> StoredVectors:
    """Words and their vectors, read as a stream; what gzip packed is unpacked on the way.

    `format`: one of VECTOR_FORMATS, or "auto": found from the content
    `limit`: rows to read, as a rule those of the most frequent words; None for all
    `errors`: what is done with words that are not UTF-8: "strict" raises, "replace" and "ignore"
        put a mark or nothing in place of wrong bytes
    `duplicates`: what is done with repeated words: "error" raises, "first" keeps the first

    All but safetensors hold center vectors alone.
    Raises DataError, naming file and row, for a file that is damaged, cut short, of another format,
    or has rows that are not finite.
    """
    check_choice("format", format, ["auto", *VECTOR_FORMATS])
    check_choice("errors", errors, _ERRORS)
    check_choice("duplicates", duplicates, _DUPLICATES)
    if limit is not None:
        check_positive("limit", limit)
    format = detect_format(path) if format == "auto" else format
    if format == "safetensors":
        words, center, context, signs = read_tensors(path)
        check_vectors(words, center, name=str(path))
        context = None if context is None else context[:limit]
        return StoredVectors(words[:limit], center[:limit], context, signs)
    with opened(path) as file:
        if file.read(len(_MARK)) != _MARK:
            file.seek(0)
        is_binary, is_headed = format == "word2vec-binary", format != "glove"
        n_words, dim = _header(file, path) if is_headed else (None, None)
        first_line = None if is_binary else 1 + is_headed
        source = RowSource(str(path), n_words, limit, errors, duplicates, first_line)
        blocks = binary_blocks if is_binary else text_blocks
        return joined_blocks(blocks(file, source, dim=dim), source)


def _header(file: BufferedIOBase, path: FilePath) -> tuple[int, int]:
    line = file.readline(_LONGEST_HEADER)
    header = parse_header(line)
    if header is None:
        raise DataError(
            "`path` must begin with a line of two whole numbers, those of words and of columns "
            f"(1 to {MAX_DIM}), got {line[:40]!r} in {path}. Without such a line it is "
            "format='glove'."
        )
    return header


def write_vectors(path: FilePath, stored: StoredVectors, *, format: str = "auto") -> None:
    """Write words and their vectors beside `path`, then rename the file in.

    `format`: one of VECTOR_FORMATS, or "auto": by the name's ending, .txt, .bin, .vec or
        .safetensors; with .gz after it the file is packed

    safetensors holds all vectors, the other formats those of the center alone. Text is read back as
    the same float32. Raises DataError, naming the row, for words and matrix that do not fit, or a
    word with spaces, which only safetensors can hold.
    """
    check_choice("format", format, ["auto", *VECTOR_FORMATS])
    words, center = stored.words, stored.center
    check_vectors(words, center, name="center")
    format = format_of_name(path) if format == "auto" else format
    if format == "safetensors":
        write_tensors(path, stored)
        return
    with written(path) as file:
        if format != "glove":
            file.write(f"{len(words)} {center.shape[1]}\n".encode())
        encode = _binary if format == "word2vec-binary" else _texts
        at_once = max(1, _ENTRIES // center.shape[1])
        for first in range(0, len(words), at_once):
            some = _encoded_words(words[first : first + at_once], first=first)
            numbers = encode(center[first : first + at_once])
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
