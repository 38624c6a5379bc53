"""`exfam predict`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from exfam.checks import ExfamError
from exfam.cli.common import DATA, OUTPUT
from exfam.cli.kinds import column, flag, number, number_list
from exfam.cli.options import Form, Option

_NOTES = """One row for each row of the file: its number (from 0), group and item, then what is
predicted of it given the rest of its group. A model of values predicts means; one of
items only, the most probable item.

A model of a field predicts each value given the others on its map, and before: its mean
and its standard deviation, beside the interval or the quantiles that are chosen. A row
of a site that training never saw, without a value, is predicted as well.

A model of a table predicts its response given the other cells of the row, by the rule in
--decision of the fit; any other column with --of; all columns if it has no response. The
file need not have the response. --fill writes the table itself, without missing cells."""


def form(words: Sequence[str]) -> Form:
    """The options of `exfam predict`."""
    return Form(
        "predict",
        "Predict every observation of a file given its context",
        [
            *DATA,
            Option("interval", number, "the ends of a central interval of this probability"),
            Option(
                "quantiles", number_list, "these quantiles instead of means: --quantiles 0.1 0.9",
                metavar="P", many=True,
            ),
            Option(
                "proba", flag, "probabilities of all items, or of a column's categories",
                default=False, metavar="BOOL",
            ),
            Option(
                "of", column,
                "with --proba: item, or a value column (default: item, if the model has items); "
                "of a table, any column (default: the response)",
                metavar="COLUMN",
            ),
            Option(
                "fill", flag,
                "of a table: all its columns, missing cells filled in from the others of their row",
                default=False, metavar="BOOL",
            ),
            *OUTPUT,
        ],
        example="exfam predict model ratings.csv --interval 0.8\n"
        "exfam predict model ratings.csv --proba --of stars -o stars.parquet",
        notes=_NOTES,
    )  # fmt: skip


def run(chosen: Any) -> None:
    """Print one prediction per row."""
    from exfam.cli.sorts import respond

    _check(chosen)
    respond("predict", chosen)


def _check(chosen: Any) -> None:
    given = [name for name in ("interval", "quantiles", "proba", "fill") if getattr(chosen, name)]
    if len(given) > 1:
        raise ExfamError(f"`--{given[0]}` must stand alone, got --{given[1]} beside it.")
    if chosen.fill and chosen.of is not None:
        raise ExfamError("`--fill` must stand alone, got --of beside it.")
    for name in ("interval", "quantiles"):
        for p in np.atleast_1d(getattr(chosen, name) or []).tolist():
            if not 0 < p < 1:
                raise ExfamError(f"`--{name}` must be strictly between 0 and 1, got {p:g}.")
