"""Networks of sentences: by position alone, and on a masked language model's vectors."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from exfam.groups.batch import on_device
from exfam.language.networks.masked_lm import MaskedLM
from exfam.language.networks.token_pieces import PieceBatch
from exfam.layers import Dropout, linear

PADDINGS = ("zeroed", "renormalized")


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
        self, encoder: MaskedLM, output: nn.Linear, *, pooling: str, dropout: float
    ) -> None:
        super().__init__()
        self.encoder, self.pooling = encoder, pooling
        self.dropout, self.output = Dropout(dropout), output
        self.spread = nn.Parameter(torch.zeros(()))

    def forward(self, batch: PieceBatch) -> Float[Tensor, "batch outputs"]:
        """The outputs of each sentence."""
        states = self.encoder(batch.tokens, batch.visible).states[-1]
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


@dataclass(frozen=True, eq=False)
class SentenceBatch:
    """Sentences side by side: their words' vectors, 0 where there is no word, and labels' codes."""

    vectors: Float[Tensor, "batch length dim"]
    n_words: Int64[Tensor, "batch"]
    target: Int64[Tensor, "batch"]

    @property
    def present(self) -> Bool[Tensor, "batch length"]:
        position = torch.arange(self.vectors.shape[1], device=self.n_words.device)
        return position < self.n_words[:, None]

    def to(self, device: torch.device) -> "SentenceBatch":
        return SentenceBatch(*on_device((self.vectors, self.n_words, self.target), device))


class PositionalSentenceNetwork(nn.Module):
    """Logits of labels of sentences whose words attend to each other by position alone.

    h_i = sum_j delta_ij x_j W_V over the words of a sentence, dropout, the mean over words, a
    linear softmax. The fixed `weights` delta are set to 0 beyond the end of a sentence and the
    others are not renormalized, as the paper's listing has it; "renormalized" `padding` divides by
    what is left. The mean is linear: attention equal for all words and attention to the word itself
    differ by the padding alone. Source: Chen, Varoquaux & Suchanek (2023), section 3.3.1, Listing 2
    """

    weights: Tensor
    mass: Tensor

    def __init__(
        self,
        weights: Float[Tensor, "position position"],
        *,
        dim: int,
        n_labels: int,
        dropout: float,
        generator: torch.Generator,
        padding: str = "zeroed",
    ) -> None:
        super().__init__()
        self.value = linear(dim, dim, generator=generator, bias=False)
        self.dropout, self.padding = Dropout(dropout), padding
        self.output = linear(dim, n_labels, generator=generator)
        # Known from the encoding: nothing to be saved.
        dtype = self.value.weight.dtype
        self.register_buffer("weights", weights.to(dtype), persistent=False)
        # Column n - 1: what a row has left in a sentence of n words.
        self.register_buffer("mass", weights.double().cumsum(1).to(dtype), persistent=False)

    def forward(self, batch: SentenceBatch) -> Float[Tensor, "batch labels"]:
        """Logits; of a sentence without a word, those of no evidence."""
        sentence, word = batch.present.nonzero(as_tuple=True)
        values = self.dropout(self.value(self.mixed(batch)[sentence, word]))
        total = values.new_zeros(len(batch.target), values.shape[1]).index_add(0, sentence, values)
        return self.output(total / batch.n_words.clamp_min(1)[:, None])

    def mixed(self, batch: SentenceBatch) -> Float[Tensor, "batch length dim"]:
        """What each position sees of the words, before W_V."""
        length = batch.vectors.shape[1]
        mixed = self.weights[:length, :length] @ batch.vectors
        if self.padding == "zeroed":
            return mixed
        left = self.mass[:length, batch.n_words.clamp_min(1) - 1].T
        return mixed / left.clamp_min(torch.finfo(left.dtype).tiny)[..., None]
