"""Tables whose columns move together in another way at test: the paper's Table 1.

Twelve settings: how many columns generate the response (1 or 5), the noise of the columns, their
correlation in training (1 less it at test). Both tables have the first two columns flipped, as in
the paper's code. "bins" says whether columns were binned by quantiles of both tables together, as
in the paper's code, or of the training rows alone. "rule" says whether the most probable code or
the rounded mean is predicted: the same two rules for all models.

Models named "-tuned" have the paper's grids, which take minutes per data set: they are fitted on
the first two data sets, their defaults and all other models on twenty. Differences are paired: of
data sets both models were fitted on. Give `--folder` to keep each fit and to go on after a break.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from exfam_studies.common.harness import Options
from exfam_studies.common.rows import Row
from exfam_studies.experts.tables.coded import CodedTask
from exfam_studies.experts.tables.fits import run_tables
from exfam_studies.experts.tables.models import model_parameters
from exfam_studies.experts.tables.paper import SETTINGS, task_name
from exfam_studies.experts.tables.public import TableShift
from exfam_studies.experts.tables.simulated import BINS, simulate_shifted_tables

TASKS = tuple(task_name(*setting) for setting in SETTINGS)
PLOTTED = dict.fromkeys(("accuracy", "mse"))
DATA_SETS = 20
ROWS, FAST_ROWS = 2000, 200


def run(options: Options) -> list[Row]:
    """Fit and score all models on the wanted settings."""
    n_rows = FAST_ROWS if options.fast else ROWS
    tasks = [
        CodedTask(name, bins, partial(_table, setting, bins, n_rows), DATA_SETS, options)
        for name, setting in zip(TASKS, SETTINGS, strict=True)
        if options.wants(name)
        for bins in BINS
    ]
    return run_tables(tasks, options)


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """The settings of a row's model that differ from the defaults."""
    return model_parameters(row.model)


def _table(setting: tuple[int, float, float], bins: str, n_rows: int, number: int) -> TableShift:
    n_informative, noise, corr = setting
    return simulate_shifted_tables(
        n_informative=n_informative, noise=noise, corr=corr, bins=bins, n_rows=n_rows, seed=number
    )
