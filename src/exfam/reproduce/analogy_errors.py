"""Why analogies fail: the errors of questions taken apart, and how symmetric attention is.

The law is that of windows of the corpus's most frequent words, smoothed, since most sets of two
words are never seen around most others; which of "rho" and "Delta" is to blame depends on how much,
"delta" and "residual" do not. "svd" are truncated singular vectors of the law's own matrix, whose
residual is 0; the others are the fitted sets, cut to these words. A word answers where it is the
nearest of these words. "auc-" is the probability that a question that fails has a longer gap, or
term of it, than one that is answered; "auc-within-" the same of two questions of one relation;
"rarity" of the answer is what needs no decomposition. "share-" is the part of a term in all gaps.

"symmetry" is of pairs of words in stretches of eleven: as CBOW counts them, and as the attention of
the paper's own model weighs them, which is fitted to these stretches, first with attention held
where it is alike for all. "attention-shuffled" has its weights exchanged among words by chance.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain, islice
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from exfam.analysis.factorization import attention_factors
from exfam.analysis.paraphrase import (
    TERMS,
    AnalogyErrors,
    Windows,
    WordLaw,
    analogy_errors,
    asymmetry,
    attention_scales,
    attention_windows,
    by_relation,
    factorized_matrix,
    factors_of,
    failure_predictors,
    text_windows,
    truncated_factors,
)
from exfam.analysis.vectors import OffsetAnswers, WordVectors, answer_by_offsets, common_questions
from exfam.checks import DataError
from exfam.data.public_sets.word_questions import WordQuestions
from exfam.data.text import PreparedText, prepare_text
from exfam.groups import Groups
from exfam.models.word_attention import WordAttention, build_word_attention, word_nats
from exfam.reproduce.analogy_sets import VectorSet, text_lines
from exfam.reproduce.fits import Job
from exfam.reproduce.harness import Options
from exfam.reproduce.kept_figures import FigureKey, Measured, figure_store, measured, metric_row
from exfam.reproduce.masked_lms import short_digest
from exfam.reproduce.rows import Row
from exfam.reproduce.word_corpus import corpus_name
from exfam.training.optimizer import TrainingSettings
from exfam.training.steps import fit

__all__ = ["EXPLAINED", "explanation_jobs", "fitted_attention", "stretches", "symmetry_jobs"]

EXPLAINED = ("svd", "sgns", "sgns-tied", "cbow")
_SVD = "svd"
_LAW: Mapping[str, Any] = {"words": 5000, "window": 5, "smoothing": 0.1}
_FAST_LAW: dict[str, Any] = {**_LAW, "words": 500}
_SVD_DIM, _FAST_SVD_DIM = 200, 4
_REDRAWINGS, _FAST_REDRAWINGS = 1000, 20

SYMMETRY_SEEDS = 3
_STRETCH = 11
_PAIRS: Mapping[str, Any] = {"words": 3000, "tokens": 1_000_000, "dim": 50, "epochs": 2}
_FAST_PAIRS: Mapping[str, Any] = {"words": 30, "tokens": 4000, "dim": 4, "epochs": 1}
_ATTENTION = TrainingSettings(learning_rate=3e-3, batch_size=128)
# Share of the sentences that attention is judged on, and how many are told at a time.
_HELD_OUT, _AT_ONCE = 0.05, 256


@dataclass(frozen=True)
class _Explained:
    """Where the law and the fitted sets come from."""

    law: Callable[[], WordLaw]
    sets: Callable[[str], VectorSet]
    questions: Callable[[], WordQuestions]
    options: Options

    @property
    def settings(self) -> Mapping[str, Any]:
        return _FAST_LAW if self.options.fast else _LAW


def explanation_jobs(
    task: str,
    read: Callable[[], PreparedText],
    sets: Callable[[str], VectorSet],
    questions: Callable[[], WordQuestions],
    options: Options,
) -> list[Job]:
    """Of each of EXPLAINED, whether the terms of its errors tell which questions fail.

    `sets`: fitted sets by their names
    """
    law = cache(partial(_law, read, options))
    parts = _Explained(law, sets, questions, options)
    return [
        Job(f"{task} {model}", partial(_explained_rows, task, model, parts)) for model in EXPLAINED
    ]


def symmetry_jobs(task: str, read: Callable[[], PreparedText], options: Options) -> list[Job]:
    """How symmetric pairs of words are, as CBOW counts them and as attention weighs them."""
    return [Job(task, partial(_symmetry_rows, task, read, options))]


def stretches(
    text: PreparedText, *, n_words: int, n_tokens: int, length: int = _STRETCH
) -> PreparedText:
    """The head of a text, of its most frequent words alone, in sentences of `length` words.

    >>> from exfam.data.text import prepare_text
    >>> cut = stretches(prepare_text(["a b c a b a"], min_count=1), n_words=2, n_tokens=6, length=3)
    >>> cut.tokens.tolist(), cut.vocabulary.words
    ([0, 1, 0, -1, 1, 0, -1], ('a', 'b'))
    """
    head = list(islice(chain.from_iterable(text_lines(text)), n_tokens))
    kept = prepare_text([head], min_count=2, max_words=n_words)
    words = kept.tokens[kept.tokens >= 0]
    # A word alone has no context.
    words = words[: len(words) - (len(words) % length == 1)]
    ends = np.arange(length, len(words), length)
    tokens = np.append(np.insert(words, ends, -1), -1).astype(np.int32)
    return PreparedText(tokens, kept.vocabulary, len(head))


def fitted_attention(
    text: PreparedText, settings: Mapping[str, Any], *, seed: int
) -> WordAttention:
    """The paper's own model of one head without positions, fitted to all but a few last sentences.

    Half of the epochs attention stays as it begins, the same for all words: trained with the rest
    from the start, it may settle on single words.
    Raises KeyboardInterrupt where Ctrl-C cut the fit short.
    """
    model = build_word_attention(
        len(text.vocabulary),
        embed_dim=settings["dim"],
        generator=torch.Generator().manual_seed(seed),
    )
    chosen = replace(_ATTENTION, seed=seed, max_epochs=settings["epochs"])
    train, _ = _parts(text)
    for trains in (False, True):
        for part in (model.query, model.key):
            part.requires_grad_(trains)
        history = fit(model, objective=word_nats, train=train, settings=chosen, progress=False)
        if history.interrupted:
            raise KeyboardInterrupt("a fit was cut short")
    return model


def _parts(text: PreparedText) -> tuple[Groups, Groups]:
    """Sentences as groups of words: those that are fitted to, and those that are not."""
    ends = np.flatnonzero(text.tokens == -1)
    stop = ends - np.arange(len(ends))
    start = np.append(0, stop[:-1])
    groups = Groups(start=start, stop=stop, item=text.tokens[text.tokens >= 0])
    n_train = len(groups) - max(1, int(_HELD_OUT * len(groups)))
    return groups[:n_train], groups[n_train:]


def _law(read: Callable[[], PreparedText], options: Options) -> WordLaw:
    settings = _FAST_LAW if options.fast else _LAW
    windows = text_windows(read(), window=settings["window"], n_words=settings["words"])
    return WordLaw(windows, smoothing=settings["smoothing"])


def _explained_rows(task: str, model: str, parts: _Explained) -> list[Row]:
    options = parts.options
    store = figure_store(options.folder)
    digest = short_digest({**parts.settings, "svd": _SVD_DIM})
    key = FigureKey(("analogies", corpus_name(options), f"explained-{digest}", model))
    kept = measured(store, key, partial(_explained, model, parts))
    settings = {"corpus": corpus_name(options), **parts.settings}
    row = Row(task=task, model=model, settings=settings, metric="", n_configurations=1)
    rows = []
    for metric in kept.figures:
        interval = dict(zip(("low", "high"), kept.arrays.get(metric, ()), strict=False))
        told = replace(row, metric=metric, settings={**settings, **interval})
        rows.append(metric_row(told, [kept]))
    return rows


def _explained(model: str, parts: _Explained) -> Measured:
    law = parts.law()
    vectors = _svd_vectors(law, parts.options) if model == _SVD else _cut(law, parts.sets(model))
    try:
        questions = common_questions([vectors], parts.questions())
    except DataError:  # of a small text: none of the questions is of these words
        return {"count-questions": 0.0}, {}
    answers = answer_by_offsets(vectors, questions)
    errors = analogy_errors(factors_of(vectors, law), law, questions)
    (shares,) = by_relation(replace(errors, categories=("all",) * len(errors)))
    figures = {
        "count-questions": float(len(errors)),
        "accuracy-overall": float(answers.correct[errors.question].mean()),
        "coverage-seen": shares.seen,
        **{f"share-{name}": share for name, share in zip(TERMS, shares.shares, strict=True)},
    }
    told, intervals = _predicted(errors, answers, parts.options)
    told = figures | told
    # Singular vectors miss nothing of the matrix but what rounding does.
    kept = [name for name in told if model != _SVD or not name.endswith("-residual")]
    return {name: told[name] for name in kept}, intervals


def _predicted(
    errors: AnalogyErrors, answers: OffsetAnswers, options: Options
) -> tuple[dict[str, float], dict[str, list[float]]]:
    """Figures of each predictor of failures, and their intervals; none where all go one way."""
    right = answers.correct[errors.question]
    if right.all() or not right.any():
        return {}, {}
    n = _FAST_REDRAWINGS if options.fast else _REDRAWINGS
    figures, intervals = {}, {}
    for each in failure_predictors(errors, answers.correct, seed=0, n=n):
        for metric, interval in (("auc", each.auc), ("auc-within", each.auc_within)):
            if interval is not None:
                name = f"{metric}-{each.name}"
                figures[name] = interval.mean
                intervals[name] = [round(interval.low, 4), round(interval.high, 4)]
    return figures, intervals


def _svd_vectors(law: WordLaw, options: Options) -> WordVectors:
    dim = _FAST_SVD_DIM if options.fast else _SVD_DIM
    factors = truncated_factors(factorized_matrix(law), dim)
    center, context = factors.words.astype(np.float32), factors.context.astype(np.float32)
    return WordVectors(law.words, center, context)


def _cut(law: WordLaw, own: VectorSet) -> WordVectors:
    """The first seed's vectors of the words of the law, in its order."""
    vectors = own.vectors[0]
    rows = vectors.codes(law.words)
    return WordVectors(law.words, vectors.matrix()[rows], vectors.matrix("context")[rows])


