"""A Markdown page of all results: a plot of the best rivals, then a table for each data set."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import benchmarks.arena
from benchmarks.arena.kind import Kind
from benchmarks.arena.results import Row
from benchmarks.arena.tables import (
    ahead_of_reference,
    describe,
    difference,
    headers,
    standings,
    table,
)
from matplotlib.figure import Figure

from exfam.files import atomic_path, write_atomically

# Paragraphs of the arena's text that say how contenders are judged.
_PROTOCOL = 7


def write_page(path: Path, kinds: Iterable[Kind], rows: Sequence[Row]) -> None:
    """The page, and beside it its plot."""
    kinds = list(kinds)
    picture = path.with_suffix(".svg")
    protocol = "\n\n".join(benchmarks.arena.__doc__.split("\n\n")[-_PROTOCOL:]).strip()
    parts = ["# The arena", protocol, _runs(rows)]
    compared = best_rivals(kinds, rows)
    if compared:
        _plot(compared, picture)
        parts += [f"![The best rival of each data set]({picture.name})"]
    for kind in kinds:
        parts.append(f"## {kind.name}")
        for dataset in kind.sources:
            cells = table(rows, kind, dataset)
            if cells:
                parts += [f"### {dataset}", describe(rows, kind, dataset), _markdown(kind, cells)]
                ahead = ahead_of_reference(rows, kind, dataset)
                parts += [ahead] if ahead else []
    write_atomically(path, "\n\n".join(parts) + "\n")


def best_rivals(kinds: Iterable[Kind], rows: Sequence[Row]) -> list[tuple[str, str, float, float]]:
    """Data set, best rival, its nats (or CRPS) less those of the reference, standard error."""
    compared = []
    for kind in kinds:
        for dataset in kind.sources:
            ranked = standings(rows, kind, dataset)
            reference = [row for row in ranked if row.contender == kind.reference]
            rivals = [row for row in ranked if not row.ours]
            if reference and rivals:
                name = f"{dataset} ({kind.name})"
                behind = difference(rivals[0], reference[0], name=kind.judging.ranked_by)
                compared.append((name, rivals[0].label, *behind))
    return compared


def _plot(compared: Sequence[tuple[str, str, float, float]], path: Path) -> None:
    names = [f"{dataset}: {rival}" for dataset, rival, _, _ in compared]
    units = [mean / error for _, _, mean, error in compared]
    figure = Figure(figsize=(8, 1 + 0.4 * len(names)), layout="constrained")
    axes = figure.subplots()
    axes.barh(names, units, color=["C0" if unit > 0 else "C3" for unit in units])
    axes.invert_yaxis()
    axes.axvline(0, color="black", linewidth=0.8)
    axes.axvspan(-2, 2, color="black", alpha=0.08)
    axes.set_xlabel(
        "nats (CRPS of forecasts and imputations) of the best rival less those of exfam's "
        "reference, in standard errors"
    )
    with atomic_path(path) as file:
        figure.savefig(file, format="svg")


def _runs(rows: Sequence[Row]) -> str:
    dates = sorted({row["run"]["date"] for row in rows})
    commits = sorted({row["run"]["commit"] or "without a commit" for row in rows})
    machines = sorted({row["run"]["machine"] for row in rows})
    loads = [row["load"] for row in rows]
    return (
        f"Fitted {dates[0]} to {dates[-1]} by commits {', '.join(commits)} on "
        f"{'; '.join(machines)}, at a load of {min(loads)} to {max(loads)}: CPU seconds of one "
        "thread are higher the busier a machine is."
    )


def _markdown(kind: Kind, cells: Sequence[tuple[str, ...]]) -> str:
    names = headers(kind)
    lines = [names, ("---", *["---:"] * (len(names) - 1)), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
