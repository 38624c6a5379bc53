"""What a corpus is made of: files that a path, folder or pattern means, or sentences in memory."""

import itertools
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exfam.checks import DataError
from exfam.reading.files import named_files

KINDS = "a path, a folder, a list of paths, or sentences (text or lists of words)"


@dataclass(frozen=True)
class FileSource:
    """Text files, plain or packed (.gz, .bz2), in the order they are read."""

    paths: tuple[Path, ...]

    @property
    def fingerprint(self) -> list[list[Any]]:
        """Name, size in bytes and time of change (in nanoseconds) of each file."""
        stats = [(path, path.stat()) for path in self.paths]
        return [[os.path.realpath(path), stat.st_size, stat.st_mtime_ns] for path, stat in stats]


@dataclass(frozen=True)
class SentenceSource:
    """Sentences, each a text or a list of words, read once."""

    sentences: Iterator[Any]

    @property
    def fingerprint(self) -> None:
        """None: sentences are known only once they are read."""
        return None


def find_source(source: Any) -> FileSource | SentenceSource:
    """The files or sentences that `source` means.

    A text or path is a file, a folder (all files in it and below, by name) or a pattern such as
    'wiki/*.gz'. A list whose first entry is a path, or a text that names a file or folder, is one
    of paths; any other iterable is one of sentences. Hidden files and those that begin with an
    underscore do not count.

    Raises DataError if something is not there or not readable, or is no corpus at all.

    >>> find_source("no such file.txt")
    Traceback (most recent call last):
    ...
    exfam.checks.DataError: `source` must name a file, a folder or a pattern, got 'no such
    file.txt', which is not there. Text itself is passed in a list.
    """
    if isinstance(source, str | os.PathLike):
        return _files([source])
    is_one = isinstance(source, bytes | bytearray) or getattr(source, "ndim", 1) == 0
    if is_one or not isinstance(source, Iterable):
        raise DataError(f"`source` must be {KINDS}, got {type(source).__name__}.")
    entries = iter(source)
    first = list(itertools.islice(entries, 1))
    is_listed = isinstance(source, list | tuple)
    if first and (isinstance(first[0], os.PathLike) or (is_listed and _is_there(first[0]))):
        return _files(itertools.chain(first, entries))
    return SentenceSource(itertools.chain(first, entries))


def _is_there(entry: Any) -> bool:
    if not isinstance(entry, str) or "\n" in entry or len(entry) > 4096:
        return False
    try:
        return os.path.exists(entry)
    except ValueError:  # texts with a NUL are no names
        return False


def _files(names: Iterable[Any]) -> FileSource:
    paths = []
    for name in names:
        if not isinstance(name, str | os.PathLike):
            raise DataError(
                f"`source` must hold paths alone after a path, got {name!r} ({type(name).__name__})"
                "."
            )
        paths += named_files(name, below=True, advice="Text itself is passed in a list.")
    return FileSource(tuple(paths))
