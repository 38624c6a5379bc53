"""Sorted rows into the columns of Groups, written as they come."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Int64
from pyarrow import types

from exfam.columns.parts import Part
from exfam.reading.checks import Checked
from exfam.reading.labels import Encoding
from exfam.reading.stream import Rows

# (name, dtype, shape) -> an array to be filled; names are "item", "source_row", "observed",
# "tied", "position", "values.NAME" and "attributes.NAME".
Allocate = Callable[[str, np.dtype, tuple[int, ...]], np.ndarray]

Encodings = Mapping[Part, Encoding]


def _dtype(part: Part, checked: Checked) -> np.dtype:
    kind = checked.table.columns[part].type
    if part in checked.labels:
        return np.dtype(np.int32 if part.argument == "item" else np.int64)
    if types.is_temporal(kind):
        return np.dtype(np.float64)
    return np.dtype(kind.to_pandas_dtype())


class ElementColumns:
    """The flat columns, each allocated once and written from front to back.

    `unobserved` counts elements without one of their values.
    """

    def __init__(
        self, checked: Checked, encodings: Encodings, n_elements: int, allocate: Allocate
    ) -> None:
        self._encodings = encodings
        self._parts = {
            argument: [part for part in checked.table.columns if part.argument == argument]
            for argument in ("item", "value", "attributes", "position")
        }
        self._at, self._run = 0, -1
        self.unobserved = 0

        def column_of(name: str, dtype: Any, *width: int) -> np.ndarray:
            return allocate(name, np.dtype(dtype), (n_elements, *width))

        self.columns = {
            part: column_of(_name(part), _dtype(part, checked))
            for argument in ("item", "value", "attributes")
            for part in self._parts[argument]
        }
        self.source_row = column_of("source_row", np.int64)
        places = self._parts["position"]
        dtypes = [_dtype(part, checked) for part in places]
        width = () if len(places) < 2 else (len(places),)
        self.position = column_of("position", np.result_type(*dtypes), *width) if places else None
        has_gaps = any(part in checked.gaps for part in self._parts["value"])
        self.observed = column_of("observed", np.bool_) if has_gaps else None
        has_order = any(part.argument == "order" for part in checked.table.columns)
        self._tied = column_of("tied", np.bool_) if has_order else None

    def put(self, rows: Rows) -> None:
        """Write rows behind those before them."""
        span = slice(self._at, self._at + len(rows))
        self.source_row[span] = rows.source_row
        for part, column in self.columns.items():
            column[span] = coded(part, rows, self._encodings)
        for k, part in enumerate(self._parts["position"]):
            assert self.position is not None
            target = self.position if self.position.ndim == 1 else self.position[:, k]
            target[span] = rows.columns[part]
        if self.observed is not None:
            missing = [np.isnan(rows.columns[part]) for part in self._parts["value"]]
            self.observed[span] = ~np.any(missing, axis=0)
            self.unobserved += int(np.any(missing, axis=0).sum())
        if self._tied is not None:
            self._tied[span] = np.diff(rows.run, prepend=self._run) == 0
        self._at, self._run = span.stop, int(rows.run[-1]) if len(rows) else self._run

    @property
    def tied(self) -> np.ndarray | None:
        """Which elements share group and order with the one before them; None if none does."""
        return self._tied if self._tied is not None and self._tied.any() else None

    def named(self, argument: str) -> dict[str, np.ndarray]:
        """The columns of an argument by name."""
        return {part.name: self.columns[part] for part in self._parts[argument]}


def _name(part: Part) -> str:
    if part.argument == "item":
        return "item"
    return f"{'values' if part.argument == 'value' else 'attributes'}.{part.name}"


def coded(part: Part, rows: Rows, encodings: Encodings) -> np.ndarray:
    """A column as it is in Groups: labels as codes.

    >>> part = Part("value", "y")
    >>> zero = np.zeros(1, dtype=np.int64)
    >>> coded(part, Rows(zero, zero, zero, {part: np.array([2.5])}), {})
    array([2.5])
    """
    column = rows.columns[part]
    return encodings[part].codes[column] if part in encodings else column


class GroupColumns:
    """One entry a group: how many elements it has, its attributes, how many it lost as unknown."""

    def __init__(self, checked: Checked, encodings: Encodings, n_groups: int) -> None:
        self._encodings = encodings
        self._group = -1
        self.lengths = np.zeros(n_groups, dtype=np.int64)
        self.ignored = np.zeros(n_groups, dtype=np.int64)
        self.columns = {
            part: np.empty(n_groups, dtype=_dtype(part, checked))
            for part in checked.table.columns
            if part.argument == "group_attributes"
        }

    def see(self, rows: Rows) -> Part | None:
        """Take the attributes of groups; the part that has two values within one, if any has."""
        begins = np.flatnonzero(np.diff(rows.group, prepend=self._group))
        for part, column in self.columns.items():
            found = coded(part, rows, self._encodings)
            column[rows.group[begins]] = found[begins]
            if (column[rows.group] != found).any():
                return part
        self._group = int(rows.group[-1])
        return None

    def count(self, rows: Rows) -> None:
        """Count the elements of each group."""
        _count(self.lengths, rows.group)

    def ignore(self, rows: Rows) -> None:
        """Count elements that are left out."""
        _count(self.ignored, rows.group)


def _count(totals: Int64[np.ndarray, "groups"], group: Int64[np.ndarray, "rows"]) -> None:
    if len(group):
        first = int(group[0])  # groups come sorted, so few of all are met
        counts = np.bincount(group - first)
        totals[first : first + len(counts)] += counts
