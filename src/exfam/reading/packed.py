"""What gzip and bzip2 packed, as a stream up to a stated limit: small files can hold very much."""

import bz2
import gzip
import io
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from exfam.checks import DataError

# Text packs to a third or a tenth of its size; what packs to a hundredth holds next to nothing.
MOST_TIMES = 100
# Up to this size a file may unpack to any multiple of its own.
UNPACKED_ANYWAY = 1 << 28

_OPENERS: Mapping[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}


def opener_of(path: str | os.PathLike[str]) -> Callable[..., Any] | None:
    """What unpacks a file of this name, None if it is not packed.

    >>> opener_of("a.csv.gz") is gzip.open, opener_of("a.csv")
    (True, None)
    """
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

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "a.txt.gz")
    >>> _ = path.write_bytes(gzip.compress(b"a cat"))
    >>> with open(path, "rb") as stored:
    ...     unpacking(path, stored).read()
    b'a cat'
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
        self._check(self._stream.tell())
        return n_read

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._stream.seek(offset, whence))

    def tell(self) -> int:
        return int(self._stream.tell())

    def _check(self, n_bytes: int) -> None:
        if n_bytes > self._most:
            raise DataError(
                f"{self._name} must unpack to {self._most:,} bytes at most ({MOST_TIMES} times its "
                f"size, or {UNPACKED_ANYWAY >> 20} MiB if that is more), got more from "
                f"{self._path}. Unpack the file first if it is as it should be."
            )
