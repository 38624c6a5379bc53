"""Pools by row: one for rows within the time of training, one for rows that come later."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64

from exfam.tables.base.pool import Pool, tails
from exfam.tables.base.views import View


class RowPool(NamedTuple):
    """How members are pooled in each row.

    `scales`: as of `Pool`; `df`: of its tails; `added`: to the log scale, by which cells are
        missing
    """

    weights: Float64[np.ndarray, "rows members"]
    scales: Float64[np.ndarray, "rows 3"]
    df: Float64[np.ndarray, "rows"]
    added: Float64[np.ndarray, "rows"]


@dataclass(frozen=True, eq=False)
class LaterPool:
    """The pool of rows that are later than all of training.

    `column`: the table's column of time, by its index among those of the code; `last`: the latest
        number there, as trees see it
    """

    pool: Pool
    column: int
    last: float

    def holds(self, view: View) -> Bool[np.ndarray, "rows"]:
        """Which rows are later."""
        later: np.ndarray = view.for_trees[:, self.column] > self.last
        return later


def pool_of_rows(view: View, pool: Pool, later: LaterPool | None) -> RowPool:
    """The pool of each row: the one for all, but of later rows theirs if there is one."""
    usual = _of(view, pool)
    if later is None:
        return usual
    is_later, own = later.holds(view), _of(view, later.pool)
    parts = zip(own, usual, strict=True)
    return RowPool(
        *(np.where(is_later if b.ndim == 1 else is_later[:, None], a, b) for a, b in parts)
    )


def _of(view: View, pool: Pool) -> RowPool:
    weights, scales = pool.at(view.share_missing)
    added = pool.by_gaps(view.missing, view.share_missing)
    return RowPool(weights, scales, tails(pool.df, view.outside), added)
