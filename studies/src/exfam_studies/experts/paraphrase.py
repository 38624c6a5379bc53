"""Why word analogies hold or fail: Lemmas 11 and 15, Propositions 4 and 7, and errors by term.

"toy-grammar" is exact: all 122 sentences of the paper's toy grammar, with their probabilities.
"max-difference-lemma" is the largest error, in nats, of the lemmas' identities by two ways of
getting probabilities that share no code; "max-difference-proposition" that of the vectors'
equation, in lengths of the answer, for truncated singular vectors of the smoothed matrix. Rows
"attention" are the bar versions, with logarithms of tau drawn from N(0, 1) for each seed.

"toy-corpus" fits CBOW to 10,000 sentences: what it misses of the matrix is the fourth term. Shares
are parts of the gap w_b* - (w_a* - w_a + w_b), along it; norms are lengths, the answer's being 1.

"corpus": whether the length of each term predicts which of Google's analogies fail, for truncated
singular vectors of a text's matrix. "sets" says how p(W | c) is smoothed, "mixed" with independent
words or "shrunk" to words independent given c, which decides between rho and Delta.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from exfam.reading.public_sets.word_questions import WordQuestions, word_questions
from exfam.reading.text import prepare_text
from exfam.scores.metrics import Interval
from exfam.vectors.neighbors import analogy_answers
from exfam.words import CBOW
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import Measured, Store, kept_seeds, metric_rows
from exfam_studies.common.rows import Row, interval_settings
from exfam_studies.common.word_corpus import corpus_name, read_corpus
from exfam_studies.experts.factorized import asymmetry
from exfam_studies.experts.paraphrases.analogies import (
    TERMS,
    AnalogyErrors,
    Factors,
    analogy_errors,
    attention_scales,
    check_proposition_4,
    truncated_factors,
)
from exfam_studies.experts.paraphrases.failures import failure_predictors
from exfam_studies.experts.paraphrases.lemmas import check_lemma_11
from exfam_studies.experts.paraphrases.windows import (
    attention_windows,
    sentence_windows,
    text_windows,
)
from exfam_studies.experts.paraphrases.word_sets import WordSets, factorized_matrix
from exfam_studies.experts.toy_sentences import ADJECTIVES, SUBJECTS, toy_population, toy_sentences

TASKS = ("toy-grammar", "toy-corpus", "corpus")
SEEDS = 5
SMOOTHING = 0.1
# Words are 12: the truncated matrix, and the whole.
DIMS = (5, 12)
CORPUS_DIM, FAST_CORPUS_DIM = 100, 10
N_WORDS, FAST_N_WORDS = 5000, 200
N_SENTENCES, FAST_SENTENCES = 10_000, 300
EPOCHS, FAST_EPOCHS = 20, 1
CBOW_DIM = 8
# Of the toy grammar's questions, in a smoke run.
FAST_EVERY = 200
# Pairs' worth of evidence that sets are shrunk with.
SHRINKAGE: dict[str, float | None] = {"mixed": None, "shrunk": 1.0}


def run(options: Options) -> list[Row]:
    """Check the identities exactly, then take errors of fitted vectors and of a text's apart."""
    tasks = dict(zip(TASKS, (_grammar_rows, _toy_rows, _corpus_rows), strict=True))
    return gather(
        [Job(name, partial(rows, options)) for name, rows in tasks.items() if options.wants(name)]
    )


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """The settings of the model that is fitted; others are computed."""
    fitted = row.task == "toy-corpus" and row.model == "cbow-softmax"
    return {"estimator": "CBOW", **_fitted_settings(options)} if fitted else {}


def _grammar_rows(options: Options) -> list[Row]:
    every = FAST_EVERY if options.fast else 1
    cbow, attention = (
        Row(task="toy-grammar", model=model, metric="") for model in ("cbow", "attention")
    )
    rows = _rows(cbow, 1, lambda _: _exact(every, None), options)
    return rows + _rows(attention, options.n_seeds(SEEDS), partial(_exact, every), options)


def _exact(every: int, seed: int | None) -> Measured:
    sentences, probability = toy_population()
    windows = sentence_windows(sentences, probability=probability)
    questions = list(itertools.permutations(windows.words, 4))[::every]
    by_word, scales, figures = None, None, dict[str, float]()
    if seed is not None:
        *of_word, mask = np.exp(np.random.default_rng(seed).standard_normal(len(windows.words) + 1))
        tau, mask = np.array(of_word), float(mask)
        by_word = dict(zip(windows.words, tau.tolist(), strict=True)), mask
        scales = attention_scales(windows, tau, mask=mask)
        windows = attention_windows(windows, tau, mask=mask)
        figures["paraphrase-zeta-spread"] = scales.spread
    lemma = check_lemma_11(sentences, probability, tau=by_word)
    sets, equations = WordSets(windows, smoothing=SMOOTHING), []
    for dim in DIMS:
        factors = _truncated(sets, dim)
        if scales is not None:
            factors = Factors(factors.words, factors.context / scales.scale[:, None])
        equations.append(check_proposition_4(factors, sets, questions, scales=scales))
    figures = {
        "max-difference-lemma": lemma.measured["max difference"],
        "count-cells": lemma.measured["cells"],
        "count-finite-cells": lemma.measured["finite cells"],
        "count-questions": equations[0].measured["questions"],
        "paraphrase-asymmetry": asymmetry(sets.pairs * sets.context),
        **figures,
    }
    for dim, equation in zip(DIMS, equations, strict=True):
        figures[f"max-difference-proposition-{dim}"] = equation.measured["max residual"]
    return Measured(figures)


