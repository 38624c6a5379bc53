"""Writes the table of results in docs/results.md from docs/results/*.json.

The files come from `exfam reproduce NAME --json docs/results/NAME.json`; then run
`python docs/results_table.py`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from page_blocks import RESULTS_PAGE, ROOT, PageBlock, markdown_table, runs_note

from exfam_studies.common.experiments import EXPERIMENTS
from exfam_studies.common.printed import best_rows
from exfam_studies.common.rows import Row, read_rows

__all__ = ["BLOCK", "RESULTS", "render"]

RESULTS = ROOT / "docs" / "results"
BLOCK = PageBlock(RESULTS_PAGE, "results")
# Shown in tables of their own.
ELSEWHERE = (
    "analogies.json",
    "cbow-factorization.json",
    "efa-generalization.json",
    "efa-identifiability.json",
    "efa-special-cases.json",
    "efa-temperature.json",
    "expert-weights.json",
    "factorization.json",
    "involution.json",
    "lstm-table3.json",
    "paraphrase.json",
    "pmi-spectrum.json",
    "positions-dependencies.json",
    "positions-figure2.json",
    "positions-fitted.json",
    "positions-figure3.json",
    "positions-linguistic.json",
    "positions-pretraining.json",
    "positions-swaps.json",
    "table-autompg.json",
    "table-shifts.json",
    "table-simulation.json",
    "tied-movielens.json",
    "words-figure4.json",
    "words-table2.json",
)
# What is shown of the rows; the files have the rest.
DIFFERENCE = "nats-difference-to-shrunk-offset"
METRICS = ("mse", "nats", "paper-loss", "ndcg@10", DIFFERENCE)
# The printed formula is beside the notebooks' form; popularity ranks as the marginal does.
HIDDEN = ("latent-factor-printed", "popularity")
SILENT = ("members", "split", "against", "low", "high")
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
        (read_rows(path) for path in folder.glob("*.json") if path.name not in ELSEWHERE),
        key=lambda each: order.index(each[0]) if each[0] in order else len(order),
    )
    lines = [line for _, rows in found for line in _lines(rows)]
    if not lines:
        return EMPTY
    notes = [f"`{name}`: {note}" for name, rows in found if (note := runs_note(rows))]
    return "\n\n".join([markdown_table(COLUMNS, lines), *notes])


def _lines(rows: Sequence[Row]) -> list[list[str]]:
    shown = _chosen_families([row for row in rows if _is_shown(row, rows)])
    ranked = [row for row in shown if row.metric != DIFFERENCE]
    best = {id(ranked[index]) for index in best_rows(ranked)}
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
    known = row.metric in METRICS and row.value is not None and row.model not in HIDDEN
    return known and on_split and not told_by_error


def _chosen_families(rows: Sequence[Row]) -> list[Row]:
    """Of exact figures, each model's family of least validation nats, once for all versions."""
    exact = [row for row in rows if row.metric in ("nats", DIFFERENCE) and "family" in row.settings]
    chosen: dict[tuple, Row] = {}
    for row in _without_versions(exact):
        place = tuple(row.settings.get(name) for name in SETTINGS)
        key = (row.task, place, row.metric, row.model)
        if key not in chosen or _validation(row) < _validation(chosen[key]):
            chosen[key] = row
    return [row for row in rows if row not in exact] + list(chosen.values())


def _without_versions(rows: Sequence[Row]) -> list[Row]:
    """Tasks without their version; families whose nats depend on it are named with it."""
    told: dict[tuple, set[float | None]] = {}
    for row in rows:
        told.setdefault(_unversioned(row), set()).add(row.value)
    renamed = []
    for row in rows:
        version = re.search(r"-(v\d+)-", row.task)
        settings = dict(row.settings)
        if version and len(told[_unversioned(row)]) > 1:
            settings["family"] = f"{settings['family']} {version[1]}"
        renamed.append(replace(row, task=_unversioned(row)[0], settings=settings))
    return renamed


def _unversioned(row: Row) -> tuple:
    settings = tuple(sorted((name, str(value)) for name, value in row.settings.items()))
    return re.sub(r"-v\d+-", "-", row.task), row.model, row.metric, settings


def _validation(row: Row) -> float:
    return float("inf") if row.validation is None else row.validation


def _line(rows: Sequence[Row], best: set[int]) -> list[str]:
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
    return [
        rows[0].task,
        ", ".join(f"{name} {value}" for name, value in shared.items() if name not in SILENT),
        rows[0].metric.removesuffix("-to-shrunk-offset"),
        *(
            "<br>".join(_figure(row, prefix, shared, best) for row in split[prefix])
            for prefix in split
        ),
        " / ".join(paper) if any(paper) else "",
        f"{min(seconds):.1f}" if seconds else "",
    ]


def _first_paper(rows: Sequence[Row]) -> str:
    return next((f"{row.paper:g}" for row in rows if row.paper is not None), "")


def _figure(row: Row, prefix: str, shared: Mapping[str, object], best: set[int]) -> str:
    """A figure, its spread or interval, and what tells it from the others in its cell."""
    text = f"{row.value:.4f}" if row.sd is None else f"{row.value:.4f} ± {row.sd:.4f}"
    if row.metric == DIFFERENCE:
        text = f"{text} [{row.settings['low']}, {row.settings['high']}]"
    text = f"**{text}**" if id(row) in best else text
    variant = row.model.removeprefix(prefix).removeprefix("-")
    if "members" in row.settings:
        variant = f"{variant} of {row.settings['members']}"
    own = [_told(*each) for each in row.settings.items() if each[0] not in {*shared, *SILENT}]
    seeds = ["one seed"] if row.is_of_one_seed else []
    more = ", ".join([*([variant] if variant else []), *own, *seeds])
    return f"{text} ({more})" if more else text


def _told(name: str, value: object) -> str:
    return str(value) if name == "family" else f"{name} {value}"


if __name__ == "__main__":
    BLOCK.write(render(RESULTS))
