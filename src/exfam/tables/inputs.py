"""What estimators of tables are given: one table or several, responses, weights."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float64
from sklearn.utils.validation import column_or_1d

from exfam.checks import DataError, regular_array
from exfam.tables.data import Cells, RawColumn, RawTable, TableSchema, encode, read_table
from exfam.tables.data.raw import cell_error
from exfam.tables.data.typed import read_column
from exfam.tables.weights import read_weight

__all__ = [
    "Given",
    "as_array",
    "as_cells",
    "encode_all",
    "has_names",
    "is_several",
    "name_shell",
    "read_given",
    "read_response",
    "response_name",
    "with_column",
    "without_column",
]

# What the response is called where it has no name of its own; the first that is free.
_NAMES = ("y", "target", "response", "outcome")


@dataclass(frozen=True, eq=False)
class Given:
    """What a fit is given: tables, the response of each or None, and the weights of all rows.

    Rows of weight 0 are left out.
    """

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


def as_array(X: Any) -> np.ndarray:
    """A table without names as an array: of numbers if it holds nothing else, or of objects.

    >>> as_array([[1, 2.5]]).dtype, as_array([[1, "a"]]).dtype
    (dtype('float64'), dtype('O'))
    """
    array = X if isinstance(X, np.ndarray) else np.asarray(X)
    return array if array.dtype.kind in "fiub" else np.array(X, dtype=object)


def is_several(X: Any) -> bool:
    """Whether `X` is a list of tables, and not one table as a list of rows.

    >>> is_several([{"a": [1.0]}, {"b": [2.0]}]), is_several([[1.0], [2.0]])
    (True, False)
    """
    return isinstance(X, list | tuple) and len(X) > 0 and all(_is_table(each) for each in X)


def _is_table(each: Any) -> bool:
    return isinstance(each, Mapping) or len(getattr(each, "shape", ())) == 2


def has_names(X: Any) -> bool:
    """Whether the columns of one table have names.

    >>> has_names({"a": [1.0]}), has_names([[1.0]])
    (True, False)
    """
    return isinstance(X, Mapping) or hasattr(X, "iloc") or hasattr(X, "__arrow_c_stream__")


def name_shell(names: Sequence[str]) -> pa.Table:
    """A table of these columns and no rows: what scikit-learn compares names by.

    >>> name_shell(["a", "b"]).shape
    (0, 2)
    """
    return pa.table({name: pa.nulls(0) for name in names})


def with_column(table: RawTable, name: str, column: RawColumn) -> RawTable:
    """The table with one more column, its last.

    >>> one = read_table({"a": [1.0]})
    >>> with_column(one, "y", one.columns["a"]).names
    ('a', 'y')
    """
    return RawTable((*table.names, name), {**table.columns, name: column}, n_rows=table.n_rows)


def without_column(table: RawTable, name: str | None) -> RawTable:
    """The table without the column of this name, if it has one.

    >>> without_column(read_table({"a": [1.0], "y": [2.0]}), "y").names
    ('a',)
    """
    names = tuple(each for each in table.names if each != name)
    return RawTable(names, {each: table.columns[each] for each in names}, n_rows=table.n_rows)


def response_name(y: Any, tables: Sequence[RawTable]) -> str:
    """What the response is called: its own name, or "y" (another word if a column is called so).

    Raises DataError if a column of a table has the response's own name.

    >>> response_name([1, 2], [read_table({"x": [1.0, 2.0]})])
    'y'
    """
    taken = {name for table in tables for name in table.names}
    own = next((found for each in (y if _is_list(y) else [y]) if (found := _name(each))), None)
    if own is None:
        return next(name for name in chain(_NAMES, _numbered()) if name not in taken)
    if own in taken:
        raise DataError(
            f"`y` must not be a column of `X`, got {own!r}, which both have. Drop it from `X`, or "
            "rename it if it is another quantity."
        )
    return own


def _is_list(y: Any) -> bool:
    return isinstance(y, list | tuple)


def _name(y: Any) -> str | None:
    found = getattr(y, "name", None)
    if len(getattr(y, "shape", ())) == 2 and hasattr(y, "columns"):
        names = list(getattr(y, "column_names", y.columns))  # an Arrow table's columns are arrays
        found = names[0] if len(names) == 1 else None
    return str(found) if isinstance(found, str) and found else None


def _numbered() -> Iterator[str]:
    return (f"y{number}" for number in count())


def read_response(y: Any, *, name: str, n_rows: int) -> RawColumn:
    """The response of one table; missing cells are rows without a response.

    Raises DataError for another number of rows, and naming the row of what is no finite number,
    text or boolean.

    >>> read_response(["a", None], name="y", n_rows=2).missing.tolist()
    [False, True]
    """
    column = read_column(_flat(y), name)
    if len(column) != n_rows:
        raise DataError(
            f"`y` must have one entry for each of {n_rows} rows of `X`, got {len(column)}."
        )
    return column


def _flat(y: Any) -> Any:
    """One column, as it came or as an array."""
    if isinstance(y, pa.Array | pa.ChunkedArray):
        return y
    if isinstance(y, pa.Table) and y.num_columns == 1:
        return y.column(0)
    if isinstance(y, list | tuple):
        if not any(isinstance(each, list | tuple | np.ndarray) for each in y):
            return list(y)
        rule = "`y` must have one value a row, got rows of several lengths. Give a list of values."
        y = regular_array(y, otherwise=rule)
    if len(getattr(y, "shape", ())) == 1 and (hasattr(y, "iloc") or hasattr(y, "to_arrow")):
        return y
    array = np.asarray(y)
    _check_finite(array)
    if array.ndim == 1:
        return array
    try:
        return column_or_1d(array, warn=True)
    except ValueError as error:  # scikit-learn's own rule
        raise DataError(f"`y` must have one value a row: {error}") from error


def _check_finite(array: np.ndarray) -> None:
    if array.dtype.kind == "f" and array.ndim == 1 and np.isinf(array).any():
        column = RawColumn(array, np.isnan(array))
        told = cell_error("y", "be finite", column, np.isinf(array), advice="Drop these rows.")
        raise DataError(
            f"Input y contains infinity or a value too large for {array.dtype!r}. {told}"
        )


def read_given(X: Any, y: Any, weight: Any, *, supervised: bool) -> Given:
    """All that a fit is given.

    Raises DataError where tables, responses and weights do not fit together.

    >>> given = read_given({"a": [1.0, 2.0]}, [0, 1], None, supervised=True)
    >>> given.name, given.whole[0].names
    ('y', ('a', 'y'))
    """
    several = is_several(X)
    tables = tuple(read_table(each) for each in (X if several else [X]))
    weights = read_weight(weight, tables, several=several)
    if not supervised:
        return _weighing(Given(tables, (None,) * len(tables), None, weights))
    if several and not (_is_list(y) and len(y) == len(tables)):
        raise DataError(
            f"`y` must be a list of one response for each of {len(tables)} tables in `X`, None for "
            f"a table without, got {f'{len(y)} entries' if _is_list(y) else type(y).__name__}."
        )
    each = list(y) if several else [y]
    name = response_name(each, tables)
    responses = tuple(
        None if one is None else read_response(one, name=name, n_rows=table.n_rows)
        for one, table in zip(each, tables, strict=True)
    )
    given = _weighing(Given(tables, responses, name, weights))
    if not any(one is not None and not one.is_empty for one in given.responses):
        raise DataError(
            "`y` must hold a response in some row, got none: all are missing, and there is no "
            "class or number to learn. Use MaskedTable for a table without a response."
        )
    return given


def _weighing(given: Given) -> Given:
    """Without the rows that weigh nothing: they are not there."""
    if given.weight is None or (given.weight > 0).all():
        return given
    ends = np.cumsum([table.n_rows for table in given.tables])
    parts = np.split(given.weight > 0, ends[:-1])
    kept = [place for place, part in enumerate(parts) if part.any()]
    tables, responses = [], []
    for place in kept:
        rows, table, response = parts[place], given.tables[place], given.responses[place]
        columns = {name: _rows_of(column, rows) for name, column in table.columns.items()}
        tables.append(RawTable(table.names, columns, n_rows=int(rows.sum())))
        responses.append(None if response is None else _rows_of(response, rows))
    weight = given.weight[given.weight > 0]
    return Given(tuple(tables), tuple(responses), given.name, weight)


def _rows_of(column: RawColumn, rows: np.ndarray) -> RawColumn:
    return replace(column, values=column.values[rows], missing=column.missing[rows])


def encode_all(schema: TableSchema, tables: Sequence[RawTable], *, unknown: str) -> Cells:
    """The rows of all tables, one after another.

    >>> from exfam.tables.data import learn_schema
    >>> table = read_table({"a": [1.0, 2.0]})
    >>> schema = learn_schema(table, kinds=None, numeric="continuous", n_bins=2)
    >>> len(encode_all(schema, [table, table], unknown="error"))
    4
    """
    return Cells.concatenate([encode(schema, table, unknown=unknown) for table in tables])


def as_cells(given: Any, schema: TableSchema, *, unknown: str) -> Cells:
    """Known cells by column: a mapping of one value each, a table, or None for a row without.

    Raises DataError for a column that the schema does not have.

    >>> as_cells(None, TableSchema(()), unknown="error").code.shape
    (1, 0)
    """
    if given is None or (isinstance(given, Mapping) and not given):
        shape = (1, len(schema))
        return Cells(
            np.full(shape, -1, np.int32), np.zeros(shape, np.float32), np.full(shape, np.nan)
        )
    if isinstance(given, Mapping) and all(_is_scalar(value) for value in given.values()):
        given = {name: [value] for name, value in given.items()}
    return encode(schema, read_table(given), unknown=unknown)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str) or not hasattr(value, "__len__")