def _truncated(sets: WordSets, dim: int) -> Factors:
    return truncated_factors(factorized_matrix(sets), dim)


def _toy_rows(options: Options) -> list[Row]:
    rows, n_seeds = [], options.n_seeds(SEEDS)
    for model in ("truncated-svd", "cbow-softmax"):
        row = Row(task="toy-corpus", model=model, metric="")
        rows += _rows(row, n_seeds, partial(_toy_errors, model, options), options)
    return rows


def _toy_errors(model: str, options: Options, seed: int) -> Measured:
    n_sentences = FAST_SENTENCES if options.fast else N_SENTENCES
    text = prepare_text(toy_sentences(n_sentences, seed=seed), min_count=1)
    sets = WordSets(text_windows(text), smoothing=SMOOTHING)
    if model == "truncated-svd":
        factors = _truncated(sets, CBOW_DIM)
    else:
        fitted = CBOW(**_fitted_settings(options), seed=seed, progress=False).fit(text)
        # Centers are predicted, as w_i; contexts are what c_j is of.
        vectors = fitted.output_vectors_, fitted.input_vectors_
        factors = Factors(*(part.astype(np.float64) for part in vectors))
    return Measured(_lengths(analogy_errors(factors, sets, toy_questions())))


def toy_questions() -> WordQuestions:
    """A subject is to an adjective as another is to another."""
    listed = tuple(
        (first, of_first, second, of_second)
        for first, second in itertools.permutations(SUBJECTS, 2)
        for of_first, of_second in itertools.permutations(ADJECTIVES, 2)
    )
    return WordQuestions("toy", listed, ("is",) * len(listed), {})


def _fitted_settings(options: Options) -> dict[str, Any]:
    epochs = FAST_EPOCHS if options.fast else EPOCHS
    return {
        "likelihood": "softmax", "window": None, "dim": CBOW_DIM, "min_count": 1, "epochs": epochs,
    }  # fmt: skip


def _corpus_rows(options: Options) -> list[Row]:
    prepared, corpus, rows = cache(partial(_prepared, options)), corpus_name(options), []
    for name in SHRINKAGE:
        row = Row(task="corpus", model="truncated-svd", metric="")
        row = replace(row, settings={"corpus": corpus, "window": 5, "sets": name})
        rows += _rows(row, 1, partial(_corpus_errors, name, prepared), options)
    return rows


def _prepared(options: Options) -> tuple[WordSets, Factors, WordQuestions]:
    n_words = FAST_N_WORDS if options.fast else N_WORDS
    text = read_corpus(options, min_count=5)
    sets = WordSets(text_windows(text, window=5, n_words=n_words), smoothing=SMOOTHING)
    factors = _truncated(sets, FAST_CORPUS_DIM if options.fast else CORPUS_DIM)
    if not options.fast:
        return sets, factors, word_questions("google")
    listed = tuple(itertools.permutations(sets.words[:6], 4))
    return sets, factors, WordQuestions("smoke", listed, ("smoke",) * len(listed), {})


def _corpus_errors(
    name: str, prepared: Callable[[], tuple[WordSets, Factors, WordQuestions]], _: int
) -> Measured:
    sets, factors, questions = prepared()
    sets = WordSets(sets.windows, smoothing=SMOOTHING, shrinkage=SHRINKAGE[name])
    errors = analogy_errors(factors, sets, questions)
    vectors, answered = factors.words.astype(np.float32), np.zeros(len(questions), dtype=bool)
    nearest = analogy_answers(vectors, errors.codes[:, :3], rule="3cosadd").rows[:, 0]
    answered[errors.question] = nearest == errors.codes[:, 3]
    figures = {
        **_lengths(errors),
        "count-questions": float(len(errors)),
        "accuracy": float(answered[errors.question].mean()),
        "paraphrase-seen": float(errors.seen.mean()),
    }
    intervals = {
        f"paraphrase-{kind}-{predictor}": interval
        for predictor, kinds in failure_predictors(errors, answered, seed=0).items()
        for kind, interval in kinds.items()
    }
    figures |= {name: interval.mean for name, interval in intervals.items()}
    return Measured(figures, details={name: list(ends) for name, ends in intervals.items()})


def _lengths(errors: AnalogyErrors) -> dict[str, float]:
    """Mean lengths, shares in all gaps together, and shares of questions by the term to blame."""
    norms, blame = errors.norms.mean(axis=0), errors.shares.argmax(axis=1)
    figures = {"paraphrase-norm-gap": float(errors.gap_norm.mean())}
    for i, (name, share) in enumerate(zip(TERMS, errors.shares_of_all, strict=True)):
        figures[f"paraphrase-norm-{name}"] = float(norms[i])
        figures[f"paraphrase-share-{name}"] = float(share)
        figures[f"paraphrase-blamed-{name}"] = float((blame == i).mean())
    return figures


def _rows(
    row: Row, n_seeds: int, measure: Callable[[int], Measured], options: Options
) -> list[Row]:
    names = (row.task, row.model, *map(str, row.settings.values()))
    names += ("fast",) if options.fast else ()
    kept = kept_seeds(Store(options.folder), names, n_seeds, measure)
    rows = metric_rows(replace(row, n_configurations=1), kept)
    if n_seeds > 1:
        return rows
    # One measurement is one without chance; it may have intervals.
    ends = {
        metric: interval_settings(Interval(*interval))
        for metric, interval in kept[0].details.items()
    }
    return [
        replace(own, n_seeds=None, settings={**own.settings, **ends.get(own.metric, {})})
        for own in rows
    ]
