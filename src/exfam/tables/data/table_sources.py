"""Tables that estimators are given as files, and marks of missing cells in any table."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from exfam.checks import DataError
from exfam.columns.dialect import Dialect
from exfam.columns.suspects import warn_of_stand_ins, warn_of_twins
from exfam.tables.data.frames import RawColumn, RawTable, read_table
from exfam.tables.data.schema import TableSchema
from exfam.tables.data.table_files import read_table_file


def table_of(
    X: Any, dialect: Dialect, *, schema: TableSchema | None = None, without: str | None = None
) -> Any:
    """The table in a file, folder or query that `X` names; what is no path as it is.

    `schema`: of a fitted model, whose columns are read as they were in training (default None)
    `without`: a column that is left out (default None)
    """
    if not isinstance(X, str | os.PathLike):
        return X
    file = os.fspath(X)
    if schema is None:
        return read_table_file(file, dialect=dialect).frame
    labels = {own.name: own.labels for own in schema.columns if own.labels is not None}
    numbers = [
        own.name
        for own in schema.columns
        if not own.input_only and (own.labels is None or own.labels.dtype.kind in "if")
    ]
    table = read_table_file(
        file,
        names=[name for name in schema.names if name != without],
        numbers=numbers,
        labels=labels,
        dialect=dialect,
    )
    return table.frame


def table_and_response_of(
    X: Any, y: Any, dialect: Dialect, *, schema: TableSchema | None = None
) -> tuple[Any, Any]:
    """The table in a file and its response, which `y` names; what is no path as it is."""
    if not isinstance(X, str | os.PathLike) or not isinstance(y, str):
        return table_of(X, dialect, schema=schema), y
    table = table_of(X, dialect, schema=schema)
    if y not in table.column_names:
        listed = ", ".join(map(repr, table.column_names))
        raise DataError(
            f"`y` must name a column of {os.fspath(X)}, got {y!r}. Its columns: {listed}."
        )
    return table.drop_columns([y]), table.select([y])


def read_marked(X: Any, dialect: Dialect) -> RawTable:
    """As `read_table`, with cells missing that are what the dialect says stands for missing."""
    table = read_table(X)
    if not dialect.missing:
        return table
    columns = {name: _without_marks(own, dialect) for name, own in table.columns.items()}
    return RawTable(columns, table.n_rows)


def _without_marks(column: RawColumn, dialect: Dialect) -> RawColumn:
    if column.labels is not None:
        codes = [k for k, label in enumerate(column.labels) if label.strip() in dialect.texts]
        marked = np.isin(column.values, codes)
    elif column.type == "number":
        marks = np.array(dialect.numbers, dtype=np.float64)
        kind = column.values.dtype
        marked = np.isin(column.values, marks.astype(kind) if kind.kind == "f" else marks)
    else:
        return column
    return replace(column, missing=column.missing | marked)


def warn_of_suspects(columns: Mapping[str, RawColumn], dialect: Dialect) -> None:
    """ExfamWarnings of labels that differ in white space alone, and of numbers such as -999."""
    for name, column in columns.items():
        if column.labels is not None:
            warn_of_twins("X", name, list(column.labels))
        elif column.type == "number" and dialect.missing is None:
            warn_of_stand_ins({name: column.values[~column.missing]})
