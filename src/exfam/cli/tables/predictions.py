"""Predictions of tables: labels, numbers with intervals, probabilities, filled cells."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from exfam.checks import ExfamError
from exfam.cli.sources import as_array
from exfam.cli.tables.errors import told_of
from exfam.cli.tables.scores import cells_of, rules_of, targets_of
from exfam.families.mixtures import Mixture
from exfam.scores.prediction import Prediction
from exfam.tables.answers.decisions import decide
from exfam.tables.answers.distributions import column_laws, row_blocks
from exfam.tables.data import Column, decode
from exfam.tables.data.table_files import TableFile

__all__ = ["chosen_column", "filled_table", "table_predictions"]


def chosen_column(model: Any, of: str | None) -> list[str]:
    """The column that `--of` names, or else the response, or all columns without one.

    Raises ExfamError for a column that the model does not know.
    """
    if of is None:
        return targets_of(model)
    if of not in model.schema_.targets:
        listed = ", ".join(map(repr, model.schema_.targets))
        raise ExfamError(f"`--of` must be a column of the model, one of {listed}, got {of!r}.")
    return [of]


def table_predictions(model: Any, table: TableFile, chosen: Any) -> dict[str, Any]:
    """What is predicted of each row: of the response, of the column chosen, or of all columns.

    Raises ExfamError for intervals and quantiles of labels, and for probabilities of numbers.
    """
    names = _asked(model, chosen)
    cells = cells_of(model, table)
    n_params = sum(model.families_[model.schema_.place(name)].n_params for name in names)
    parts: dict[str, list[np.ndarray]] = {}
    for block in row_blocks(len(cells), numbers=n_params):
        laws = column_laws(model.model_, cells[block], names)
        for name, rule in zip(names, rules_of(model, names), strict=True):
            for told, values in _told(model, laws[name], name, rule, chosen):
                parts.setdefault(told, []).append(values)
    response = model.response_
    first: dict[str, Any] = {"row": np.arange(len(table))}
    if response in table.frame.column_names:
        first[response] = table.frame[response]
    return first | {told: as_array(np.concatenate(each)) for told, each in parts.items()}


def filled_table(model: Any, table: TableFile) -> dict[str, Any]:
    """The table with its missing cells filled in, each from the others of its row."""
    with told_of(table):
        frame = model.impute(table.frame).frame
    return {"row": np.arange(len(table))} | dict(
        zip(frame.column_names, frame.columns, strict=True)
    )


def _asked(model: Any, chosen: Any) -> list[str]:
    """The columns to tell of; of all columns those of which what is asked can be told."""
    names = chosen_column(model, chosen.of)
    for_numbers = chosen.interval is not None or chosen.quantiles is not None
    if not for_numbers and not chosen.proba:
        return names
    fit = [name for name in names if (model.schema_.column(name).labels is None) == for_numbers]
    if fit:
        return fit
    asked = next(each for each in ("interval", "quantiles", "proba") if getattr(chosen, each))
    sort = ("numbers", "labels") if for_numbers else ("labels", "numbers")
    advice = "Use --proba." if for_numbers else "Use --interval or --quantiles."
    raise ExfamError(
        f"`--{asked}` must be asked of a column of {sort[0]}, got "
        f"{', '.join(map(repr, names[:3]))}, of {sort[1]}. {advice}"
    )


def _told(
    model: Any, law: Mixture, name: str, rule: str, chosen: Any
) -> Iterator[tuple[str, np.ndarray]]:
    """Names of columns and their values."""
    column = model.schema_.column(name)
    prediction = Prediction(law, np.arange(law.eta.shape[1]), law.eta.shape[1])
    if chosen.proba:
        yield from zip(_label_names(column), law.probs().double().numpy().T, strict=True)
    elif chosen.interval is not None:
        low, high = prediction.interval(chosen.interval)
        yield from ((f"{name}_low", low), (f"{name}_high", high))
    elif chosen.quantiles is not None:
        for p in chosen.quantiles:
            yield f"{name}_q{p:g}", prediction.quantile(p)
    else:
        told = f"predicted_{name}" if column.labels is not None else f"{name}_{rule}"
        yield told, decode(model.schema_, name, decide(law, column, rule=rule))


def _label_names(column: Column) -> list[str]:
    assert column.labels is not None
    return [
        f"{column.name}={each:g}" if isinstance(each, float) else f"{column.name}={each}"
        for each in column.labels.tolist()
    ]
