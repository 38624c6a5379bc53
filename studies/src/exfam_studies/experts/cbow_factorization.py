"""What CBOW factorizes: w_i . c_j against p(w_i, c_j) / p(c_j), on a toy corpus of twelve words.

"spearman" is the rank correlation of all products with p(w_i, c_j) / p(c_j), "pearson" that with
its logarithm over the pairs that occur. The softmax is over all words, the context the rest of the
sentence. "nats" is the mean loss on sentences drawn anew, beside that of the words' frequencies.
Correlations depend on when training stops: of 5, 10, 20 and 40 epochs, 20 are the fewest whose nats
are within .003 of the least in each dimension. With 40, 900 dimensions fall to a Spearman of .66.
"""

from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import numpy as np
from jaxtyping import Float

from exfam.reading.text import prepare_text
from exfam.reading.text.prepared import PreparedText
from exfam.words import CBOW
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
from exfam_studies.common.rows import Row, row_over_seeds
from exfam_studies.experts.factorized.agreement import agreement
from exfam_studies.experts.factorized.matrices import cbow_log_matrix
from exfam_studies.experts.factorized.pairs import count_word_pairs
from exfam_studies.experts.toy_sentences import toy_sentences

__all__ = ["TASKS", "conditional", "parameters", "run"]

TASKS = ("toy-corpus",)
SEEDS = 5
DIMS = (30, 100, 300, 900)
EPOCHS, N_TRIED, FAST_EPOCHS = 20, 4, 2
N_SENTENCES, FAST_SENTENCES = 10_000, 500
PAPER = {
    "spearman": {30: 0.74, 100: 0.77, 300: 0.77, 900: 0.77},
    "pearson": {30: 0.67, 100: 0.71, 300: 0.70, 900: 0.71},
}
METRICS = ("spearman", "pearson", "nats")
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
    return {"estimator": "CBOW", **_settings(int(row.settings["dim"]), _epochs(options))}


def _rows(dim: int, options: Options) -> list[Row]:
    store, n_sentences = figure_store(options.folder), _n_sentences(options)
    kept = []
    for seed in range(options.n_seeds(SEEDS)):
        key = FigureKey(
            ("toy-corpus", f"{n_sentences}-sentences", f"dim-{dim}-epochs-{_epochs(options)}"), seed
        )
        fit = partial(_measure, dim, seed, n_sentences, _epochs(options))
        kept.append(measured(store, key, fit))
    return [_row(metric, dim, kept, options) for metric in METRICS]


def _row(metric: str, dim: int, kept: list[Kept], options: Options) -> Row:
    paper = None if options.fast else PAPER.get(metric, {}).get(dim)
    row = Row(
        task="toy-corpus",
        model="cbow-softmax",
        settings={"dim": dim, "epochs": _epochs(options)},
        metric=metric,
        n_configurations=N_TRIED,
        paper=paper,
    )
    return metric_row(row, kept)


def _settings(dim: int, epochs: int) -> dict[str, Any]:
    return {
        "likelihood": "softmax", "window": None, "dim": dim, "min_count": 1, "epochs": epochs,
    }  # fmt: skip


def _measure(dim: int, seed: int, n_sentences: int, epochs: int) -> Measured:
    text = _text(n_sentences, seed)
    model = CBOW(**_settings(dim, epochs), seed=seed, progress=False)
    model.fit(text)
    pairs = count_word_pairs(text, window=None)
    told = agreement(model.output_vectors_ @ model.input_vectors_.T, cbow_log_matrix(pairs))
    figures = {
        "spearman": told.spearman,
        "pearson": told.pearson,
        "nats": -model.score(toy_sentences(n_sentences, seed=_HELD_OUT + seed)),
    }
    return figures, {}


def conditional(text: PreparedText) -> Float[np.ndarray, "words contexts"]:
    """p(w_i, c_j) / p(c_j) with i in rows, of words of one sentence; columns sum to 1.

    >>> conditional(prepare_text(["a b", "a c"], min_count=1))[:, 0]
    array([0. , 0.5, 0.5])
    """
    return count_word_pairs(text, window=None).conditional


def _unigram_rows(options: Options) -> list[Row]:
    """Words told by their frequencies alone."""
    n_sentences, values = _n_sentences(options), []
    for seed in range(options.n_seeds(SEEDS)):
        vocabulary = _text(n_sentences, seed).vocabulary
        log_p = np.log(vocabulary.counts / vocabulary.counts.sum())
        held_out = toy_sentences(n_sentences, seed=_HELD_OUT + seed)
        told = [log_p[vocabulary.code(word)] for sentence in held_out for word in sentence]
        values.append(-float(np.mean(told)))
    return [row_over_seeds(Row(task="toy-corpus", model="unigram", metric="nats"), values=values)]


@cache
def _text(n_sentences: int, seed: int) -> PreparedText:
    return prepare_text(toy_sentences(n_sentences, seed=seed), min_count=1)


def _epochs(options: Options) -> int:
    return FAST_EPOCHS if options.fast else EPOCHS


def _n_sentences(options: Options) -> int:
    return FAST_SENTENCES if options.fast else N_SENTENCES
