"""A corpus as pieces of whole words of UTF-8: of files, plain or packed, or of sentences."""

import os
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BufferedIOBase
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from exfam.checks import CheckpointError, DataError, ExfamWarning, is_utf8
from exfam.reading.paths import named_files
from exfam.reading.streams import in_utf8, opener_of, unpacking
from exfam.reading.text.word_table import PIECE, measure

KINDS = "a path, a folder, a list of paths, or sentences (text or lists of words)"
MARK = b"\xef\xbb\xbf"  # some editors begin UTF-8 with it
WHITE = (b" ", b"\n", b"\t", b"\r")

# The text of a sentence, and how many words it was made of; None if it was a text.
Line = tuple[str, int | None]


@dataclass(frozen=True)
class Position:
    """Where reading goes on.

    `file`: the number of the file; `offset`: the byte of its unpacked text; `line`: its line;
    `sentence`: sentences read where there are no files; `checksum`: CRC-32 of what they were.
    """

    file: int = 0
    offset: int = 0
    line: int = 1
    sentence: int = 0
    checksum: int = 0


@dataclass(frozen=True)
class TextPiece:
    """Whole words of UTF-8 text, none of them longer than `2 * PIECE` bytes, without NUL.

    `after`: where the next piece begins; `ends`: whether a file, or all sentences, end here;
    `done`: bytes read of all files as they are stored, or sentences read.
    """

    text: bytes
    after: Position
    ends: bool
    done: int


@dataclass(frozen=True)
class FileSource:
    """Text files, plain or packed (.gz, .bz2), in the order they are read.

    `encoding`: of all of them, None for UTF-8
    """

    paths: tuple[Path, ...]
    encoding: str | None = None

    @property
    def fingerprint(self) -> list[list[Any]]:
        """Name, size in bytes, time of change (in nanoseconds) and encoding of each file."""
        stats = [(path, path.stat()) for path in self.paths]
        own = [] if self.encoding is None else [self.encoding]
        return [
            [os.path.realpath(path), stat.st_size, stat.st_mtime_ns, *own] for path, stat in stats
        ]

    @property
    def total(self) -> int:
        """Bytes of all files as they are stored."""
        return sum(path.stat().st_size for path in self.paths)

    def pieces(self, *, start: Position, size: int = PIECE) -> Iterator[TextPiece]:
        """Pieces of about `size` bytes, from some position on.

        A packed file is unpacked up to there again.
        Raises DataError naming file, line and byte of what is not UTF-8, of a NUL and of a word
        longer than two pieces; naming the file if it is damaged or cannot be read.
        """
        before = sum(path.stat().st_size for path in self.paths[: start.file])
        for number in range(start.file, len(self.paths)):
            path = self.paths[number]
            position = start if number == start.file else Position(file=number)
            try:
                with open(path, "rb") as stored:
                    file = stored if opener_of(path) is None else unpacking(path, stored)
                    if self.encoding is not None:
                        file = in_utf8(path, file, self.encoding)
                    for piece in _of_file(path, file, position, size):
                        _check_bytes(piece.text, path, position)
                        yield replace(piece, done=before + stored.seek(0, os.SEEK_CUR))
                        position = piece.after
                    before += stored.seek(0, os.SEEK_CUR)
            # What the operating system and the decompressors say does not name the file.
            except (OSError, EOFError, zlib.error) as error:
                raise DataError(
                    f"`source` must be of whole files that can be read, got {path}: {error}. "
                    "Download or pack it again."
                ) from error


@dataclass(frozen=True)
class SentenceSource:
    """Sentences, each a text or a list of words, read once; known only once they are read."""

    sentences: Iterator[Any]
    fingerprint: None = None
    total: None = None

    def pieces(self, *, start: Position, size: int = PIECE) -> Iterator[TextPiece]:
        r"""Pieces of about `size` bytes or a sentence, from some position on.

        A sentence is a line; one that is a text may be of several lines.
        Raises DataError naming the sentence that is neither text nor a list of words without white
        space, that has a NUL, half of a character or a word longer than a megabyte; CheckpointError
        if the sentences before `start` are others than those once read.
        """
        checksum = _skipped(self.sentences, start)
        number = start.sentence
        for batch in _batches(self.sentences, number, size):
            text = _joined(batch, number)
            number += len(batch)
            checksum = zlib.crc32(text, checksum)
            after = Position(sentence=number, checksum=checksum)
            yield TextPiece(text, after, ends=False, done=number)
        end = Position(file=1, sentence=number, checksum=checksum)
        yield TextPiece(b"", end, ends=True, done=number)


