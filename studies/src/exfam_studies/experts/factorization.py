"""What skip-gram and attention factorize, on the toy corpus and on Penn Treebank.

"spearman" and "pearson" are the correlations of products w . c with the matrix named in the row:
over all `cells`, and over those `defined`, pairs that occur. A band holds the pairs whose rarer
word was read so often. "frequencies" is no model: every product is log p(w), whatever is near.

"toy": SGNS of 5 negatives against PMI - log k, then without noise that is the predicted word
itself, which `SkipGram` does not count; masked attention without positions and residual connection
against proposition 6, and its c-tilde against the logarithm of p-bar. Trained all at once it
settles on single words, with nats far above those of CBOW, which it contains: "attention-at-once".
"attention" starts as CBOW and learns to attend afterwards. CBOW is in `cbow-factorization`.

"ptb": words read 100 times or more, those rarer left out, within 5 words of a sentence. SGNS comes
near its matrix where pairs are frequent. CBOW's products follow its matrix less than frequencies
alone do by Pearson: contexts are of 1 to 10 words, and of all pairs read two thirds have entries of
the linear form beyond 1, where the proof's expansions fail.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np

from exfam.language.tokens import lines_of
from exfam.reading.text import PreparedText, prepare_text
from exfam.words import CBOW, SkipGram
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import Kept, Measured, Store, kept_seeds, metric_row
from exfam_studies.common.rows import Row
from exfam_studies.common.token_streams import CORPORA, corpus_path
from exfam_studies.experts.factorized import (
    FactorMatrix,
    agreement,
    agreement_by_band,
    asymmetry,
    by_sentence,
    cbow_linear_matrix,
    cbow_log_matrix,
    count_word_pairs,
    sgns_matrix,
)
from exfam_studies.experts.factorized_attention import (
    attention_factors,
    attention_log_matrix,
    attention_matrix,
    gamma_sums,
)
from exfam_studies.experts.toy_sentences import toy_sentences
from exfam_studies.experts.word_attention import AttentionRecipe, fit_attention, mean_nats

TASKS = ("toy", "ptb")
SEEDS = {"toy": 5, "ptb": 3}
TOY_DIMS, PTB_DIM = (30, 300), 100
TOY_EPOCHS, TOY_WINDOW, PTB_EPOCHS, PTB_WINDOW = 20, 4, 5, 5
N_SENTENCES, FAST_SENTENCES, FAST_LINES = 10_000, 300, 300
MIN_COUNT, FAST_MIN_COUNT = 100, 20
BANDS, FAST_BANDS = (200, 500, 2000), (50,)
NEGATIVES = 5
# Noise is drawn as words are frequent, as the theory has it.
SKIPGRAM: dict[str, Any] = {
    "negatives": NEGATIVES, "subsample": 0.0, "noise_exponent": 1.0, "min_count": 1,
    "deterministic": True,
}  # fmt: skip
CBOW_SETTINGS: dict[str, Any] = {"likelihood": "softmax", "min_count": 1}
RECIPES = {
    "attention": AttentionRecipe(apart=10, together=20, rate=1e-4),
    "attention-at-once": AttentionRecipe(apart=0, together=20, rate=1e-3),
}
# Recipes and rates that were tried on one corpus each before these were chosen by training nats.
_TRIED = {"attention": 2, "attention-at-once": 4, "sgns": 3, "cbow-softmax": 1, "frequencies": None}
_HELD_OUT = 1000
_JOIN = " | "


@dataclass(frozen=True, eq=False)
class Judged:
    """Products of a model, centers in rows, beside the matrices they should be, and its figures."""

    compared: Mapping[str, tuple[np.ndarray, FactorMatrix]]
    figures: dict[str, float] = field(default_factory=dict)


def run(options: Options) -> list[Row]:
    """Fit each model to each corpus, and compare products with matrices counted from it."""
    parts = {"toy": _toy_jobs, "ptb": _ptb_jobs}
    return gather([job for task in TASKS if options.wants(task) for job in parts[task](options)])


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """The settings of a row's model that differ from the defaults."""
    own = {name: row.settings[name] for name in ("dim", "window", "epochs") if name in row.settings}
    if row.model == "sgns":
        return {"estimator": "SkipGram", "window": TOY_WINDOW, **own, **SKIPGRAM}
    if row.model == "cbow-softmax":
        return {"estimator": "CBOW", **own, **CBOW_SETTINGS}
    recipe = RECIPES.get(row.model)
    return {} if recipe is None else {"network": "word attention", **own, **asdict(recipe)}


