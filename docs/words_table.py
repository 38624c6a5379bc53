"""Writes the tables of word vectors in docs/results.md from docs/results/words-*.json.

The files come from `exfam reproduce NAME --json docs/results/NAME.json`; then run
`python docs/words_table.py`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from page_blocks import RESULTS_PAGE, ROOT, PageBlock, markdown_table, runs_note, seeds_note

from exfam_studies.common.rows import Row, read_rows

__all__ = ["BLOCK", "RESULTS", "render", "render_models", "render_shares"]

RESULTS = ROOT / "docs" / "results"
BLOCK = PageBlock(RESULTS_PAGE, "words")
EMPTY = "No figures are kept here yet: `exfam reproduce {}` prints them."
NAMES = {
    "spearman-wordsim-kept": "WordSim",
    "spearman-men-kept": "MEN",
    "spearman-simlex-kept": "SimLex",
    "spearman-mturk-kept": "M. Turk",
    "spearman-rare-kept": "Rare",
    "accuracy-google-kept": "Google",
    "accuracy-msr-kept": "MSR",
}
MODELS = {
    "sgns": "free",
    "sgns-wt": "reflected, half",
    "sgns-wtr": "reflected, drawn",
}


def render(folder: Path) -> str:
    """Both tables."""
    rows = [*_rows(folder / "words-table2.json"), *_rows(folder / "words-figure4.json")]
    return f"{render_models(folder)}\n\n{render_shares(folder)}\n\n{runs_note(rows)}".rstrip()


def render_models(folder: Path) -> str:
    """Table 2 as Markdown: a line a model, and below it what the paper has."""
    rows = _rows(folder / "words-table2.json")
    if not rows:
        return EMPTY.format("words-table2")
    lines = []
    for model, name in MODELS.items():
        own = {row.metric: row for row in rows if row.model == model}
        if own:
            lines += _lines(name, own)
    return markdown_table(("context vectors", *NAMES.values(), "CPU s"), lines)


def _lines(name: str, rows: Mapping[str, Row]) -> list[list[str]]:
    some = next(iter(rows.values()))
    seconds = "" if some.cpu_seconds is None else f"{some.cpu_seconds:.0f}"
    whole = name + seeds_note(rows.values())
    lines = [[whole, *(_figure(rows.get(metric)) for metric in NAMES), seconds]]
    paper = [rows[metric].paper if metric in rows else None for metric in NAMES]
    if any(figure is not None for figure in paper):
        told = ["" if figure is None else f"{figure:.3f}" for figure in paper]
        lines.append([f"{name}: paper, text8", *told, ""])
    return lines


def render_shares(folder: Path) -> str:
    """Figure 4 as Markdown: a line a share of dimensions that are not reflected."""
    rows = _rows(folder / "words-figure4.json")
    metrics = [metric for metric in NAMES if any(row.metric == metric for row in rows)]
    if not rows:
        return EMPTY.format("words-figure4")
    shares = dict.fromkeys(row.settings["percent"] for row in rows)
    lines = []
    for share in shares:
        found = [_find(rows, share=share, metric=metric) for metric in metrics]
        lines.append([f"{share} %{seeds_note(found)}", *map(_figure, found)])
    return markdown_table(("+1", *(NAMES[metric] for metric in metrics)), lines)


def _find(rows: Sequence[Row], *, share: int, metric: str) -> Row | None:
    found = (row for row in rows if (row.settings["percent"], row.metric) == (share, metric))
    return next(found, None)


def _figure(row: Row | None) -> str:
    if row is None or row.value is None:
        return ""
    return f"{row.value:.3f}" + ("" if row.sd is None else f" ± {row.sd:.3f}")


def _rows(path: Path) -> Sequence[Row]:
    return read_rows(path)[1] if path.exists() else []


if __name__ == "__main__":
    BLOCK.write(render(RESULTS))
