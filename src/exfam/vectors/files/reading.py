"""Word vectors from files."""

import os
from dataclasses import replace
from io import BufferedIOBase
from pathlib import Path

from exfam.checks import DataError, check_choice, check_positive
from exfam.reading.streams import opened
from exfam.vectors.files.binary import binary_blocks
from exfam.vectors.files.formats import VECTOR_FORMATS, detect_format
from exfam.vectors.files.rows import RowSource, StoredVectors, check_vectors, joined_blocks
from exfam.vectors.files.tensors import read_tensors
from exfam.vectors.files.text import MAX_DIM, parse_header, text_blocks

_ERRORS, _DUPLICATES = ("strict", "replace", "ignore"), ("error", "first")
# Some editors begin a file of UTF-8 with this mark.
_MARK = b"\xef\xbb\xbf"
_LONGEST_HEADER = 256


def read_vectors(
    path: str | os.PathLike[str],
    *,
    format: str = "auto",
    limit: int | None = None,
    errors: str = "strict",
    duplicates: str = "error",
) -> StoredVectors:
    """Words and their vectors, read as a stream; what gzip packed is unpacked on the way.

    `format`: "word2vec" (text), "word2vec-binary", "glove", "fasttext" (.vec), "safetensors", or
        "auto": found from the content (default "auto")
    `limit`: rows to read, as a rule those of the most frequent words; None for all (default None)
    `errors`: what is done with words that are not UTF-8: "strict" raises, "replace" and "ignore"
        put a mark or nothing in place of wrong bytes (default "strict")
    `duplicates`: what is done with repeated words: "error" raises, "first" keeps the first
        (default "error")

    All but safetensors hold center vectors alone.
    Raises DataError, naming file and row, for a file that is damaged, cut short, of another format,
    or has rows that are not finite; ExfamError for other choices.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "vectors.txt")
    >>> _ = path.write_text("2 3\\nthe 1 0 0\\nof 0 1 0.5\\n")
    >>> read_vectors(path).words
    ('the', 'of')
    """
    check_choice("format", format, ["auto", *VECTOR_FORMATS])
    check_choice("errors", errors, _ERRORS)
    check_choice("duplicates", duplicates, _DUPLICATES)
    if limit is not None:
        check_positive("limit", limit)
    path = Path(path)
    if format == "auto":
        format = detect_format(path)
    if format == "safetensors":
        return _from_tensors(path, limit)
    source = RowSource(str(path), limit=limit, errors=errors, duplicates=duplicates)
    with opened(path) as file:
        if file.read(len(_MARK)) != _MARK:
            file.seek(0)
        if format == "glove":
            blocks = text_blocks(file, name=source.name)
            return joined_blocks(blocks, replace(source, first_line=1))
        n_words, dim = _header(file, path)
        if format == "word2vec-binary":
            blocks = binary_blocks(file, dim=dim, n_words=n_words, name=source.name)
            return joined_blocks(blocks, source)
        blocks = text_blocks(file, name=source.name, dim=dim, first_line=2)
        return joined_blocks(blocks, replace(source, expected=n_words, first_line=2))


def _header(file: BufferedIOBase, path: Path) -> tuple[int, int]:
    line = file.readline(_LONGEST_HEADER)
    header = parse_header(line)
    if header is None:
        raise DataError(
            "`path` must begin with a line of two whole numbers, those of words and of columns "
            f"(1 to {MAX_DIM}), got {line[:40]!r} in {path}. Without such a line it is "
            "format='glove'."
        )
    return header


def _from_tensors(path: Path, limit: int | None) -> StoredVectors:
    stored = read_tensors(path)
    words, center = stored.words[:limit], stored.center[:limit]
    check_vectors(words, center, name=str(path))
    context = None if stored.context is None else stored.context[:limit]
    return StoredVectors(words, center, context, stored.signs)
