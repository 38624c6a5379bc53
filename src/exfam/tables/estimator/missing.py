"""Missing cells: how many there were in training, and how many there are now."""

import warnings
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64

from exfam.checks import ExfamWarning
from exfam.tables.data import RawTable

# So many more, at least so many times as many, and at least so many cells are far more.
_MORE, _TIMES, _CELLS = 0.15, 2.0, 10
# A row is far emptier than any of training if it lacks so much of what the emptiest of them held.
_OF_ROW = 2 / 3


def missing_shares(tables: Sequence[RawTable], names: Sequence[str]) -> Float64[np.ndarray, "rows"]:
    """For each row, the share of these columns that it lacks; absent columns count."""
    return np.concatenate([_of_rows(table, names) for table in tables])


def warn_of_missing(
    table: RawTable, names: Sequence[str], *, fitted: float, most: float, extra_masking: float
) -> None:
    """Warn where far more cells are missing than a fit has seen, of its rows or hidden by itself.

    `fitted`: the share that was missing in training
    `most`: the largest share that a row of training lacked
    `extra_masking`: the largest share of a row's cells that training hid besides
    """
    shares = missing_shares([table], names)
    n_missing, share = round(shares.sum() * len(names)), float(np.mean(shares))
    seen = fitted + (1 - fitted) * extra_masking / 2
    if n_missing >= _CELLS and share >= seen + _MORE and share >= _TIMES * seen:
        what = (
            f"{share:.0%} of the cells of `X` are missing ({n_missing:,} of "
            f"{table.n_rows * len(names):,}), where training lacked {fitted:.0%}"
        )
    elif n_empty := _n_far_emptier(shares, most + (1 - most) * extra_masking):
        what = (
            f"{n_empty:,} of {table.n_rows:,} rows of `X` lack far more of their cells than any "
            f"row of training, up to {shares.max():.0%}, where none there lacked over {most:.0%}"
        )
    else:
        return
    warnings.warn(
        f"{what}: the model is not fitted for this, and may know less than it does without any "
        "cells. Fit it with extra_masking=1.0, or to rows that lack as many.",
        ExfamWarning,
        stacklevel=2,
    )


def _n_far_emptier(shares: Float64[np.ndarray, "rows"], seen: float) -> int:
    return int(((shares > seen) & (shares >= seen + (1 - seen) * _OF_ROW)).sum())


def _of_rows(table: RawTable, names: Sequence[str]) -> Float64[np.ndarray, "rows"]:
    held = [table.columns[name].missing for name in names if name in table.columns]
    n_missing = np.sum(held, axis=0) + np.full(table.n_rows, len(names) - len(held))
    return n_missing / max(1, len(names))
