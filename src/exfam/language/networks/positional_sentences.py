"""A classifier of sentences whose words attend to each other by position alone.

h_i = sum_j delta_ij x_j W_V over the words of a sentence, dropout, the mean over words, a linear
softmax. The fixed weights delta are set to 0 beyond the end of a sentence and the others are not
renormalized, as the paper's listing has it; "renormalized" divides by what is left. The mean is
linear: attention equal for all words and attention to the word itself differ by the padding alone.
Source: Chen, Varoquaux & Suchanek (2023), section 3.3.1 and Listing 2.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from exfam.layers import Dropout, linear

PADDINGS = ("zeroed", "renormalized")


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
        return SentenceBatch(
            *(part.to(device) for part in (self.vectors, self.n_words, self.target))
        )


class PositionalSentenceNetwork(nn.Module):
    """Logits of labels; layers with Glorot-uniform weights, W_V without a bias. Source: module.

    `weights`: delta of all positions that sentences may have, such as `encoding_weights` gives
    `padding`: what becomes of weights beyond a sentence's end, one of PADDINGS
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
        present = batch.present
        values = self.dropout(self.value(self.mixed(batch)[present]))
        sentence = present.nonzero()[:, 0]
        total = values.new_zeros(len(present), values.shape[1]).index_add(0, sentence, values)
        return self.output(total / batch.n_words.clamp_min(1)[:, None])

    def mixed(self, batch: SentenceBatch) -> Float[Tensor, "batch length dim"]:
        """What each position sees of the words, before W_V."""
        length = batch.vectors.shape[1]
        mixed = self.weights[:length, :length] @ batch.vectors
        if self.padding == "zeroed":
            return mixed
        left = self.mass[:length, batch.n_words.clamp_min(1) - 1].T
        return mixed / left.clamp_min(torch.finfo(left.dtype).tiny)[..., None]
