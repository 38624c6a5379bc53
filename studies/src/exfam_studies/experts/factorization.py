"""What skip-gram and attention factorize, on the toy corpus and on Penn Treebank.

"spearman" and "pearson" are the correlations of products w . c with the matrix named in the row:
over all `cells`, and over those `defined`, pairs that occur. A band holds the pairs whose rarer
word was read so often. "frequencies" is no model: every product is log p(w), whatever is near.

"toy": SGNS of 5 negatives against PMI - log k, then without noise that is the predicted word
itself, which `SkipGram` does not count; masked attention without positions and residual connection
against proposition 6, and its c-tilde against the logarithm of p-bar. "attention" starts as CBOW
and learns to attend afterwards; trained at once it settles on single words. "ptb": words read 100
times or more, within 5 words of a sentence.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import cache, partial
from itertools import islice
from typing import Any

import numpy as np

from exfam.language.tokens import lines_of
from exfam.reading.text import PreparedText, prepare_text
from exfam.words import CBOW, SkipGram
from exfam_studies.common.fits import Job, gather
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import Measured, Store, kept_seeds, metric_rows
from exfam_studies.common.rows import Row
from exfam_studies.common.token_streams import CORPORA, corpus_path
from exfam_studies.experts.factorized import (
    Judged,
    agreement,
    agreement_by_band,
    asymmetry,
    by_sentence,
    cbow_linear_matrix,
    cbow_log_matrix,
    count_word_pairs,
    sgns_matrix,
)
from exfam_studies.experts.factorized_attention import AttentionRecipe, judge_attention
from exfam_studies.experts.toy_sentences import toy_sentences

Settings = dict[str, Any]

TASKS = ("toy", "ptb")
SEEDS = {"toy": 5, "ptb": 3}
TOY_DIMS, PTB_DIM = (30, 300), 100
TOY_EPOCHS, TOY_WINDOW, PTB_EPOCHS, PTB_WINDOW = 20, 4, 5, 5
# Sentences or lines at most (Penn Treebank has 42,068), and how often a word is read that counts.
SIZES = {"toy": (10_000, 1), "ptb": (50_000, 100)}
FAST_SIZES = {"toy": (300, 1), "ptb": (300, 20)}
BANDS, FAST_BANDS = (200, 500, 2000), (50,)
NEGATIVES = 5
# Noise is drawn as words are frequent, as the theory has it.
SKIPGRAM: Settings = {
    "negatives": NEGATIVES, "subsample": 0.0, "noise_exponent": 1.0, "min_count": 1,
    "deterministic": True,
}  # fmt: skip
CBOW_SETTINGS: Settings = {"likelihood": "softmax", "min_count": 1}
RECIPES = {
    "attention": AttentionRecipe(apart=10, together=20, rate=1e-4),
    "attention-at-once": AttentionRecipe(apart=0, together=20, rate=1e-3),
}
# Recipes and rates that were tried on one corpus each before these were chosen by training nats.
_TRIED = {"attention": 2, "attention-at-once": 4, "sgns": 3, "cbow-softmax": 1, "frequencies": None}
_HELD_OUT = 1000
_JOIN = " | "

Texts = tuple[PreparedText, PreparedText]
Judge = Callable[..., Judged]


def run(options: Options) -> list[Row]:
    """Fit each model to each corpus, and compare products with matrices counted from it."""
    jobs = []
    for task in filter(options.wants, TASKS):
        for model, judge, shown, hidden in _models(task, options):
            label = f"{task} {model} {shown.get('dim', '')}".strip()
            judged = partial(judge, settings={**shown, **hidden})
            jobs.append(Job(label, partial(_rows, task, model, shown, judged, options)))
    return gather(jobs)


def parameters(row: Row, options: Options) -> Mapping[str, Any]:
    """The settings of a row's model that differ from the defaults."""
    own = {name: row.settings[name] for name in ("dim", "window", "epochs") if name in row.settings}
    if row.model == "sgns":
        return {"estimator": "SkipGram", "window": TOY_WINDOW, **own, **SKIPGRAM}
    if row.model == "cbow-softmax":
        return {"estimator": "CBOW", **own, **CBOW_SETTINGS}
    recipe = RECIPES.get(row.model)
    return {} if recipe is None else {"network": "word attention", **own, **asdict(recipe)}


def _models(task: str, options: Options) -> Iterator[tuple[str, Judge, Settings, Settings]]:
    """Models, what judges them, their settings that rows have, and those that rows have not."""
    if task == "ptb":
        dim, epochs = (4, 1) if options.fast else (PTB_DIM, PTB_EPOCHS)
        settings = {"dim": dim, "window": PTB_WINDOW, "epochs": epochs}
        yield "frequencies", judge_frequencies, {}, {"window": PTB_WINDOW}
        yield "sgns", _skipgram, settings, {}
        yield "cbow-softmax", judge_cbow, settings, {}
        return
    yield "frequencies", judge_frequencies, {}, {"window": None}
    for dim in TOY_DIMS:
        epochs = 2 if options.fast else TOY_EPOCHS
        yield "sgns", _skipgram, {"dim": dim, "epochs": epochs}, {"window": TOY_WINDOW}
        for model, recipe in RECIPES.items():
            if options.fast:
                recipe = replace(recipe, apart=min(recipe.apart, 1), together=1)
            yield model, judge_attention, {"dim": dim}, {"recipe": recipe}