def _symmetry_rows(task: str, read: Callable[[], PreparedText], options: Options) -> list[Row]:
    settings = _FAST_PAIRS if options.fast else _PAIRS
    store, kept = figure_store(options.folder), []
    for seed in range(options.n_seeds(SYMMETRY_SEEDS)):
        names = ("analogies", corpus_name(options), f"symmetry-{short_digest(settings)}")
        measure = partial(_symmetry, read, settings, seed)
        kept.append(measured(store, FigureKey(names, seed), measure))
    told = {"corpus": corpus_name(options), **settings}
    rows = []
    for name in kept[0].figures:
        model, _, metric = name.partition(" ")
        row = Row(task=task, model=model, settings=told, metric=name, n_configurations=1)
        rows.append(replace(metric_row(row, kept), metric=metric))
    return rows


def _symmetry(read: Callable[[], PreparedText], settings: Mapping[str, Any], seed: int) -> Measured:
    text = stretches(read(), n_words=settings["words"], n_tokens=settings["tokens"])
    model = fitted_attention(text, settings, seed=seed)
    log_tau = attention_factors(model).log_tau
    # Weights are of exp(log tau) up to a factor: MASK's is 1.
    tau, plain = np.exp(log_tau[:-1] - log_tau[-1]), text_windows(text)
    shuffled = np.random.default_rng(seed).permutation(tau)
    figures = {"attention nats": _nats(model, text), "unigram nats": _unigram_nats(text)}
    figures |= _pair_figures("cbow", plain, plain, np.ones(len(tau)))
    for name, own in (("attention", tau), ("attention-shuffled", shuffled)):
        figures |= _pair_figures(name, plain, attention_windows(plain, own, mask=1.0), own)
    return figures, {"log-tau": np.log(tau).tolist()}


