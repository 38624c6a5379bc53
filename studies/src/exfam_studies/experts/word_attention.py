"""The thinnest masked model of words with attention: one head, no positions, no residual, no norm.

What proposition 6 of "Bidirectional attention as a mixture of continuous word experts" is about: in
the sentence a_1 … a_S with MASK at m, word k has the logit

    sum_j gamma_j w_k . c_aj,   gamma_j = tau_aj / sum_s tau_as,
    tau_a = exp(c_a^T W^KQ c_MASK / sqrt(d_w)),

w_k the rows of W^LOV, into which values, outputs and the last layer multiply. MASK is one of the S.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from exfam.groups import Batch, Groups
from exfam.layers import linear, table
from exfam.reading.text import PreparedText
from exfam.training.optimizer import TrainingSettings
from exfam.training.steps import fit
from exfam_studies.experts.factorized import by_sentence

_SCALE = 0.1
# The sum of the losses of a batch, and of how many words.
Objective = Callable[[Any, Batch], tuple[Tensor, ...]]


class WordAttention(nn.Module):
    """Logits of every word of a sentence given the others, which attention weighs by word alone.

    `words`: c_a of all words, that of MASK last; `query` and `key` together are W^KQ; `readout` is
    W^LOV. W^Q and W^LOV start at 0.
    """

    def __init__(self, n_words: int, *, embed_dim: int, generator: torch.Generator) -> None:
        super().__init__()
        self.query, self.key = (
            linear(embed_dim, embed_dim, generator=generator, bias=False) for _ in range(2)
        )
        self.readout = linear(embed_dim, n_words, generator=generator, bias=False)
        with torch.no_grad():
            self.query.weight.zero_()
            self.readout.weight.zero_()
        self.words = table(n_words + 1, embed_dim, scale=_SCALE, generator=generator)

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
    return functional.cross_entropy(logits, batch.item[scored], reduction="sum"), scored.sum()


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
    _, length = by_sentence(text.tokens)
    stop = np.cumsum(length)
    return Groups(start=stop - length, stop=stop, item=text.tokens[text.tokens >= 0])


@torch.no_grad()
def mean_nats(
    model: nn.Module, groups: Groups, *, objective: Objective = word_nats, at_once: int = 1000
) -> float:
    """The mean loss of a word, given those around it."""
    nats, n_words = 0.0, 0.0
    for first in range(0, len(groups), at_once):
        batch = groups.pad(range(first, min(first + at_once, len(groups))))
        own, n = objective(model, batch)
        nats, n_words = nats + float(own), n_words + float(n)
    return nats / n_words
