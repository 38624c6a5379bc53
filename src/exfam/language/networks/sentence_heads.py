"""A layer on a masked language model's vectors of sentences, and what it is trained by."""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64, Real, Shaped
from torch import Tensor, nn
from torch.nn import functional

from exfam.language.networks.masked_lm import MaskedLM
from exfam.language.networks.token_pieces import PieceBatch, TokenPieces
from exfam.layers import linear
from exfam.randomness import Dropout


def pooled(
    states: Float[Tensor, "batch length embed"], present: Tensor, *, pooling: str
) -> Float[Tensor, "batch embed"]:
    """One vector per sentence: the "mean" of its tokens, or its "first" one.

    >>> states = torch.tensor([[[1.0], [3.0], [9.0]]])
    >>> pooled(states, torch.tensor([[True, True, False]]), pooling="mean")
    tensor([[2.]])
    """
    if pooling == "first":
        return states[:, 0]
    seen = present[..., None].to(states)
    return (states * seen).sum(1) / seen.sum(1)


@dataclass(frozen=True, eq=False)
class LabeledBatch:
    """Sentences side by side, and the target of each."""

    pieces: PieceBatch
    target: Shaped[Tensor, "batch"]

    def to(self, device: torch.device) -> "LabeledBatch":
        """The same on another device."""
        return LabeledBatch(self.pieces.to(device), self.target.to(device))


@dataclass(frozen=True, eq=False)
class LabeledPieces:
    """Sentences as tokens, with one label's code or number per sentence, as a source of batches."""

    pieces: TokenPieces
    target: Real[np.ndarray, "sentences"]

    @property
    def lengths(self) -> Int64[np.ndarray, "sentences"]:
        """Tokens of every sentence, special ones included."""
        return self.pieces.lengths

    def total(self, first: int, last: int) -> float:
        """How many sentences these are."""
        return float(last - first)

    def epoch_batches(
        self, *, generator: np.random.Generator, batch_size: int | None, max_tokens: int | None
    ) -> Iterator[np.ndarray]:
        """Every sentence once, in random batches of sentences of like length."""
        return self.pieces.epoch_batches(
            generator=generator, batch_size=batch_size, max_tokens=max_tokens
        )

    def sequential_batches(self, *, max_tokens: int) -> Iterator[np.ndarray]:
        """Every sentence once, by length."""
        return self.pieces.sequential_batches(max_tokens=max_tokens)

    def pad(self, index: Int64[np.ndarray, "batch"]) -> LabeledBatch:
        """These sentences side by side."""
        return LabeledBatch(self.pieces.pad(index), torch.from_numpy(self.target[index]))

    def fingerprint(self) -> dict[str, str]:
        """Digests of the sentences and of their targets."""
        targets = ",".join(map(str, self.target.tolist()))
        return {**self.pieces.fingerprint(), "targets": targets}

    def read_at_random(self) -> AbstractContextManager[None]:
        """Sentences are in memory: nothing to prepare."""
        return self.pieces.read_at_random()


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
class LabelNats:
    """Minus the log-probabilities of sentences' labels. `precision`: as in `MaskedTokens`."""

    precision: torch.dtype | None = None

    def __call__(self, model: nn.Module, batch: LabeledBatch) -> tuple[Tensor, Tensor]:
        """Nats, and of how many sentences."""
        logits = _outputs(model, batch, self.precision)
        nats = functional.cross_entropy(logits, batch.target, reduction="sum")
        return nats, torch.tensor(float(len(logits)))


@dataclass(frozen=True)
class NumberNats:
    """Minus the log-densities of sentences' numbers, which are normal around the output."""

    precision: torch.dtype | None = None

    def __call__(self, model: nn.Module, batch: LabeledBatch) -> tuple[Tensor, Tensor]:
        """Nats, and of how many sentences."""
        assert isinstance(model, SentenceHead)
        mean = _outputs(model, batch, self.precision)[:, 0]
        off = (batch.target.to(mean) - mean) * torch.exp(-model.spread)
        nats = 0.5 * off.square().sum() + len(mean) * (model.spread + 0.5 * math.log(2 * math.pi))
        return nats, torch.tensor(float(len(mean)))


def _outputs(model: nn.Module, batch: LabeledBatch, precision: torch.dtype | None) -> Tensor:
    rounded = precision is not None and model.training
    device = batch.target.device
    with torch.autocast(device.type, dtype=precision, enabled=rounded):
        outputs: Tensor = model(batch.pieces)
    return outputs.float()
