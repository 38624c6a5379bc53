"""Attention by geometry over innovations, with an output that starts at exactly zero."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.fields.correction.tokens import Innovations, NearPairs
from exfam.layers import Dropout, linear, mlp

N_HEADS, HIDDEN, DROPOUT = 4, 16, 0.1
# E|u| of a standard normal: what is above says that neighbors are wild.
USUAL_SIZE = 0.8

Shifts = Float[Tensor, "rows targets 2"]


class PairAttention(nn.Module):
    """(shift of the location in standard deviations, shift of the log scale) of each target.

    Weights over the columns near a target come from the pair's features alone; read are their
    innovations, the sizes of these and, with three reads, whether they are censored. The last layer
    is zero at the start.
    """

    def __init__(
        self, n_pair: int, n_context: int, *, n_reads: int = 2, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.n_reads = n_reads
        self.scores = mlp([n_pair, HIDDEN, N_HEADS], generator=generator)
        self.first = mlp([n_reads * N_HEADS + n_context, HIDDEN], generator=generator)
        self.dropout = Dropout(DROPOUT)
        self.last = linear(HIDDEN, 2, generator=generator)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def weights(self, pairs: NearPairs) -> Float[Tensor, "rows targets near heads"]:
        """Of each head over the columns near each target; 0 where there is none."""
        used = pairs.used[..., None]
        scores = torch.where(used, self.scores(pairs.features), -torch.inf)
        # Where nothing is shown, weights of no columns are no numbers.
        weights = torch.where(used, scores.softmax(-2), 0.0)
        return weights[pairs.pattern]

    def forward(self, tokens: Innovations, pairs: NearPairs) -> Shifts:
        """The shifts of all targets of some rows."""
        weights, u = self.weights(pairs), tokens.innovation
        values = [u, u.abs() - USUAL_SIZE]
        if self.n_reads > len(values):
            values.append(torch.zeros_like(u) if tokens.censored is None else tokens.censored)
        read = [torch.einsum("...jh,...j->...h", weights, value) for value in values]
        hidden = self.first(torch.cat([*read, tokens.context], -1))
        return self.last(self.dropout(nn.functional.gelu(hidden)))
