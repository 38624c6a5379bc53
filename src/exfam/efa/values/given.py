"""What is known of a value beforehand: the attributes of its element and of its group."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from exfam.estimator.schema import AttributeSpec
from exfam.groups import Batch, Groups


@dataclass(frozen=True)
class GivenColumn:
    """A category of `n` codes, or one number where `n` is None.

    `axis`: which one of an attribute of several numbers
    """

    name: str
    of_group: bool
    n: int | None = None
    axis: int = 0


@dataclass(frozen=True, eq=False)
class Given:
    """Those columns of some cells: numbers, and codes of categories."""

    columns: tuple[GivenColumn, ...]
    values: Float64[np.ndarray, "cells columns"]

    def __getitem__(self, rows: Shaped[np.ndarray, "some"]) -> "Given":
        return Given(self.columns, self.values[rows])


def given_columns(attributes: Sequence[AttributeSpec]) -> tuple[GivenColumn, ...]:
    """All columns of the attributes of a model."""
    return tuple(
        GivenColumn(spec.name, spec.of_group, spec.n, axis)
        for spec in attributes
        for axis in range(1 if spec.n is not None else len(spec.center))
    )


def given_of_groups(
    groups: Groups,
    columns: Sequence[GivenColumn],
    rows: Int64[np.ndarray, "cells"],
    group: Int64[np.ndarray, "cells"],
) -> Given | None:
    """Of some elements; `group`: which group each is in. None without columns."""

    def numbers(column: GivenColumn) -> np.ndarray:
        if column.of_group:
            return groups.group_attributes[column.name][group]
        return groups.attributes[column.name][rows]

    return _side_by_side(columns, numbers)


def given_of_batch(batch: Batch, columns: Sequence[GivenColumn]) -> Given | None:
    """Of the elements that are no padding."""
    present = batch.present.cpu()
    group = present.nonzero(as_tuple=True)[0]

    def numbers(column: GivenColumn) -> np.ndarray:
        if column.of_group:
            return batch.group_attributes[column.name].cpu()[group].numpy()
        return batch.attributes[column.name].cpu()[present].numpy()

    return _side_by_side(columns, numbers)


def _side_by_side(
    columns: Sequence[GivenColumn], numbers: Callable[[GivenColumn], np.ndarray]
) -> Given | None:
    found = []
    for column in columns:
        values = numbers(column)
        # As batches have them, so that a fit and predictions see the same.
        own = values if column.n is not None else values.reshape(len(values), -1)[:, column.axis]
        found.append(own.astype(np.float32 if column.n is None else np.int64).astype(np.float64))
    return Given(tuple(columns), np.stack(found, 1)) if found else None