def _pair_figures(
    model: str, plain: Windows, weighed: Windows, tau: Float[np.ndarray, "words"]
) -> dict[str, float]:
    """How far p_bar is from symmetric, and zeta from one number for all words."""
    told = asymmetry(WordLaw(weighed))
    return {
        f"{model} asymmetry-total-variation": told.total_variation,
        f"{model} asymmetry-log-ratio": told.log_ratio,
        f"{model} asymmetry-one-sided": told.one_sided,
        f"{model} zeta-spread": attention_scales(plain, tau, mask=1.0).spread,
    }


def _nats(model: WordAttention, text: PreparedText) -> float:
    """Mean loss of a word that the model was not fitted to, given those around it."""
    _, held = _parts(text)
    nats, n = 0.0, 0
    with torch.inference_mode():
        for first in range(0, len(held), _AT_ONCE):
            places = list(range(first, min(len(held), first + _AT_ONCE)))
            told, n_told = word_nats(model, held.pad(places))
            nats, n = nats + float(told), n + int(n_told)
    return nats / n


def _unigram_nats(text: PreparedText) -> float:
    """The same of words told by how often they are fitted to, once more than they are."""
    train, held = (part.compact().item for part in _parts(text))
    assert train is not None and held is not None
    counts = np.bincount(train, minlength=len(text.vocabulary)) + 1.0
    return -float(np.log(counts / counts.sum())[held].mean())
