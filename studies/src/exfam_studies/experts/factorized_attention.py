"""What a masked model with attention factorizes: proposition 6, and what follows from its gamma.

A center d of a sentence and a word j of its context weigh gamma^d_j = tau_j / (tau_MASK + the sum
of tau over all words but the center). Sums over (d, j) are over all such pairs of the corpus.
Source: "Bidirectional attention as a mixture of word experts", section 4 and appendix G.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from scipy.sparse import csr_array
from torch import Tensor, nn

from exfam.checks import DataError
from exfam.groups import Batch, Groups
from exfam.layers import linear, table
from exfam.reading.text import PreparedText
from exfam.training.optimizer import TrainingSettings
from exfam.training.steps import fit
from exfam_studies.common.statements import unmet
from exfam_studies.experts.factorized import (
    FactorMatrix,
    Judged,
    Matrix,
    asymmetry,
    by_sentence,
    linear_form,
    log_form,
    too_large,
    unsupported,
)

# The sum of the losses of a batch, and of how many words.
Objective = Callable[[Any, Batch], tuple[Tensor, ...]]


class WordAttention(nn.Module):
    """Logits of every word of a sentence given the others, which attention weighs by word alone.

    `words`: c_a of all words, that of MASK last; `query` and `key` together are W^KQ; `readout` is
    W^LOV. W^Q and W^LOV start at 0.
    """

    def __init__(self, n_words: int, *, embed_dim: int, generator: torch.Generator) -> None:
        super().__init__()
        self.query = linear(embed_dim, embed_dim, generator=generator, bias=False)
        self.key = linear(embed_dim, embed_dim, generator=generator, bias=False)
        self.readout = linear(embed_dim, n_words, generator=generator, bias=False)
        for layer in (self.query, self.readout):
            nn.init.zeros_(layer.weight)
        self.words = table(n_words + 1, embed_dim, scale=0.1, generator=generator)

    def log_tau(self) -> Float[Tensor, "tokens"]:
        """Scores that MASK gives to all words, and last to MASK itself."""
        query = self.query(self.words.weight[-1])
        return self.key(self.words.weight) @ query / math.sqrt(len(query))

    def forward(
        self, tokens: Int64[Tensor, "batch length"], present: Bool[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length words"]:
        """Logits at every position, a MASK standing there; of padding they mean nothing."""
        log_tau = self.log_tau()
        score = log_tau[tokens].masked_fill(~present, -torch.inf)
        own = torch.eye(tokens.shape[1], dtype=torch.bool, device=tokens.device)
        gamma = torch.where(own, log_tau[-1], score[:, None]).softmax(-1)
        to_mask = gamma.diagonal(dim1=1, dim2=2)[..., None]
        others = gamma.masked_fill(own, 0.0) @ self.words(tokens)
        logits: Tensor = self.readout(others + to_mask * self.words.weight[-1])
        return logits


def word_nats(model: WordAttention, batch: Batch) -> tuple[Float[Tensor, ""], Int64[Tensor, ""]]:
    """Minus the log-likelihood of all words that have a context, in nats, and how many they are."""
    assert batch.item is not None
    scored = batch.target & (batch.present.sum(1, keepdim=True) > 1)
    logits = model(batch.item, batch.present)[scored]
    return nn.functional.cross_entropy(logits, batch.item[scored], reduction="sum"), scored.sum()


@dataclass(frozen=True)
class AttentionRecipe:
    """How it is trained: `apart` epochs of all but W^KQ at rate 1e-3, then `together` of all."""

    apart: int
    together: int
    rate: float


def fit_attention(
    text: PreparedText, dim: int, recipe: AttentionRecipe, *, seed: int
) -> WordAttention:
    """A model of whole sentences in two parts; see `AttentionRecipe`."""
    generator = torch.Generator().manual_seed(seed)
    model = WordAttention(len(text.vocabulary), embed_dim=dim, generator=generator)
    groups = word_groups(text)
    parts = ((False, recipe.apart, 1e-3), (True, recipe.together, recipe.rate))
    for attends, epochs, rate in parts:
        for layer in (model.query, model.key):
            layer.weight.requires_grad_(attends)
        if not epochs:
            continue
        settings = TrainingSettings(
            learning_rate=rate, betas=(0.9, 0.999), batch_size=52, max_epochs=epochs, warmup=0.0,
            clip=None, schedule="constant", seed=seed,
        )  # fmt: skip
        fit(model, objective=word_nats, train=groups, settings=settings, progress=False)
    return model


def word_groups(text: PreparedText) -> Groups:
    """A text's sentences as groups of words."""
    _, length = by_sentence(text)
    stop = np.cumsum(length)
    return Groups(start=stop - length, stop=stop, item=text.tokens[text.tokens >= 0])