def find_source(source: Any, *, encoding: str | None = None) -> FileSource | SentenceSource:
    """The files, of this encoding, or sentences that `source` means.

    A text or path is a file, a folder (all files in it and below, by name) or a pattern such as
    'wiki/*.gz'. A list whose first entry is a path, or a text that names a file or folder, is one
    of paths; any other iterable is one of sentences.
    """
    if isinstance(source, str | os.PathLike):
        return FileSource(_files([source]), encoding)
    is_single = isinstance(source, bytes | bytearray) or getattr(source, "ndim", 1) == 0
    is_frame = hasattr(source, "columns") or isinstance(source, Mapping)
    if is_single or is_frame or not isinstance(source, Iterable):
        remedy = " Pass its column of texts." if is_frame else ""
        raise DataError(f"`source` must be {KINDS}, got {type(source).__name__}.{remedy}")
    entries = iter(source)
    first = list(islice(entries, 1))
    is_path = isinstance(first[0], os.PathLike) if first else False
    if first and isinstance(source, list | tuple) and isinstance(first[0], str):
        is_name = "\n" not in first[0] and len(first[0]) <= 4096
        is_path = is_name and os.path.exists(os.path.expanduser(first[0]))
    if is_path:
        return FileSource(_files(chain(first, entries)), encoding)
    return SentenceSource(chain(first, entries))


def _files(names: Iterable[Any]) -> tuple[Path, ...]:
    paths = []
    for name in names:
        if not isinstance(name, str | os.PathLike):
            raise DataError(
                f"`source` must hold paths alone after a path, got {name!r} ({type(name).__name__})"
                "."
            )
        paths += named_files(name, below=True, advice="Text itself is passed in a list.")
    return tuple(paths)


def _of_file(path: Path, file: BufferedIOBase, start: Position, size: int) -> Iterator[TextPiece]:
    if file.seekable():
        file.seek(start.offset)
    else:
        for first in range(0, start.offset, size):
            file.read(min(size, start.offset - first))
    position, kept = start, b""
    while block := file.read(size):
        block = kept + block
        cut = max(block.rfind(white) for white in WHITE) + 1
        if cut == 0 and len(block) > PIECE:
            raise DataError(
                f"`source` must have words of less than {PIECE} bytes, got one of {len(block)} or "
                f"more that begins {_at(path, position, b'')}. Separate words by white space."
            )
        text, kept = block[:cut], block[cut:]
        if text:
            after = _moved(position, text)
            yield TextPiece(_unmarked(text, position), after, ends=False, done=0)
            position = after
    yield TextPiece(_unmarked(kept, position), Position(file=start.file + 1), ends=True, done=0)


def _moved(position: Position, text: bytes) -> Position:
    return replace(
        position, offset=position.offset + len(text), line=position.line + text.count(b"\n")
    )


def _unmarked(text: bytes, position: Position) -> bytes:
    # A space instead of each byte of the mark: what follows stays where it is.
    is_marked = position.offset == 0 and text.startswith(MARK)
    return b" " * len(MARK) + text[len(MARK) :] if is_marked else text


def _check_bytes(text: bytes, path: Path, position: Position) -> None:
    if (at := text.find(b"\0")) >= 0:
        raise DataError(
            f"`source` must be text, got a NUL {_at(path, position, text[:at])}: a binary file, "
            "or one in UTF-16. Name its `encoding`, or leave it out."
        )
    try:
        text.isascii() or text.decode()
    except UnicodeDecodeError as error:
        at = error.start
        raise DataError(
            f"`source` must be encoded in UTF-8, got byte {text[at]:#04x} "
            f"{_at(path, position, text[:at])}. Name its encoding, such as encoding='cp1252' "
            "(of a model file_encoding)."
        ) from None


def _at(path: Path, position: Position, before: bytes) -> str:
    moved = _moved(position, before)
    return f"at byte {moved.offset} (line {moved.line}) of {path}"