def _toy_jobs(options: Options) -> list[Job]:
    n = FAST_SENTENCES if options.fast else N_SENTENCES
    epochs = 2 if options.fast else TOY_EPOCHS

    def sgns(dim: int, seed: int) -> Judged:
        settings = {"dim": dim, "window": TOY_WINDOW, "epochs": epochs}
        return _skipgram(_toy(n, seed), settings, seed=seed)

    def attention(model: str, dim: int, seed: int) -> Judged:
        recipe = RECIPES[model]
        if options.fast:
            recipe = replace(recipe, apart=min(recipe.apart, 1), together=1)
        return _attention(_toy(n, seed), dim, recipe, held_out=_toy_held_out(n, seed), seed=seed)

    def frequencies(seed: int) -> Judged:
        return _by_frequency(_toy(n, seed), window=None, held_out=_toy_held_out(n, seed))

    jobs = [_job("toy", "frequencies", {}, frequencies, options)]
    for dim in TOY_DIMS:
        settings = {"dim": dim, "epochs": epochs}
        jobs.append(_job("toy", "sgns", settings, partial(sgns, dim), options))
        for model in RECIPES:
            judge = partial(attention, model, dim)
            jobs.append(_job("toy", model, {"dim": dim}, judge, options))
    return jobs


def _ptb_jobs(options: Options) -> list[Job]:
    read = cache(partial(_ptb, options))
    settings = {"dim": PTB_DIM, "window": PTB_WINDOW, "epochs": PTB_EPOCHS}
    if options.fast:
        settings |= {"dim": 4, "epochs": 1}
    text, held_out = partial(read, "train"), partial(read, "test")
    models: dict[str, tuple[dict[str, Any], Callable[[int], Judged]]] = {
        "frequencies": (
            {},
            lambda seed: _by_frequency(text(), window=PTB_WINDOW, held_out=held_out()),
        ),
        "sgns": (settings, lambda seed: _skipgram(text(), settings, seed=seed)),
        "cbow-softmax": (
            settings,
            lambda seed: _cbow(text(), settings, held_out=held_out(), seed=seed),
        ),
    }
    return [
        _job("ptb", model, own, judge, options, text=text) for model, (own, judge) in models.items()
    ]


def _job(
    task: str,
    model: str,
    settings: dict[str, Any],
    judge: Callable[[int], Judged],
    options: Options,
    *,
    text: Callable[[], PreparedText] | None = None,
) -> Job:
    """The rows of a model; of a given text, also by bands of frequency."""
    row = Row(task=task, model=model, settings=settings, metric="", n_configurations=_TRIED[model])
    shown = "-".join(f"{name}-{value}" for name, value in settings.items()) or "none"
    names = (task, model, shown, "fast" if options.fast else "whole")

    def measure(seed: int) -> Measured:
        judged = judge(seed)
        figures: dict[str, float] = dict(judged.figures)
        for name, (products, matrix) in judged.compared.items():
            agreed = [agreement(products, matrix)]
            if text is not None:
                counts, bounds = text().vocabulary.counts, FAST_BANDS if options.fast else BANDS
                agreed += agreement_by_band(products, matrix, frequency=counts, bounds=bounds)
            for band in agreed:
                own = {
                    "spearman": band.spearman,
                    "pearson": band.pearson,
                    "count-cells": float(band.n_cells),
                    "count-defined": float(band.n_defined),
                }
                figures |= {
                    _JOIN.join([metric, name, band.band]): value
                    for metric, value in own.items()
                    if np.isfinite(value)
                }
        return Measured(figures)

    def rows() -> list[Row]:
        kept = kept_seeds(Store(options.folder), names, options.n_seeds(SEEDS[task]), measure)
        return [_row(row, name, kept) for name in kept[0].figures if not name.startswith("count-")]

    return Job(f"{task} {model} {settings.get('dim', '')}".strip(), rows)


def _row(row: Row, name: str, kept: list[Kept]) -> Row:
    """The row of a figure: of a model alone, or of its products, a matrix and a band."""
    metric, *whose = name.split(_JOIN)
    settings = dict(row.settings)
    if whose:
        settings |= {"matrix": whose[0], "band": whose[1]}
        for count in ("cells", "defined"):
            key = _JOIN.join([f"count-{count}", *whose])
            settings[count] = round(float(np.mean([fit.figures[key] for fit in kept])))
    whole = metric_row(replace(row, settings=settings, metric=name), kept)
    return replace(whole, metric=metric)


