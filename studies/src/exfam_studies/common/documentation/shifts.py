"""Tables whose test rows are of another kind: simulated ones, cars, and natural shifts."""

import math
from collections.abc import Sequence
from operator import attrgetter

from exfam_studies.common.documentation.pages import (
    Table,
    all_of,
    best_of,
    find,
    first,
    number,
    seeds_note,
)
from exfam_studies.common.rows import Row, grouped

OURS, REFERENCE = "masked-table", "reference"
# Simulated tables: model -> how its column is headed.
SIMULATED = {
    OURS: "attention network",
    "masked-table-ordinal": "ordinal",
    "masked-table-ensemble": "ensemble of 10",
    "lightgbm": "LightGBM",
    "catboost": "CatBoost",
    "ridge": "ridge",
    "ordered-probit": "ordered probit",
    REFERENCE: "paper's model",
}
CARS = ("accuracy", "argmax"), ("mse", "argmax"), ("accuracy", "mean"), ("mse", "mean")
_CALLED = {
    "masked-table-base": "masked-table (default)",
    "masked-table-base-fast": "masked-table (fast)",
}
# Natural shifts: the same, and figures by metric and rule; nats of labels are always finite.
NATURAL = {
    "masked-table-base": "masked table (default)",
    "masked-table-base-fast": "fast",
    "masked-table": "attention network",
    "masked-table-regression": "of numbers",
    "masked-table-deep": "deep",
    "masked-table-ensemble": "ensemble of 10",
    "ridge": "ridge",
    "lightgbm": "LightGBM",
    "lightgbm-tuned": "tuned",
    "catboost": "CatBoost",
    "catboost-tuned": "tuned",
}
TUNED = {
    "lightgbm-tuned": "attention less tuned LightGBM", "catboost-tuned": "less tuned CatBoost",
}  # fmt: skip
FIGURES = {
    ("accuracy", "argmax"): "accuracy",
    ("accuracy", "rounded"): "accuracy, rounded mean",
    ("mse", "mean"): "MSE",
    ("nats", None): "nats",
    ("nats-mixed", None): "nats",
}
SHARES = (0.0, 0.1, 0.3, 0.5, 0.7)
OF_DROPPED = (
    "masked-table-base", "masked-table-base-fast", "masked-table", "masked-table-missing", "ridge",
    "ridge-dropped", "lightgbm-tuned", "lightgbm-dropped", "catboost-tuned", "catboost-dropped",
)  # fmt: skip


def simulated(rows: Sequence[Row]) -> Table:
    """One line per setting, then the means over all settings, for both kinds of bins."""
    tasks = grouped(rows, attrgetter("task"))
    lines = [_setting(task, own) for task, own in tasks.items()]
    lines += [_means(list(tasks.values()), bins) for bins in ("pooled", "train")]
    return ("n_c, noise, corr", *SIMULATED.values(), "ours less it", "paper: ATN"), lines


def _setting(task: str, rows: Sequence[Row]) -> list[str]:
    """Bold: the least of the models that were fitted on the most data sets of the setting."""
    rows = all_of(rows, bins="pooled")
    figures = {model: _mse(rows, model) for model in SIMULATED}
    ours = [row for model, row in figures.items() if row is not None and model != REFERENCE]
    best = best_of(row for row in ours if _n_fits(row) == max(map(_n_fits, ours)))
    paper = all_of(rows, model=REFERENCE, metric="mse", rule="argmax", against=None)
    return [
        task.removeprefix("simulation-").replace("-", ", "),
        *(_with_error(row, bold=row is best) for row in figures.values()),
        _with_error(_difference(rows), form="+.2f"),
        first(paper, "paper", ".3f"),
    ]


def _means(tasks: Sequence[Sequence[Row]], bins: str) -> list[str]:
    """Of models fitted on as many data sets as any, in all settings; of paired differences."""
    of_task = [all_of(rows, bins=bins) for rows in tasks]
    figures = [[_mse(own, model) for own in of_task] for model in SIMULATED]
    most = max((_n_fits(row) for own in figures for row in own if row is not None), default=0)
    apart = _mean([_difference(own) for own in of_task], least=1, form="+.2f")
    name = "pooled" if bins == "pooled" else "training"
    return [f"mean, {name} bins", *(_mean(own, least=most) for own in figures), apart, ""]


def _mse(rows: Sequence[Row], model: str) -> Row | None:
    return find(rows, model=model, metric="mse", rule="mean", against=None)


def _difference(rows: Sequence[Row]) -> Row | None:
    return find(rows, model=OURS, metric="minus-mse", rule="mean", against=REFERENCE)


