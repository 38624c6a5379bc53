"""Files of vectors as streams of bytes, gzip-packed or not."""

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path

from exfam.checks import DataError
from exfam.files import atomic_path
from exfam.reading.packed import unpacking

_GZIP = b"\x1f\x8b"


def is_packed(path: str | os.PathLike[str]) -> bool:
    """Whether the file's content, not its name, is that of gzip.

    >>> import sys
    >>> is_packed(sys.executable)
    False
    """
    with open(path, "rb") as file:
        return file.read(2) == _GZIP


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[BufferedIOBase]:
    """The file to read from; what gzip packed is unpacked on the way, whatever the file's name.

    Raises DataError for what is no file, an empty file, or a damaged gzip file (when it is read),
    or one that holds more than a hundred times its size and 256 MiB.

    >>> with opened("vectors.txt") as file:
    ...     pass
    Traceback (most recent call last):
    ...
    exfam.checks.DataError: `path` must be a file, got no such file at vectors.txt.
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
    """A file to write to that appears when the block ends; packed if its name ends in .gz.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "a.txt.gz")
    >>> with written(path) as file:
    ...     _ = file.write(b"cat 1 2")
    >>> with opened(path) as file:
    ...     file.read()
    b'cat 1 2'
    """
    path = Path(path)
    with atomic_path(path) as beside, open(beside, "wb") as file:
        if path.suffix != ".gz":
            yield file
            return
        # No name and no time inside: the same vectors give the same bytes.
        with gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed:
            yield packed
