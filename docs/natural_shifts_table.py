"""Writes the tables of natural shifts in docs/results.md from docs/results/table-shifts.json.

The file comes from `exfam reproduce table-shifts --json docs/results/table-shifts.json`; then run
`python docs/natural_shifts_table.py`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from page_blocks import RESULTS_PAGE, ROOT, PageBlock, markdown_table, runs_note, seeds_note

from exfam_studies.common.rows import Row, higher_is_better, read_rows

__all__ = ["BLOCK", "RESULTS", "render"]

RESULTS = ROOT / "docs" / "results" / "table-shifts.json"
BLOCK = PageBlock(RESULTS_PAGE, "natural-shifts")
EMPTY = "No figures are kept here yet: `exfam reproduce table-shifts` prints them."
# Metric and decision rule, and how a line is called; nats of labels are those always finite.
FIGURES = {
    ("accuracy", "argmax"): "accuracy",
    ("accuracy", "rounded"): "accuracy, rounded mean",
    ("mse", "mean"): "MSE",
    ("nats", None): "nats",
    ("nats-mixed", None): "nats",
}
# Whole rows: model -> how its column is headed; the better of those under one head by validation.
MODELS = {
    "masked-table": "masked table",
    "masked-table-regression": "masked table, of numbers",
    "masked-table-deep": "deep",
    "masked-table-ensemble": "ensemble of 10",
    "ridge": "ridge",
    "lightgbm": "LightGBM",
    "lightgbm-tuned": "tuned",
    "catboost": "CatBoost",
    "catboost-tuned": "tuned",
}
TUNED = ("lightgbm-tuned", "catboost-tuned")
HEAD = (
    "table",
    "figure",
    *MODELS.values(),
    "masked table less tuned LightGBM",
    "less tuned CatBoost",
)
# Cells dropped at test.
SHARES = (0.0, 0.1, 0.3, 0.5, 0.7)
OF_DROPPED = (
    "masked-table", "masked-table-missing", "ridge", "ridge-dropped", "lightgbm-tuned",
    "lightgbm-dropped", "catboost-tuned", "catboost-dropped",
)  # fmt: skip
SHOWN = (("mse", "mean"), ("accuracy", "argmax"))
HEAD_OF_DROPPED = ("table", "dropped", "model", *(f"{share:.0%}" for share in SHARES))

Place = tuple[object, ...]


def render(path: Path) -> str:
    """The tables as Markdown: figures of whole rows, then of rows with cells dropped."""
    if not path.exists():
        return EMPTY
    rows = [row for row in read_rows(path)[1] if row.value is not None]
    known = {_place(row): row for row in rows}
    tasks = list(dict.fromkeys(row.task for row in rows))
    whole = [line for task in tasks for line in _lines(task, known)]
    dropped = [line for task in tasks for line in _dropped_lines(task, known)]
    tables = [markdown_table(HEAD, whole), markdown_table(HEAD_OF_DROPPED, dropped)]
    return "\n\n".join([*(tables if dropped else tables[:1]), runs_note(rows)]).rstrip()


def _place(row: Row) -> Place:
    told = ("rule", "dropped", "by", "against")
    return (row.task, row.model, row.metric, *(row.settings.get(name) for name in told))


def _lines(task: str, known: Mapping[Place, Row]) -> list[list[str]]:
    """One line a figure; the best of all models in bold."""
    lines = []
    is_mixed = any(place[0] == task and place[2] == "nats-mixed" for place in known)
    for (metric, rule), name in FIGURES.items():
        found = {model: known.get((task, model, metric, rule, 0, None, None)) for model in MODELS}
        best = _best(list(found.values()))
        if best is None or (metric == "nats" and is_mixed):
            continue
        apart = [
            known.get((task, "masked-table", f"minus-{metric}", rule, 0, None, model))
            for model in TUNED
        ]
        cells = [_figure(row, bold=row is best) for row in found.values()]
        lines.append([task, name, *cells, *(_figure(row, sign="+") for row in apart)])
    return lines


def _dropped_lines(task: str, known: Mapping[Place, Row]) -> list[list[str]]:
    """One line a model, under cells dropped one by one, then by column."""
    lines = []
    for by in ("cell", "column"):
        for metric, rule in SHOWN:
            of_model = {
                model: [
                    known.get((task, model, metric, rule, share, by if share else None, None))
                    for share in SHARES
                ]
                for model in OF_DROPPED
            }
            of_model = {model: rows for model, rows in of_model.items() if any(rows[1:])}
            best = [_best(column) for column in zip(*of_model.values(), strict=True)]
            for model, rows in of_model.items():
                cells = [
                    _figure(row, bold=row is least, error=False)
                    for row, least in zip(rows, best, strict=True)
                ]
                named = model + seeds_note(rows)
                lines.append([f"{task}, {FIGURES[metric, rule]}", by, named, *cells])
            if of_model:
                break
    return lines


def _best(rows: Sequence[Row | None]) -> Row | None:
    there = [row for row in rows if row is not None]
    if not there:
        return None
    sign = -1 if higher_is_better(there[0].metric) else 1
    return min(there, key=lambda row: sign * _value(row))


def _value(row: Row) -> float:
    assert row.value is not None
    return row.value


def _figure(row: Row | None, *, bold: bool = False, sign: str = "", error: bool = True) -> str:
    """A mean and its standard error over test rows; thousands of hires have no decimals."""
    if row is None:
        return ""
    wide = abs(_value(row)) >= 1000 or float(row.settings["error"]) >= 100
    form = ",.0f" if wide else ".3f"
    text = f"{_value(row):{sign}{form}}"
    if error:
        text += f" ± {float(row.settings['error']):{form}}"
    text = f"**{text}**" if bold else text
    return text + (seeds_note([row]) if error else "")


if __name__ == "__main__":
    BLOCK.write(render(RESULTS))
