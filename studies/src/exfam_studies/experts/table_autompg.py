"""Fuel consumption of American cars, then of European and Japanese ones: the paper's Table 2.

All models see the same six columns of three levels each. Models that leave nothing to chance are
fitted once, others with 20 seeds: the paper's own figure of attention is one of a seed that did
well. "bins" and "rule" are those of `table-simulation`, and `--folder` keeps fits as there. With
bins of American cars alone no other car falls in the lowest third of miles per gallon.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Int64, Shaped

from exfam_studies.common.harness import Options
from exfam_studies.common.rows import Row
from exfam_studies.experts.auto_mpg import auto_mpg
from exfam_studies.experts.table_fits import TableTask, draw_tables, kept_rows, run_tables
from exfam_studies.experts.table_models import table_parameters

__all__ = ["TASKS", "kept", "parameters", "plot", "run"]

TASK = "autompg"
TASKS = (TASK,)
plot = draw_tables
BINS = ("pooled", "train")
SEEDS = 20


@dataclass(frozen=True, eq=False)
class _Cars:
    train_x: Int64[np.ndarray, "train columns"]
    train_y: Int64[np.ndarray, "train"]
    test_x: Int64[np.ndarray, "test columns"]
    test_y: Int64[np.ndarray, "test"]
    n_categories: int


def _cars(bins: str) -> _Cars:
    """All columns as codes: places among their levels."""
    shift = auto_mpg(bins)
    train, test = (
        np.stack([_codes(column, shift.levels[name]) for name, column in part.items()], axis=1)
        for part in (shift.train, shift.test)
    )
    return _Cars(train, shift.train_y, test, shift.test_y, len(shift.levels["y"]))


def _codes(column: Shaped[np.ndarray, "rows"], levels: object) -> Int64[np.ndarray, "rows"]:
    return np.searchsorted(np.array(levels), column).astype(np.int64)


def _same_cars(number: int, *, bins: str) -> _Cars:
    return _cars(bins)


def run(options: Options) -> list[Row]:
    """Fit and score all models."""
    return run_tables(_wanted(), options)


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """The settings of a row's model that differ from the defaults."""
    return table_parameters(row.model)


def kept(options: Options) -> list[Row]:
    """The rows of what `options.folder` keeps; nothing is fitted."""
    return kept_rows(_wanted(), options)


def _wanted() -> list[TableTask]:
    return [
        TableTask(TASK, bins, partial(_same_cars, bins=bins), usual=SEEDS, resampled=False)
        for bins in BINS
    ]
