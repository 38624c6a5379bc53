"""Tables of any kind as named columns with their missing cells: frames, mappings, arrays."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from exfam.checks import DataError
from exfam.columns.frames import open_frame
from exfam.tables.data.raw import RawColumn, RawTable, read_column


def read_table(X: Any) -> RawTable:
    """The columns of a table by name, and which of their cells are missing.

    A pandas or polars frame, an Arrow table, a mapping of columns, or what numpy reads as a
    2-dimensional array, whose columns are "x0", "x1", … Missing cells are NaN, None, pandas' NA and
    NaT, and nulls.

    Raises DataError for a table without rows or columns, with two columns of one name, with columns
    of unequal length, or with cells that are no text, boolean or finite real number.
    """
    _check_dense(X)
    if isinstance(X, Mapping) or hasattr(X, "iloc") or hasattr(X, "__arrow_c_stream__"):
        _check_dimensions(getattr(X, "shape", (0, 0)))
        columns = _of_frame(X)
    else:
        array = _as_array(X)
        _check_filled(array.shape)
        names = array_names(array.shape[1])
        columns = {name: _of_array(array, k, name) for k, name in enumerate(names)}
    lengths = {name: len(column) for name, column in columns.items()}
    n_rows = next(iter(lengths.values()), 0)
    _check_filled((n_rows, len(columns)))
    for name, length in lengths.items():
        if length != n_rows:
            raise DataError(
                f"`X` must have columns of one length, got {n_rows} rows in {next(iter(columns))!r}"
                f" and {length} in {name!r}."
            )
    return RawTable(tuple(columns), columns, n_rows=n_rows)


def array_names(n_columns: int) -> tuple[str, ...]:
    """Names of columns that have none, as scikit-learn gives them."""
    return tuple(f"x{k}" for k in range(n_columns))


def _check_dense(X: Any) -> None:
    if hasattr(X, "tocsr") or hasattr(X, "tocsc"):
        raise DataError(
            f"`X` must be dense, got a sparse matrix, {type(X).__name__}. Pass X.toarray()."
        )


def _check_dimensions(shape: tuple[int, ...]) -> None:
    if len(shape) == 2:
        return
    advice = (
        "Reshape your data: X.reshape(-1, 1) if it is one column, X.reshape(1, -1) if one row."
        if len(shape) < 2
        else "Make each row flat."
    )
    raise DataError(f"`X` must be 2-dimensional, got an array with dim {len(shape)}. {advice}")


def _check_filled(shape: tuple[int, ...]) -> None:
    for count, what in zip(shape, ("sample(s)", "feature(s)"), strict=True):
        if count == 0:
            raise DataError(
                f"`X` must hold a table, got {count} {what} (shape={shape}) while a minimum of 1 "
                "is required."
            )


def _of_frame(X: Any) -> dict[str, RawColumn]:
    orders = _polars_orders(X)
    columns: dict[str, RawColumn] = {}
    for key, held in open_frame(X, argument="X").items():
        name = str(key)  # of pandas, names may be numbers
        if isinstance(held, str) or not hasattr(held, "__len__") or getattr(held, "ndim", 1) != 1:
            raise DataError(
                f"`X` must map names to flat columns of values, got {type(held).__name__} for "
                f"{name!r}. Pass a list or a 1-dimensional array."
            )
        if name in columns:
            raise DataError(f"`X` must have one column of each name, got {name!r} twice.")
        columns[name] = read_column(held, name, order=orders.get(name))
    return columns


def _polars_orders(X: Any) -> dict[str, list[str]]:
    """The declared order of columns of polars' Enum, which Arrow does not know."""
    schema = getattr(X, "schema", None)
    if not isinstance(schema, Mapping):
        return {}
    return {
        name: kind.categories.to_list()
        for name, kind in schema.items()
        if type(kind).__name__ == "Enum"
    }


def _as_array(X: Any) -> np.ndarray:
    if isinstance(X, str | bytes) or not (
        hasattr(X, "__array__") or hasattr(X, "__array_interface__") or isinstance(X, Sequence)
    ):
        raise DataError(
            "`X` must be a pandas or polars frame, an Arrow table, a mapping of columns or a "
            f"2-dimensional array, got {type(X).__name__}."
        )
    if isinstance(X, np.ndarray):
        array = X
    elif isinstance(X, Sequence):
        array = _of_rows(X)
    else:
        array = np.asarray(X)
    _check_dimensions(array.shape)
    return array


def _of_rows(X: Sequence[Any]) -> np.ndarray:
    lengths = {len(row) for row in X if hasattr(row, "__len__") and not isinstance(row, str)}
    if len(lengths) > 1:
        raise DataError(f"`X` must have rows of one length, got {sorted(lengths)}.")
    # As objects, so that a column of numbers beside one of texts stays one.
    return np.array(X, dtype=object)


def _of_array(array: np.ndarray, index: int, name: str) -> RawColumn:
    column = array[:, index]
    if not isinstance(array, np.ma.MaskedArray):
        return read_column(column, name)
    read = read_column(np.asarray(np.ma.getdata(column)), name)
    missing = read.missing | np.ma.getmaskarray(column)
    return RawColumn(read.values, missing, labels=read.labels)
