"""The map from word to context vectors of skip-gram, and its square: Figure 3 of reflections.

The paper's model of 100 negatives over 15 epochs of text8 has a mean of .68 on the diagonal of Q Q
(enwik9 .79) and about 0 off it; single entries near 0 may weigh more together than the diagonal,
which "reflection-squared-off-diagonal-share" tells. "negatives-100" is the paper's recipe and has
to be asked for with `--only`; "negatives-25" is five epochs. With the `--folder` of "words-table2"
its fits are taken, not made again.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from exfam.plots import histogram, matrix_map
from exfam.reading.text import PreparedText
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.kept_figures import (
    FigureKey,
    Kept,
    Measured,
    figure_store,
    measured,
    metric_row,
)
from exfam_studies.common.rows import Row
from exfam_studies.common.word_corpus import PAPERS_TEXT, corpus_name, read_corpus
from exfam_studies.common.word_fits import MIN_COUNT, Recipe, fit_words, word_parameters
from exfam_studies.reflections.theory.involution import InvolutionReport, involution_report
from exfam_studies.reflections.theory.partition import partition_report

__all__ = ["TASKS", "parameters", "run"]

SEEDS = 3
_TASKS = {"negatives-25": Recipe(), "negatives-100": Recipe(negatives=100, epochs=15)}
TASKS = tuple(_TASKS)
# Only where it is named.
_LONG = ("negatives-100",)
_TEXT8 = {
    "reflection-squared-diagonal": 0.68,
    "reflection-squared-off-diagonal": 0.0,
    "reflection-norm-correlation": 0.76,
    "reflection-cosine-correlation": 0.77,
}
PAPER = {
    "text8": _TEXT8,
    "enwiki2014_100m": _TEXT8,
    "enwik9": {"reflection-squared-diagonal": 0.79},
}


def run(options: Options) -> list[Row]:
    """Fit skip-gram with free contexts, and report on the map between its vectors."""
    read = cache(partial(read_corpus, options, min_count=MIN_COUNT))
    return gather(
        [
            Job(task, partial(_rows, task, read=read, options=options))
            for task in TASKS
            if options.wants(task) and (task not in _LONG or task in options.only)
        ]
    )


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """The settings of skip-gram that differ from its defaults."""
    return word_parameters({"tie": None, **_TASKS[row.task].settings(options)})


def _rows(task: str, *, read: Callable[[], PreparedText], options: Options) -> list[Row]:
    settings: dict[str, Any] = {"tie": None, **_TASKS[task].settings(options)}
    name, store, kept = corpus_name(options), figure_store(options.folder), []
    for seed in range(options.n_seeds(SEEDS)):
        key = FigureKey((name, task), seed)
        kept.append(measured(store, key, partial(_measure, read, settings, key, options)))
    if options.out is not None:
        _draw(kept[0], task, options.out)
    paper, told = PAPER.get(name, {}), {"corpus": name, **settings, "tie": "none"}
    rows = [
        Row(
            task=task,
            model="sgns",
            settings=told,
            metric=metric,
            n_configurations=1,
            paper=paper.get(metric),
            note=PAPERS_TEXT.get(name, ""),
        )
        for metric in kept[0].figures
    ]
    return [metric_row(row, kept) for row in rows]


def _measure(
    read: Callable[[], PreparedText], settings: dict[str, Any], key: FigureKey, options: Options
) -> Measured:
    text = read()
    model = fit_words(text, settings, seed=key.seed, options=options)
    words, context = model.input_vectors_, model.output_vectors_
    report = involution_report(words, context, seed=key.seed)
    counts = text.vocabulary.counts
    partition = partition_report(
        words,
        context,
        counts / counts.sum(),
        at=np.arange(min(len(words), 1000)),
        shift=float(np.log(settings["negatives"])),
    )
    figures = _figures(report) | {
        "reflection-partition-mean": partition.mean,
        "reflection-partition-within": partition.within,
    }
    return figures, {"transform": report.transform.ravel().tolist()}


def _figures(report: InvolutionReport) -> dict[str, float | int]:
    squared = report.squared
    return {
        "reflection-squared-diagonal": squared.diagonal_mean,
        "reflection-squared-off-diagonal": squared.off_diagonal_mean,
        "reflection-squared-off-diagonal-sd": squared.off_diagonal_sd,
        "reflection-squared-off-diagonal-norm": squared.off_diagonal_norm,
        "reflection-squared-off-diagonal-share": squared.off_diagonal_share,
        "reflection-diagonal": report.q.diagonal_mean,
        "reflection-asymmetry": report.asymmetry,
        "reflection-residual": report.residual,
        "count-positive": report.signs.positive,
        "count-negative": report.signs.negative,
        "count-positive-of-product": report.product_signs.positive,
        "count-negative-of-product": report.product_signs.negative,
        "reflection-norm-correlation": report.norm_correlation,
        "reflection-cosine-correlation": report.cosine_correlation,
    }


def _draw(kept: Kept, task: str, folder: Path) -> None:
    """Q and Q Q as maps; entries of Q Q on and off the diagonal as histograms."""
    folder.mkdir(parents=True, exist_ok=True)
    flat = np.array(kept.arrays["transform"])
    dim = int(np.sqrt(len(flat)))
    q = flat.reshape(dim, dim)
    squared = q @ q
    figures = {
        "q": matrix_map(q, label="Q"),
        "squared": matrix_map(squared, label="Q Q"),
        "diagonal": histogram(np.diag(squared), label="diagonal of Q Q", of="entries"),
        "off-diagonal": histogram(
            squared[~np.eye(dim, dtype=bool)], label="Q Q off the diagonal", of="entries"
        ),
    }
    for name, figure in figures.items():
        path = folder / f"involution-{task}-{name}.png"
        figure.savefig(path, format="png", dpi=120, facecolor="white")
