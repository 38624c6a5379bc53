"""`exfam predict`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from exfam.checks import ExfamError
from exfam.cli.common import DATA, OUTPUT
from exfam.cli.kinds import column, flag, number, numbers
from exfam.cli.options import Form, Option

__all__ = ["form", "run"]

# As many columns as a file of rows can bear.
MOST_CLASSES = 2000

_NOTES = """One row for each row of the file: its number (from 0), group and item, then what is
predicted of it given the rest of its group. A model of values predicts means; one of
items only, the most probable item.

A model of a field predicts each value given the others on its map, and before: its mean
and its standard deviation, beside the interval or the quantiles that are asked for. A row
of a place that training never saw, without a value, is predicted as well.

A model of a table predicts its response given the other cells of the row, by the rule in
--decision of the fit; any other column with --of; all columns if it has no response. The
file need not have the response. --fill writes the table itself, without missing cells."""


def form(words: Sequence[str]) -> Form:
    """What `exfam predict` can be asked."""
    return Form(
        "predict",
        "Predict every observation of a file given its context",
        [
            *DATA,
            Option("interval", number, "the ends of a central interval of this probability"),
            Option(
                "quantiles", numbers, "these quantiles instead of means: --quantiles 0.1 0.9",
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
    """Print one prediction a row."""
    from exfam.cli.fields import is_field
    from exfam.cli.output import beside, deliver, destination
    from exfam.cli.sources import file_rows, open_both, tell
    from exfam.cli.tables import filled_table, is_table, table_predictions

    to = destination(chosen.format, chosen.output)
    _check(chosen)
    model, groups, met = open_both(chosen)
    if is_table(model):
        fill = chosen.fill
        table = filled_table(model, groups) if fill else table_predictions(model, groups, chosen)
        tell(met)
        deliver(table, to)
        return
    _check_of_groups(model, chosen)
    if is_field(model):
        columns = _field(model, groups, chosen)
        tell(met)
        deliver(columns, to)
        return
    rows = file_rows(model, groups, chosen)
    if chosen.proba:
        told = _probabilities(model, groups, chosen.of)
    else:
        told = _values(model, groups, chosen)
    tell(met)
    deliver(beside(rows.columns, {name: rows.spread(each) for name, each in told.items()}), to)


def _field(model: Any, groups: Any, chosen: Any) -> dict[str, Any]:
    from exfam.cli.fields import field_predictions, field_rows
    from exfam.cli.output import beside

    if chosen.proba:
        raise ExfamError(
            f"`--proba` must be asked of a model of groups, got {type(model).__name__}. Use "
            "--interval or --quantiles."
        )
    return beside(field_rows(model, chosen.file), field_predictions(model, groups, chosen))


def _check(chosen: Any) -> None:
    asked = [name for name in ("interval", "quantiles", "proba", "fill") if getattr(chosen, name)]
    if len(asked) > 1:
        raise ExfamError(f"`--{asked[0]}` must stand alone, got --{asked[1]} beside it.")
    if chosen.fill and chosen.of is not None:
        raise ExfamError("`--fill` must stand alone, got --of beside it.")
    for name in ("interval", "quantiles"):
        for p in np.atleast_1d(getattr(chosen, name) or []).tolist():
            if not 0 < p < 1:
                raise ExfamError(f"`--{name}` must be strictly between 0 and 1, got {p:g}.")


def _check_of_groups(model: Any, chosen: Any) -> None:
    if chosen.fill:
        raise ExfamError(
            f"`--fill` must be asked of a model of tables, got {type(model).__name__}."
        )
    if chosen.of is not None and not chosen.proba:
        raise ExfamError("`--of` must come with --proba, got it alone.")


def _values(model: Any, groups: Any, chosen: Any) -> dict[str, np.ndarray]:
    told = model.predict(groups, interval=chosen.interval, quantiles=chosen.quantiles)
    names = list(model.schema_.families)
    if not names:
        return {f"predicted_{model.item or 'item'}": told}
    each = told if isinstance(told, dict) else {names[0]: told}
    if chosen.interval is not None:
        suffixes = ["low", "high"]
    elif chosen.quantiles is not None:
        suffixes = [f"q{level:g}" for level in chosen.quantiles]
    else:
        return {f"{name}_mean": values for name, values in each.items()}
    return {
        f"{name}_{suffix}": values[:, place]
        for name, values in each.items()
        for place, suffix in enumerate(suffixes)
    }


def _probabilities(model: Any, groups: Any, of: str | None) -> dict[str, np.ndarray]:
    chosen = of or ("item" if model._has_items else next(iter(model.schema_.families)))
    if chosen == model.item and chosen not in model.schema_.families:
        chosen = "item"
    if chosen == "item" and (model.schema_.n_items or 0) > MOST_CLASSES:
        raise ExfamError(
            f"`--proba` is for {MOST_CLASSES} items at most, got {model.schema_.n_items}. Use "
            "`exfam recommend` for the most probable."
        )
    told = model.predict_proba(groups, of=chosen)
    if chosen == "item":
        names, classes = model.item or "item", model.vocabulary_["item"].tolist()
    else:
        names, classes = chosen, list(model.schema_.families[chosen].categories)
    return {
        f"{names}={each:g}" if isinstance(each, float) else f"{names}={each}": told[:, place]
        for place, each in enumerate(classes)
    }
