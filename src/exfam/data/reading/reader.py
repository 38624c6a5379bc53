"""Files, frames and queries as Groups."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from exfam.checks import DataError
from exfam.data.reading.options import ReadingFacts, ReadingOptions
from exfam.groups import Groups
from exfam.groups.frames import FrameColumns, Names, read_frame

__all__ = ["Allocate", "read", "read_groups", "read_with_facts"]

# (name, dtype, shape) -> an array to be filled; names are "item", "source_row", "observed",
# "position", "values.NAME" and "attributes.NAME".
Allocate = Callable[[str, np.dtype, tuple[int, ...]], np.ndarray]


def read(
    source: Any,
    *,
    group: str,
    order: Names = None,
    item: str | None = None,
    value: Names = None,
    attributes: Names = (),
    group_attributes: Names = (),
    position: Names = None,
    connection: str | None = None,
    vocabulary: Mapping[str, Any] | None = None,
    unknown: str = "error",
    duplicates: str = "error",
    memory_limit: str | None = None,
    threads: int | None = None,
) -> Groups:
    """The rows of a file, a folder of files, a frame or a query as Groups.

    >>> frame = {"user": ["b", "a", "b"], "movie": ["x", "x", "y"], "stars": [4, None, 2]}
    >>> read(frame, group="user", item="movie", value="stars")
    Groups(2 groups, 3 elements, 2 items, stars)
    """
    columns = FrameColumns(
        group=group,
        order=order,
        item=item,
        value=value,
        attributes=attributes,
        group_attributes=group_attributes,
        position=position,
    )
    options = ReadingOptions(duplicates, connection, memory_limit, threads)
    return read_groups(source, columns, options=options, vocabulary=vocabulary, unknown=unknown)


def read_groups(
    source: Any,
    columns: FrameColumns,
    *,
    options: ReadingOptions,
    vocabulary: Mapping[str, Any] | None = None,
    unknown: str = "error",
    allocate: Allocate | None = None,
) -> Groups:
    """As `read`, with the flat columns written into arrays that `allocate` makes.

    >>> frame = {"user": ["b", "a", "b"], "movie": ["x", "x", "y"]}
    >>> read_groups(frame, FrameColumns(group="user", item="movie"), options=ReadingOptions())
    Groups(2 groups, 3 elements, 2 items)
    """
    return read_with_facts(
        source,
        columns,
        options=options,
        vocabulary=vocabulary,
        unknown=unknown,
        allocate=allocate,
    )[0]


def read_with_facts(
    source: Any,
    columns: FrameColumns,
    *,
    options: ReadingOptions,
    vocabulary: Mapping[str, Any] | None = None,
    unknown: str = "error",
    allocate: Allocate | None = None,
) -> tuple[Groups, ReadingFacts]:
    """As `read_groups`, and what was met on the way.

    >>> frame = {"user": ["b", "a", "b"], "movie": ["x", "x", "y"]}
    >>> columns = FrameColumns(group="user", item="movie")
    >>> read_with_facts(frame, columns, options=ReadingOptions())[1].rows
    3
    """
    frame = _opened(source) if isinstance(source, (str, os.PathLike)) else source
    groups = read_frame(frame, columns, vocabulary=vocabulary, unknown=unknown)
    groups = _filled(groups, allocate or (lambda name, dtype, shape: np.empty(shape, dtype)))
    observed = groups.observed
    return groups, ReadingFacts(
        rows=groups.n_elements,
        groups=len(groups),
        items=groups.n_items,
        unobserved=0 if observed is None else int((~observed).sum()),
    )


def _opened(source: str | os.PathLike[str]) -> Any:
    path = Path(source)
    if not path.is_file():
        raise DataError(f"`source` must be a file, got {str(path)!r}.")
    with duckdb.connect() as con:
        reader = con.read_parquet if path.suffix == ".parquet" else con.read_csv
        return reader(str(path)).to_arrow_table()


def _filled(groups: Groups, allocate: Allocate) -> Groups:
    def copy(name: str, column: np.ndarray | None) -> Any:
        if column is None:
            return None
        made = allocate(name, column.dtype, column.shape)
        made[...] = column
        return made

    return replace(
        groups,
        item=copy("item", groups.item),
        values={name: copy(f"values.{name}", column) for name, column in groups.values.items()},
        attributes={
            name: copy(f"attributes.{name}", column) for name, column in groups.attributes.items()
        },
        position=copy("position", groups.position),
        observed=copy("observed", groups.observed),
        source_row=copy("source_row", groups.source_row),
    )
