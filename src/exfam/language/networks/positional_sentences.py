"""A classifier of sentences whose words attend to each other by position alone.

h_i = sum_j delta_ij x_j W_V over the words of a sentence, dropout, the mean over words, a linear
softmax: one layer, one head. The weights delta are fixed. Beyond the end of a sentence they are set
to 0 and the others are not renormalized, as the paper's listing has it: weights that reach far make
short sentences' vectors small. "renormalized" divides by what is left.

The mean is linear: but for dropout, a sentence is a weighted mean of its words, whose weights are
the column sums of delta. Attention that is equal for all words and attention to the word itself
then differ by the padding alone.
Source: Chen, Varoquaux & Suchanek (2023), section 3.3.1 and Listing 2.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from exfam.checks import check_choice
from exfam.layers import linear
from exfam.randomness import Dropout

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
    """Logits of labels, of parts. Source: module.

    `weights`: delta of all positions that sentences may have, such as `encoding_weights` gives
    """

    weights: Tensor
    mass: Tensor

    def __init__(
        self,
        weights: Float[Tensor, "position position"],
        *,
        value: nn.Linear,
        dropout: Dropout,
        output: nn.Linear,
        padding: str = "zeroed",
    ) -> None:
        super().__init__()
        check_choice("padding", padding, PADDINGS)
        self.value, self.dropout, self.output, self.padding = value, dropout, output, padding
        # Known from the encoding: nothing to be saved.
        self.register_buffer("weights", weights.to(value.weight.dtype), persistent=False)
        # Column n - 1: what a row has left in a sentence of n words.
        mass = weights.double().cumsum(1).to(value.weight.dtype)
        self.register_buffer("mass", mass, persistent=False)

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


def build_positional_sentences(
    weights: Float[Tensor, "position position"],
    *,
    dim: int,
    n_labels: int,
    dropout: float,
    generator: torch.Generator,
    padding: str = "zeroed",
) -> PositionalSentenceNetwork:
    """A network with Glorot-uniform weights; W_V is `dim` x `dim`, without a bias."""
    return PositionalSentenceNetwork(
        weights,
        value=linear(dim, dim, generator=generator, bias=False),
        dropout=Dropout(dropout),
        output=linear(dim, n_labels, generator=generator),
        padding=padding,
    )