def _skipped(sentences: Iterator[Any], start: Position) -> int:
    """Read the sentences before `start` again; returns their checksum."""
    checksum = n_skipped = 0
    # After the end there must not be one more.
    for batch in _batches(islice(sentences, start.sentence + start.file), 0, PIECE):
        checksum = zlib.crc32(_joined(batch, n_skipped), checksum)
        n_skipped += len(batch)
    if (n_skipped, checksum) != (start.sentence, start.checksum):
        raise CheckpointError(
            "`source` must have the sentences whose preparation was interrupted, got others among "
            f"the first {start.sentence}. Pass resume=False to begin anew."
        )
    return checksum


def _batches(sentences: Iterator[Any], number: int, size: int) -> Iterator[list[Line]]:
    batch: list[Line] = []
    n_characters = 0
    for at, sentence in enumerate(sentences, start=number + 1):
        batch.append(_line(sentence, at))
        n_characters += len(batch[-1][0])
        if n_characters >= size:
            yield batch
            batch, n_characters = [], 0
    if batch:
        yield batch


def _line(sentence: Any, number: int) -> Line:
    if isinstance(sentence, str):
        return sentence, None
    is_list = isinstance(sentence, Sequence | np.ndarray) and np.iterable(sentence)
    if not is_list or isinstance(sentence, bytes):
        raise DataError(
            "`source` must hold sentences, each a text or a list of words, got "
            f"{type(sentence).__name__} at sentence {number}."
        )
    try:
        return " ".join(sentence), len(sentence)
    except TypeError:
        odd = next(word for word in sentence if not isinstance(word, str))
        raise DataError(
            f"`source` must hold words that are text, got {odd!r} ({type(odd).__name__}) in "
            f"sentence {number}. Convert it: str(word)."
        ) from None


def _joined(batch: Sequence[Line], number: int) -> bytes:
    """The sentences as lines of UTF-8; `number`: sentences before them."""
    try:
        text = "".join(f"{line}\n" for line, _ in batch).encode()
    except UnicodeEncodeError:
        text = b"\0"
    lists = [line for line, n_words in batch if n_words is not None]
    n_expected = sum(n_words or 0 for _, n_words in batch)
    listed = text if len(lists) == len(batch) else "\n".join(lists).encode(errors="replace")
    n_words, longest = _measured(text)
    n_listed = n_words if listed is text else _measured(listed)[0]
    if b"\0" in text or longest > PIECE or (lists and n_listed != n_expected):
        for at, line in enumerate(batch, start=number + 1):
            _check_sentence(*line, at)
    return text


def _measured(text: bytes) -> tuple[int, int]:
    return measure(np.frombuffer(text, np.uint8))


def _check_sentence(text: str, n_words: int | None, number: int) -> None:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"`source` must hold Unicode text, got {text[error.start]!r} alone, half of a "
            f"character, in sentence {number}. Read its file as UTF-8."
        ) from None
    n_read, longest = _measured(data)
    if b"\0" in data:
        raise DataError(f"`source` must hold text, got a NUL in sentence {number}.")
    if longest > PIECE:
        raise DataError(
            f"`source` must have words of at most {PIECE} bytes, got one of {longest} in sentence "
            f"{number}. Separate words by white space."
        )
    if n_words not in (None, n_read):
        raise DataError(
            "`source` must hold words without white space that are not empty, got "
            f"{n_words} that read as {n_read} in sentence {number}. Write 'new_york' for "
            "'new york'."
        )


def check_no_table(name: str, given: Any) -> None:
    """Raise DataError for a frame or a dict, of which a loop reads the names of columns alone."""
    is_frame = len(getattr(given, "shape", ())) == 2 and not isinstance(given, np.ndarray)
    if is_frame or isinstance(given, Mapping):
        raise DataError(
            f"`{name}` must be texts, got a table ({type(given).__name__}). Give one column of it, "
            "such as df['text']."
        )


def check_utf8(what: str, text: str) -> None:
    """Raise DataError for halves of surrogate pairs, as texts read with "surrogateescape" have."""
    if not is_utf8(text):
        index = next(index for index, letter in enumerate(text) if not is_utf8(letter))
        raise DataError(
            f"{what} must be text that UTF-8 can write, got {text[index]!r} as character "
            f"{index}. Read the file with its own encoding."
        )


def warn_unknown_words(n_unknown: int, n_words: int, *, unit: str = "words") -> None:
    """Warn, once for a text, that words which the model does not know are not in its score."""
    if n_unknown:
        warnings.warn(
            f"{n_unknown} of the {n_words} {unit} of `X` are unknown to the model, and left out of "
            "the score: compare it only with scores of models that know the same words.",
            ExfamWarning,
            stacklevel=3,
        )
