"""Texts as codes of tokens: the words of every line, then a line end."""

import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64

from exfam.checks import DataError, UnknownItemError
from exfam.reading.streams import in_utf8, opener_of, unpacking
from exfam.reading.text.corpus import (
    FileSource,
    SentenceSource,
    check_no_table,
    check_utf8,
    find_source,
)

LINE_END, UNKNOWN = "<eos>", "<unk>"
# In arrays of codes.
_LINE_END_CODE = -1

Codes = Int64[np.ndarray, "tokens"]


@dataclass(frozen=True, eq=False)
class Lexicon:
    """The tokens that a model knows: words (or codes), and "<eos>", which ends lines."""

    labels: np.ndarray

    @cached_property
    def index(self) -> dict[Any, int]:
        return {label: code for code, label in enumerate(self.labels.tolist())}

    @property
    def line_end(self) -> int:
        return self.index[LINE_END]

    def __len__(self) -> int:
        return len(self.labels)


def learn(source: Any, *, name: str) -> tuple[Lexicon, Codes]:
    """The tokens of a text, most frequent first (ties: alphabetical), and the text as codes.

    `source`: a file (plain, .gz, .bz2) or several, lines (texts or lists of words), or a flat array
    of integers from 0 with -1 for line ends, which keep their own order.
    Raises DataError, naming file and line, if it is not such a text or has no words.
    """
    if isinstance(source, np.ndarray):
        given = _checked(source, name=name)
        n_codes = int(given.max(initial=-1)) + 1
        labels = [*range(n_codes), LINE_END]
        codes = np.where(given == _LINE_END_CODE, n_codes, given)
    else:
        # Codes by first appearance first: one pass, without the text itself in memory.
        seen, index = array("q"), dict[str, int]()
        for _, words in located_lines(source, name=name):
            seen.extend(index.setdefault(word, len(index)) for word in [*words, LINE_END])
        codes = np.array(seen, dtype=np.int64)
        counts = np.bincount(codes, minlength=len(index)).tolist()
        labels = sorted(index, key=lambda word: (-counts[index[word]], word))
        code = np.argsort([index[word] for word in labels])
        codes = code[codes]
    if len(labels) < 2:
        raise DataError(f"`{name}` must be a text with words, got {len(codes)} line ends alone.")
    return Lexicon(np.array(labels, dtype=object)), codes


def encode_text(source: Any, lexicon: Lexicon, *, name: str) -> Codes:
    """A text as codes of known tokens; other words are "<unk>" where that is one of them.

    Arrays of integers are codes of the lexicon, -1 for line ends.
    """
    if isinstance(source, np.ndarray):
        given = _checked(source, name=name)
        if given.max(initial=-1) >= len(lexicon):
            at = int(np.argmax(given >= len(lexicon)))
            raise UnknownItemError(
                f"`{name}` must hold codes below {len(lexicon)}, the number of tokens known, got "
                f"{given[at]} at token {at}."
            )
        return np.where(given == _LINE_END_CODE, lexicon.line_end, given)
    codes, index, unknown = array("q"), lexicon.index, lexicon.index.get(UNKNOWN)
    for where, words in located_lines(source, name=name):
        for word in words:
            code = index.get(word, unknown)
            if code is None:
                raise UnknownItemError(
                    f"`{name}` must have words of the training text alone, since that has no "
                    f"'{UNKNOWN}', got {word!r} {where}. Write {UNKNOWN} for rare words when you "
                    "train."
                )
            codes.append(code)
        codes.append(lexicon.line_end)
    return np.array(codes, dtype=np.int64)


