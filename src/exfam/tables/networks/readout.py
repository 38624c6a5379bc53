"""From hidden vectors to the parameters of every column's distribution."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.layers import normal


class Readout(nn.Module):
    """W'' and b'' of every column, or the same of all columns that share their categories.

    `basis`: what the raw outputs of a column are multiplied by; with more raw outputs than
        parameters, directions that many parameters share are learned as fast as single parameters.
        Of a column with fewer parameters than others, the last rows are 0.
    `bias`: where the parameters start from, in the order of columns
    """

    no_decay_parameters = ("bias",)

    basis: Tensor

    def __init__(
        self,
        basis: Float[Tensor, "members columns params raw"],
        bias: Float[Tensor, "columns params"],
        *,
        embed_dim: int,
        shared: bool,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        if shared:
            basis, bias = basis[:, :1], bias[:1]
        n_members, columns, _, raw = basis.shape
        shape = (n_members, columns, raw, embed_dim)
        scale = _SCALE * embed_dim**-0.5
        self.raw = nn.Parameter(normal(*shape, scale=scale, generator=generator))
        self.bias = nn.Parameter(bias.expand(n_members, -1, -1).clone())
        self.register_buffer("basis", basis)
        self.shared = shared

    def forward(
        self, hidden: Float[Tensor, "members batch targets embed"], targets: Sequence[int]
    ) -> Float[Tensor, "members batch targets params"]:
        """W'' h + b'' of each target column."""
        weight, bias = self.of(targets)
        return torch.einsum("mbte,mtpe->mbtp", hidden, weight) + bias[:, None]

    def of(
        self, targets: Sequence[int]
    ) -> tuple[
        Float[Tensor, "members targets params embed"], Float[Tensor, "members targets params"]
    ]:
        """W'' and b'' of each target column."""
        weight, bias = self.columns()
        if self.shared:
            n_targets = len(targets)
            return weight.expand(-1, n_targets, -1, -1), bias.expand(-1, n_targets, -1)
        if list(targets) == list(range(weight.shape[1])):
            return weight, bias
        chosen = torch.tensor(list(targets), device=weight.device)
        return weight.index_select(1, chosen), bias.index_select(1, chosen)

    def columns(
        self,
    ) -> tuple[
        Float[Tensor, "members columns params embed"], Float[Tensor, "members columns params"]
    ]:
        """W'' and b'' of all columns that have their own."""
        return self.basis @ self.raw, self.bias


_SCALE = 0.3
