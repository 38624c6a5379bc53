"""Writes the tables of temperatures in docs/results.md from docs/results/efa-temperature.json.

The file comes from `exfam reproduce efa-temperature --json docs/results/efa-temperature.json`; then
run `python docs/temperatures_table.py`.
"""

from collections.abc import Sequence
from pathlib import Path

from page_blocks import RESULTS_PAGE, ROOT, PageBlock, markdown_table, runs_note, seeds_note

from exfam_studies.common.rows import Row, read_rows

__all__ = ["BLOCK", "RESULTS", "render"]

RESULTS = ROOT / "docs" / "results" / "efa-temperature.json"
BLOCK = PageBlock(RESULTS_PAGE, "temperatures")
EMPTY = "No figures are kept here yet: `exfam reproduce efa-temperature` prints them."
TASK = "temperature-"
# Lower is better in all but the last, which should be 90 %.
METRICS = ("mse", "rmse", "nats", "crps", "coverage-90")
COLUMNS = ("task", "model", "MSE", "RMSE", "nats", "CRPS", "in 90 %", "paper: MSE", "CPU s")


def render(path: Path) -> str:
    """The table as Markdown: one line a task and model, the best of each figure in bold."""
    if not path.exists():
        return EMPTY
    lines: dict[tuple, list[Row]] = {}
    listed = read_rows(path)[1]
    for row in _without_other_neighbors(listed):
        if row.metric in METRICS and row.value is not None and "days" not in row.settings:
            lines.setdefault((_place(row), _name(row)), []).append(row)
    best = _best(list(lines.values()))
    table = markdown_table(COLUMNS, [_line(*key, rows, best) for key, rows in lines.items()])
    return f"{table}\n\n{runs_note(listed)}".rstrip()


def _without_other_neighbors(rows: Sequence[Row]) -> list[Row]:
    """Of latent factor models in a place, that of least squared error on validation."""
    chosen: dict[str, Row] = {}
    for row in rows:
        if row.model.startswith("latent-factor") and row.metric == "mse":
            before = chosen.setdefault(_place(row), row)
            chosen[_place(row)] = min(before, row, key=_validation)
    return [
        row
        for row in rows
        if not row.model.startswith("latent-factor") or row.model == chosen[_place(row)].model
    ]


def _validation(row: Row) -> float:
    return float("inf") if row.validation is None else row.validation


def _place(row: Row) -> str:
    """Rows of one place stand beside each other."""
    told = [row.task.removeprefix(TASK)]
    if "draw" in row.settings:
        told += [str(row.settings["draw"]), f"lags {row.settings.get('lags', 0)}"]
    return ", ".join(told)


def _name(row: Row) -> str:
    more = [str(row.settings[name]) for name in ("of", "standardize") if name in row.settings]
    return f"{row.model} ({', '.join(more)})" if more else row.model


def _best(lines: Sequence[Sequence[Row]]) -> set[int]:
    """The least of each figure in each place; the truth, which no model knows, apart."""
    least: dict[tuple, Row] = {}
    for row in (row for rows in lines for row in rows):
        if row.model != "truth" and row.metric != METRICS[-1]:
            key = _place(row), row.metric
            least[key] = min(least.get(key, row), row, key=lambda each: each.value)
    return {id(row) for row in least.values()}


def _line(place: str, name: str, rows: Sequence[Row], best: set[int]) -> list[str]:
    figures = {row.metric: _figure(row, bold=id(row) in best) for row in rows}
    paper = next((f"{row.paper:g}" for row in rows if row.paper is not None), "")
    seconds = next((f"{row.cpu_seconds:.1f}" for row in rows if row.cpu_seconds is not None), "")
    told = [figures.get(metric, "") for metric in METRICS]
    return [place, name + seeds_note(rows), *told, paper, seconds]


def _figure(row: Row, *, bold: bool) -> str:
    if row.metric == METRICS[-1]:
        return f"{100 * row.value:.0f} %"
    text = f"{row.value:.3f}" if row.sd is None else f"{row.value:.3f} ± {row.sd:.3f}"
    return f"**{text}**" if bold else text


if __name__ == "__main__":
    BLOCK.write(render(RESULTS))