def encode_known(source: Any, lexicon: Lexicon, *, name: str) -> tuple[Codes, int]:
    """A text as codes, and how many of its words are left out: unknown ones, without "<unk>"."""
    if isinstance(source, np.ndarray) or UNKNOWN in lexicon.index:
        return encode_text(source, lexicon, name=name), 0
    n_unknown = 0

    def known_lines() -> Iterator[list[str]]:
        nonlocal n_unknown
        for _, words in located_lines(source, name=name):
            known = [word for word in words if word in lexicon.index]
            n_unknown += len(words) - len(known)
            yield known

    codes = encode_text(known_lines(), lexicon, name=name)
    if n_unknown and (codes == lexicon.line_end).all():
        raise DataError(
            f"`{name}` must hold words of the training text, got none of its {len(lexicon)} "
            "tokens. Take text of the same language and spelling."
        )
    return codes, n_unknown


def _checked(codes: np.ndarray, *, name: str) -> Codes:
    if codes.ndim != 1 or codes.dtype.kind not in "iu":
        raise DataError(
            f"`{name}` must be a flat array of integers, got shape {codes.shape} of "
            f"{codes.dtype}. Give words as lines of text."
        )
    if codes.min(initial=0) < _LINE_END_CODE:
        at = int(np.argmax(codes < _LINE_END_CODE))
        raise DataError(
            f"`{name}` must hold integers >= 0, or -1 for line ends, got {codes[at]} at token {at}."
        )
    return codes.astype(np.int64)


def text_source(source: Any, *, name: str, encoding: str | None = None) -> Any:
    """The files, of this encoding, or sentences that `source` means; what is open stays so."""
    if isinstance(source, np.ndarray | FileSource | SentenceSource):
        return source
    check_no_table(name, source)
    return find_source(source, encoding=encoding)


def located_lines(source: Any, *, name: str = "source") -> Iterator[tuple[str, list[str]]]:
    """Where each line of files or of a list of lines is, in words, and its words."""
    lines = text_source(source, name=name)
    if isinstance(lines, FileSource):
        for path in lines.paths:
            yield from lines_of(path, encoding=lines.encoding)
        return
    for number, line in enumerate(lines.sentences, 1):
        yield f"in line {number}", _words(line, number)


def _words(line: Any, number: int) -> list[str]:
    if isinstance(line, str):
        check_utf8(f"Line {number}", line)
        return line.split()
    if isinstance(line, list | tuple) and all(isinstance(word, str) for word in line):
        check_utf8(f"Line {number}", " ".join(line))
        return list(line)
    raise DataError(
        f"Line {number} must be a text or a list of words, got {type(line).__name__}. Give codes "
        "as a NumPy array."
    )


def lines_of(path: Path, *, encoding: str | None = None) -> Iterator[tuple[str, list[str]]]:
    """Where each line of a file is, in words, and its words; unpacked by the name's end.

    `encoding`: None for UTF-8
    """
    number = 1
    try:
        with open(path, "rb") as stored:
            file = stored if opener_of(path) is None else unpacking(path, stored)
            for line in file if encoding is None else in_utf8(path, file, encoding):
                if b"\0" in line:
                    raise _unreadable(path, number, "a byte 0, so a binary file")
                yield f"in line {number} of {path}", line.decode("utf-8-sig").split()
                number += 1
    except UnicodeDecodeError as error:
        raise _unreadable(path, number, f"other bytes ({error.reason})") from error
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, number, f"a damaged or unreadable file ({error})") from error


def _unreadable(path: Path, number: int, got: str) -> DataError:
    return DataError(
        f"`{path.name}` must be text in UTF-8, got {got} at line {number} of {path}. Name "
        "its encoding, such as encoding='cp1252' (of a model file_encoding), or get it anew."
    )


def sentence_list(X: Any, *, name: str) -> list[Any]:
    """Sentences, or pairs of them, as a list; DataError for one text, a table, an iterator."""
    check_no_table(name, X)
    # An array without dimensions has a length by name alone.
    if isinstance(X, str | bytes) or not hasattr(X, "__len__") or getattr(X, "ndim", 1) == 0:
        raise DataError(
            f"`{name}` must be a list of sentences, got one {type(X).__name__}. Put it into a list."
        )
    return list(X)
