"""What commands answer about tables: predictions, filled cells, and what each cell counted for."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from exfam.checks import ExfamError
from exfam.cli.output import names_by_label, stacked
from exfam.cli.sorts.base import Answer
from exfam.cli.sorts.table_parts import contributions_by_row, output_names
from exfam.cli.tables.files import errors_of_files
from exfam.cli.tables.scores import cells_of, chosen_columns
from exfam.columns.results import arrow_column
from exfam.families.mixtures import Mixture
from exfam.scores.prediction import Prediction
from exfam.tables.answers.decisions import decide, decision_rules
from exfam.tables.answers.distributions import distribution_blocks
from exfam.tables.data import decode
from exfam.tables.data.table_files import TableFile

AT_A_TIME = 256
# What the explained cell itself stands for: its column has the learned MASK token.
NOTHING = "(nothing)"


def predict_table(model: Any, table: TableFile, chosen: Any) -> Answer:
    """What is predicted of each row: of the response, of the column chosen, or of all columns.

    With `--fill`, the table, its missing cells filled in, each from the others of its row.
    """
    first: dict[str, Any] = {"row": np.arange(len(table))}
    if chosen.fill:
        with errors_of_files(table):
            frame = model.impute(table.frame).frame
        return first | dict(zip(frame.column_names, frame.columns, strict=True)), []
    names = _predicted_columns(model, chosen)
    cells, rules = cells_of(model, table), decision_rules(model, names)
    parts: dict[str, list[np.ndarray]] = {}
    for _, _, distributions in distribution_blocks(model.model_, cells, names):
        for name, distribution in distributions.items():
            for output, values in _predicted(model, distribution, name, rules[name], chosen):
                parts.setdefault(output, []).append(values)
    if model.response_ in table.frame.column_names:
        first[model.response_] = table.frame[model.response_]
    outputs = {name: arrow_column(np.concatenate(values)) for name, values in parts.items()}
    return first | outputs, []


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


def _predicted(
    model: Any, distribution: Mixture, name: str, rule: str, chosen: Any
) -> Iterator[tuple[str, np.ndarray]]:
    """Names of columns and their values."""
    column, n_rows = model.schema_.column(name), distribution.eta.shape[1]
    prediction = Prediction(distribution, np.arange(n_rows), n_rows)
    if chosen.proba:
        assert column.labels is not None
        names = names_by_label(name, column.labels.tolist())
        yield from zip(names, distribution.probs().double().numpy().T, strict=True)
    elif chosen.interval is not None:
        low, high = prediction.interval(chosen.interval)
        yield from ((f"{name}_low", low), (f"{name}_high", high))
    elif chosen.quantiles is not None:
        for p in chosen.quantiles:
            yield f"{name}_q{p:g}", prediction.quantile(p)
    else:
        measure = rule if distribution.family.has_mean else "median"
        output = f"predicted_{name}" if column.labels is not None else f"{name}_{measure}"
        yield output, decode(model.schema_, name, decide(distribution, column, rule=rule))


def explain_table(model: Any, table: TableFile, chosen: Any) -> Answer:
    """What each cell adds to the outputs of a column, the largest first; of attention, weights."""
    if chosen.of is None and model.response_ is None:
        raise ExfamError(
            f"`--of` must name the column to explain, got none. The model has no response: its "
            f"columns are {', '.join(map(repr, model.schema_.targets))}."
        )
    (target,) = chosen_columns(model, chosen.of)
    if chosen.per_head and model.base_ is not None:
        raise ExfamError(
            "`--per-head` must be left out for a model with a base, which has no attention heads. "
            "Fit with --base none."
        )
    notes = [f"of the first of {model.ensemble} networks"] if model.ensemble > 1 else []
    return stacked(_experts(model, table, target, chosen)), notes


def _experts(model: Any, table: TableFile, target: str, chosen: Any) -> Iterator[dict[str, Any]]:
    rows = _rows(table, chosen.rows)
    for first in range(0, len(rows), AT_A_TIME):
        some = rows[first : first + AT_A_TIME]
        part = table.frame.take(some)
        with errors_of_files():
            experts = model.experts(part, [target])
        if model.base_ is None:
            yield from _by_row(model, experts, part, some, target, chosen)
            continue
        column = model.schema_.column(target)
        outputs = output_names(column, model.families_[model.schema_.index(target)])
        cells = np.array([_cells(part, name, target) for name in experts.columns], dtype=object)
        yield from contributions_by_row(
            experts, cells=cells, rows=some, outputs=outputs, top=chosen.top
        )


def _rows(table: TableFile, given: list[str] | None) -> np.ndarray:
    if given is None:
        return np.arange(len(table))
    for word in given:
        if not (word.isdecimal() and int(word) < len(table)):
            raise ExfamError(
                f"`--rows` must be rows of the file, 0 .. {len(table) - 1}, got {word!r}."
            )
    return np.array([int(word) for word in given])


def _by_row(
    model: Any, experts: Any, part: Any, rows: np.ndarray, target: str, chosen: Any
) -> Iterator[dict[str, Any]]:
    names = _outputs(model, target)
    weights = experts.weights[:, 0]
    added = (experts.experts.weights[..., None] * experts.experts.contributions).numpy()[:, 0]
    if not chosen.per_head:
        weights, added = weights.mean(1, keepdims=True), added.sum(1, keepdims=True)
    columns = np.array([NOTHING if name == target else name for name in experts.columns])
    cells = np.array([_cells(part, name, target) for name in experts.columns], dtype=object)
    for k, head in np.ndindex(weights.shape[:2]):
        weight = weights[k, head]
        order = np.argsort(-weight, kind="stable")[: chosen.top]
        order = order[weight[order] > 0]
        outputs = added[k, head, order].astype(np.float64).T
        yield {
            "row": [int(rows[k])] * len(order),
            **({"head": [head + 1] * len(order)} if chosen.per_head else {}),
            "column": columns[order],
            "cell": cells[order, k],
            "weight": weight[order].astype(np.float64),
            **dict(zip(names, outputs, strict=False)),
        }


def _outputs(model: Any, target: str) -> list[str]:
    """Names of what contributions add up to: logits of labels, or parameters of a family."""
    column = model.schema_.column(target)
    if column.labels is not None:
        return [f"{target}={label}" for label in column.labels.tolist()]
    n = model.families_[model.schema_.index(target)].n_params
    return [f"{target}_output{k + 1}" for k in range(n)]


def _cells(part: Any, name: str, target: str) -> list[str]:
    if name == target or name not in part.column_names:
        return [""] * int(part.num_rows)
    return ["" if cell is None else str(cell) for cell in part[name].to_pylist()]
