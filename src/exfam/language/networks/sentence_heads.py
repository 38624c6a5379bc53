"""A layer on a masked language model's vectors of sentences, and what it is trained by."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from exfam.language.networks.masked_lm import MaskedLM
from exfam.language.networks.token_pieces import PieceBatch
from exfam.layers import Dropout, linear


def pooled(
    states: Float[Tensor, "batch length embed"], present: Tensor, *, pooling: str
) -> Float[Tensor, "batch embed"]:
    """One vector per sentence: the "mean" of its tokens, or its "first" one."""
    if pooling == "first":
        return states[:, 0]
    seen = present[..., None].to(states)
    return (states * seen).sum(1) / seen.sum(1)


class SentenceHead(nn.Module):
    """Outputs that are linear in a sentence's vector; the encoder is trained along with it.

    `spread`: log standard deviation of numbers, which is learned; labels have no use for it
    """

    def __init__(
        self,
        encoder: MaskedLM,
        *,
        n_outputs: int,
        pooling: str,
        dropout: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.encoder, self.pooling = encoder, pooling
        self.dropout = Dropout(dropout)
        self.output = linear(encoder.words.dim, n_outputs, generator=generator)
        self.spread = nn.Parameter(torch.zeros(()))

    def forward(self, batch: PieceBatch) -> Float[Tensor, "batch outputs"]:
        """The outputs of each sentence."""
        states = self.encoder(batch.tokens, batch.present).states[-1]
        vectors = pooled(states.float(), batch.present, pooling=self.pooling)
        return self.output(self.dropout(vectors))


@dataclass(frozen=True)
class SentenceNats:
    """Minus the log-probabilities of sentences' labels, or the log-densities of their numbers.

    Labels are codes, numbers are normal around the output. `precision`: as in `MaskedTokens`.
    """

    precision: torch.dtype | None = None

    def __call__(self, model: Any, batch: Any) -> tuple[Tensor, Tensor]:
        """Nats, and of how many sentences."""
        target = batch.target
        rounded = self.precision is not None and model.training
        with torch.autocast(target.device.type, dtype=self.precision, enabled=rounded):
            outputs = model(batch)
        outputs = outputs.float()
        if target.is_floating_point():
            off = (target.to(outputs) - outputs[:, 0]) * torch.exp(-model.spread)
            constant = model.spread + 0.5 * math.log(2 * math.pi)
            nats = 0.5 * off.square().sum() + len(outputs) * constant
        else:
            nats = functional.cross_entropy(outputs, target, reduction="sum")
        return nats, torch.tensor(float(len(outputs)))
