"""Sentences with the head of each word, from CoNLL-U files.

Words are numbered from 1; a word's head is another one's number, or 0 for the root of the sentence.
Lines of several words at once ("1-2") and of words that are not written ("1.1") are left out.
Source: Universal Dependencies, https://universaldependencies.org/format.html.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from exfam.checks import DataError
from exfam.reading.streams import opened

__all__ = ["DependencyParse", "parses_of", "read_conllu"]

_N_COLUMNS = 10


@dataclass(frozen=True, eq=False)
class DependencyParse:
    """A sentence: its words, and for each its tag, its head's place, and the relation to it.

    `heads`: from 0, and -1 for the root
    `tags`: universal parts of speech; `features`: such as "Number=Sing|Tense=Past", or ""
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    features: tuple[str, ...]
    heads: Int64[np.ndarray, "words"]
    relations: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.words)


def read_conllu(path: str | os.PathLike[str]) -> list[DependencyParse]:
    """All sentences of a file, gzip-packed or not.

    Raises DataError, naming file and line, for lines that are not of ten columns, words that are
    empty, numbers that do not count up, heads that are not in the sentence, sentences without
    exactly one root or whose heads go round in a circle, for text that is not UTF-8, and for a file
    without a sentence.

    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp(), "a.conllu")
    >>> _ = path.write_text("1\\tCats\\tcat\\tNOUN\\t_\\t_\\t2\\tnsubj\\t_\\t_\\n"
    ...     "2\\tsleep\\tsleep\\tVERB\\t_\\t_\\t0\\troot\\t_\\t_\\n\\n")
    >>> (parse,) = read_conllu(path)
    >>> parse.words, parse.heads.tolist(), parse.relations
    (('Cats', 'sleep'), [1, -1], ('nsubj', 'root'))
    """
    with opened(path) as file:
        return parses_of(file, where=os.fspath(path))


def parses_of(lines: Iterable[bytes], *, where: str) -> list[DependencyParse]:
    """All sentences of a file's lines; `where` names the file in errors, as in `read_conllu`."""
    parses = [_parse(rows, where) for rows in _sentences(lines, where)]
    if not parses:
        raise DataError(f"`path` must hold at least one sentence, got none in {where}.")
    return parses


# The number of a line, and its columns.
_Line = tuple[int, list[str]]


def _sentences(lines: Iterable[bytes], path: str) -> Iterator[list[_Line]]:
    rows: list[_Line] = []
    for number, content in enumerate(lines, 1):
        line = _text(content, number, path)
        if line and not line.startswith("#"):
            rows.append((number, _columns(line, number, path)))
        elif not line and rows:
            yield rows
            rows = []
    if rows:
        yield rows


def _text(content: bytes, number: int, path: str) -> str:
    try:
        # A mark of the byte order is no part of the first line.
        return content.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DataError(
            f"`path` must be encoded in UTF-8, got {content[:40]!r} at line {number} of {path}. "
            "Convert the file to UTF-8."
        ) from error


def _columns(line: str, number: int, path: str) -> list[str]:
    columns = line.split("\t")
    if len(columns) != _N_COLUMNS:
        raise DataError(
            f"`path` must have {_N_COLUMNS} columns apart by tabs in each line, got {len(columns)} "
            f"at line {number} of {path}: {line[:60]!r}."
        )
    return columns


def _parse(lines: list[_Line], path: str) -> DependencyParse:
    words = [line for line in lines if not {"-", "."} & set(line[1][0])]
    first = lines[0][0]
    if not words:
        raise DataError(
            f"`path` must have words in each sentence, got none at line {first} of {path}."
        )
    for place, (number, columns) in enumerate(words, 1):
        if columns[0] != str(place):
            raise DataError(
                f"`path` must number the words of a sentence 1, 2, ..., got {columns[0]!r} for "
                f"{place} at line {number} of {path}."
            )
        if not columns[1].strip():
            raise DataError(
                f"`path` must have a word in the second column, got an empty one at line {number} "
                f"of {path}."
            )
    heads = np.array([_head(line, len(words), path) for line in words])
    if (heads < 0).sum() != 1:
        raise DataError(
            f"`path` must have one root in each sentence, got {(heads < 0).sum()} in the one at "
            f"line {first} of {path}."
        )
    if _has_circle(heads):
        raise DataError(
            "`path` must have heads that lead to the root, got a circle in the sentence at line "
            f"{first} of {path}."
        )
    _, words_, _, tags, _, features, _, relations, _, _ = zip(
        *(columns for _, columns in words), strict=True
    )
    told = tuple("" if each == "_" else each for each in features)
    return DependencyParse(words_, tags, told, heads, relations)


def _head(line: _Line, n_words: int, path: str) -> int:
    number, columns = line
    head = columns[6]
    is_word = head.isascii() and head.isdigit() and int(head) <= n_words
    if not is_word or head == columns[0]:
        raise DataError(
            f"`path` must have heads that are 0 or another word's number, got {head!r} for word "
            f"{columns[0]} of {n_words} at line {number} of {path}."
        )
    return int(head) - 1


def _has_circle(heads: Int64[np.ndarray, "words"]) -> bool:
    """Whether some words never come to the root by going from head to head."""
    at = np.arange(len(heads))
    for _ in range(len(heads)):
        at = np.where(at >= 0, heads[at], -1)
    return bool((at >= 0).any())
