"""What a prepared folder says of itself: its files, how they were read, checksums.

manifest.json         format, format version, files with sizes and checksums, columns, facts
vocabulary.parquet    the label of every code, by column
item.npy, values-0.npy, …   one plain NumPy array a column
group_names.parquet   only where the names of groups are long text
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from exfam.groups.frames import FrameColumns
from exfam.reading.manifests import Contents, FolderKind
from exfam.reading.prepared.shapes import check_shards

PREPARED = FolderKind(
    "prepared folder",
    "manifest.json",
    "exfam-prepared",
    1,
    again="Prepare the folder again, or copy it anew from where it is whole.",
)
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
        contents = Contents(self.size, self.sha256)
        PREPARED.check(folder / self.file, contents, verify=verify or self.size <= _SMALL)


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
        PREPARED.write(
            folder,
            {
                "read_with": None if self.columns is None else asdict(self.columns),
                "facts": None if self.facts is None else dict(self.facts),
                "ordered": self.ordered,
                "shards": [asdict(shard) for shard in self.shards],
            },
        )

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """The manifest of a prepared folder.

        Raises DataError if it is missing, damaged, of something else or of a newer version.
        """
        document = PREPARED.read(folder)
        try:
            return cls._parsed(document)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            rule = "describe the columns of groups"
            raise PREPARED.foreign(folder / PREPARED.manifest, rule, error) from error

    @classmethod
    def _parsed(cls, document: Mapping[str, Any]) -> "Manifest":
        """What a document says. Raises as Python does where it is not what `write` writes."""
        shards = [{**shard, "shape": tuple(shard["shape"])} for shard in document["shards"]]
        read_with, facts = document["read_with"], document["facts"]
        columns = None if read_with is None else _columns(read_with)
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
        names = value if isinstance(value, tuple) else () if value is None else (value,)
        if not all(isinstance(column, str) for column in names):
            raise ValueError(f"columns without a name: {name} = {value!r}")
    return FrameColumns(**named)
