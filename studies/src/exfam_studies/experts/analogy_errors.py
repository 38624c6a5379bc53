"""Why analogies fail: the errors of fitted vectors by term, and how symmetric attention is.

"explanation" takes errors of the fitted sets apart, cut to the corpus's most frequent words.
"auc-" is the probability that a question that fails has a longer gap, or term of it, than one that
is answered, "auc-within-" the same of two questions of one relation; "share-" is the part of a term
in all gaps along them, which may be far from [0, 1]. Of models with negative samples the residual
holds what words' own frequencies add, too.

"symmetry" is half the sum of differences between p and its transpose, of pairs of words in
stretches of eleven, as CBOW counts them and as attention fitted to them weighs them; of
"attention-shuffled" weights are exchanged among words. "zeta-spread" has to be 0 for analogies of
token vectors to follow from those of the paper's transformed ones.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np

from exfam.checks import DataError
from exfam.reading.public_sets.word_questions import word_questions
from exfam.reading.text import PreparedText, prepare_text
from exfam.vectors import WordVectors
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import Key, Measured, Store, kept_seeds, metric_rows
from exfam_studies.common.rows import Row, interval_settings
from exfam_studies.common.word_corpus import corpus_name
from exfam_studies.experts.analogy_sets import (
    VectorSet,
    answer_by_offsets,
    common_questions,
    text_lines,
)
from exfam_studies.experts.factorized import asymmetry, count_word_pairs
from exfam_studies.experts.factorized_attention import (
    AttentionRecipe,
    attention_factors,
    fit_attention,
    gamma_sums,
    mean_nats,
    word_groups,
)
from exfam_studies.experts.paraphrases.analogies import TERMS, Factors, analogy_errors
from exfam_studies.experts.paraphrases.failures import failure_predictors
from exfam_studies.experts.paraphrases.windows import text_windows
from exfam_studies.experts.paraphrases.word_sets import WordSets
from exfam_studies.positions.masked_lms import short_digest

EXPLAINED = ("sgns", "sgns-tied", "cbow")
# Of the words whose sets are counted.
_SETS: Mapping[str, Any] = {"words": 5000, "window": 5, "smoothing": 0.1}
_FAST_SETS: dict[str, Any] = {**_SETS, "words": 500}

SYMMETRY_SEEDS = 3
_STRETCH = 11
_PAIRS: Mapping[str, Any] = {"words": 3000, "tokens": 1_000_000, "dim": 50, "epochs": 2}
_FAST_PAIRS: Mapping[str, Any] = {"words": 30, "tokens": 4000, "dim": 4, "epochs": 1}


def word_sets(read: Callable[[], PreparedText], options: Options) -> WordSets:
    """Probabilities of sets of the corpus's most frequent words."""
    settings = _FAST_SETS if options.fast else _SETS
    windows = text_windows(read(), window=settings["window"], n_words=settings["words"])
    return WordSets(windows, smoothing=settings["smoothing"])


def explained_rows(
    model: str, fitted: Callable[[str], VectorSet], sets: Callable[[], WordSets], options: Options
) -> list[Row]:
    """Whether the terms of a model's errors predict which questions fail, with intervals."""
    settings: Mapping[str, Any] = _FAST_SETS if options.fast else _SETS
    names = ("analogies", corpus_name(options), f"explained-{short_digest(settings)}", model)
    n = 20 if options.fast else 1000  # redrawings
    kept = Store(options.folder).measured(
        Key(names), lambda: _explained(fitted(model).vectors[0], sets(), n)
    )
    settings = {"corpus": corpus_name(options), **settings}
    row = Row(task="explanation", model=model, settings=settings, metric="", n_configurations=1)
    return [
        replace(own, settings={**settings, **kept.details.get(own.metric, {})})
        for own in metric_rows(row, [kept])
    ]


