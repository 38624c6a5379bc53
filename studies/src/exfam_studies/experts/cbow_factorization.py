"""What CBOW factorizes: w_i . c_j against p(w_i, c_j) / p(c_j), on a toy corpus of twelve words.

"spearman" is the rank correlation of all products with p(w_i, c_j) / p(c_j), "pearson" that with
its logarithm over the pairs that occur, "nats" the mean loss on sentences drawn anew, beside that
of the words' frequencies. Of 5, 10, 20 and 40 epochs, 20 are the fewest whose nats are within .003
of the least in each dimension; with 40, 900 dimensions fall to a Spearman of .66.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import Measured, Store, kept_seeds, metric_rows
from exfam_studies.common.rows import Row, row_over_seeds
from exfam_studies.experts.factorization import (
    CBOW_SETTINGS,
    judge_cbow,
    judge_frequencies,
    read_texts,
)
from exfam_studies.experts.factorized import agreement

TASKS = ("toy-corpus",)
SEEDS = 5
DIMS = (30, 100, 300, 900)
EPOCHS, N_TRIED, FAST_EPOCHS = 20, 4, 2
N_SENTENCES, FAST_SENTENCES = 10_000, 500
PAPER = {
    "spearman": {30: 0.74, 100: 0.77, 300: 0.77, 900: 0.77},
    "pearson": {30: 0.67, 100: 0.71, 300: 0.70, 900: 0.71},
}


def run(options: Options) -> list[Row]:
    """Fit each dimension to each corpus, and compare the vectors' products with the counts."""
    jobs = [Job("toy-corpus unigram", partial(_unigram_rows, options))]
    jobs += [Job(f"toy-corpus {dim}", partial(_rows, dim, options)) for dim in DIMS]
    return gather(jobs)


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """The settings of CBOW that differ from its defaults."""
    if row.model != "cbow-softmax":
        return {}
    settings = _settings(int(row.settings["dim"]), options)
    return {"estimator": "CBOW", **CBOW_SETTINGS, **settings}


def _settings(dim: int, options: Options) -> dict[str, Any]:
    return {"window": None, "dim": dim, "epochs": FAST_EPOCHS if options.fast else EPOCHS}


def _rows(dim: int, options: Options) -> list[Row]:
    settings = _settings(dim, options)
    n_sentences = FAST_SENTENCES if options.fast else N_SENTENCES
    shown = {"dim": dim, "epochs": settings["epochs"]}
    names = (TASKS[0], f"{n_sentences}-sentences", f"dim-{dim}-epochs-{settings['epochs']}")
    measure = partial(_measure, settings, n_sentences)
    kept = kept_seeds(Store(options.folder), names, options.n_seeds(SEEDS), measure)
    row = Row(
        task=TASKS[0], model="cbow-softmax", settings=shown, metric="", n_configurations=N_TRIED
    )
    paper = {} if options.fast else PAPER
    return [
        replace(own, paper=paper.get(own.metric, {}).get(dim)) for own in metric_rows(row, kept)
    ]


def _measure(settings: dict[str, Any], n_sentences: int, seed: int) -> Measured:
    compared, figures = judge_cbow(read_texts("toy", n_sentences, 1, seed), settings, seed)
    agreed = agreement(*compared["CBOW, log"])
    return Measured({"spearman": agreed.spearman, "pearson": agreed.pearson, **figures})


def _unigram_rows(options: Options) -> list[Row]:
    n_sentences, nats = FAST_SENTENCES if options.fast else N_SENTENCES, []
    for seed in range(options.n_seeds(SEEDS)):
        texts = read_texts("toy", n_sentences, 1, seed)
        nats.append(judge_frequencies(texts, {"window": None}, seed)[1]["nats"])
    return [row_over_seeds(Row(task=TASKS[0], model="unigram", metric="nats"), values=nats)]
