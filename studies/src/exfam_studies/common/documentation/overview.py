"""All models of items, ratings and baskets in one table: EFA, latent factors and others."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from exfam_studies.common.documentation.pages import (
    find,
    first,
    kept_rows,
    least_validation,
    markdown_table,
    number,
    runs_note,
)
from exfam_studies.common.printed import best_rows
from exfam_studies.common.rows import Row, grouped

# Other experiments have tables of their own.
FILES = ("efa-synthetic", "efa-movielens-items", "efa-movielens-ratings", "efa-instacart")
# What is shown of the rows; the files have the rest.
DIFFERENCE = "nats-difference-to-shrunk-offset"
METRICS = ("mse", "nats", "paper-loss", "ndcg@10", DIFFERENCE)
# The printed formula is beside the notebooks' form; popularity ranks as the marginal does.
HIDDEN = ("latent-factor-printed", "popularity")
SILENT = ("members", "split", "against", "low", "high")
SETTINGS = ("support", "split", "draw")
HEAD = (
    "task", "settings", "metric", "EFA", "latent factor", "others", "paper: EFA / LF", "CPU s",
)  # fmt: skip


def overview() -> str:
    """The table as Markdown, and the runs that its figures come from."""
    kept = {name: kept_rows(name) for name in FILES}
    lines = [line for rows in kept.values() for line in overview_lines(rows)]
    notes = [f"`{name}`: {runs_note(rows)}" for name, rows in kept.items()]
    return "\n\n".join([markdown_table(HEAD, lines), *notes])


def overview_lines(rows: Sequence[Row]) -> list[list[str]]:
    """The cells of one line per task, settings and metric."""
    shown = _chosen_families([row for row in rows if _is_shown(row, rows)])
    ranked = [row for row in shown if row.metric != DIFFERENCE]
    best = {id(ranked[index]) for index in best_rows(ranked)}
    return [_line(group, best) for group in grouped(shown, _figure).values()]


def _figure(row: Row) -> tuple:
    """What rows of one line have in common."""
    return row.task, row.metric, *(row.settings.get(name) for name in SETTINGS)


def _is_shown(row: Row, rows: Sequence[Row]) -> bool:
    """On the paper's split; no nats where the error says the same."""
    if row.metric == "nats" and find(rows, task=row.task, metric="mse") is not None:
        return False
    is_papers = row.settings.get("split", "paper") == "paper"
    return is_papers and row.metric in METRICS and row.model not in HIDDEN


def _chosen_families(rows: Sequence[Row]) -> list[Row]:
    """Of exact figures, each model's family of least validation nats, once for all versions.

    Families whose nats depend on the version are named with it.
    """
    exact = [row for row in rows if row.metric in ("nats", DIFFERENCE) and "family" in row.settings]
    renamed = []
    for (task, *_), versions in grouped(exact, _unversioned).items():
        for row in versions:
            version, settings = re.search(r"-(v\d+)-", row.task), dict(row.settings)
            if version and len({other.value for other in versions}) > 1:
                settings["family"] = f"{settings['family']} {version[1]}"
            renamed.append(replace(row, task=task, settings=settings))
    families = grouped(renamed, lambda row: (row.model, *_figure(row)))
    chosen = [min(own, key=least_validation) for own in families.values()]
    return [row for row in rows if row not in exact] + chosen


def _unversioned(row: Row) -> tuple:
    settings = tuple(sorted((name, str(value)) for name, value in row.settings.items()))
    return re.sub(r"-v\d+-", "-", row.task), row.model, row.metric, settings


def _line(rows: Sequence[Row], best: set[int]) -> list[str]:
    shared = {
        name: value
        for name, value in rows[0].settings.items()
        if all(row.settings.get(name) == value for row in rows)
    }
    columns: dict[str, list[Row]] = {"efa": [], "latent-factor": [], "": []}
    for row in rows:
        columns[next(prefix for prefix in columns if row.model.startswith(prefix))].append(row)
    paper = [first(columns[name], "paper", "g") for name in ("efa", "latent-factor")]
    seconds = [row.cpu_seconds for row in columns["efa"] if row.cpu_seconds is not None]
    return [
        rows[0].task,
        ", ".join(f"{name} {value}" for name, value in shared.items() if name not in SILENT),
        rows[0].metric.removesuffix("-to-shrunk-offset"),
        *("<br>".join(_cell(row, name, shared, best) for row in columns[name]) for name in columns),
        " / ".join(paper) if any(paper) else "",
        f"{min(seconds):.1f}" if seconds else "",
    ]


def _cell(row: Row, prefix: str, shared: Mapping[str, object], best: set[int]) -> str:
    text = number(row, ".4f", bold=id(row) in best)
    if row.metric == DIFFERENCE:
        text = f"{text} [{row.settings['low']}, {row.settings['high']}]"
    variant = row.model.removeprefix(prefix).removeprefix("-")
    if "members" in row.settings:
        variant = f"{variant} of {row.settings['members']}"
    own = [
        str(value) if name == "family" else f"{name} {value}"
        for name, value in row.settings.items()
        if name not in {*shared, *SILENT}
    ]
    more = ", ".join(filter(None, [variant, *own, "one seed" if row.is_of_one_seed else ""]))
    return f"{text} ({more})" if more else text
