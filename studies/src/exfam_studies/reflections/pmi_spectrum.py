"""Eigenvalues of the words' mutual information: as many above 0 as below, Figure 2 of reflections.

Words within a distance of 2 or 5 count alike, pairs never seen are 0, and words read fewer than 100
times keep their positions without being counted. About half of all eigenvalues are positive; of the
200 largest, which a model of 200 dimensions would keep, more are. Nothing is drawn or fitted.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from exfam.kernels.cooccurrence import count_cooccurrences
from exfam.plots import histogram
from exfam.reading.text import PreparedText
from exfam.words.pmi import association
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import Measured, Store, kept_seeds, metric_rows
from exfam_studies.common.rows import Row
from exfam_studies.common.word_corpus import corpus_name, read_corpus
from exfam_studies.reflections.spectrum import spectrum

TASKS = ("window-2", "window-5")
MIN_COUNT, FAST_MIN_COUNT = 100, 20
TOP = 200
# What eigenvalues must look like if signs of a reflection are to be half +1.
NOTES = {
    "spectrum-positive": "share of all eigenvalues above 0; theory .5",
    "spectrum-semicircle": "largest gap of shares to the semicircle's; theory 0",
    "spectrum-trace-per-word": "theory 0",
    "spectrum-skewness": "theory 0",
}


def run(options: Options) -> list[Row]:
    """Count, and take eigenvalues, for the wanted windows."""
    read = cache(partial(read_corpus, options, min_count=1))
    tasks = filter(options.wants, TASKS)
    return gather([Job(task, partial(_rows, task, read=read, options=options)) for task in tasks])


def parameters(row: Row, options: Options) -> Mapping[str, str | int | float | bool]:
    """All that was chosen: nothing is fitted."""
    return row.settings


def _rows(task: str, *, read: Callable[[], PreparedText], options: Options) -> list[Row]:
    window = int(task.removeprefix("window-"))
    min_count = FAST_MIN_COUNT if options.fast else MIN_COUNT
    name = corpus_name(options)

    def measure(seed: int) -> Measured:
        return _measure(read(), window=window, min_count=min_count, options=options)

    kept = kept_seeds(Store(options.folder), (name, f"{task}-count-{min_count}"), 1, measure)
    if options.out is not None:
        _draw(kept[0].arrays["eigenvalues"], task, options.out)
    settings: dict[str, str | int] = {"corpus": name, "window": window, "min_count": min_count}
    rows = metric_rows(Row(task=task, model="pmi", settings=settings, metric=""), kept)
    return [replace(row, n_seeds=None, note=NOTES.get(row.metric, "")) for row in rows]


def _measure(text: PreparedText, *, window: int, min_count: int, options: Options) -> Measured:
    # The most frequent words have the first codes.
    n_words = int((text.vocabulary.counts >= min_count).sum())
    name = f"{corpus_name(options)}-{window}-{min_count}"
    folder = None if options.folder is None else options.folder / "counts" / name
    counts = count_cooccurrences(text.tokens, n_words, window=window, folder=folder)
    result = spectrum(association(counts), top=TOP)
    figures = {
        "count-words": n_words,
        "count-positive": result.signs.positive,
        "count-negative": result.signs.negative,
        f"count-positive-of-{TOP}": result.top.positive,
        f"count-negative-of-{TOP}": result.top.negative,
        "spectrum-positive": result.signs.positive / n_words,
        "spectrum-trace-per-word": result.trace / n_words,
        "spectrum-skewness": result.skewness,
        "spectrum-semicircle": result.semicircle,
    }
    return Measured(figures, {"eigenvalues": result.eigenvalues})


def _draw(eigenvalues: np.ndarray, task: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    figure = histogram(eigenvalues, label=f"eigenvalue, {task}", of="eigenvalues")
    figure.savefig(folder / f"pmi-spectrum-{task}.png", format="png", dpi=120, facecolor="white")
