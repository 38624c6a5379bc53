"""The printed table of an experiment's rows."""

from collections.abc import Callable, Sequence
from operator import add, attrgetter

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from exfam_studies.common.rows import Row, grouped, higher_is_better

# Rows are compared with each other where these settings agree: the rest is what a model may choose.
_COMPARED_SETTINGS = ("support", "split", "draw", "days", "lags", "bins", "rule", "dropped", "by")
# Models that know what is to be found out: printed beside the others, not compared with them.
_REFERENCES = ("bayes", "truth")
# Figures below this have no digit that four places could show.
_SMALL = 5e-5
_FOOT = "* best of the same metric, support and split (nats, mse and losses: the lowest)"


def print_rows(experiment: str, rows: Sequence[Row]) -> None:
    """Print one table per task, in full width where the output is not a terminal."""
    console = Console(highlight=False)
    for task, listed in grouped(rows, attrgetter("task")).items():
        table = rows_table(listed)
        if not console.is_terminal:
            wide = console.options.update(max_width=10_000)
            console.width = max(80, Measurement.get(console, wide, table).maximum)
        console.print(f"{experiment}: {task}\n", style="bold", markup=False, soft_wrap=True)
        console.print(table)
        console.print()
    console.print(_FOOT, markup=False, soft_wrap=True)


def rows_table(rows: Sequence[Row]) -> Table:
    """The rows of one task, metric after metric; columns empty in all rows are left out."""
    rows = [row for own in grouped(rows, attrgetter("metric")).values() for row in own]
    cells = {name: [show(row) for row in rows] for name, show in _COLUMNS.items()}
    if best := best_rows(rows):
        marks = ("*" if i in best else " " for i in range(len(rows)))
        cells["test"] = list(map(add, cells["test"], marks))
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    shown = [name for name, column in cells.items() if any(text.strip() for text in column)]
    for name in shown:
        table.add_column(name, justify="left" if name in _WORDS else "right", overflow="fold")
    for i, row in enumerate(rows):
        last = i + 1 < len(rows) and rows[i + 1].metric != row.metric
        table.add_row(*(cells[name][i] for name in shown), end_section=last)
    return table


def best_rows(rows: Sequence[Row]) -> set[int]:
    """Positions of the rows that are best among at least two that can be compared."""
    gathered: dict[tuple, list[int]] = {}
    for index, row in enumerate(rows):
        ranks = row.value is not None and higher_is_better(row.metric) is not None
        if ranks and row.model not in _REFERENCES:
            settings = (row.settings.get(name) for name in _COMPARED_SETTINGS)
            gathered.setdefault((row.metric, row.task, *settings), []).append(index)
    best = set()
    for (metric, *_), compared in gathered.items():
        pick = max if higher_is_better(metric) else min
        if len(compared) > 1:
            best.add(pick(compared, key=lambda index: rows[index].value or 0.0))
    return best


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.1e}" if 0 < abs(value) < _SMALL else f"{value:.4f}"


_COLUMNS: dict[str, Callable[[Row], str]] = {
    "model": lambda row: row.model,
    "settings": lambda row: ", ".join(f"{name}={value}" for name, value in row.settings.items()),
    "metric": lambda row: row.metric,
    "test": lambda row: _figure(row.value),
    "sd": lambda row: _figure(row.sd),
    "validation": lambda row: _figure(row.validation),
    "paper": lambda row: "" if row.paper is None else f"{row.paper:g}",
    "seeds": lambda row: "" if row.n_seeds is None else str(row.n_seeds),
    "tried": lambda row: "" if row.n_configurations is None else str(row.n_configurations),
    "CPU s": lambda row: "" if row.cpu_seconds is None else f"{row.cpu_seconds:.1f}",
    "steps": lambda row: "" if row.steps is None else str(row.steps),
    "note": lambda row: row.note,
}
_WORDS = {"model", "settings", "metric", "note"}
