"""Fuel consumption of cars, binned as in the paper on attention as a mixture of experts."""

import numpy as np
from jaxtyping import Bool, Float, Int64

from exfam.checks import check_choice
from exfam_studies.experts.tables.public import TableShift, part_table, read_columns

FILE = "tabular/auto-mpg.csv"
CYLINDERS = (4, 6, 8)
TARGET = "mpg"
BINS = ("pooled", "train")
BINNED = ("displacement", "horsepower", "weight", "acceleration", "model year", TARGET)


def auto_mpg(bins: str = "pooled") -> TableShift:
    """American cars to fit on (245), European and Japanese ones to report on (140).

    Six columns with three levels each, `cylinders` (4, 6, 8) and five in terciles, predict the
    tercile of miles per gallon; cars of 3 or 5 cylinders and of unknown horsepower are left out.
    All levels are fixed beforehand: no car to report on has 8 cylinders.

    `bins`: whether terciles are those of the paper's code, of all rows ("pooled"), or of the rows
        to fit on ("train") (default "pooled")

    Raises ExfamError for other `bins`; DataError if the file cannot be had or is another.
    Source: section 3.2.2 of "Bidirectional attention as a mixture of continuous word experts".
    """
    check_choice("bins", bins, BINS)
    rows = read_columns(FILE)
    kept = (rows["horsepower"] != "?") & np.isin(rows["cylinders"], CYLINDERS)
    rows = {name: column[kept] for name, column in rows.items()}
    american = rows["origin"] == 1
    known = american if bins == "train" else np.ones_like(american)
    codes = {name: _tercile(rows[name].astype(np.float64), known) for name in BINNED}
    y = codes.pop(TARGET)
    columns = {"cylinders": rows["cylinders"].astype(np.int64), **codes}
    train, test = part_table(columns, [american, ~american])
    return TableShift(
        name="auto-mpg",
        train=train,
        train_y=y[american],
        test=test,
        test_y=y[~american],
        kinds=dict.fromkeys(columns, "ordinal"),
        task="ordinal",
        shift="American to European and Japanese",
        levels={"cylinders": CYLINDERS, **dict.fromkeys([*codes, "y"], (0, 1, 2))},
    )


def _tercile(
    values: Float[np.ndarray, "rows"], known: Bool[np.ndarray, "rows"]
) -> Int64[np.ndarray, "rows"]:
    """Codes by the terciles of the known rows; an edge itself falls below it."""
    edges = np.quantile(values[known], [1 / 3, 2 / 3])
    return np.searchsorted(edges, values).astype(np.int64)
