"""A table as it was read, before anything is learned of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Shaped

from exfam.checks import DataError


@dataclass(frozen=True, eq=False)
class RawColumn:
    """One column: numbers, booleans, dates, or texts as codes of `labels`; where missing anything.

    `category`: whether the frame says that its values are categories
    `order`: the categories in order, where the frame declares one

    >>> column = RawColumn(np.array([1, 0, 0]), np.array([False, False, True]), labels=["a", "b"])
    >>> column.type, column.at(0)
    ('text', 'b')
    """

    values: Shaped[np.ndarray, " rows"]
    missing: Bool[np.ndarray, " rows"]
    labels: Sequence[str] | None = None
    category: bool = False
    order: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.missing)

    @property
    def type(self) -> str:
        """What its values are: "text", "boolean", "date" or "number"."""
        if self.labels is not None:
            return "text"
        return {"b": "boolean", "M": "date"}.get(self.values.dtype.kind, "number")

    @property
    def is_empty(self) -> bool:
        """Whether every cell is missing."""
        return bool(self.missing.all())

    def at(self, row: int) -> object:
        """The value in a row, as Python knows it."""
        value = self.values[row].item()
        return value if self.labels is None else self.labels[value]


@dataclass(frozen=True, eq=False)
class RawTable:
    """Columns by name, all of `n_rows` rows.

    >>> column = RawColumn(np.array([1.5, 2.0]), np.array([False, False]))
    >>> RawTable(("age",), {"age": column}, n_rows=2).columns["age"].type
    'number'
    """

    names: tuple[str, ...]
    columns: Mapping[str, RawColumn]
    n_rows: int


def cell_error(
    name: str, rule: str, column: RawColumn, wrong: Bool[np.ndarray, " rows"], *, advice: str
) -> DataError:
    """The error of a column in which the cells marked `wrong` break a rule; it names the first.

    >>> column = RawColumn(np.array([1.5, -2.0]), np.array([False, False]))
    >>> wrong = np.array([False, True])
    >>> cell_error("visits", "be a count", column, wrong, advice="Mend it.")
    DataError("Column 'visits' must be a count, got -2.0 at row 1 (1 of 2 rows). Mend it.")
    """
    rows = np.flatnonzero(wrong)
    where = f"at row {rows[0]} ({len(rows)} of {len(wrong)} rows)"
    return DataError(
        f"Column {name!r} must {rule}, got {column.at(int(rows[0]))!r} {where}. {advice}"
    )
