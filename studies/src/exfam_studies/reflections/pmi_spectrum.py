"""Eigenvalues of the words' mutual information: as many above 0 as below, Figure 2 of reflections.

Words within a distance of 2 or 5 count alike, pairs never seen are 0, and words read fewer than 100
times keep their positions without being counted. Nothing is drawn or fitted.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.stats
from jaxtyping import Float

from exfam.kernels.cooccurrence import count_cooccurrences
from exfam.plots import histogram
from exfam.reading.text import PreparedText
from exfam.words.pmi import association, check_symmetric
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import Measured, Store, kept_seeds, metric_rows
from exfam_studies.common.pictures import save_picture
from exfam_studies.common.rows import Row
from exfam_studies.common.word_corpus import corpus_name, read_corpus
from exfam_studies.reflections.linear_map import sign_counts

TASKS = ("window-2", "window-5")
MIN_COUNT, FAST_MIN_COUNT = 100, 20
# What eigenvalues must look like if signs of a reflection are to be half +1.
NOTES = {
    "spectrum-positive": "share of all eigenvalues above 0; theory .5",
    "spectrum-semicircle": "largest gap of shares to the semicircle's; theory 0",
    "spectrum-trace-per-word": "theory 0",
    "spectrum-skewness": "theory 0",
}


def spectrum(matrix: Any, *, top: int = 200) -> Measured:
    """Eigenvalues of a symmetric matrix, sparse or dense, and how they lie about 0.

    Signs are also of the `top` largest. Raises DataError for a matrix that is not square, symmetric
    and finite. Source: Section 3.1 of the paper on reflections.
    """
    check_symmetric(matrix)
    dense = matrix.toarray() if scipy.sparse.issparse(matrix) else matrix
    dense = np.array(dense, dtype=np.float64, order="F")
    eigenvalues = scipy.linalg.eigh(dense, eigvals_only=True, overwrite_a=True, check_finite=False)
    largest = eigenvalues[np.argsort(-np.abs(eigenvalues), kind="stable")[:top]]
    scale, n_words = float(np.abs(eigenvalues).max()), len(eigenvalues)
    signs, of_top = sign_counts(eigenvalues, scale=scale), sign_counts(largest, scale=scale)
    centered = eigenvalues - eigenvalues.mean()
    spread = float(np.sqrt((centered**2).mean()))
    figures = {
        "count-words": n_words,
        "count-positive": signs.positive,
        "count-negative": signs.negative,
        f"count-positive-of-{top}": of_top.positive,
        f"count-negative-of-{top}": of_top.negative,
        "spectrum-positive": signs.positive / n_words,
        "spectrum-trace-per-word": float(eigenvalues.sum()) / n_words,
        "spectrum-skewness": float((centered**3).mean() / spread**3) if spread > 0 else 0.0,
        "spectrum-semicircle": semicircle_distance(eigenvalues),
    }
    return Measured(figures, {"eigenvalues": eigenvalues})


def semicircle_distance(eigenvalues: Float[np.ndarray, "values"]) -> float:
    """Kolmogorov's distance to Wigner's semicircle of the same mean square; 1 for zeros."""
    radius = 2 * np.sqrt((eigenvalues**2).mean())
    if not radius:
        return 1.0
    x = eigenvalues / radius
    return float(scipy.stats.ks_1samp(x, scipy.stats.semicircular.cdf, method="asymp").statistic)


def run(options: Options) -> list[Row]:
    """Count, and take eigenvalues, for the wanted windows."""
    read = cache(partial(read_corpus, options, min_count=1))
    tasks = filter(options.wants, TASKS)
    return gather([Job(task, partial(_rows, task, read=read, options=options)) for task in tasks])


def _rows(task: str, *, read: Callable[[], PreparedText], options: Options) -> list[Row]:
    window = int(task.removeprefix("window-"))
    min_count = FAST_MIN_COUNT if options.fast else MIN_COUNT
    name = corpus_name(options)
    measure = partial(_measure, read, window, min_count, options)
    kept = kept_seeds(Store(options.folder), (name, f"{task}-count-{min_count}"), 1, measure)
    if options.out is not None:
        eigenvalues, label = kept[0].arrays["eigenvalues"], f"eigenvalue, {task}"
        figure = histogram(eigenvalues, label=label, of="eigenvalues")
        save_picture(figure, options.out / f"pmi-spectrum-{task}.png")
    # Nothing is fitted: these are all parameters.
    settings: dict[str, str | int] = {"corpus": name, "window": window, "min_count": min_count}
    row = Row(task=task, model="pmi", settings=settings, metric="", parameters=settings)
    rows = metric_rows(row, kept)
    return [replace(row, n_seeds=None, note=NOTES.get(row.metric, "")) for row in rows]


def _measure(
    read: Callable[[], PreparedText], window: int, min_count: int, options: Options, seed: int
) -> Measured:
    text = read()
    # The most frequent words have the first codes.
    n_words = int((text.vocabulary.counts >= min_count).sum())
    name = f"{corpus_name(options)}-{window}-{min_count}"
    folder = None if options.folder is None else options.folder / "counts" / name
    counts = count_cooccurrences(text.tokens, n_words, window=window, folder=folder)
    return spectrum(association(counts))
