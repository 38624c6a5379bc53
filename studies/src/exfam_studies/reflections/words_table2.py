"""Word vectors free and reflected, judged by people: Table 2 of reflections.

"WT" reflects the second half of the dimensions, "WTR" dimensions drawn: given how many, the two are
equal in law, so that their gap is seed noise. Figures end in "-kept" where pairs and questions with
unknown words count, as in the paper, and in "-skipped" where they do not. The paper's figures are
of text8 (or enwik9, for a file of that name), which the usual corpus is like but is not; those of
MEN are left out: they are very likely of human scores ranked as strings. "negatives-25" is five
epochs; "negatives-100", which has to be asked for with `--only`, is the paper's fifteen.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from exfam.reading.text import PreparedText
from exfam_studies.common.bars import draw_bars
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.kept_figures import (
    FigureKey,
    Measured,
    figure_store,
    measured,
    metric_row,
)
from exfam_studies.common.rows import Row
from exfam_studies.common.word_corpus import PAPERS_TEXT, corpus_name, read_corpus
from exfam_studies.common.word_fits import (
    MIN_COUNT,
    SETS,
    Recipe,
    fit_words,
    judged,
    word_parameters,
)

__all__ = ["TASKS", "parameters", "plot", "run"]

SEEDS = 3
_TASKS = {"negatives-25": Recipe(), "negatives-100": Recipe(negatives=100, epochs=15)}
TASKS = tuple(_TASKS)
# Only where it is named.
_LONG = ("negatives-100",)
# Model -> how contexts are tied.
MODELS = {"sgns": None, "sgns-wt": "reflection", "sgns-wtr": "random"}
_TEXT8 = {
    "sgns": {"wordsim": 0.681, "mturk": 0.631, "rare": 0.072, "google": 0.307, "msr": 0.286},
    "sgns-wt": {"wordsim": 0.638, "mturk": 0.642, "rare": 0.058, "google": 0.309, "msr": 0.319},
    "sgns-wtr": {"wordsim": 0.637, "mturk": 0.624, "rare": 0.057, "google": 0.314, "msr": 0.319},
}
_ENWIK9 = {
    "sgns": {"wordsim": 0.671, "mturk": 0.662, "rare": 0.213, "google": 0.558, "msr": 0.410},
    "sgns-wt": {"wordsim": 0.640, "mturk": 0.615, "rare": 0.188, "google": 0.515, "msr": 0.425},
    "sgns-wtr": {"wordsim": 0.633, "mturk": 0.639, "rare": 0.175, "google": 0.516, "msr": 0.429},
}
PAPER = {"enwiki2014_100m": _TEXT8, "text8": _TEXT8, "enwik9": _ENWIK9}


def run(options: Options) -> list[Row]:
    """Fit and judge all models of the wanted tasks."""
    read = cache(partial(read_corpus, options, min_count=MIN_COUNT))
    return gather(
        [
            Job(f"{task} {model}", partial(_rows, task, model, read=read, options=options))
            for task in TASKS
            if options.wants(task) and (task not in _LONG or task in options.only)
            for model in MODELS
        ]
    )


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """The settings of skip-gram that differ from its defaults."""
    return word_parameters({"tie": MODELS[row.model], **_TASKS[row.task].settings(options)})


def plot(rows: list[Row], folder: Path) -> None:
    """Bars of each test set, one file each."""
    for metric in _metrics():
        # A set on which no model scores has no bars.
        own = [row for row in rows if row.metric == metric and row.value]
        draw_bars(own, folder, experiment="words-table2", metric=metric)


def _rows(
    task: str, model: str, *, read: Callable[[], PreparedText], options: Options
) -> list[Row]:
    settings: dict[str, Any] = {"tie": MODELS[model], **_TASKS[task].settings(options)}
    name, store, kept = corpus_name(options), figure_store(options.folder), []
    for seed in range(options.n_seeds(SEEDS)):
        key = FigureKey((name, task, model), seed)
        kept.append(measured(store, key, partial(_measure, read, settings, key, options)))
    told = {"corpus": name, **settings, "tie": settings["tie"] or "none"}
    return [
        metric_row(
            Row(
                task=task,
                model=model,
                settings=told,
                metric=metric,
                n_configurations=1,
                paper=_paper(name, model, metric),
                note=PAPERS_TEXT.get(name, ""),
            ),
            kept,
        )
        for metric in (*_metrics(), *(f"coverage-{each}" for each in SETS))
    ]


def _measure(
    read: Callable[[], PreparedText], settings: dict[str, Any], key: FigureKey, options: Options
) -> Measured:
    model = fit_words(read(), settings, seed=key.seed, options=options)
    return judged(model.vectors_), {}


def _metrics() -> list[str]:
    return [
        f"{'accuracy' if each in ('google', 'msr') else 'spearman'}-{each}-{how}"
        for each in SETS
        for how in ("kept", "skipped")
    ]


def _paper(corpus: str, model: str, metric: str) -> float | None:
    if not metric.endswith("-kept"):
        return None
    return PAPER.get(corpus, {}).get(model, {}).get(metric.split("-")[1])
