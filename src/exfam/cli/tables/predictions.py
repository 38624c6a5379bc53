"""Predictions of tables: labels, numbers with intervals, probabilities, filled cells."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from exfam.checks import ExfamError
from exfam.cli.output import arrow_column, label_names
from exfam.cli.tables.files import errors_of_files
from exfam.cli.tables.scores import cells_of, chosen_columns, decision_rules
from exfam.families.mixtures import Mixture
from exfam.scores.prediction import Prediction
from exfam.tables.answers.distributions import distribution_blocks
from exfam.tables.answers.imputation import decide
from exfam.tables.data import decode
from exfam.tables.data.table_files import TableFile


def table_predictions(model: Any, table: TableFile, chosen: Any) -> dict[str, Any]:
    """What is predicted of each row: of the response, of the column chosen, or of all columns.

    Raises ExfamError for intervals and quantiles of labels, and for probabilities of numbers.
    """
    names = _predicted_columns(model, chosen)
    cells, rules = cells_of(model, table), decision_rules(model, names)
    parts: dict[str, list[np.ndarray]] = {}
    for _, _, distributions in distribution_blocks(model.model_, cells, names):
        for name, distribution in distributions.items():
            for output, values in _outputs(model, distribution, name, rules[name], chosen):
                parts.setdefault(output, []).append(values)
    response = model.response_
    first: dict[str, Any] = {"row": np.arange(len(table))}
    if response in table.frame.column_names:
        first[response] = table.frame[response]
    return first | {
        output: arrow_column(np.concatenate(values)) for output, values in parts.items()
    }


def filled_table(model: Any, table: TableFile) -> dict[str, Any]:
    """The table with its missing cells filled in, each from the others of its row."""
    with errors_of_files(table):
        frame = model.impute(table.frame).frame
    return {"row": np.arange(len(table))} | dict(
        zip(frame.column_names, frame.columns, strict=True)
    )


def _predicted_columns(model: Any, chosen: Any) -> list[str]:
    """Those chosen; of all columns only those that have what the options ask for."""
    names = chosen_columns(model, chosen.of)
    for_numbers = chosen.interval is not None or chosen.quantiles is not None
    if not for_numbers and not chosen.proba:
        return names
    fit = [name for name in names if (model.schema_.column(name).labels is None) == for_numbers]
    if fit:
        return fit
    option = next(name for name in ("interval", "quantiles", "proba") if getattr(chosen, name))
    needed, actual = ("numbers", "labels") if for_numbers else ("labels", "numbers")
    advice = "Use --proba." if for_numbers else "Use --interval or --quantiles."
    raise ExfamError(
        f"`--{option}` needs a column of {needed}, got {', '.join(map(repr, names[:3]))}, of "
        f"{actual}. {advice}"
    )


def _outputs(
    model: Any, distribution: Mixture, name: str, rule: str, chosen: Any
) -> Iterator[tuple[str, np.ndarray]]:
    """Names of columns and their values."""
    column, n_rows = model.schema_.column(name), distribution.eta.shape[1]
    prediction = Prediction(distribution, np.arange(n_rows), n_rows)
    if chosen.proba:
        assert column.labels is not None
        names = label_names(name, column.labels.tolist())
        yield from zip(names, distribution.probs().double().numpy().T, strict=True)
    elif chosen.interval is not None:
        low, high = prediction.interval(chosen.interval)
        yield from ((f"{name}_low", low), (f"{name}_high", high))
    elif chosen.quantiles is not None:
        for p in chosen.quantiles:
            yield f"{name}_q{p:g}", prediction.quantile(p)
    else:
        output = f"predicted_{name}" if column.labels is not None else f"{name}_{rule}"
        yield output, decode(model.schema_, name, decide(distribution, column, rule=rule))
