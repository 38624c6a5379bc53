"""What estimators of tables are given: one table or several, responses, weights."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float64
from sklearn.utils.validation import column_or_1d

from exfam.checks import LARGEST_WEIGHT, DataError, ExfamWarning, regular_array
from exfam.columns.dialect import BY_LOOKING, Dialect
from exfam.tables.data import RawColumn, RawTable
from exfam.tables.data.frames import cell_error, read_column
from exfam.tables.data.table_files import read_marked

# What the response is called where it has no name of its own; the first that is free.
_NAMES = ("y", "target", "response", "outcome")


@dataclass(frozen=True, eq=False)
class GivenTables:
    """What a fit is given: tables, the response of each or None, and the weights of all rows."""

    tables: tuple[RawTable, ...]
    responses: tuple[RawColumn | None, ...]
    name: str | None
    weight: Float64[np.ndarray, "rows"] | None

    @property
    def whole(self) -> tuple[RawTable, ...]:
        """The tables, each with its response as one more column."""
        if self.name is None:
            return self.tables
        return tuple(
            table if column is None else with_column(table, self.name, column)
            for table, column in zip(self.tables, self.responses, strict=True)
        )


def is_several(X: Any) -> bool:
    """Whether `X` is a list of tables, and not one table as a list of rows."""
    return (
        isinstance(X, list | tuple)
        and len(X) > 0
        and all(isinstance(part, Mapping) or len(getattr(part, "shape", ())) == 2 for part in X)
    )


def name_shell(names: Sequence[str]) -> pa.Table:
    """A table of these columns and no rows: what scikit-learn compares names by."""
    return pa.table({name: pa.nulls(0) for name in names})


def with_column(table: RawTable, name: str, column: RawColumn) -> RawTable:
    """The table with one more column, its last."""
    return RawTable({**table.columns, name: column}, table.n_rows)


def without_column(table: RawTable, name: str | None) -> RawTable:
    """The table without the column of this name, if it has one."""
    columns = {other: column for other, column in table.columns.items() if other != name}
    return RawTable(columns, table.n_rows)


def read_given(
    X: Any, y: Any, weight: Any, *, supervised: bool, dialect: Dialect = BY_LOOKING
) -> GivenTables:
    """All that a fit is given, without rows of weight 0; `dialect`: what stands for missing."""
    several = is_several(X)
    tables = tuple(read_marked(table, dialect) for table in (X if several else [X]))
    weights = read_weight(weight, [table.n_rows for table in tables], several=several)
    if not supervised:
        return _without_weightless_rows(GivenTables(tables, (None,) * len(tables), None, weights))
    is_list = isinstance(y, list | tuple)
    if several and not (is_list and len(y) == len(tables)):
        raise DataError(
            f"`y` must be a list of one response for each of {len(tables)} tables in `X`, None for "
            f"a table without, got {f'{len(y)} entries' if is_list else type(y).__name__}."
        )
    listed = list(y) if several else [y]
    name = _response_name(listed, tables)
    responses = tuple(
        None if own is None else read_response(own, name=name, n_rows=table.n_rows)
        for own, table in zip(listed, tables, strict=True)
    )
    given = _without_weightless_rows(GivenTables(tables, responses, name, weights))
    if all(response is None or response.is_empty for response in given.responses):
        raise DataError(
            "`y` must hold a response in some row, got none: all are missing, and there is no "
            "class or number to learn. Use MaskedTable for a table without a response."
        )
    return given


def _response_name(responses: Sequence[Any], tables: Sequence[RawTable]) -> str:
    """What the response is called: its own name, or "y" (another word if a column is called so)."""
    taken = {name for table in tables for name in table.names}
    own = next((name for response in responses if (name := _own_name(response))), None)
    if own in taken:
        raise DataError(
            f"`y` must not be a column of `X`, got {own!r}, which both have. Drop it from `X`, or "
            "rename it if it is another quantity."
        )
    numbered = (f"y{number}" for number in count())
    return own or next(name for name in chain(_NAMES, numbered) if name not in taken)


def _own_name(y: Any) -> str | None:
    name = getattr(y, "name", None)
    if len(getattr(y, "shape", ())) == 2 and hasattr(y, "columns"):
        names = list(getattr(y, "column_names", y.columns))  # an Arrow table's columns are arrays
        name = names[0] if len(names) == 1 else None
    return name if isinstance(name, str) and name else None


def read_response(y: Any, *, name: str, n_rows: int) -> RawColumn:
    """The response of one table; missing cells are rows without a response."""
    column = read_column(_flat(y), name)
    if len(column) != n_rows:
        raise DataError(
            f"`y` must have one entry for each of {n_rows} rows of `X`, got {len(column)}."
        )
    return column


def _flat(y: Any) -> Any:
    if isinstance(y, pa.Array | pa.ChunkedArray):
        return y
    if isinstance(y, pa.Table) and y.num_columns == 1:
        return y.column(0)
    if isinstance(y, list | tuple):
        if not any(isinstance(value, list | tuple | np.ndarray) for value in y):
            return list(y)
        rule = "`y` must have one value per row, got rows of several lengths. Give a list of values"
        y = regular_array(y, otherwise=f"{rule}.")
    if len(getattr(y, "shape", ())) == 1 and (hasattr(y, "iloc") or hasattr(y, "to_arrow")):
        return y
    array = np.asarray(y)
    if array.dtype.kind == "f" and array.ndim == 1 and np.isinf(array).any():
        column, wrong = RawColumn(array, np.isnan(array)), np.isinf(array)
        error = cell_error("y", "be finite", column, wrong, advice="Drop these rows.")
        raise DataError(
            f"Input y contains infinity or a value too large for {array.dtype!r}. {error}"
        )
    if array.ndim == 1:
        return array
    try:
        return column_or_1d(array, warn=True)
    except ValueError as error:  # scikit-learn's own rule
        raise DataError(f"`y` must have one value per row: {error}") from error


def read_weight(
    weight: Any, n_rows: Sequence[int], *, several: bool
) -> Float64[np.ndarray, "rows"] | None:
    """The weight of every row, None if all weigh the same; of `several` tables a list."""
    if weight is None:
        return None
    if several and not (isinstance(weight, list | tuple) and len(weight) == len(n_rows)):
        raise DataError(
            f"`sample_weight` must be a list of weights for each of {len(n_rows)} tables in `X`, "
            f"got {type(weight).__name__}. Pass None for a table whose rows weigh 1."
        )
    weights = weight if several else [weight]
    joined = np.concatenate(list(map(_weight_of_table, weights, n_rows)))
    if not (joined > 0).any():
        raise DataError("`sample_weight` must be above 0 in some row, got zero in all.")
    return joined


def _weight_of_table(weight: Any, n_rows: int) -> Float64[np.ndarray, "rows"]:
    if weight is None:
        return np.ones(n_rows)
    try:
        array = np.asarray(weight, dtype=np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise DataError(
            f"`sample_weight` must be numbers, got {type(weight).__name__} of other things."
        ) from error
    if array.ndim == 0:
        array = np.full(n_rows, array)
    if array.ndim != 1:
        raise DataError(f"`sample_weight` must be 1D, got shape {array.shape}. Flatten it.")
    if len(array) != n_rows:
        raise DataError(
            f"`sample_weight` must have one number for each of {n_rows} rows, got {len(array)}."
        )
    wrong = ~((array >= 0) & (array <= LARGEST_WEIGHT))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"`sample_weight` must be numbers from 0 to {LARGEST_WEIGHT:g}, got {array[row]:g} at "
            f"row {row} ({wrong.sum()} of {n_rows} rows)."
        )
    return array


def _without_weightless_rows(given: GivenTables) -> GivenTables:
    if given.weight is None or (given.weight > 0).all():
        return given
    ends = np.cumsum([table.n_rows for table in given.tables])
    masks = np.split(given.weight > 0, ends[:-1])
    tables, responses = [], []
    for rows, table, response in zip(masks, given.tables, given.responses, strict=True):
        if rows.any():
            columns = {name: _rows_of(column, rows) for name, column in table.columns.items()}
            tables.append(RawTable(columns, int(rows.sum())))
            responses.append(None if response is None else _rows_of(response, rows))
    weight = given.weight[given.weight > 0]
    return GivenTables(tuple(tables), tuple(responses), given.name, weight)


def _rows_of(column: RawColumn, rows: np.ndarray) -> RawColumn:
    return replace(column, values=column.values[rows], missing=column.missing[rows])


_LISTED = 5  # columns that a warning names
# So many more, at least so many times as many, and at least so many cells are far more.
_MORE, _TIMES, _CELLS = 0.15, 2.0, 10
# A row is far emptier than any of training if it lacks so much of what the emptiest of them held.
_OF_ROW = 2 / 3


def missing_shares(tables: Sequence[RawTable], names: Sequence[str]) -> Float64[np.ndarray, "rows"]:
    """For each row, the share of these columns that it lacks; absent columns count."""
    shares = []
    for table in tables:
        present = [table.columns[name].missing for name in names if name in table.columns]
        n_missing = np.sum(present, axis=0) + np.full(table.n_rows, len(names) - len(present))
        shares.append(n_missing / max(1, len(names)))
    return np.concatenate(shares)


def warn_of_lacking(estimator: Any, table: RawTable) -> None:
    """Warn of columns that a single table was fitted with and this one does not have."""
    lacking = [name for name in estimator.features_ if name not in table.names]
    if not lacking or len(estimator.tables_) > 1:
        return
    listed = ", ".join(map(repr, lacking[:_LISTED])) + (", …" if len(lacking) > _LISTED else "")
    warnings.warn(
        f"`X` lacks {len(lacking)} of the {len(estimator.features_)} columns of training: "
        f"{listed}. Their cells are taken as missing; pass missing_columns='error' to refuse it.",
        ExfamWarning,
        stacklevel=2,
    )


def warn_of_missing(estimator: Any, table: RawTable) -> None:
    """Warn where far more cells are missing than a fit has seen, or hidden by itself."""
    if estimator.recipe_ is None:  # a base hides up to three quarters of the cells by itself
        return
    names, hides = estimator.features_, estimator.recipe_.extra_masking
    fitted, most = estimator.missing_share_, estimator.most_missing_
    shares = missing_shares([table], names)
    n_missing, share = round(shares.sum() * len(names)), float(np.mean(shares))
    seen, hidden = fitted + (1 - fitted) * hides / 2, most + (1 - most) * hides
    if n_missing >= _CELLS and share >= seen + _MORE and share >= _TIMES * seen:
        what = (
            f"{share:.0%} of the cells of `X` are missing ({n_missing:,} of "
            f"{table.n_rows * len(names):,}), where training lacked {fitted:.0%}"
        )
    elif n_empty := int(((shares > hidden) & (shares >= hidden + (1 - hidden) * _OF_ROW)).sum()):
        what = (
            f"{n_empty:,} of {table.n_rows:,} rows of `X` lack far more of their cells than any "
            f"row of training, up to {shares.max():.0%}, where none there lacked over {most:.0%}"
        )
    else:
        return
    warnings.warn(
        f"{what}: the model is not fitted for this, and may know less than it does without any "
        "cells. Fit it with extra_masking=1.0, or to rows that lack as many.",
        ExfamWarning,
        stacklevel=2,
    )
