"""Prepared folders: written whole or not at all, opened without being read."""

import os
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from exfam.checks import DataError
from exfam.groups import Groups
from exfam.groups.frames import FrameColumns, Names
from exfam.reading.options import ReadingFacts, ReadingOptions
from exfam.reading.prepared.location import found, new_folder
from exfam.reading.prepared.manifest import PREPARED, Manifest
from exfam.reading.prepared.shards import ShardWriter, mapped_groups
from exfam.reading.reader import read_with_facts

# Up to this size all numbers are looked at when a folder is opened: no code without a label.
MUCH = 1 << 24

Place = str | os.PathLike[str]


def prepare(
    source: Any,
    folder: Place,
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
    date_format: str | None = None,
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
    _check_source(source, columns)
    options = ReadingOptions(duplicates, database, memory_limit, threads, date_format)
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


def open_prepared(folder: Place, *, verify: bool = False) -> Groups:
    """The groups of a prepared folder, their columns mapped into memory.

    Costs the same for any number of elements: files are checked by their size, small ones and the
    vocabulary in full. Numbers are checked against each other, codes against labels, in folders of
    up to 16 MiB.

    `verify`: whether to read all files and check every byte (default False)

    Raises DataError naming the file if one is missing, cut, damaged, foreign or of a newer version.
    """
    place = found(folder)
    manifest = Manifest.read(place)
    # Labels share a file, whose size and checksum each of them has.
    distinct = {repr((shard.file, shard.size, shard.sha256)): shard for shard in manifest.shards}
    for shard in distinct.values():
        shard.check(place, verify=verify)
    groups = mapped_groups(place, manifest.shards, ordered=manifest.ordered)
    is_small = sum(shard.size for shard in manifest.shards) <= MUCH
    if not (verify or is_small):
        return groups
    try:
        return groups.with_()
    except DataError as error:
        raise DataError(f"{place} must hold columns that fit each other: {error}") from error


def prepared_columns(folder: Place) -> FrameColumns | None:
    """The columns that a prepared folder was read from; None if it was made from Groups.

    Raises DataError as `open_prepared`.
    """
    return Manifest.read(found(folder)).columns


def prepared_facts(folder: Place) -> ReadingFacts | None:
    """What was met when a prepared folder was read; None if it was made from Groups.

    Raises DataError as `open_prepared`.
    """
    facts = Manifest.read(found(folder)).facts
    known = {field.name for field in fields(ReadingFacts)}
    return None if facts is None else ReadingFacts(**{k: v for k, v in facts.items() if k in known})


def is_prepared(path: Any) -> bool:
    """Whether there is a prepared folder at `path`, be it whole or damaged.

    >>> is_prepared("SELECT * FROM baskets")
    False
    """
    try:
        return isinstance(path, str | os.PathLike) and PREPARED.is_at(found(path))
    except (OSError, DataError):  # queries are no names of files
        return False


def _check_source(source: Any, columns: FrameColumns | None) -> None:
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
