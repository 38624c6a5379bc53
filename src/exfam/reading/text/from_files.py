"""Pieces of text files, plain or packed; errors name file, line and byte."""

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, NoReturn

from exfam.checks import DataError
from exfam.reading.packed import opener_of, unpacking
from exfam.reading.text.pieces import PIECE, Piece, Position

MARK = b"\xef\xbb\xbf"  # some editors begin UTF-8 with it
WHITE = (b" ", b"\n", b"\t", b"\r")


def pieces_of_files(
    paths: Sequence[Path], *, start: Position, size: int = PIECE
) -> Iterator[Piece]:
    """The pieces of some files, of about `size` bytes, from some position on.

    A packed file is unpacked up to there again.
    Raises DataError naming file, line and byte of what is not UTF-8, of a NUL and of a word longer
    than two pieces; naming the file if it is damaged or cannot be read.

    >>> list(pieces_of_files([], start=Position()))
    []
    """
    before = sum(path.stat().st_size for path in paths[: start.file])
    for number in range(start.file, len(paths)):
        path, position = paths[number], start if number == start.file else Position(file=number)
        with _named(path), open(path, "rb") as stored:
            for piece in _of_file(path, stored, position, size):
                _check(piece.text, path, position)
                yield replace(piece, done=before + stored.tell())
                position = piece.after
            before += stored.tell()


def _of_file(path: Path, stored: IO[bytes], start: Position, size: int) -> Iterator[Piece]:
    file = stored if opener_of(path) is None else unpacking(path, stored)
    file.seek(start.offset)
    position, kept = start, b""
    while block := file.read(size):
        block = kept + block
        cut = max(block.rfind(white) for white in WHITE) + 1
        if cut == 0 and len(block) > PIECE:
            _fail_of_length(len(block), _place(path, position, b""))
        text, kept = block[:cut], block[cut:]
        if text:
            after = _moved(position, text)
            yield Piece(_unmarked(text, position), after, ends=False, done=0)
            position = after
    yield Piece(_unmarked(kept, position), Position(file=start.file + 1), ends=True, done=0)


def _moved(position: Position, text: bytes) -> Position:
    return replace(
        position, offset=position.offset + len(text), line=position.line + text.count(b"\n")
    )


def _unmarked(text: bytes, position: Position) -> bytes:
    # A space in place of each byte of the mark: what follows stays where it is.
    is_marked = position.offset == 0 and text.startswith(MARK)
    return b" " * len(MARK) + text[len(MARK) :] if is_marked else text


def _check(text: bytes, path: Path, position: Position) -> None:
    if (at := text.find(b"\0")) >= 0:
        raise DataError(
            f"`source` must be text, got a NUL {_place(path, position, text[:at])}: a binary file, "
            "or one in UTF-16. Convert it to UTF-8, or leave it out."
        )
    try:
        text.isascii() or text.decode()
    except UnicodeDecodeError as error:
        at = error.start
        raise DataError(
            f"`source` must be encoded in UTF-8, got byte {text[at]:#04x} "
            f"{_place(path, position, text[:at])}. Convert the file to UTF-8."
        ) from None


def _fail_of_length(n_bytes: int, place: str) -> NoReturn:
    raise DataError(
        f"`source` must have words of less than {PIECE} bytes, got one of {n_bytes} or more that "
        f"begins {place}. Separate words by white space."
    )


def _place(path: Path, position: Position, before: bytes) -> str:
    at = _moved(position, before)
    return f"at byte {at.offset} (line {at.line}) of {path}"


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Name the file in what its decompressor and the operating system say."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"`source` must be of whole files that can be read, got {path}: {error}. Download or "
            "pack it again."
        ) from error