def _explained(vectors: WordVectors, sets: WordSets, n: int) -> Measured:
    rows = vectors.codes(sets.words)
    cut = WordVectors(sets.words, vectors.matrix()[rows], vectors.matrix("context")[rows])
    questions = word_questions("google")
    try:
        questions = common_questions([cut], questions)
    except DataError:  # of a small text: no question is of these words
        return Measured({"count-questions": 0.0})
    correct = answer_by_offsets(cut, questions).correct
    factors = Factors(*(cut.matrix(of).astype(np.float64) for of in ("center", "context")))
    errors = analogy_errors(factors, sets, questions)
    right = correct[errors.question]
    figures = {
        "count-questions": float(len(errors)),
        "accuracy-overall": float(right.mean()),
        "coverage-seen": float(errors.seen.mean()),
    }
    for name, share in zip(TERMS, errors.shares_of_all.tolist(), strict=True):
        figures[f"share-{name}"] = share
    intervals: dict[str, dict[str, float]] = {}
    if right.all() or not right.any():
        return Measured(figures)
    for predictor, kinds in failure_predictors(errors, correct, seed=0, n=n).items():
        for kind in [kind for kind in ("auc", "auc-within") if kind in kinds]:
            figures[f"{kind}-{predictor}"] = kinds[kind].mean
            intervals[f"{kind}-{predictor}"] = interval_settings(kinds[kind])
    return Measured(figures, details=intervals)


def symmetry_rows(read: Callable[[], PreparedText], options: Options) -> list[Row]:
    """How symmetric pairs of words are, as CBOW counts them and as attention weighs them."""
    settings = _FAST_PAIRS if options.fast else _PAIRS
    names = ("analogies", corpus_name(options), f"symmetry-{short_digest(settings)}")
    measure = partial(_symmetry, read, settings)
    kept = kept_seeds(Store(options.folder), names, options.n_seeds(SYMMETRY_SEEDS), measure)
    shown, rows = {"corpus": corpus_name(options), **settings}, []
    row = Row(task="symmetry", model="", settings=shown, metric="", n_configurations=1)
    for own in metric_rows(row, kept):
        model, _, metric = own.metric.partition(" ")
        rows.append(replace(own, model=model, metric=metric))
    return rows


def _symmetry(read: Callable[[], PreparedText], settings: Mapping[str, Any], seed: int) -> Measured:
    text = stretches(read(), n_words=settings["words"], n_tokens=settings["tokens"])
    ends = np.flatnonzero(text.tokens == -1)
    # Attention is fitted to most sentences; the rest judge it.
    cut = int(ends[int(0.95 * len(ends)) - 1]) + 1
    train, held = (
        PreparedText(part, text.vocabulary, int((part >= 0).sum()))
        for part in (text.tokens[:cut], text.tokens[cut:])
    )
    recipe = AttentionRecipe(settings["epochs"], settings["epochs"], 1e-3)
    model = fit_attention(train, settings["dim"], recipe, seed=seed)
    log_tau = attention_factors(model).log_tau
    shuffled = np.append(np.random.default_rng(seed).permutation(log_tau[:-1]), log_tau[-1])
    # Words by how often they are fitted to, once more than they are.
    words = train.tokens[train.tokens >= 0]
    counts = np.bincount(words, minlength=len(train.vocabulary)) + 1.0
    unigram = -np.log(counts / counts.sum())[held.tokens[held.tokens >= 0]]
    figures = {
        "attention nats": mean_nats(model, word_groups(held)),
        "unigram nats": float(unigram.mean()),
        "cbow factor-asymmetry": asymmetry(count_word_pairs(text, window=None).joint),
        "attention factor-log-tau-sd": float(log_tau.std()),
    }
    for name, own in (("attention", log_tau), ("attention-shuffled", shuffled)):
        sums = gamma_sums(text, own)
        figures[f"{name} factor-asymmetry"] = asymmetry(sums.p_bar)
        figures[f"{name} factor-zeta-spread"] = float(sums.zeta.std() / sums.zeta.mean())
    return Measured(figures, arrays={"log-tau": log_tau})


def stretches(text: PreparedText, *, n_words: int, n_tokens: int) -> PreparedText:
    """The head of a text, of its most frequent words alone, in sentences of eleven words."""
    head = list(islice(chain.from_iterable(text_lines(text)), n_tokens))
    kept = prepare_text([head], min_count=2, max_words=n_words)
    words = kept.tokens[kept.tokens >= 0]
    # A word alone has no context.
    words = words[: len(words) - (len(words) % _STRETCH == 1)]
    ends = np.arange(_STRETCH, len(words), _STRETCH)
    tokens = np.append(np.insert(words, ends, -1), -1).astype(np.int32)
    return PreparedText(tokens, kept.vocabulary, len(head))
