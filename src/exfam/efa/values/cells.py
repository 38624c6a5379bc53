"""Values of groups in flat arrays: the group's range, the item and the value of every cell."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped
from torch import Tensor

from exfam.checks import DataError
from exfam.efa.values.given import GivenColumn, GivenNumbers, given_of_groups
from exfam.families import Family, Scaled
from exfam.groups import Groups

# What an item that was not in the training groups is coded as.
UNSEEN = -1


@dataclass(frozen=True, eq=False)
class ValueCells:
    """Values in groups: cells `offset[g]:offset[g + 1]` are those of group g.

    A value of NaN is not observed: it is no context of others, and is predicted from them. Items
    are codes from 0 on; `UNSEEN` stands for all others. Without items all codes are 0. `tied` cells
    are at the same point of the group's order as the one before; `point` is where they are, in its
    order or by their positions; `given` is what is known beforehand. With exposures, `value` is as
    it was at the mean one, `own` as it is, and `log_size` the logarithm of the exposure.
    Raises DataError if the arrays disagree.

    >>> cells = ValueCells(np.array([0, 2, 3]), np.array([0, 1, 1]), np.array([1.0, 2.0, 4.0]))
    >>> cells.n_groups, cells.n_cells, cells.group.tolist()
    (2, 3, [0, 0, 1])
    """

    offset: Int64[np.ndarray, "bounds"]
    item: Int64[np.ndarray, "cells"]
    value: Float64[np.ndarray, "cells"]
    tied: Bool[np.ndarray, "cells"] | None = None
    own: Float64[np.ndarray, "cells"] | None = None
    log_size: Float64[np.ndarray, "cells"] | None = None
    point: Float64[np.ndarray, "cells coordinates"] | None = None
    given: GivenNumbers | None = None

    def __post_init__(self) -> None:
        ends = self.offset[0], self.offset[-1]
        sizes = {len(self.item), len(self.value)}
        if ends[0] != 0 or sizes != {ends[1]} or (np.diff(self.offset) < 0).any():
            raise DataError(
                f"`offset` must rise from 0 to the number of items and values, {len(self.item)} "
                f"and {len(self.value)}, got {ends[0]} to {ends[1]}. Pass where groups start, and "
                "where the last one ends."
            )

    @property
    def n_groups(self) -> int:
        return len(self.offset) - 1

    @property
    def n_cells(self) -> int:
        return len(self.item)

    @property
    def length(self) -> Int64[np.ndarray, "groups"]:
        """How many cells a group has."""
        return np.diff(self.offset)

    @property
    def group(self) -> Int64[np.ndarray, "cells"]:
        """The group of every cell."""
        return np.repeat(np.arange(self.n_groups), self.length)

    @property
    def observed(self) -> Bool[np.ndarray, "cells"]:
        return np.isfinite(self.value)

    def with_value(self, value: Float64[np.ndarray, "cells"]) -> "ValueCells":
        """The same cells with other values."""
        return replace(self, value=value)

    def with_item(self, item: Int64[np.ndarray, "cells"]) -> "ValueCells":
        """The same cells with other items."""
        return replace(self, item=item)

    def take(self, groups: Int64[np.ndarray, "chosen"]) -> "ValueCells":
        """Some groups, in the order of their numbers here."""
        rows = self.rows_of(groups)
        offset = np.concatenate([[0], np.cumsum(self.length[groups])]).astype(np.int64)
        tied = None if self.tied is None else self.tied[rows]
        return ValueCells(offset, self.item[rows], self.value[rows], tied, *self._more(rows))

    def alone(self, rows: Int64[np.ndarray, "some"]) -> "ValueCells":
        """Some cells, each as a group of its own: no other value is known of it."""
        offset = np.arange(len(rows) + 1)
        return ValueCells(offset, self.item[rows], self.value[rows], None, *self._more(rows))

    def _more(self, rows: np.ndarray) -> list[Any]:
        """Values as they are, log exposures, points and what is given, of some cells."""
        columns = (self.own, self.log_size, self.point, self.given)
        return [None if column is None else column[rows] for column in columns]

    def rows_of(self, groups: Int64[np.ndarray, "chosen"]) -> Int64[np.ndarray, "rows"]:
        """Which cells those of some groups are."""
        length = self.length[groups]
        end = np.cumsum(length)
        return np.arange(length.sum()) + np.repeat(self.offset[groups] - end + length, length)

    def only_observed(self) -> "ValueCells":
        """Without cells that have no value."""
        if self.observed.all():
            return self
        keep, tied = self.observed, None
        count = np.concatenate([[0], np.cumsum(keep)]).astype(np.int64)
        if self.tied is not None:
            # Tied to the last one that is kept, if all between are tied, too.
            point = np.cumsum(~self.tied)[keep]
            tied = np.diff(point, prepend=-1) == 0
        more = self._more(keep)
        return ValueCells(count[self.offset], self.item[keep], self.value[keep], tied, *more)


def base_values(family: Family, value: Float64[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
    """Values as a base of that family has them: in its unit, and those far out nearer."""
    return family.network_input(value) if isinstance(family, Scaled) else family.standardize(value)


def value_cells(groups: Groups, column: str, known: Sequence[GivenColumn] = ()) -> ValueCells:
    """The own elements of groups, with one of their value columns and what is known of each."""
    rows = groups.elements()
    value = groups.values[column][rows].astype(np.float64)
    value[~groups.has_value(column, rows)] = np.nan
    item = np.zeros(len(rows)) if groups.item is None else groups.item[rows]
    offset = np.concatenate([[0], np.cumsum(groups.stop - groups.start)])
    offset = offset.astype(np.int64)
    tied = None if groups.tied is None else groups.tied[rows]
    point = np.arange(len(rows)) if tied is None else np.cumsum(~tied)
    if groups.position is not None:
        point = groups.position[rows]
        tied = tied_positions(point)
    cells = ValueCells(offset, item.astype(np.int64), value, tied, point=points(point))
    return replace(cells, given=given_of_groups(groups, known, rows, cells.group))


def points(position: Shaped[np.ndarray, "cells ..."]) -> Float64[np.ndarray, "cells coordinates"]:
    """Positions as columns of coordinates."""
    return np.atleast_2d(position.T).T.astype(np.float64)


def tied_positions(position: Shaped[np.ndarray, "cells ..."]) -> Bool[np.ndarray, "cells"]:
    """Which cells are where the one before is."""
    tied = np.zeros(len(position), dtype=bool)
    same = position[1:] == position[:-1]
    tied[1:] = same.all(axis=tuple(range(1, same.ndim)))
    return tied
