"""The columns of a table as they were learned: kinds, labels or knots, dates."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float64

from exfam.checks import DataError, check_choice, with_types

COLUMN_KINDS = ("categorical", "ordinal", "boolean", "numeric", "count", "date")
LABEL_KINDS = ("categorical", "ordinal", "boolean")


@dataclass(frozen=True, eq=False)
class Column:
    """What was learned of one column from the training rows alone.

    `labels`: of a finite kind, the distinct labels in order; the code of a label is its index.
    `knots`: of numbers and counts, strictly increasing quantiles of the training values; with
        `binned`, the inner edges of bins, where a value equal to an edge lies in the lower bin
    `center`, `scale`: mean and standard deviation of the training values, 1 where all are equal
    `part_of`: of a part of a date, such as its weekday, the column of the date
    """

    name: str
    kind: str
    labels: np.ndarray | None = None
    knots: Float64[np.ndarray, " knots"] | None = None
    binned: bool = False
    center: float = 0.0
    scale: float = 1.0
    part_of: str | None = None

    @property
    def input_only(self) -> bool:
        """Whether other columns are predicted from it and it never is: a date or its part."""
        return self.kind == "date" or self.part_of is not None

    @property
    def n_tokens(self) -> int:
        """How many tokens its cells are made of: labels, bins, or knots."""
        if self.labels is not None:
            return len(self.labels)
        assert self.knots is not None
        return len(self.knots) + self.binned

    def to_config(self) -> dict[str, Any]:
        arrays = {"labels": self.labels, "knots": self.knots}
        listed = {name: None if a is None else a.tolist() for name, a in arrays.items()}
        return vars(self) | listed

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "Column":
        labels, knots = config["labels"], config["knots"]
        held: dict[str, Any] = {
            "labels": None if labels is None else label_array(labels),
            "knots": None if knots is None else np.array(knots, dtype=np.float64),
        }
        name = config["name"]
        check_choice("kind", config["kind"], COLUMN_KINDS)
        if labels is None and knots is None:
            raise ValueError(f"the column {name!r} must have labels or knots")
        if labels is not None and held["labels"].ndim != 1:
            raise ValueError(f"labels of the column {name!r} must be one list, got a nested one")
        if knots is not None:
            numbers = held["knots"]
            finite = numbers.ndim == 1 and np.isfinite(numbers).all()
            if not finite or not (np.diff(numbers) > 0).all():
                raise ValueError(
                    f"knots of the column {name!r} must be finite and increasing numbers"
                )
        return with_types(cls(**{**config, **held}))


def label_array(labels: Iterable[Any]) -> np.ndarray:
    """Labels of one type as an array: booleans, whole numbers, numbers, or texts as objects."""
    listed = list(labels)
    if all(isinstance(label, str) for label in listed):
        return np.array(listed, dtype=object)
    array = np.array(listed)
    return array.astype(np.int64) if array.dtype.kind in "iu" else array


# What is read off a date beside the days since 1970, and in what columns.
PARTS: Mapping[str, tuple[str, ...]] = {
    "year": ("year sin", "year cos"),
    "week": ("weekday",),
    "day": ("day sin", "day cos"),
}


@dataclass(frozen=True)
class DateColumn:
    """A column of dates, an input alone.

    `parts`: which of "year", "week" and "day" it varies in, so that they are columns beside it
    """

    name: str
    date_format: str | None
    parts: tuple[str, ...]

    @property
    def part_names(self) -> tuple[str, ...]:
        """The columns beside the one of its name, which holds days since 1970."""
        return tuple(f"{self.name} {name}" for part in self.parts for name in PARTS[part])


@dataclass(frozen=True)
class TableSchema:
    """All columns of a table, or of several tables that share some of them; parts of dates too."""

    columns: tuple[Column, ...]
    dates: tuple[DateColumn, ...] = ()

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """Names of the columns that can be predicted: all but dates and their parts."""
        return tuple(column.name for column in self.columns if not column.input_only)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def index(self, name: str) -> int:
        """The index of a column, from 0. Raises DataError for an unknown name."""
        if not isinstance(name, str) or name not in self._indices:
            listed = ", ".join(map(repr, self.names))
            raise DataError(f"`name` must be a column of the table, one of {listed}, got {name!r}.")
        return self._indices[name]

    @cached_property
    def _indices(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.names)}

    def column(self, name: str) -> Column:
        return self.columns[self.index(name)]

    def to_config(self) -> dict[str, Any]:
        dates = [asdict(date) for date in self.dates]
        return {"columns": [column.to_config() for column in self.columns], "dates": dates}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "TableSchema":
        # Files older than dates have none.
        dates = [
            with_types(DateColumn(date["name"], date["date_format"], tuple(date["parts"])))
            for date in config.get("dates", ())
        ]
        columns = [Column.from_config(column) for column in config["columns"]]
        return cls(tuple(columns), tuple(dates))
