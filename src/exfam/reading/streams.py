"""Files as streams of bytes; what is packed is unpacked up to a limit: it may hold very much."""

import bz2
import codecs
import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import IO, Any

from exfam.checks import DataError
from exfam.files import atomic_path

# Text packs to a third or a tenth of its size; what packs to a hundredth holds next to nothing.
MOST_TIMES = 100
# Up to this size a file may unpack to any multiple of its own.
UNPACKED_ANYWAY = 1 << 28

_OPENERS: Mapping[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
_GZIP = b"\x1f\x8b"


def opener_of(path: str | os.PathLike[str]) -> Callable[..., Any] | None:
    """What unpacks a file of this name, None if it is not packed."""
    return _OPENERS.get(Path(path).suffix.lower())


def unpacking(
    path: str | os.PathLike[str],
    stored: IO[bytes],
    *,
    name: str = "source",
    opener: Callable[..., Any] | None = None,
) -> io.BufferedReader:
    """The bytes packed in `stored`, the open file at `path`, unpacked as they are read.

    `name`: the argument that errors speak of (default "source")
    `opener`: what unpacks; None for what the file's name says (default None)

    Reading raises DataError beyond 100 times the file's size and 256 MiB, and as `gzip` and `bz2`
    do for damaged files.
    """
    chosen = opener or opener_of(path)
    assert chosen is not None
    most = max(UNPACKED_ANYWAY, MOST_TIMES * os.stat(path).st_size)
    return io.BufferedReader(_Limited(chosen(stored), most, f"`{name}`", os.fspath(path)), 1 << 17)


class _Limited(io.RawIOBase):
    """A stream that may not be longer than `most` bytes."""

    def __init__(self, stream: Any, most: int, name: str, path: str) -> None:
        self._stream, self._most, self._name, self._path = stream, most, name, path

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        n_read: int = self._stream.readinto(buffer)
        if self._stream.seek(0, io.SEEK_CUR) > self._most:
            raise DataError(
                f"{self._name} must unpack to {self._most:,} bytes at most ({MOST_TIMES} times its "
                f"size, or {UNPACKED_ANYWAY >> 20} MiB if that is more), got more from "
                f"{self._path}. Unpack the file first if it is as it should be."
            )
        return n_read

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._stream.seek(offset, whence))


def in_utf8(
    path: str | os.PathLike[str], stream: BufferedIOBase, encoding: str
) -> io.BufferedReader:
    """A stream of text in some encoding as a stream of UTF-8.

    Reading raises DataError where the encoding does not fit.
    """
    return io.BufferedReader(_Recoded(stream, encoding, os.fspath(path)), 1 << 17)


class _Recoded(io.RawIOBase):
    """UTF-8 of what is decoded, a block at a time."""

    def __init__(self, stream: BufferedIOBase, encoding: str, path: str) -> None:
        self._stream, self._encoding, self._path = stream, encoding, path
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._ready, self._is_done = b"", False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready and not self._is_done:
            block = self._stream.read(1 << 17)
            self._is_done = not block
            try:
                self._ready = self._decoder.decode(block, final=self._is_done).encode()
            except UnicodeError as error:
                raise DataError(
                    f"`encoding` must be that of the text, got {self._encoding!r} for "
                    f"{self._path}: {error}. Name another one, such as 'utf-8' or 'cp1252'."
                ) from error
        taken, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)


def is_packed(path: str | os.PathLike[str]) -> bool:
    """Whether the file's content, not its name, is that of gzip."""
    with open(path, "rb") as file:
        return file.read(2) == _GZIP


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[BufferedIOBase]:
    """The file to read from; what gzip packed is unpacked on the way, whatever the file's name.

    Raises DataError for what is no file, an empty file, or a damaged gzip file (when it is read),
    or one that holds more than a hundred times its size and 256 MiB.
    """
    path = Path(path)
    if not os.path.isfile(path):
        what = "a folder" if os.path.isdir(path) else "no such file"
        raise DataError(f"`path` must be a file, got {what} at {path}.")
    if not path.stat().st_size:
        raise DataError(f"`path` must not be empty, got an empty file at {path}.")
    with open(path, "rb") as file:
        if not is_packed(path):
            yield file
            return
        try:
            with unpacking(path, file, name="path", opener=gzip.open) as unpacked:
                yield unpacked
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(
                f"`path` must be a whole gzip file, got a damaged one ({error}) at {path}. "
                "Get it anew."
            ) from error


@contextmanager
def written(path: str | os.PathLike[str]) -> Iterator[BufferedIOBase]:
    """A file to write to that appears when the block ends; packed if its name ends in .gz."""
    path = Path(path)
    with atomic_path(path) as beside, open(beside, "wb") as file:
        if path.suffix != ".gz":
            yield file
            return
        # No name and no time inside: the same vectors give the same bytes.
        with gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed:
            yield packed
