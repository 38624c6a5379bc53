"""Prepared folders: groups as files that are mapped into memory instead of being read.

manifest.json         format, format version, files with sizes and checksums, columns, facts
vocabulary.parquet    the label of every code, by column
item.npy, values-0.npy, …   one plain NumPy array a column
group_names.parquet   only where the names of groups are long text
"""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from exfam.checks import DataError
from exfam.columns.dialect import Dialect
from exfam.columns.parts import FrameColumns, Names
from exfam.groups import Groups
from exfam.reading.database import ReadingFacts, ReadingOptions
from exfam.reading.folders import PREPARED, find_prepared, is_prepared, new_folder
from exfam.reading.reader import read_with_facts
from exfam.reading.shards import Shard, ShardWriter, check_shards, mapped_groups

# Up to this size all numbers are looked at when a folder is opened: no code without a label.
MUCH = 1 << 24


def prepare(
    source: Any,
    folder: str | os.PathLike[str],
    *,
    group: str | None = None,
    order: Names = None,
    item: str | None = None,
    value: Names = None,
    attributes: Names = (),
    group_attributes: Names = (),
    position: Names = None,
    database: str | None = None,
    vocabulary: Mapping[str, Any] | None = None,
    unknown: str = "error",
    duplicates: str = "error",
    memory_limit: str | None = None,
    threads: int | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    date_format: str | None = None,
    missing: Any = None,
    sheet: str | None = None,
    overwrite: bool = False,
) -> Groups:
    """Read a source once, into a folder of columns that are mapped into memory, and open it.

    The folder can then stand wherever data can, as in `EFA().fit(folder)`, and its columns may be
    larger than memory. Column names and the like are as for `exfam.read`; `Groups` need none.

    `overwrite`: whether a prepared folder may be replaced; nothing else ever is (default False)

    Raises DataError for a source that cannot be read or a folder that is not free, and leaves all
    as it was.

    >>> import tempfile
    >>> frame = {"user": ["b", "a", "b"], "movie": ["x", "x", "y"]}
    >>> prepare(frame, tempfile.mkdtemp() + "/small", group="user", item="movie")
    Groups(2 groups, 3 elements, 2 items)
    """
    columns = None
    if group is not None:
        columns = FrameColumns(group, order, item, value, attributes, group_attributes, position)
    if isinstance(source, Groups) and columns is not None:
        raise DataError(
            f"`group` must not be given with Groups, which are grouped, got {columns.group!r}."
        )
    if is_prepared(source):
        raise DataError(
            f"`source` must not be a prepared folder, got {os.fspath(source)!r}. Copy the folder, "
            "or pass its groups: open_prepared(source)."
        )
    if columns is None and not isinstance(source, Groups):
        raise DataError("`group` must name the column of groups, got None.")
    dialect = Dialect(encoding, decimal, thousands, date_format, missing, sheet)
    options = ReadingOptions(duplicates, database, memory_limit, threads, dialect)
    with new_folder(folder, overwrite=overwrite) as new:
        writer = ShardWriter(new)
        groups, facts = source, None
        if columns is not None:
            groups, facts = read_with_facts(
                source,
                columns,
                options=options,
                vocabulary=vocabulary,
                unknown=unknown,
                allocate=writer.allocate,
            )
        counts = None if facts is None else asdict(facts)
        Manifest(writer.write(groups), columns, counts, groups.ordered).write(new)
    return open_prepared(folder)


def open_prepared(folder: str | os.PathLike[str], *, verify: bool = False) -> Groups:
    """The groups of a prepared folder, their columns mapped into memory.

    Costs the same for any number of elements: files are checked by their size, small ones and the
    vocabulary in full. Numbers are checked against each other, codes against labels, in folders of
    up to 16 MiB.

    `verify`: whether to read all files and check every byte (default False)

    Raises DataError naming the file if one is missing, cut, damaged, foreign or of a newer version.
    """
    path = find_prepared(folder)
    manifest = Manifest.read(path)
    # Labels share a file, whose size and checksum each of them has.
    distinct = {repr((shard.file, shard.size, shard.sha256)): shard for shard in manifest.shards}
    for shard in distinct.values():
        shard.check(path, verify=verify)
    groups = mapped_groups(path, manifest.shards, ordered=manifest.ordered)
    is_small = sum(shard.size for shard in manifest.shards) <= MUCH
    if not (verify or is_small):
        return groups
    try:
        return groups.with_()
    except DataError as error:
        raise DataError(f"{path} must hold columns that fit each other: {error}") from error


def prepared_columns(folder: str | os.PathLike[str]) -> FrameColumns | None:
    """The columns that a prepared folder was read from; None if it was made from Groups."""
    return Manifest.read(find_prepared(folder)).columns


def prepared_facts(folder: str | os.PathLike[str]) -> ReadingFacts | None:
    """What reading a prepared folder's source came across; None if it was made from Groups."""
    facts = Manifest.read(find_prepared(folder)).facts
    known = {field.name for field in fields(ReadingFacts)}
    return None if facts is None else ReadingFacts(**{k: v for k, v in facts.items() if k in known})


@dataclass(frozen=True)
class Manifest:
    """The files of a prepared folder, the columns they were read from, and facts of the reading.

    `ordered`: whether elements are in an order that means something.
    """

    shards: tuple[Shard, ...]
    columns: FrameColumns | None
    facts: Mapping[str, int] | None
    ordered: bool = False

    def write(self, folder: Path) -> None:
        document = {
            "read_with": None if self.columns is None else asdict(self.columns),
            "facts": None if self.facts is None else dict(self.facts),
            "ordered": self.ordered,
            "shards": [asdict(shard) for shard in self.shards],
        }
        PREPARED.write(folder, document)

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """The manifest of a prepared folder; DataError if it is damaged, foreign or newer."""
        document = PREPARED.read(folder)
        try:
            shards = [{**shard, "shape": tuple(shard["shape"])} for shard in document["shards"]]
            read_with, facts = document["read_with"], document["facts"]
            columns = None if read_with is None else _columns(read_with)
            if not all(type(count) is int and count >= 0 for count in (facts or {}).values()):
                raise ValueError(f"facts that are no counts: {facts!r}")
            if facts is not None and not {"rows", "groups"} <= facts.keys():
                raise ValueError(f"facts without the number of rows or groups: {facts!r}")
            # Older folders do not say.
            ordered = bool(document.get("ordered", columns is not None and columns.ordered))
            manifest = cls(tuple(Shard(**shard) for shard in shards), columns, facts, ordered)
            check_shards(manifest.shards)
            return manifest
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            rule = "describe the columns of groups"
            raise PREPARED.foreign(folder / PREPARED.manifest, rule, error) from error


def _columns(written: Mapping[str, Any]) -> FrameColumns:
    named: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in written.items()
    }
    for name, value in named.items():
        names = value if isinstance(value, tuple) else () if value is None else (value,)
        if not all(isinstance(column, str) for column in names):
            raise ValueError(f"columns without a name: {name} = {value!r}")
    return FrameColumns(**named)
