"""Rows of tables: means over fits and their errors, and differences of pairs of models."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from exfam_studies.common.rows import Row, row_over_seeds
from exfam_studies.experts.tables.results import TableResult

__all__ = ["difference_row", "loss_row", "pairs_of", "with_error"]


def loss_row(
    row: Row, results: Sequence[TableResult], dropped: str, name: str, *, held: Sequence[float] = ()
) -> Row:
    """`row` with the mean of a loss over rows, then over fits; in words where it is infinite.

    `held`: the same of held-out training rows, one number or none
    """
    means = [result.mean(dropped, name) for result in results]
    if not np.isfinite(means).all():
        # A row cannot hold infinity.
        return replace(row, note="infinite: no chance for what happened")
    return row_over_seeds(
        row,
        values=means,
        validations=[value for value in held if math.isfinite(value)],
        cpu_seconds=[result.cpu_seconds for result in results],
    )


def pairs_of(
    ours: Sequence[TableResult], theirs: Sequence[TableResult]
) -> list[tuple[TableResult, TableResult]]:
    """The results of both models that are of the same data set or seed."""
    own = {result.key.number: result for result in ours}
    return [(own[r.key.number], r) for r in theirs if r.key.number in own]


def difference_row(
    row: Row, pairs: Sequence[tuple[TableResult, TableResult]], dropped: str, name: str
) -> tuple[Row, np.ndarray]:
    """`row` with how much our losses differ from theirs, and the mean over fits of each row."""
    with np.errstate(invalid="ignore"):  # what both gave no chance
        apart = [ours.losses[dropped, name] - other.losses[dropped, name] for ours, other in pairs]
    by_row = np.mean(apart, axis=0)
    if not np.isfinite(by_row).all():
        return row, by_row
    return row_over_seeds(row, values=[float(rows.mean()) for rows in apart]), by_row


def with_error(row: Row, error: float) -> Row:
    """`row` with, in words, how many standard errors a difference is from 0."""
    assert row.value is not None
    return replace(row, note=f"{row.value / error:+.1f} standard errors") if error > 0 else row
