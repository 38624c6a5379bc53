"""What a prepared folder says of itself: its files, how they were read, checksums.

manifest.json         format, format version, files with sizes and checksums, columns, facts
vocabulary.parquet    the label of every code, by column
item.npy, values-0.npy, …   one plain NumPy array a column
group_names.parquet   only where the names of groups are long text
"""

import hashlib
import json
import math
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from exfam.checks import DataError
from exfam.files import is_inside
from exfam.groups.frames import FrameColumns
from exfam.reading.prepared.shapes import check_shards

__all__ = ["FORMAT_VERSION", "MANIFEST", "Manifest", "Shard", "checksum", "fail", "is_ours"]

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
_FORMAT = "exfam-prepared"
_AGAIN = "Prepare the folder again, or copy it anew from where it is whole."
# Up to this size a file is read in full whenever the folder is opened; so opening stays cheap.
_SMALL = 1 << 20


@dataclass(frozen=True)
class Shard:
    """A file: an array of a field of Groups (`name` is its key in a mapping), or labels.

    `offset`: where in the file the numbers start (0 for labels, which are Parquet).
    """

    field: str
    name: str | None
    file: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    size: int
    sha256: str

    @property
    def n_bytes(self) -> int:
        """The bytes of its numbers."""
        return int(np.dtype(self.dtype).itemsize) * math.prod(self.shape)

    def check(self, folder: Path, *, verify: bool) -> None:
        """Raise DataError unless the file is there, of its size, and if read in full, unchanged."""
        file = folder / self.file
        if not file.is_file():
            fail(f"{file} must be there, got no such file in this prepared folder. {_AGAIN}")
        if not is_inside(file):
            fail(f"{file} must be in its folder, got a link to a file elsewhere. {_AGAIN}")
        size = file.stat().st_size
        if size != self.size:
            fail(f"{file} must have {self.size} bytes, got {size}: it is cut or changed. {_AGAIN}")
        if (verify or size <= _SMALL) and checksum(file) != self.sha256:
            _damaged(file)


@dataclass(frozen=True)
class Manifest:
    """The files of a prepared folder, the columns they were read from, what was met in reading.

    `ordered`: whether elements are in an order that means something.
    """

    shards: tuple[Shard, ...]
    columns: FrameColumns | None
    facts: Mapping[str, int] | None
    ordered: bool = False

    def write(self, folder: Path) -> None:
        """Write `manifest.json`, the last file of a prepared folder."""
        document = {
            "format": _FORMAT,
            "format_version": FORMAT_VERSION,
            "exfam_version": sys.modules["exfam"].__version__,
            "read_with": None if self.columns is None else asdict(self.columns),
            "facts": None if self.facts is None else dict(self.facts),
            "ordered": self.ordered,
            "shards": [asdict(shard) for shard in self.shards],
        }
        document["checksum"] = _own_checksum(document)
        text = json.dumps(document, indent=1, allow_nan=False)
        (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """The manifest of a prepared folder.

        Raises DataError if it is missing, damaged, of something else or of a newer version.
        """
        file = folder / MANIFEST
        if not os.path.isfile(file):
            is_there = os.path.exists(folder)
            got = "no" if not is_there else "a folder without" if folder.is_dir() else "a file"
            fail(f"`folder` must be a prepared folder, got {got} {MANIFEST} at {folder}.")
        try:
            document = json.loads(file.read_bytes())
        except (ValueError, RecursionError):
            _damaged(file)
        if not isinstance(document, dict) or document.get("format") != _FORMAT:
            fail(
                f"`folder` must be a prepared folder, got the {MANIFEST} of something else: {file}."
            )
        version = document.get("format_version")
        if isinstance(version, int) and version > FORMAT_VERSION:
            fail(
                f"{file} must have format version {FORMAT_VERSION} at most, got {version}, written "
                f"by exfam {document.get('exfam_version')}. Install that version or a newer one."
            )
        if document.pop("checksum", None) != _own_checksum(document):
            _damaged(file)
        try:
            return cls._parsed(document)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise DataError(
                f"{file} must describe the columns of groups, got {error}. It was not written by "
                f"exfam. {_AGAIN}"
            ) from error

    @classmethod
    def _parsed(cls, document: Mapping[str, Any]) -> "Manifest":
        """What a document says. Raises as Python does where it is not what `write` writes."""
        shards = [{**shard, "shape": tuple(shard["shape"])} for shard in document["shards"]]
        told, facts = document["read_with"], document["facts"]
        columns = None if told is None else _columns(told)
        if facts is not None:
            _check_facts(facts)
        manifest = cls(
            shards=tuple(Shard(**shard) for shard in shards),
            columns=columns,
            facts=facts,
            # Older folders do not say.
            ordered=bool(document.get("ordered", columns is not None and columns.ordered)),
        )
        check_shards(manifest.shards)
        return manifest


def is_ours(folder: Path) -> bool:
    """Whether a folder has a manifest of this format, whole or cut off at the end.

    >>> is_ours(Path("somewhere"))
    False
    """
    try:
        with (folder / MANIFEST).open("rb") as file:
            start = file.read(200)
    except OSError:
        return False
    return b'"format"' in start and f'"{_FORMAT}"'.encode() in start


def checksum(file: Path) -> str:
    """The SHA-256 of a file, in pieces.

    >>> len(checksum(Path(__file__)))
    64
    """
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def fail(message: str) -> NoReturn:
    """Raise DataError."""
    raise DataError(message)


def _damaged(file: Path) -> NoReturn:
    """Raise DataError of a file that is not what was written."""
    fail(f"{file} must be as it was written, got a damaged or changed file. {_AGAIN}")


def _own_checksum(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document).encode()).hexdigest()


def _check_facts(facts: Any) -> None:
    if not all(type(count) is int and count >= 0 for count in facts.values()):
        raise ValueError(f"facts that are no counts: {facts!r}")
    if not {"rows", "groups"} <= facts.keys():
        raise ValueError(f"facts without the number of rows or groups: {facts!r}")


def _columns(written: Mapping[str, Any]) -> FrameColumns:
    named: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in written.items()
    }
    for name, value in named.items():
        each = value if isinstance(value, tuple) else () if value is None else (value,)
        if not all(isinstance(column, str) for column in each):
            raise ValueError(f"columns without a name: {name} = {value!r}")
    return FrameColumns(**named)