def _by_frequency(text: PreparedText, *, window: int | None, held_out: PreparedText) -> Judged:
    """No model: words predicted by their frequencies alone, whatever is near."""
    pairs = count_word_pairs(text, window=window)
    log_p = np.log(text.vocabulary.counts / text.vocabulary.counts.sum())
    products = np.repeat(log_p[:, None], len(log_p), axis=1)
    # Models are scored on words of sentences of two or more.
    sentence, length = by_sentence(held_out.tokens)
    own = log_p[held_out.tokens[held_out.tokens >= 0][length[sentence] > 1]]
    return Judged(
        {
            "PMI - log k": (products, sgns_matrix(pairs, negatives=NEGATIVES)),
            "CBOW, log": (products, cbow_log_matrix(pairs)),
            "CBOW, linear": (products, cbow_linear_matrix(pairs)),
        },
        {"nats": -float(own.mean()), "factor-asymmetry": asymmetry(pairs.joint)},
    )


def _skipgram(text: PreparedText, settings: dict[str, Any], *, seed: int) -> Judged:
    model = SkipGram(**settings, **SKIPGRAM, seed=seed, progress=False).fit(text)
    pairs = count_word_pairs(text, window=settings["window"], weights="dynamic")
    products = model.output_vectors_ @ model.input_vectors_.T
    excused = sgns_matrix(pairs, negatives=NEGATIVES, excused=True)
    return Judged(
        {
            "PMI - log k": (products, sgns_matrix(pairs, negatives=NEGATIVES)),
            "PMI - log k, own noise excused": (products, excused),
        }
    )


def _cbow(
    text: PreparedText, settings: dict[str, Any], *, held_out: PreparedText, seed: int
) -> Judged:
    model = CBOW(**settings, **CBOW_SETTINGS, seed=seed, progress=False).fit(text)
    pairs = count_word_pairs(text, window=settings["window"])
    products = model.output_vectors_ @ model.input_vectors_.T
    return Judged(
        {
            "CBOW, log": (products, cbow_log_matrix(pairs)),
            "CBOW, linear": (products, cbow_linear_matrix(pairs)),
        },
        {"nats": -model.score(held_out)},
    )


def _attention(
    text: PreparedText, dim: int, recipe: AttentionRecipe, *, held_out: PreparedText, seed: int
) -> Judged:
    """The masked model of proposition 6, its c, and its c-tilde."""
    model = fit_attention(text, dim, recipe, seed=seed)
    factors = attention_factors(model)
    sums = gamma_sums(text, factors.log_tau)
    transformed = factors.words @ sums.c_tilde(factors.contexts).T
    return Judged(
        {
            "proposition 6": (factors.products, attention_matrix(sums)),
            "c-tilde, log": (transformed, attention_log_matrix(sums)),
        },
        {
            "nats": mean_nats(model, held_out),
            "factor-asymmetry": asymmetry(sums.p_bar),
            "factor-zeta-spread": float(sums.zeta.std() / sums.zeta.mean()),
            "factor-log-tau-sd": float(factors.log_tau.std()),
        },
    )


@cache
def _toy(n_sentences: int, seed: int) -> PreparedText:
    return prepare_text(toy_sentences(n_sentences, seed=seed), min_count=1)


@cache
def _toy_held_out(n_sentences: int, seed: int) -> PreparedText:
    """Sentences that no fit has seen, in the codes of those it has."""
    known = _toy(n_sentences, seed).vocabulary
    drawn = toy_sentences(n_sentences, seed=_HELD_OUT + seed)
    return prepare_text(drawn, vocabulary=known, max_words=len(known), min_count=1)


def _ptb(options: Options, part: str) -> PreparedText:
    """Words of the training part read often enough, in a part."""
    train = prepare_text(
        _lines("train", options), min_count=FAST_MIN_COUNT if options.fast else MIN_COUNT
    )
    if part == "train":
        return train
    known = train.vocabulary
    return prepare_text(_lines(part, options), vocabulary=known, max_words=len(known), min_count=1)


def _lines(part: str, options: Options) -> list[list[str]]:
    words = [line for _, line in lines_of(corpus_path(CORPORA["ptb"], part))]
    return words[:FAST_LINES] if options.fast else words