@torch.no_grad()
def mean_nats(
    model: nn.Module, groups: Groups, *, objective: Objective = word_nats, at_once: int = 1000
) -> float:
    """The mean loss of a word, given those around it."""
    nats, n_words = 0.0, 0.0
    for first in range(0, len(groups), at_once):
        own, n = objective(model, groups.pad(range(first, min(first + at_once, len(groups)))))
        nats, n_words = nats + float(own), n_words + float(n)
    return nats / n_words


Contexts = Float64[np.ndarray, "contexts"]
Vectors = Float64[np.ndarray, "contexts dim"]
Entries = Float64[np.ndarray, "entries"]


@dataclass(frozen=True, eq=False)
class AttentionFactors:
    """W^LOV (words in rows), C and log tau (of every word, last of MASK) of a model."""

    words: Float64[np.ndarray, "words dim"]
    contexts: Vectors
    log_tau: Float64[np.ndarray, "tokens"]


def attention_factors(model: WordAttention) -> AttentionFactors:
    """The factors of a fitted model, after which nothing else of it is needed."""
    factors = (model.readout.weight, model.words.weight[:-1], model.log_tau())
    return AttentionFactors(*(factor.detach().double().cpu().numpy() for factor in factors))


@dataclass(frozen=True, eq=False)
class GammaSums:
    """Sums of attention over all pairs of a corpus.

    `total`: sum of gamma^i_j over pairs (i, j), centers in rows
    `squares`: sum of (gamma^d_j)^2 over all pairs with context j; `bounds`: the same, each times S
    `lengths`: how many sentences have 0, 1, 2, … words
    """

    total: Matrix
    squares: Contexts
    bounds: Contexts
    lengths: Int64[np.ndarray, "lengths"]

    @property
    def p_bar(self) -> Matrix:
        """p-bar(w_i, c_j): gamma's share of all pairs' gamma; not symmetric as p is."""
        return self.total / self.total.sum()

    @property
    def zeta(self) -> Contexts:
        """zeta_j, gamma's mean in pairs with context j, weighted by gamma; nan where none is."""
        with np.errstate(invalid="ignore"):
            return self.squares / self.total.sum(axis=0)

    def c_tilde(self, contexts: Vectors) -> Vectors:
        """c-tilde_j = S zeta_j c_j: products with it are about |V| p-bar / p-bar(c) - 1."""
        with np.errstate(invalid="ignore"):
            return (self.bounds / self.total.sum(axis=0))[:, None] * contexts


def gamma_sums(text: PreparedText, log_tau: Float64[np.ndarray, "tokens"]) -> GammaSums:
    """Attention over whole sentences of a corpus, summed by pairs of a center and a context word.

    `log_tau`: of all words of the text's vocabulary, and last of MASK

    Raises DataError for a text without any pair, or `log_tau` that does not go with it.
    """
    n_words = len(text.vocabulary)
    if len(log_tau) != n_words + 1 or not np.isfinite(log_tau).all():
        raise DataError(
            f"`log_tau` must be {n_words + 1} finite numbers, one for each word of the text and "
            f"one for MASK, got {len(log_tau)}. Take the text that the model was fitted to."
        )
    sentence, length = by_sentence(text)
    words = text.tokens[text.tokens >= 0]
    # How often each sentence, a row, has each word.
    counts = csr_array((np.ones(len(words)), (sentence, words)), shape=(len(length), n_words))
    of_entry = np.repeat(np.arange(len(length)), np.diff(counts.indptr))
    *listed, of_mask = np.exp(log_tau - log_tau.max())
    tau = np.array(listed)
    others = _others(counts, of_entry, tau) + of_mask
    twice = _with_data(counts, counts.data / others**2)
    weighted = _with_data(counts, twice.data * length[of_entry])
    return GammaSums(
        total=_between(_with_data(counts, counts.data / others), counts) * tau,
        squares=_between(twice, counts).sum(axis=0) * tau**2,
        bounds=_between(weighted, counts).sum(axis=0) * tau**2,
        lengths=np.bincount(length),
    )


