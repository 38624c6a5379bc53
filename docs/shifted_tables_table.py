"""Writes the tables of shifted tables in docs/results.md from docs/results/table-*.json.

The files come from `exfam reproduce table-simulation --json docs/results/table-simulation.json` and
`exfam reproduce table-autompg --json docs/results/table-autompg.json`; then run
`python docs/shifted_tables_table.py`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from page_blocks import RESULTS_PAGE, ROOT, PageBlock, markdown_table, runs_note, seeds_note

from exfam_studies.common.rows import Row, read_rows

__all__ = ["BLOCK", "RESULTS", "render"]

RESULTS = ROOT / "docs" / "results"
BLOCK = PageBlock(RESULTS_PAGE, "shifted-tables")
EMPTY = "No figures are kept here yet: `exfam reproduce table-simulation` prints them."
SIMULATION, CARS = "table-simulation.json", "table-autompg.json"
PREFIX = "simulation-"
OURS, REFERENCE = "masked-table", "reference"
# Model -> how its column is headed.
MODELS = {
    OURS: "masked table",
    "masked-table-ordinal": "ordinal",
    "masked-table-ensemble": "ensemble of 10",
    "lightgbm": "LightGBM",
    "catboost": "CatBoost",
    "ridge": "ridge",
    "ordered-probit": "ordered probit",
}
HEAD = ("n_c, noise, corr", *MODELS.values(), "paper's model", "ours less it", "paper: ATN")
HEAD_OF_CARS = (
    "model", "accuracy", "MSE", "accuracy, mean", "MSE, mean", "paper: accuracy / MSE", "fits",
    "CPU s",
)  # fmt: skip
SETTINGS_OF_CARS = (
    ("accuracy", "argmax"),
    ("mse", "argmax"),
    ("accuracy", "mean"),
    ("mse", "mean"),
)

Place = tuple[object, ...]


def render(folder: Path) -> str:
    """The tables as Markdown, of the files that are there."""
    told = [
        _with_runs(table, read_rows(folder / name)[1])
        for name, table in ((SIMULATION, _simulation), (CARS, _cars))
        if (folder / name).exists()
    ]
    return "\n\n".join(told) or EMPTY


def _with_runs(table: Callable[[Sequence[Row]], str], rows: Sequence[Row]) -> str:
    return f"{table(rows)}\n\n{runs_note(rows)}".rstrip()


def _simulation(rows: Sequence[Row]) -> str:
    """One line a setting, then the means over all settings, for both kinds of bins."""
    known = _by_place(rows)
    tasks = list(dict.fromkeys(row.task for row in rows))
    lines = [_setting(task, known) for task in tasks]
    lines += [_mean_line(tasks, known, bins=bins) for bins in ("pooled", "train")]
    return markdown_table(HEAD, lines)


def _by_place(rows: Sequence[Row]) -> Mapping[Place, Row]:
    """Rows by task, model, metric, bins, rule, and the model that they are compared with."""
    told = ("bins", "rule", "against")
    return {
        (row.task, row.model, row.metric, *(row.settings.get(name) for name in told)): row
        for row in rows
    }


def _mse(known: Mapping[Place, Row], task: str, model: str, *, bins: str = "pooled") -> Row | None:
    row = known.get((task, model, "mse", bins, "mean", None))
    return None if row is None or row.value is None else row


def _setting(task: str, known: Mapping[Place, Row]) -> list[str]:
    """Bold: the least of the models that were fitted on the most data sets of the setting."""
    found = {model: _mse(known, task, model) for model in MODELS}
    there = [row for row in found.values() if row is not None]
    most = max((row.n_seeds or 1 for row in there), default=0)
    whole = [row for row in there if (row.n_seeds or 1) == most]
    least = min(whole, key=_value, default=None)
    paper = known.get((task, REFERENCE, "mse", "pooled", "argmax", None))
    apart = known.get((task, OURS, "minus-mse", "pooled", "mean", REFERENCE))
    return [
        task.removeprefix(PREFIX).replace("-", ", "),
        *(_figure(row, bold=row is least) for row in found.values()),
        _figure(_mse(known, task, REFERENCE)),
        _figure(apart, sign="+"),
        "" if paper is None or paper.paper is None else f"{paper.paper:.3f}",
    ]


def _mean_line(tasks: Sequence[str], known: Mapping[Place, Row], *, bins: str) -> list[str]:
    """Of models fitted on as many data sets as any, in all settings; of paired differences."""
    found = {
        model: [_mse(known, task, model, bins=bins) for task in tasks]
        for model in (*MODELS, REFERENCE)
    }
    most = max((row.n_seeds or 1 for rows in found.values() for row in rows if row), default=0)
    apart = [known.get((task, OURS, "minus-mse", bins, "mean", REFERENCE)) for task in tasks]
    name = "pooled" if bins == "pooled" else "training"
    means = (_mean(rows, least=most) for rows in found.values())
    return [f"mean, {name} bins", *means, _mean(apart, least=1, sign="+"), ""]


def _mean(rows: Sequence[Row | None], *, least: int, sign: str = "") -> str:
    """Of figures that are all there, each of so many fits at least."""
    there = [_value(row) for row in rows if row is not None and (row.n_seeds or 1) >= least]
    return f"{sum(there) / len(there):{sign}.2f}" if len(there) == len(rows) else ""


def _value(row: Row) -> float:
    assert row.value is not None
    return row.value


def _figure(row: Row | None, *, bold: bool = False, sign: str = "") -> str:
    """A mean over data sets and its standard error."""
    if row is None or row.value is None:
        return ""
    text = f"{row.value:{sign}.2f}"
    if row.sd is not None and row.n_seeds is not None:
        text += f" ± {row.sd / math.sqrt(row.n_seeds):.2f}"
    return f"**{text}**" if bold else text


def _cars(rows: Sequence[Row]) -> str:
    """One line a model, with pooled bins as in the paper; means and spread over seeds."""
    known = _by_place(rows)
    task = rows[0].task
    lines = []
    for model in dict.fromkeys(row.model for row in rows):
        each = [
            known.get((task, model, metric, "pooled", rule, None))
            for metric, rule in SETTINGS_OF_CARS
        ]
        if any(row is not None for row in each):
            lines.append([model + seeds_note(each), *_car_cells(each)])
    return markdown_table(HEAD_OF_CARS, lines)


def _car_cells(rows: Sequence[Row | None]) -> list[str]:
    there = [row for row in rows if row is not None]
    paper = [f"{row.paper:.3f}" for row in there if row.paper is not None]
    fits = next((str(row.n_seeds) for row in there if row.n_seeds is not None), "")
    seconds = next((f"{row.cpu_seconds:.1f}" for row in there if row.cpu_seconds is not None), "")
    return [*(_over_seeds(row) for row in rows), " / ".join(paper), fits, seconds]


def _over_seeds(row: Row | None) -> str:
    """A mean over seeds and its standard deviation; a figure of one fit has none."""
    if row is None or row.value is None:
        return ""
    return f"{row.value:.3f}" if row.sd is None else f"{row.value:.3f} ± {row.sd:.3f}"


if __name__ == "__main__":
    BLOCK.write(render(RESULTS))
