"""What CBOW factorizes: w_i . c_j against p(w_i, c_j) / p(c_j), on a toy corpus of twelve words.

"spearman" is the rank correlation of all products with p(w_i, c_j) / p(c_j), "pearson" that with
its logarithm over the pairs that occur, "nats" the mean loss on sentences drawn anew, beside that
of the words' frequencies. Of 5, 10, 20 and 40 epochs, 20 are the fewest whose nats are within .003
of the least in each dimension; with 40, 900 dimensions fall to a Spearman of .66.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from exfam.reading.text import PreparedText, prepare_text
from exfam.words import CBOW
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import Measured, Store, kept_seeds, metric_rows
from exfam_studies.common.rows import Row, row_over_seeds
from exfam_studies.experts.factorized import agreement, cbow_log_matrix, count_word_pairs
from exfam_studies.experts.toy_sentences import toy_sentences

TASKS = ("toy-corpus",)
SEEDS = 5
DIMS = (30, 100, 300, 900)
EPOCHS, N_TRIED, FAST_EPOCHS = 20, 4, 2
N_SENTENCES, FAST_SENTENCES = 10_000, 500
PAPER = {
    "spearman": {30: 0.74, 100: 0.77, 300: 0.77, 900: 0.77},
    "pearson": {30: 0.67, 100: 0.71, 300: 0.70, 900: 0.71},
}
# Seeds of sentences that no fit has seen.
_HELD_OUT = 1000


def run(options: Options) -> list[Row]:
    """Fit each dimension to each corpus, and compare the vectors' products with the counts."""
    jobs = [Job("toy-corpus unigram", partial(_unigram_rows, options))]
    jobs += [Job(f"toy-corpus {dim}", partial(_rows, dim, options)) for dim in DIMS]
    return gather(jobs)


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """The settings of CBOW that differ from its defaults."""
    if row.model != "cbow-softmax":
        return {}
    return {"estimator": "CBOW", **_settings(int(row.settings["dim"]), options)}


def _settings(dim: int, options: Options) -> dict[str, Any]:
    epochs = FAST_EPOCHS if options.fast else EPOCHS
    return {
        "likelihood": "softmax", "window": None, "dim": dim, "min_count": 1, "epochs": epochs,
    }  # fmt: skip


def _rows(dim: int, options: Options) -> list[Row]:
    settings, n_sentences = _settings(dim, options), _n_sentences(options)
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


def _measure(settings: Mapping[str, Any], n_sentences: int, seed: int) -> Measured:
    text = _text(n_sentences, seed)
    model = CBOW(**settings, seed=seed, progress=False).fit(text)
    matrix = cbow_log_matrix(count_word_pairs(text, window=None))
    agreed = agreement(model.output_vectors_ @ model.input_vectors_.T, matrix)
    nats = -model.score(toy_sentences(n_sentences, seed=_HELD_OUT + seed))
    return Measured({"spearman": agreed.spearman, "pearson": agreed.pearson, "nats": nats})


def _unigram_rows(options: Options) -> list[Row]:
    n_sentences, values = _n_sentences(options), []
    for seed in range(options.n_seeds(SEEDS)):
        vocabulary = _text(n_sentences, seed).vocabulary
        log_p = np.log(vocabulary.counts / vocabulary.counts.sum())
        held_out = toy_sentences(n_sentences, seed=_HELD_OUT + seed)
        own = [log_p[vocabulary.code(word)] for sentence in held_out for word in sentence]
        values.append(-float(np.mean(own)))
    return [row_over_seeds(Row(task=TASKS[0], model="unigram", metric="nats"), values=values)]


@cache
def _text(n_sentences: int, seed: int) -> PreparedText:
    return prepare_text(toy_sentences(n_sentences, seed=seed), min_count=1)


def _n_sentences(options: Options) -> int:
    return FAST_SENTENCES if options.fast else N_SENTENCES
