"""Writes the table of results in README.md from docs/results/*.json.

The files come from `exfam reproduce NAME --json docs/results/NAME.json`; then run
`python docs/results_table.py`.
"""

from collections.abc import Mapping, Sequence
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
    shown = [row for row in rows if _is_shown(row, rows)]
    best = {id(shown[index]) for index in best_rows(shown)}
    gathered: dict[tuple, list[Row]] = {}
    for row in shown:
        place = tuple(row.settings.get(name) for name in SETTINGS)
        gathered.setdefault((row.task, place, row.metric), []).append(row)
    return [_line(group, best) for group in gathered.values()]


def _is_shown(row: Row, rows: Sequence[Row]) -> bool:
    """On the paper's split; no nats where the error says the same."""
    has_error = any(other.task == row.task and other.metric == "mse" for other in rows)
    told_by_error = row.metric == "nats" and has_error
    on_split = row.settings.get("split", "paper") == "paper"
    return row.metric in METRICS and row.value is not None and on_split and not told_by_error


def _line(rows: Sequence[Row], best: set[int]) -> str:
    shared = {
        name: value
        for name, value in rows[0].settings.items()
        if all(row.settings.get(name) == value for row in rows)
    }
    split = {"efa": [], "latent-factor": [], "": []}
    for row in rows:
        prefix = next(prefix for prefix in split if row.model.startswith(prefix))
        split[prefix].append(row)
    paper = [_first_paper(split["efa"]), _first_paper(split["latent-factor"])]
    seconds = [row.cpu_seconds for row in split["efa"] if row.cpu_seconds is not None]
    cells = [
        rows[0].task,
        ", ".join(f"{name} {value}" for name, value in shared.items() if name != "split"),
        rows[0].metric,
        *(
            "<br>".join(_figure(row, prefix, shared, best) for row in split[prefix])
            for prefix in split
        ),
        " / ".join(paper) if any(paper) else "",
        f"{min(seconds):.1f}" if seconds else "",
    ]
    return "| " + " | ".join(cells) + " |"


def _first_paper(rows: Sequence[Row]) -> str:
    return next((f"{row.paper:g}" for row in rows if row.paper is not None), "")


def _figure(row: Row, prefix: str, shared: Mapping[str, object], best: set[int]) -> str:
    """A figure, its spread, and what tells it from the others in its cell."""
    text = f"{row.value:.4f}" if row.sd is None else f"{row.value:.4f} ± {row.sd:.4f}"
    variant = row.model.removeprefix(prefix).removeprefix("-")
    own = [f"{name} {value}" for name, value in row.settings.items() if name not in shared]
    more = ", ".join([variant, *own] if variant else own)
    text = f"**{text}**" if id(row) in best else text
    return f"{text} ({more})" if more else text


if __name__ == "__main__":
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    write_atomically(readme, replace_block(text, render(RESULTS)))
