"""What is known of a cell other than its value: that it lies in a range, or in a set of labels."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int64

from exfam.checks import DataError, ExfamError, shown
from exfam.tables.data import LABEL_KINDS, Column, TableSchema


@dataclass(frozen=True)
class Between:
    """A number, a count or a label of an ordered column from `low` to `high`, both included.

    Raises ExfamError unless `low` is at most `high`; None is an open end.

    >>> Between(30, 40)
    Between(low=30, high=40)
    """

    low: Any = None
    high: Any = None

    def __post_init__(self) -> None:
        for name, end in (("low", self.low), ("high", self.high)):
            if isinstance(end, float | np.floating) and math.isnan(end):
                raise ExfamError(f"`{name}` must be a number or None, got {end}.")
        numbers = [isinstance(end, int | float | np.number) for end in (self.low, self.high)]
        if all(numbers) and not self.low <= self.high:
            raise ExfamError(f"`low` must be at most `high`, got {self.low} and {self.high}.")


@dataclass(frozen=True, init=False)
class OneOf:
    """A label that is one of `labels`.

    Raises ExfamError unless they are a list, a set or the like, of at least one label.

    >>> OneOf(["clear", "clouds"])
    OneOf(labels=('clear', 'clouds'))
    """

    labels: tuple[Any, ...]

    def __init__(self, labels: Iterable[Any]) -> None:
        if isinstance(labels, str) or not isinstance(labels, Iterable):
            raise ExfamError(f"`labels` must be a list of labels, got {shown(labels)}.")
        listed = tuple(labels.tolist() if isinstance(labels, np.ndarray) else labels)
        if not listed:
            raise ExfamError("`labels` must hold at least one label, got none.")
        object.__setattr__(self, "labels", listed)


Condition = Between | OneOf


@dataclass(frozen=True, eq=False)
class LabelSet:
    """Codes of a column's labels, in rising order, one of which a cell has."""

    codes: Int64[np.ndarray, "labels"]


@dataclass(frozen=True)
class Span:
    """Numbers between which a cell lies, both included."""

    low: float
    high: float


def split_conditions(given: Any) -> tuple[Any, dict[str, Condition]]:
    """What is given as cells, and what as conditions, by column."""
    if not isinstance(given, Mapping):
        return given, {}
    conditions = {name: value for name, value in given.items() if isinstance(value, Condition)}
    return {name: value for name, value in given.items() if name not in conditions}, conditions


def read_conditions(
    schema: TableSchema, conditions: Mapping[str, Condition]
) -> dict[int, LabelSet | Span]:
    """Conditions by the index of their column; without those that every value fulfils.

    Raises DataError for a column that the table lacks or that is a date, and for a condition that
    does not suit its column.
    """
    read: dict[int, LabelSet | Span] = {}
    for name, condition in conditions.items():
        column = schema.column(name)
        if column.input_only:
            raise DataError(
                f"`given` must hold conditions on columns that can be predicted, got {name!r}, "
                "which is a date or part of one. Give its value instead."
            )
        labels = column.labels if column.kind in LABEL_KINDS else None
        if labels is None:
            span = _span(column, condition)
            if not (math.isinf(span.low) and math.isinf(span.high)):
                read[schema.index(name)] = span
        else:
            allowed = _label_set(column, condition)
            if len(allowed.codes) < len(labels):
                read[schema.index(name)] = allowed
    return read


def _label_set(column: Column, condition: Condition) -> LabelSet:
    if isinstance(condition, OneOf):
        return LabelSet(np.unique([_code_of(column, label) for label in condition.labels]))
    if column.kind != "ordinal":
        raise DataError(
            f"`given` must be OneOf for the {column.kind} column {column.name!r}, whose labels "
            f"have no order, got {condition}."
        )
    assert column.labels is not None
    first = 0 if condition.low is None else _code_of(column, condition.low)
    last = len(column.labels) - 1 if condition.high is None else _code_of(column, condition.high)
    if first > last:
        raise DataError(
            f"`given` must have `low` at or before `high` in the order of the labels of "
            f"{column.name!r}, got {condition}."
        )
    return LabelSet(np.arange(first, last + 1))


def _code_of(column: Column, label: Any) -> int:
    assert column.labels is not None
    listed = column.labels.tolist()
    if label not in listed:
        known = ", ".join(repr(one) for one in listed[:10]) + (", ..." if len(listed) > 10 else "")
        raise DataError(
            f"`given` must name labels of the column {column.name!r}, {known}, got {shown(label)}."
        )
    return listed.index(label)


def _span(column: Column, condition: Condition) -> Span:
    if isinstance(condition, OneOf):
        raise DataError(
            f"`given` must be Between for the {column.kind} column {column.name!r}, got "
            f"{condition}. OneOf is for labels."
        )
    ends = []
    for end, open_end in ((condition.low, -math.inf), (condition.high, math.inf)):
        if end is not None and not isinstance(end, int | float | np.number):
            raise DataError(
                f"`given` must be Between two numbers for the {column.kind} column "
                f"{column.name!r}, got {condition}."
            )
        ends.append(open_end if end is None else float(end))
    return Span(*ends)
