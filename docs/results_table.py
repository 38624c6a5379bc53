"""Writes the table of results in README.md from docs/results/*.json.

The files come from `exfam reproduce NAME --json docs/results/NAME.json`; then run
`python docs/results_table.py`.
"""

from collections.abc import Sequence
from pathlib import Path

from exfam.files import write_atomically
from exfam.reproduce import EXPERIMENTS
from exfam.reproduce.rows import Row, read_rows
from exfam.reproduce.tables import best_rows

__all__ = ["RESULTS", "render", "replace_block"]

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"
# What is shown of the rows; the files have the rest.
METRICS = ("mse", "nats", "paper-loss", "ndcg@10")
SETTINGS = ("support", "split", "draw")
COLUMNS = (
    "task",
    "settings",
    "metric",
    "EFA",
    "latent factor",
    "others",
    "paper: EFA / LF",
    "CPU s",
)
EMPTY = "No results are kept here yet: `exfam reproduce --list` names the experiments."


def render(folder: Path) -> str:
    """The table as Markdown, one line a task, settings and metric."""
    order = list(EXPERIMENTS)
    found = sorted(
        (read_rows(path) for path in folder.glob("*.json")),
        key=lambda each: order.index(each[0]) if each[0] in order else len(order),
    )
    lines = [line for _, rows in found for line in _lines(rows)]
    if not lines:
        return EMPTY
    head = ["| " + " | ".join(COLUMNS) + " |", "|" + " --- |" * len(COLUMNS)]
    return "\n".join([*head, *lines])


def replace_block(text: str, table: str) -> str:
    """`text` with the table between its two markers."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def _lines(rows: Sequence[Row]) -> list[str]:
    shown = [row for row in rows if row.metric in METRICS]
    best = {id(shown[index]) for index in best_rows(shown)}
    gathered: dict[tuple, list[Row]] = {}
    for row in shown:
        settings = tuple((name, row.settings[name]) for name in SETTINGS if name in row.settings)
        gathered.setdefault((row.task, settings, row.metric), []).append(row)
    return [
        _line(task, ", ".join(f"{name} {value}" for name, value in settings), metric, group, best)
        for (task, settings, metric), group in gathered.items()
    ]


def _line(task: str, settings: str, metric: str, rows: Sequence[Row], best: set[int]) -> str:
    efa = [row for row in rows if row.model.startswith("efa")]
    factor = [row for row in rows if row.model.startswith("latent-factor")]
    others = [row for row in rows if row not in efa and row not in factor]
    paper = [_first_paper(efa), _first_paper(factor)]
    seconds = [row.cpu_seconds for row in efa if row.model == "efa" and row.cpu_seconds is not None]
    cells = [
        task,
        settings,
        metric,
        "<br>".join(_figure(row, "efa", best) for row in efa),
        "<br>".join(_figure(row, "latent-factor", best) for row in factor),
        "<br>".join(_figure(row, "", best) for row in others),
        " / ".join(paper) if any(paper) else "",
        f"{min(seconds):.1f}" if seconds else "",
    ]
    return "| " + " | ".join(cells) + " |"


def _first_paper(rows: Sequence[Row]) -> str:
    return next((f"{row.paper:g}" for row in rows if row.paper is not None), "")


def _figure(row: Row, usual: str, best: set[int]) -> str:
    """A figure, its spread, and what tells it from the column's usual model."""
    if row.value is None:
        return ""
    text = f"{row.value:.4f}" if row.sd is None else f"{row.value:.4f} ± {row.sd:.4f}"
    more = [] if row.model == usual else [row.model]
    more += [f"{name} {value}" for name, value in row.settings.items() if name not in SETTINGS]
    text = f"**{text}**" if id(row) in best else text
    return f"{text} ({', '.join(more)})" if more else text


if __name__ == "__main__":
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    write_atomically(readme, replace_block(text, render(RESULTS)))
