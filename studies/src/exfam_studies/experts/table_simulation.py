"""Tables whose columns move together in another way at test: the paper's Table 1.

Twelve settings: how many columns generate the response (1 or 5), the noise of the columns, their
correlation in training (1 less it at test). Both tables have the first two columns flipped, as in
the paper's code. "bins" says whether columns were binned by quantiles of both tables together, as
in the paper's code, or of the training rows alone; "rule" whether the most probable code or the
rounded mean is predicted. Models named "-tuned" have the paper's grids, and two data sets instead
of twenty; differences are paired.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from exfam_studies.common.harness import Options
from exfam_studies.common.rows import Row
from exfam_studies.experts.tables.coded import SIMULATED, CodedTask
from exfam_studies.experts.tables.data import BINS, simulate_shifted_tables
from exfam_studies.experts.tables.fits import run_tables
from exfam_studies.experts.tables.models import model_parameters

TASKS = tuple(SIMULATED)
PLOTTED = dict.fromkeys(("accuracy", "mse"))
DATA_SETS = 20
ROWS, FAST_ROWS = 2000, 200


def run(options: Options) -> list[Row]:
    """Fit and score all models on the wanted settings."""
    simulate = partial(simulate_shifted_tables, n_rows=FAST_ROWS if options.fast else ROWS)
    tasks = [
        CodedTask(name, bins, partial(simulate, bins=bins, **setting), DATA_SETS, options)
        for name, setting in SIMULATED.items()
        if options.wants(name)
        for bins in BINS
    ]
    return run_tables(tasks, options)


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """The settings of a row's model that differ from the defaults."""
    return model_parameters(row.model)
