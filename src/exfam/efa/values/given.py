"""What is known of a value beforehand: where it is, and attributes of its element and group."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from exfam.estimator.schema import AttributeSpec
from exfam.groups import Batch, Groups
from exfam.groups.batch import LARGEST


@dataclass(frozen=True)
class GivenColumn:
    """A category of `n` codes, or one number where `n` is None.

    `name`: of the attribute; None for the position. `axis`: which of its numbers, if it has several
    """

    name: str | None
    of_group: bool
    n: int | None = None
    axis: int = 0


@dataclass(frozen=True, eq=False)
class GivenNumbers:
    """Those columns of some cells: numbers, and codes of categories."""

    columns: tuple[GivenColumn, ...]
    values: Float64[np.ndarray, "cells columns"]

    def __getitem__(self, rows: Shaped[np.ndarray, "some"]) -> "GivenNumbers":
        return GivenNumbers(self.columns, self.values[rows])


def given_columns(
    attributes: Sequence[AttributeSpec], position: np.ndarray | None = None
) -> tuple[GivenColumn, ...]:
    """All columns of the attributes of a model and of positions like these."""
    found = [
        GivenColumn(spec.name, spec.of_group, spec.n, axis)
        for spec in attributes
        for axis in range(1 if spec.n is not None else len(spec.center))
    ]
    if position is not None:
        n_axes = 1 if position.ndim == 1 else position.shape[1]
        found += [GivenColumn(None, False, None, axis) for axis in range(n_axes)]
    return tuple(found)


def given_of_groups(
    groups: Groups,
    columns: Sequence[GivenColumn],
    rows: Int64[np.ndarray, "cells"],
    group: Int64[np.ndarray, "cells"],
) -> GivenNumbers | None:
    """Of some elements; `group`: which group each is in. None without columns."""

    def numbers(column: GivenColumn) -> np.ndarray:
        if column.name is None:
            assert groups.position is not None
            return groups.position[rows]
        if column.of_group:
            return groups.group_attributes[column.name][group]
        return groups.attributes[column.name][rows]

    return _side_by_side(columns, numbers)


def given_of_batch(batch: Batch, columns: Sequence[GivenColumn]) -> GivenNumbers | None:
    """Of the elements that are no padding."""
    present = batch.present.cpu()
    group = present.nonzero(as_tuple=True)[0]

    def numbers(column: GivenColumn) -> np.ndarray:
        if column.name is None:
            return batch.position.cpu()[present].numpy()
        if column.of_group:
            return batch.group_attributes[column.name].cpu()[group].numpy()
        return batch.attributes[column.name].cpu()[present].numpy()

    return _side_by_side(columns, numbers)


def _side_by_side(
    columns: Sequence[GivenColumn], numbers: Callable[[GivenColumn], np.ndarray]
) -> GivenNumbers | None:
    found = []
    for column in columns:
        values = numbers(column)
        own = values if values.ndim == 1 else values[:, column.axis]
        # Attributes as batches have them, so that a fit and predictions see the same.
        if column.n is None and column.name is not None:
            own = own.clip(-LARGEST, LARGEST).astype(np.float32)
        found.append(own.astype(np.float64))
    return GivenNumbers(tuple(columns), np.stack(found, 1)) if found else None
