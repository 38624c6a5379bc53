"""Models of words whose products of vectors are compared with what they should factorize."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int32

from exfam.groups import Groups
from exfam.reading.text import PreparedText
from exfam.training.optimizer import TrainingSettings
from exfam.training.steps import fit
from exfam.words import CBOW, SkipGram
from exfam.words.word_estimator import TextEstimator
from exfam_studies.experts.factorized import (
    FactorMatrix,
    asymmetry,
    attention_factors,
    attention_log_matrix,
    attention_matrix,
    cbow_linear_matrix,
    cbow_log_matrix,
    count_word_pairs,
    gamma_sums,
    sgns_excused_matrix,
    sgns_matrix,
)
from exfam_studies.experts.factorized.pairs import by_sentence
from exfam_studies.experts.word_attention import WordAttention, build_word_attention, word_nats

NEGATIVES = 5
_AT_ONCE = 1000


class Compared(NamedTuple):
    """Products, centers in rows, beside the matrix they should be, and what that is called."""

    name: str
    products: np.ndarray
    matrix: FactorMatrix


@dataclass(frozen=True, eq=False)
class Judged:
    """What a fitted model is compared with, and further figures of it."""

    compared: tuple[Compared, ...]
    figures: dict[str, float] = field(default_factory=dict)


# Noise is drawn as words are frequent, as the theory has it.
SKIPGRAM: dict[str, Any] = {
    "negatives": NEGATIVES, "subsample": 0.0, "noise_exponent": 1.0, "min_count": 1,
    "deterministic": True,
}  # fmt: skip
CBOW_SETTINGS: dict[str, Any] = {"likelihood": "softmax", "min_count": 1}


@dataclass(frozen=True)
class AttentionRecipe:
    """How the attention model is trained: all but W^KQ first, attending to all alike, then all.

    `apart`: epochs of the first part, at rate 1e-3; `together`: those of the second, at `rate`
    """

    apart: int
    together: int
    rate: float


def by_frequency(text: PreparedText, *, window: int | None, held_out: PreparedText) -> Judged:
    """No model: words predicted by their frequencies alone, whatever is near."""
    pairs = count_word_pairs(text, window=window)
    frequency = text.vocabulary.counts / text.vocabulary.counts.sum()
    products = np.repeat(np.log(frequency)[:, None], len(frequency), axis=1)
    matrices = {
        "PMI - log k": sgns_matrix(pairs, negatives=NEGATIVES),
        "CBOW, log": cbow_log_matrix(pairs),
        "CBOW, linear": cbow_linear_matrix(pairs),
    }
    compared = tuple(Compared(name, products, matrix) for name, matrix in matrices.items())
    own = np.log(frequency)[_words_with_context(held_out)]
    figures = {"nats": -float(own.mean()), "factor-asymmetry": asymmetry(pairs.joint)}
    return Judged(compared, figures)


def judge_skipgram(text: PreparedText, settings: dict[str, Any], *, seed: int) -> Judged:
    """Skip-gram of the words as they are, its noise drawn as they are frequent."""
    model = SkipGram(**settings, **SKIPGRAM, seed=seed, progress=False).fit(text)
    pairs = count_word_pairs(text, window=settings["window"], weights="dynamic")
    products = _products(model)
    plain = sgns_matrix(pairs, negatives=NEGATIVES)
    excused = sgns_excused_matrix(pairs, negatives=NEGATIVES)
    return Judged(
        (
            Compared("PMI - log k", products, plain),
            Compared("PMI - log k, own noise excused", products, excused),
        )
    )


def judge_cbow(
    text: PreparedText, settings: dict[str, Any], *, held_out: PreparedText, seed: int
) -> Judged:
    """CBOW with the softmax over all words."""
    model = CBOW(**settings, **CBOW_SETTINGS, seed=seed, progress=False).fit(text)
    pairs, products = count_word_pairs(text, window=settings["window"]), _products(model)
    return Judged(
        (
            Compared("CBOW, log", products, cbow_log_matrix(pairs)),
            Compared("CBOW, linear", products, cbow_linear_matrix(pairs)),
        ),
        {"nats": -model.score(held_out)},
    )


def judge_attention(
    text: PreparedText, dim: int, recipe: AttentionRecipe, *, held_out: PreparedText, seed: int
) -> Judged:
    """The masked model of proposition 6, its c, and its c-tilde."""
    model = fit_attention(text, dim, recipe, seed=seed)
    factors = attention_factors(model)
    sums = gamma_sums(text, factors.log_tau)
    transformed = factors.words @ sums.c_tilde(factors.contexts).T
    figures = {
        "nats": mean_nats(model, held_out),
        "factor-asymmetry": asymmetry(sums.p_bar),
        "factor-zeta-spread": float(sums.zeta.std() / sums.zeta.mean()),
        "factor-log-tau-sd": float(factors.log_tau.std()),
    }
    return Judged(
        (
            Compared("proposition 6", factors.products, attention_matrix(sums)),
            Compared("c-tilde, log", transformed, attention_log_matrix(sums)),
        ),
        figures,
    )


def fit_attention(
    text: PreparedText, dim: int, recipe: AttentionRecipe, *, seed: int
) -> WordAttention:
    """A model of whole sentences in two parts; see `AttentionRecipe`."""
    generator = torch.Generator().manual_seed(seed)
    model = build_word_attention(len(text.vocabulary), embed_dim=dim, generator=generator)
    groups = word_groups(text)
    parts = ((False, recipe.apart, 1e-3), (True, recipe.together, recipe.rate))
    for attends, epochs, rate in parts:
        for layer in (model.query, model.key):
            layer.weight.requires_grad_(attends)
        if not epochs:
            continue
        settings = TrainingSettings(
            learning_rate=rate,
            betas=(0.9, 0.999),
            batch_size=52,
            max_epochs=epochs,
            warmup=0.0,
            clip=None,
            schedule="constant",
            seed=seed,
        )
        fit(model, objective=word_nats, train=groups, settings=settings, progress=False)
    return model


def word_groups(text: PreparedText) -> Groups:
    """A text's sentences as groups of words.

    >>> from exfam.reading.text import prepare_text
    >>> word_groups(prepare_text(["a b", "a"], min_count=1))
    Groups(2 groups, 3 elements, 2 items)
    """
    _, length = by_sentence(text.tokens)
    stop = np.cumsum(length)
    return Groups(start=stop - length, stop=stop, item=text.tokens[text.tokens >= 0])


def mean_nats(model: WordAttention, text: PreparedText) -> float:
    """The mean loss of a word of a text, given those around it."""
    groups, nats, n_words = word_groups(text), 0.0, 0.0
    with torch.no_grad():
        for first in range(0, len(groups), _AT_ONCE):
            some = groups.pad(range(first, min(first + _AT_ONCE, len(groups))))
            own, n = word_nats(model, some)
            nats, n_words = nats + float(own), n_words + float(n)
    return nats / n_words


def _words_with_context(text: PreparedText) -> Int32[np.ndarray, "scored"]:
    """The words that models are scored on: of sentences of two or more."""
    sentence, length = by_sentence(text.tokens)
    return text.tokens[text.tokens >= 0][length[sentence] > 1]


def _products(model: TextEstimator) -> np.ndarray:
    return model.output_vectors_ @ model.input_vectors_.T
