"""Fuel consumption of American cars, then of European and Japanese ones: the paper's Table 2.

All models see the same six columns of three levels. Models that leave nothing to chance are fitted
once, others with 20 seeds. "bins" and "rule" are those of `table-simulation`.
"""

from functools import partial

from exfam_studies.common.harness import Options
from exfam_studies.common.rows import Row
from exfam_studies.experts.table_simulation import parameters as parameters
from exfam_studies.experts.tables.coded import CodedTask
from exfam_studies.experts.tables.data import BINS, auto_mpg
from exfam_studies.experts.tables.fits import run_tables

TASKS = ("autompg",)
PLOTTED = dict.fromkeys(("accuracy", "mse"))
SEEDS = 20


def run(options: Options) -> list[Row]:
    """Fit and score all models."""
    tasks = [
        CodedTask(TASKS[0], bins, partial(auto_mpg, bins), SEEDS, options, resampled=False)
        for bins in BINS
    ]
    return run_tables(tasks, options)