def _n_fits(row: Row) -> int:
    return row.n_seeds or 1


def _mean(rows: Sequence[Row | None], *, least: int, form: str = ".2f") -> str:
    """Of figures that are all there, each of so many fits at least."""
    values = [row.value or 0.0 for row in rows if row is not None and _n_fits(row) >= least]
    return f"{sum(values) / len(values):{form}}" if values and len(values) == len(rows) else ""


def _with_error(row: Row | None, *, form: str = ".2f", bold: bool = False) -> str:
    error = None if row is None or row.sd is None else row.sd / math.sqrt(_n_fits(row))
    return number(row, form, spread=error, bold=bold)


def cars(rows: Sequence[Row]) -> Table:
    """One line per model, with pooled bins as in the paper; means and spread over seeds."""
    lines = []
    pooled = all_of(rows, bins="pooled", against=None)
    for model, own in grouped(pooled, attrgetter("model")).items():
        cells = [next(iter(all_of(own, metric=m, rule=rule)), None) for m, rule in CARS]
        paper = " / ".join(filter(None, (first([row], "paper", ".3f") for row in cells)))
        cost = first(cells, "n_seeds", "d"), first(cells, "cpu_seconds", ".1f")
        lines.append([_called(model) + seeds_note(cells), *map(number, cells), paper, *cost])
    head = ("accuracy", "MSE", "accuracy, mean", "MSE, mean")
    return ("model", *head, "paper: accuracy / MSE", "fits", "CPU s"), lines


def _called(model: str) -> str:
    """The name of a model on the page: only the default of masked tables has it alone."""
    return _CALLED.get(model, model.replace("masked-table", "attention-network"))


def whole_rows(rows: Sequence[Row]) -> Table:
    """Figures of rows with all cells; the best of all models in bold."""
    lines = []
    for task in dict.fromkeys(row.task for row in rows if row.value is not None):
        own = all_of(rows, task=task, dropped=0, by=None)
        is_mixed = find(rows, task=task, metric="nats-mixed") is not None
        for (metric, rule), name in FIGURES.items():
            figures = [find(own, model=m, metric=metric, rule=rule, against=None) for m in NATURAL]
            best = best_of(figures)
            if best is None or (metric == "nats" and is_mixed):
                continue
            apart = [
                find(own, model=OURS, metric=f"minus-{metric}", rule=rule, against=rival)
                for rival in TUNED
            ]
            cells = [_of_rows(row, bold=row is best) for row in figures]
            lines.append([task, name, *cells, *(_of_rows(row, sign="+") for row in apart)])
    return ("table", "figure", *NATURAL.values(), *TUNED.values()), lines


def dropped_cells(rows: Sequence[Row]) -> Table:
    """One line per model, under cells dropped one by one, then by column."""
    lines = []
    for own in grouped(all_of(rows, against=None), attrgetter("task")).values():
        for by in ("cell", "column"):
            shown = (_of_dropped(own, metric, by) for metric in ("mse", "accuracy"))
            lines += next(filter(None, shown), [])
    return ("table", "dropped", "model", *(f"{share:.0%}" for share in SHARES)), lines


def _of_dropped(rows: Sequence[Row], metric: str, by: str) -> list[list[str]]:
    rule = "mean" if metric == "mse" else "argmax"
    rows = all_of(rows, metric=metric, rule=rule)
    of_model = {
        model: [
            find(rows, model=model, dropped=share, by=by if share else None) for share in SHARES
        ]
        for model in OF_DROPPED
    }
    of_model = {model: own for model, own in of_model.items() if any(own[1:])}
    best = [best_of(column) for column in zip(*of_model.values(), strict=True)]
    lines = []
    for model, own in of_model.items():
        pairs = zip(own, best, strict=True)
        cells = [_of_rows(row, bold=row is least, error=False) for row, least in pairs]
        figure = f"{rows[0].task}, {FIGURES[metric, rule]}"
        lines.append([figure, by, _called(model) + seeds_note(own), *cells])
    return lines


def _of_rows(row: Row | None, *, bold: bool = False, sign: str = "", error: bool = True) -> str:
    """A mean and its standard error over test rows; thousands of hires have no decimals."""
    if row is None:
        return ""
    spread = float(row.settings["error"])
    form = ",.0f" if abs(row.value or 0.0) >= 1000 or spread >= 100 else ".3f"
    text = number(row, sign + form, spread=spread if error else None, bold=bold)
    return text + (seeds_note([row]) if error else "")