def attention_matrix(sums: GammaSums) -> FactorMatrix:
    """What attention without positions and residual factorizes: propositions 6 and 14.

    (|V| sum_(i,j) gamma^i_j - sum_d sum_(d,j) gamma^d_j) / (sum_d sum_(d,j) S (gamma^d_j)^2), given
    tau; S is of each pair's own sentence, where the paper has one. Assumes what CBOW's matrix does.
    """
    with np.errstate(invalid="ignore"):
        values = (len(sums.total) * sums.total - sums.total.sum(axis=0)) / sums.bounds
    failed = _uneven_sentences(sums) + unsupported(values) + too_large(values)
    return FactorMatrix(values, "(|V| G_ij - sum_d G_dj) / (S sum gamma^2)", failed)


def attention_log_matrix(sums: GammaSums) -> FactorMatrix:
    """N of lemma 15, which products of w and c-tilde are: log(p-bar(w,c) / p-bar(c)) + log |V|.

    Assumes what `attention_matrix` does, that every pair occurs, and log(1 + x) ~ x.
    """
    values, linear = log_form(sums.p_bar), linear_form(sums.p_bar)
    failed = _uneven_sentences(sums) + unsupported(values) + too_large(linear)
    return FactorMatrix(values, "log(p-bar(w_i, c_j) / p-bar(c_j)) + log |V|", failed)


def judge_attention(
    texts: tuple[PreparedText, PreparedText], settings: Mapping[str, Any], seed: int
) -> Judged:
    """The products of a fit by a recipe, and those with c-tilde, beside their matrices."""
    model = fit_attention(texts[0], settings["dim"], settings["recipe"], seed=seed)
    factors = attention_factors(model)
    sums = gamma_sums(texts[0], factors.log_tau)
    products = factors.words @ factors.contexts.T
    transformed = factors.words @ sums.c_tilde(factors.contexts).T
    return {
        "proposition 6": (products, attention_matrix(sums)),
        "c-tilde, log": (transformed, attention_log_matrix(sums)),
    }, {
        "nats": mean_nats(model, word_groups(texts[1])),
        "factor-asymmetry": asymmetry(sums.p_bar),
        "factor-zeta-spread": float(sums.zeta.std() / sums.zeta.mean()),
        "factor-log-tau-sd": float(factors.log_tau.std()),
    }


def _uneven_sentences(sums: GammaSums) -> tuple[str, ...]:
    sizes = np.flatnonzero(sums.lengths)
    words = f"all sentences must have one length, got {sizes[0]} to {sizes[-1]} words"
    return unmet((len(sizes) == 1, words))


def _others(
    counts: csr_array, sentence: Int64[np.ndarray, "entries"], tau: Float64[np.ndarray, "words"]
) -> Entries:
    """The sum of tau over a sentence but one occurrence of a word, for every entry of `counts`."""
    own = tau[counts.indices]
    whole = (counts @ tau)[sentence]
    # What is more than half of a sum cannot be taken from it without loss; it occurs once, and no
    # other word of the sentence is like it.
    most = own > whole / 2
    without = _with_data(counts, np.where(most, 0.0, counts.data)) @ tau
    return np.where(most, without[sentence], whole - own)


def _with_data(counts: csr_array, data: Entries) -> csr_array:
    return csr_array((data, counts.indices, counts.indptr), shape=counts.shape)


def _between(weighted: csr_array, counts: csr_array) -> Matrix:
    """Sums over sentences of each center's weight times the *other* words there."""
    pairs = (weighted.T @ counts).toarray(order="C")
    # A word is no context of itself, but of its like in the sentence.
    own = _with_data(weighted, weighted.data * (counts.data - 1)).sum(axis=0)
    np.fill_diagonal(pairs, own)
    return pairs
