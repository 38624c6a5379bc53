"""Rows of tables: means over fits and their errors, and differences of pairs of models."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from exfam_studies.common.kept import Kept
from exfam_studies.common.rows import Row, row_over_seeds


def loss_row(row: Row, results: Sequence[Kept], loss: str, *, held: Sequence[Kept] = ()) -> Row:
    """`row` with the mean of a loss over rows, then over fits; in words where it is infinite.

    `held`: the same fits measured on held-out training rows
    """
    means, held_means = (
        [float(result.arrays[loss].mean()) for result in some] for some in (results, held)
    )
    if not np.isfinite(means).all():
        # A row cannot hold infinity.
        return replace(row, note="infinite: no chance for what happened")
    return row_over_seeds(
        row,
        values=means,
        validations=[value for value in held_means if math.isfinite(value)],
        cpu_seconds=[result.cpu_seconds for result in results],
    )


def pairs_of(ours: Sequence[Kept], theirs: Sequence[Kept]) -> list[tuple[Kept, Kept]]:
    """The results of both models that are of the same data set or seed."""
    own = {result.key.seed: result for result in ours}
    return [(own[r.key.seed], r) for r in theirs if r.key.seed in own]


def difference_row(
    row: Row, pairs: Sequence[tuple[Kept, Kept]], loss: str
) -> tuple[Row, np.ndarray]:
    """`row` with how much our losses differ from theirs, and the mean over fits of each row."""
    with np.errstate(invalid="ignore"):  # what both gave no chance
        apart = [ours.arrays[loss] - other.arrays[loss] for ours, other in pairs]
    by_row = np.mean(apart, axis=0)
    if not np.isfinite(by_row).all():
        return row, by_row
    return row_over_seeds(row, values=[float(rows.mean()) for rows in apart]), by_row


def with_error(row: Row, error: float) -> Row:
    """`row` with, in words, how many standard errors a difference is from 0."""
    assert row.value is not None
    return replace(row, note=f"{row.value / error:+.1f} standard errors") if error > 0 else row
