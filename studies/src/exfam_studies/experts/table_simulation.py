"""Tables whose columns move together in another way at test: the paper's Table 1.

Twelve settings: how many columns generate the response (1 or 5), the noise of the columns, their
correlation in training (1 less it at test). Both tables have the first two columns flipped, as in
the paper's code. "bins" tells whether columns were binned by quantiles of both tables together, as
in the paper's code, or of the training rows alone. "rule" tells whether the most probable code or
the rounded mean is predicted: the same two rules for all models.

Models named "-tuned" have the paper's grids, which take minutes a data set: they are fitted on the
first two data sets, their defaults and all other models on twenty. Differences are paired: of data
sets both models were fitted on. Give `--folder` to keep each fit and to go on after a break.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from exfam_studies.common.harness import Options
from exfam_studies.common.rows import Row
from exfam_studies.experts.shifted_tables import ShiftedTables, simulate_shifted_tables
from exfam_studies.experts.table_fits import TableTask, draw_tables, kept_rows, run_tables
from exfam_studies.experts.table_models import table_parameters
from exfam_studies.experts.table_paper import SETTINGS, task_name

__all__ = ["TASKS", "kept", "parameters", "plot", "run"]

TASKS = tuple(task_name(*setting) for setting in SETTINGS)
plot = draw_tables
BINS = ("pooled", "train")
DATA_SETS = 20
FAST_ROWS = 200


def _tables(
    number: int, *, setting: tuple[int, float, float], bins: str, n_rows: int
) -> ShiftedTables:
    n_informative, noise, corr = setting
    return simulate_shifted_tables(
        n_informative=n_informative,
        noise=noise,
        corr=corr,
        bins=bins,
        n_train=n_rows,
        n_test=n_rows,
        seed=number,
    )


def _task(setting: tuple[int, float, float], bins: str, *, n_rows: int = 2000) -> TableTask:
    tables = partial(_tables, setting=setting, bins=bins, n_rows=n_rows)
    return TableTask(task_name(*setting), bins, tables, usual=DATA_SETS)


def run(options: Options) -> list[Row]:
    """Fit and score all models on the wanted settings."""
    return run_tables(_wanted(options), options)


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """The settings of a row's model that differ from the defaults."""
    return table_parameters(row.model)


def kept(options: Options) -> list[Row]:
    """The rows of what `options.folder` keeps; nothing is fitted."""
    return kept_rows(_wanted(options), options)


def _wanted(options: Options) -> list[TableTask]:
    size = {"n_rows": FAST_ROWS} if options.fast else {}
    return [
        _task(setting, bins, **size)
        for setting in SETTINGS
        if options.wants(task_name(*setting))
        for bins in BINS
    ]
