"""From hidden states to a family's parameters."""

from jaxtyping import Float
from torch import Tensor, nn

from exfam.catalog import LinearEta, item_products
from exfam.efa.networks.dispersion import Dispersion, ItemBias
from exfam.efa.networks.offsets import GroupOffset
from exfam.embeddings import ItemEmbedding, Reflected
from exfam.groups import Batch

__all__ = ["ItemHead", "ValueHead"]

State = Float[Tensor, "batch length embed"]


class ItemHead(nn.Module):
    """eta_i = delta H_i + bias: products with the items' center vectors.

    `norm` maps the hidden state first (a layer norm after pre-norm blocks, or nothing).
    Source: EFA paper, section 2.1, step 4.
    """

    def __init__(
        self,
        centers: ItemEmbedding | Reflected,
        *,
        norm: nn.Module,
        bias: Float[Tensor, "items"] | None,
    ) -> None:
        super().__init__()
        self.centers, self.norm = centers, norm
        self.bias = None if bias is None else nn.Parameter(bias.clone())

    def forward(self, state: State, batch: Batch) -> Float[Tensor, "batch length items"]:
        """One output an item."""
        eta = self.norm(state) @ self.centers.vectors().T
        return eta if self.bias is None else eta + self.bias

    @property
    def n_items(self) -> int:
        """How many outputs there are."""
        items = self.centers.items if isinstance(self.centers, Reflected) else self.centers
        return items.n_items

    def linear(self, state: State) -> LinearEta:
        """The outputs as factors."""
        return item_products(self.norm(state), self.centers, self.bias)


class ValueHead(nn.Module):
    """kappa_i = lambda_2(H_i): a small network for locations, constants for dispersions.

    `intercept` adds learned constants, of each item where it has some; `offset` the group's level
    as its other values show it. Source: EFA paper, section
    2.2, step 4.
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        norm: nn.Module,
        dispersion: Dispersion,
        intercept: ItemBias | None,
        offset: GroupOffset | None = None,
    ) -> None:
        super().__init__()
        self.network, self.norm = network, norm
        self.dispersion, self.intercept, self.offset = dispersion, intercept, offset

    def forward(self, state: State, batch: Batch) -> Float[Tensor, "batch length eta"]:
        """The parameters of the value columns' families, side by side."""
        location = self.network(self.norm(state))
        if self.intercept is not None:
            location = location + self.intercept(batch)
        if self.offset is not None:
            location = location + self.offset(batch)
        return self.dispersion(location, batch)
