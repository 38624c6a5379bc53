"""The map from word to context vectors of skip-gram, and its square: Figure 3 of reflections.

The paper's model of 100 negatives over 15 epochs of text8 has a mean of .68 on the diagonal of Q Q
(enwik9 .79) and about 0 off it; entries near 0 may weigh more together than the diagonal. Tasks and
fits are those of "words-table2".
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from exfam.plots import histogram
from exfam.reading.text import PreparedText
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import Measured, Store, kept_seeds, metric_rows
from exfam_studies.common.pictures import save_picture
from exfam_studies.common.rows import Row
from exfam_studies.common.word_corpus import corpus_name, read_corpus
from exfam_studies.common.word_fits import MIN_COUNT, WORD_TASKS, fit_words, wanted_tasks, word_row
from exfam_studies.reflections.linear_map import involution_report, partition_report

SEEDS = 3
TASKS = tuple(WORD_TASKS)
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
    tasks = wanted_tasks(options)
    return gather([Job(task, partial(_rows, task, read=read, options=options)) for task in tasks])


def _rows(task: str, *, read: Callable[[], PreparedText], options: Options) -> list[Row]:
    settings: dict[str, Any] = {"tie": None, **WORD_TASKS[task].settings(options)}
    name, measure = corpus_name(options), partial(_measure, read, settings, options)
    kept = kept_seeds(Store(options.folder), (name, task), options.n_seeds(SEEDS), measure)
    if options.out is not None:
        _draw(kept[0].arrays["transform"], task, options.out)
    rows, paper = metric_rows(word_row(task, "sgns", settings, options), kept), PAPER.get(name, {})
    return [replace(own, paper=paper.get(own.metric)) for own in rows]


def _measure(
    read: Callable[[], PreparedText], settings: dict[str, Any], options: Options, seed: int
) -> Measured:
    text = read()
    model = fit_words(text, settings, seed=seed, options=options)
    words, context = model.input_vectors_, model.output_vectors_
    report = involution_report(words, context, seed=seed)
    probability = text.vocabulary.counts / text.vocabulary.counts.sum()
    shift = float(np.log(settings["negatives"]))
    partition = partition_report(words, context, probability, n_words=1000, shift=shift)
    figures = {
        f"reflection-squared-{name.removesuffix('_mean').replace('_', '-')}": value
        for name, value in report.squared._asdict().items()
    }
    figures |= {
        "reflection-diagonal": float(np.diag(report.transform).mean()),
        "reflection-asymmetry": report.asymmetry,
        "reflection-residual": report.residual,
        "count-positive": report.signs.positive,
        "count-negative": report.signs.negative,
        "count-positive-of-product": report.product_signs.positive,
        "count-negative-of-product": report.product_signs.negative,
        "reflection-norm-correlation": report.norm_correlation,
        "reflection-cosine-correlation": report.cosine_correlation,
        "reflection-partition-mean": partition.mean,
        "reflection-partition-within": partition.within,
    }
    return Measured(figures, {"transform": report.transform.ravel()})


def _draw(flat: np.ndarray, task: str, folder: Path) -> None:
    dim = int(np.sqrt(len(flat)))
    squared, on = flat.reshape(dim, dim) @ flat.reshape(dim, dim), np.eye(dim, dtype=bool)
    for name, label, entries in (
        ("diagonal", "diagonal of Q Q", squared[on]),
        ("off-diagonal", "Q Q off the diagonal", squared[~on]),
    ):
        figure = histogram(entries, label=label, of="entries")
        save_picture(figure, folder / f"involution-{task}-{name}.png")
