"""Fuel consumption of American cars, then of European and Japanese ones: the paper's Table 2.

All models see the same six columns of three levels each. Models that leave nothing to chance are
fitted once, others with 20 seeds: the paper's own figure of attention is one of a seed that did
well. "bins" and "rule" are those of `table-simulation`, and `--folder` keeps fits as there. With
bins of American cars alone no other car falls in the lowest third of miles per gallon.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from exfam_studies.common.harness import Options
from exfam_studies.common.rows import Row
from exfam_studies.experts.tables.auto_mpg import auto_mpg
from exfam_studies.experts.tables.coded import BINS, CodedTask
from exfam_studies.experts.tables.features import coded_table
from exfam_studies.experts.tables.fits import kept_rows, run_tables
from exfam_studies.experts.tables.models import model_parameters
from exfam_studies.experts.tables.public import TableShift

TASKS = ("autompg",)
PLOTTED = dict.fromkeys(("accuracy", "mse"))
SEEDS = 20


def run(options: Options) -> list[Row]:
    """Fit and score all models."""
    return run_tables(_tasks(options), options)


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """The settings of a row's model that differ from the defaults."""
    return model_parameters(row.model)


def kept(options: Options) -> list[Row]:
    """The rows of what `options.folder` keeps; nothing is fitted."""
    return kept_rows(_tasks(options), options)


def _tasks(options: Options) -> list[CodedTask]:
    return [
        CodedTask(TASKS[0], bins, partial(_cars, bins), SEEDS, options, resampled=False)
        for bins in BINS
    ]


def _cars(bins: str, number: int) -> TableShift:
    """All columns as codes: indices among their levels."""
    cars = auto_mpg(bins)
    train, test = (
        np.stack(
            [np.searchsorted(cars.levels[name], cells) for name, cells in part.items()], axis=1
        )
        for part in (cars.train, cars.test)
    )
    n_levels = len(cars.levels["y"])
    return coded_table(TASKS[0], (train, cars.train_y), (test, cars.test_y), n_levels=n_levels)
