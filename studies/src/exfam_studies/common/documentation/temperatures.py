"""Temperatures of cities, each given the others."""

from collections.abc import Sequence

from exfam_studies.common.documentation.pages import Table, number, seeds_note
from exfam_studies.common.rows import Row

# Lower is better in all but the last, which should be 90 %.
METRICS = ("mse", "rmse", "nats", "crps", "coverage-90")
HEAD = ("task", "model", "MSE", "RMSE", "nats", "CRPS", "in 90 %", "paper: MSE", "CPU s")


def temperatures(rows: Sequence[Row]) -> Table:
    """One line per task and model, the best of each figure in bold."""
    shown: dict[tuple[str, str], list[Row]] = {}
    for row in _of_chosen_neighbors(rows):
        if row.metric in METRICS and row.value is not None and "days" not in row.settings:
            shown.setdefault((_task(row), _model(row)), []).append(row)
    best = _best([row for own in shown.values() for row in own])
    return HEAD, [_line(*names, own, best) for names, own in shown.items()]


def _of_chosen_neighbors(rows: Sequence[Row]) -> list[Row]:
    """Of latent factor models of a task, that of least squared error on validation."""
    chosen: dict[str, Row] = {}
    for row in rows:
        if row.model.startswith("latent-factor") and row.metric == "mse":
            chosen[_task(row)] = min(chosen.get(_task(row), row), row, key=_validation)
    return [
        row
        for row in rows
        if not row.model.startswith("latent-factor") or row.model == chosen[_task(row)].model
    ]


def _validation(row: Row) -> float:
    return float("inf") if row.validation is None else row.validation


def _task(row: Row) -> str:
    """The task, with the draw and the lags of simulated fields."""
    parts = [row.task.removeprefix("temperature-")]
    if "draw" in row.settings:
        parts += [str(row.settings["draw"]), f"lags {row.settings.get('lags', 0)}"]
    return ", ".join(parts)


def _model(row: Row) -> str:
    more = [str(row.settings[name]) for name in ("of", "standardize") if name in row.settings]
    return f"{row.model} ({', '.join(more)})" if more else row.model


def _best(rows: Sequence[Row]) -> set[int]:
    """The least of each figure of each task; the truth, which no model knows, apart."""
    least: dict[tuple[str, str], Row] = {}
    for row in rows:
        if row.model != "truth" and row.metric != METRICS[-1]:
            key = _task(row), row.metric
            least[key] = min(least.get(key, row), row, key=lambda row: row.value or 0.0)
    return {id(row) for row in least.values()}


def _line(task: str, model: str, rows: Sequence[Row], best: set[int]) -> list[str]:
    figures = {row.metric: number(row, bold=id(row) in best) for row in rows}
    coverage = next((row.value for row in rows if row.metric == METRICS[-1]), None)
    paper = next((f"{row.paper:g}" for row in rows if row.paper is not None), "")
    seconds = next((f"{row.cpu_seconds:.1f}" for row in rows if row.cpu_seconds is not None), "")
    return [
        task,
        model + seeds_note(rows),
        *(figures.get(metric, "") for metric in METRICS[:-1]),
        "" if coverage is None else f"{100 * coverage:.0f} %",
        paper,
        seconds,
    ]