def _rows(task: str, model: str, shown: Settings, judge: Judge, options: Options) -> list[Row]:
    named = "-".join(f"{name}-{value}" for name, value in shown.items()) or "none"
    names = (task, model, named, "fast" if options.fast else "whole")
    measure = partial(_measure, task, judge, options)
    kept = kept_seeds(Store(options.folder), names, options.n_seeds(SEEDS[task]), measure)
    row = Row(task=task, model=model, settings=shown, metric="", n_configurations=_TRIED[model])
    figures, rows = {own.metric: own for own in metric_rows(row, kept)}, []
    for name, own in figures.items():
        metric, *whose = name.split(_JOIN)
        settings = dict(shown)
        if whose:
            settings |= {"matrix": whose[0], "band": whose[1]}
            for count in ("cells", "defined"):
                cells = figures[_JOIN.join([f"count-{count}", *whose])]
                settings[count] = round(cells.value or 0)
        if not metric.startswith("count-"):
            rows.append(replace(own, metric=metric, settings=settings))
    return rows


def _measure(task: str, judge: Judge, options: Options, seed: int) -> Measured:
    n, min_count = (FAST_SIZES if options.fast else SIZES)[task]
    texts = read_texts(task, n, min_count, 0 if task == "ptb" else seed)
    compared, figures = judge(texts, seed=seed)
    for name, (products, matrix) in compared.items():
        agreed = [agreement(products, matrix)]
        if task == "ptb":
            counts, bounds = texts[0].vocabulary.counts, FAST_BANDS if options.fast else BANDS
            agreed += agreement_by_band(products, matrix, frequency=counts, bounds=bounds)
        for band in agreed:
            own = {"spearman": band.spearman, "pearson": band.pearson}
            own |= {"count-cells": band.n_cells, "count-defined": band.n_defined}
            figures |= {
                _JOIN.join([metric, name, band.band]): value
                for metric, value in own.items()
                if np.isfinite(value)
            }
    return Measured(figures)


def judge_frequencies(texts: Texts, settings: Settings, seed: int) -> Judged:
    """Words' frequencies as products, beside all matrices."""
    text, held_out = texts
    pairs = count_word_pairs(text, window=settings["window"])
    log_p = np.log(text.vocabulary.counts / text.vocabulary.counts.sum())
    products = np.repeat(log_p[:, None], len(log_p), axis=1)
    # Models are scored on words of sentences of two or more.
    sentence, length = by_sentence(held_out)
    own = log_p[held_out.tokens[held_out.tokens >= 0][length[sentence] > 1]]
    return {
        "PMI - log k": (products, sgns_matrix(pairs, negatives=NEGATIVES)),
        "CBOW, log": (products, cbow_log_matrix(pairs)),
        "CBOW, linear": (products, cbow_linear_matrix(pairs)),
    }, {"nats": -float(own.mean()), "factor-asymmetry": asymmetry(pairs.joint)}


def _skipgram(texts: Texts, settings: Settings, seed: int) -> Judged:
    model = SkipGram(**settings, **SKIPGRAM, seed=seed, progress=False).fit(texts[0])
    pairs = count_word_pairs(texts[0], window=settings["window"], weights="dynamic")
    products = model.output_vectors_ @ model.input_vectors_.T
    plain, excused = (sgns_matrix(pairs, negatives=NEGATIVES, excused=x) for x in (False, True))
    return {
        "PMI - log k": (products, plain),
        "PMI - log k, own noise excused": (products, excused),
    }, {}


def judge_cbow(texts: Texts, settings: Settings, seed: int) -> Judged:
    """The products of a fit of CBOW, beside its two matrices."""
    model = CBOW(**settings, **CBOW_SETTINGS, seed=seed, progress=False).fit(texts[0])
    pairs = count_word_pairs(texts[0], window=settings["window"])
    products = model.output_vectors_ @ model.input_vectors_.T
    return {
        "CBOW, log": (products, cbow_log_matrix(pairs)),
        "CBOW, linear": (products, cbow_linear_matrix(pairs)),
    }, {"nats": -model.score(texts[1])}


@cache
def read_texts(task: str, n: int, min_count: int, seed: int) -> Texts:
    """A text of `n` sentences or lines, and one that no fit has seen, in the codes of its words."""
    if task == "toy":
        lines = [toy_sentences(n, seed=own) for own in (seed, _HELD_OUT + seed)]
    else:
        paths = [corpus_path(CORPORA["ptb"], part) for part in ("train", "test")]
        lines = [[line for _, line in islice(lines_of(path), n)] for path in paths]
    train = prepare_text(lines[0], min_count=min_count)
    known = train.vocabulary
    held_out = prepare_text(lines[1], vocabulary=known, max_words=len(known), min_count=1)
    return train, held_out
