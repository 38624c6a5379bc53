"""Word vectors free and reflected, judged by people and by analogies."""

from collections.abc import Sequence

from exfam_studies.common.documentation.pages import Table, all_of, find, number, seeds_note
from exfam_studies.common.rows import Row

NAMES = {
    "spearman-wordsim-kept": "WordSim",
    "spearman-men-kept": "MEN",
    "spearman-simlex-kept": "SimLex",
    "spearman-mturk-kept": "M. Turk",
    "spearman-rare-kept": "Rare",
    "accuracy-google-kept": "Google",
    "accuracy-msr-kept": "MSR",
}
MODELS = {"sgns": "free", "sgns-wt": "reflected, half", "sgns-wtr": "reflected, drawn"}


def models(rows: Sequence[Row]) -> Table:
    """One line per model, and below it what the paper has."""
    lines = []
    for model, name in MODELS.items():
        own = all_of(rows, model=model)
        cells = [find(own, metric=metric) for metric in NAMES]
        seconds = [f"{row.cpu_seconds:.0f}" for row in own if row.cpu_seconds is not None]
        if own:
            lines.append([name + seeds_note(own), *map(number, cells), *(seconds or [""])[:1]])
        paper = ["" if row is None or row.paper is None else f"{row.paper:.3f}" for row in cells]
        if any(paper):
            lines.append([f"{name}: paper, text8", *paper, ""])
    return ("context vectors", *NAMES.values(), "CPU s"), lines


def shares(rows: Sequence[Row]) -> Table:
    """One line per share of dimensions that are not reflected."""
    metrics = [metric for metric in NAMES if all_of(rows, metric=metric)]
    lines = []
    for share in dict.fromkeys(row.settings["percent"] for row in rows):
        cells = [find(rows, percent=share, metric=metric) for metric in metrics]
        lines.append([f"{share} %{seeds_note(cells)}", *map(number, cells)])
    return ("+1", *(NAMES[metric] for metric in metrics)), lines
