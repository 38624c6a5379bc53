"""Sums over the context of every element at once, and what they are divided by."""

import math
from collections.abc import Callable, Mapping

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from exfam.catalog import LinearEta, item_products
from exfam.checks import check_positive
from exfam.embeddings import ItemEmbedding, Reflected
from exfam.families import Family
from exfam.groups import Batch

Vectors = Float[Tensor, "batch length dim"]
Counts = Float[Tensor, "batch length 1"]
Pooling = Callable[[Vectors, Counts, Counts], Vectors]


def _before(x: Vectors) -> Vectors:
    """Sum over strictly earlier elements."""
    return torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1).cumsum(1)


def value_inputs(
    families: Mapping[str, Family], batch: Batch
) -> Float[Tensor, "batch length columns"]:
    """The value columns as networks see them, in float64, 0 where they were not observed.

    >>> from exfam.families import Gaussian, Scaled
    >>> from exfam.groups import Groups
    >>> batch = Groups(start=[0], stop=[2], values={"t": [30.0, 10.0]}).pad([0])
    >>> value_inputs({"t": Scaled(Gaussian(), center=20.0, scale=5.0)}, batch)[..., 0]
    tensor([[ 2., -2.]], dtype=torch.float64)
    """
    columns = [
        family.network_input(batch.values[column], item=batch.item)
        for column, family in families.items()
    ]
    # Unobserved values may be NaN, and NaN times a zero gradient is NaN.
    return torch.where(batch.observed[..., None], torch.stack(columns, dim=-1), 0.0)


def visible_sum(vectors: Vectors, shown: Bool[Tensor, "batch length"], direction: str) -> Vectors:
    """For each element, the sum of the shown vectors of its context, itself left out.

    >>> x, shown = torch.tensor([[[1.0], [2.0], [4.0]]]), torch.tensor([[True, True, True]])
    >>> visible_sum(x, shown, "causal")[0, :, 0].tolist()
    [0.0, 1.0, 3.0]
    >>> visible_sum(x, shown, "bidirectional")[0, :, 0].tolist()
    [6.0, 5.0, 3.0]
    """
    vectors = torch.where(shown[..., None], vectors, 0.0)
    before = _before(vectors)
    if direction == "causal":
        return before
    # Before + after, not total - own: rounding would let a large own value leak through.
    return before + _before(vectors.flip(1)).flip(1)


def mean(total: Vectors, n_visible: Counts, n_others: Counts) -> Vectors:
    """The mean over the visible context; zero when there is none."""
    return total / n_visible.clamp_min(1.0)


def plain_sum(total: Vectors, n_visible: Counts, n_others: Counts) -> Vectors:
    """The sum, as in the item models of the paper's notebooks."""
    return total


def paper(total: Vectors, n_visible: Counts, n_others: Counts) -> Vectors:
    """The sum over the group's final length minus 1, as the paper prints it.

    In a causal model this lets the future's length leak. Bidirectional, it is the mean.
    Source: "Exponential Family Attention", section 4.1.
    """
    return total / n_others.clamp_min(1.0)


CONTEXT_POOLINGS: dict[str, Pooling] = {"mean": mean, "sum": plain_sum, "paper": paper}


def pooled_context(
    vectors: Vectors, shown: Bool[Tensor, "batch length"], *, direction: str, pooling: Pooling
) -> Vectors:
    """One vector an element for its context; zero for an empty is_shown."""
    is_shown = shown[..., None].to(vectors.dtype)
    n_visible = visible_sum(is_shown, shown, direction)
    n_others = is_shown.sum(1, keepdim=True) - is_shown
    return pooling(visible_sum(vectors, shown, direction), n_visible, n_others)


def item_rows(batch: Batch, n_items: int) -> Int[Tensor, "batch length"]:
    """Rows of a table with one row an item and a last one for unknown items.

    Groups without items, or a table of no items, have the last row everywhere.
    """
    if batch.item is None or n_items == 0:
        return torch.full_like(batch.element, n_items)
    return torch.where(batch.item < 0, n_items, batch.item)


class ItemBias(nn.Module):
    """Learned constants, one an output; with `n_items` also an offset for each item, from 0.

    >>> ItemBias(torch.tensor([0.5]), n_items=3).offset.shape
    torch.Size([4, 1])
    """

    def __init__(self, start: Float[Tensor, "outputs"], *, n_items: int | None = None) -> None:
        super().__init__()
        self.n_items = n_items
        self.constant = nn.Parameter(start.detach().clone())
        # The last row, for unknown items, is never trained: they have the constant alone.
        offset = None if n_items is None else start.new_zeros(n_items + 1, len(start))
        self.offset = None if offset is None else nn.Parameter(offset)

    def forward(self, batch: Batch) -> Float[Tensor, "batch length outputs"]:
        if self.offset is None or self.n_items is None:
            return self.constant.expand(*batch.present.shape, -1)
        return self.constant + self.offset[item_rows(batch, self.n_items)]


def split_initial(
    families: Mapping[str, Family], initial_eta: Mapping[str, Tensor]
) -> tuple[Float[Tensor, "location"], Float[Tensor, "dispersion"]]:
    """Starting values of all columns, location outputs apart from dispersion outputs."""
    location, dispersion = [], []
    for column, family in families.items():
        n_location = family.n_params - family.n_dispersion
        location.append(initial_eta[column][:n_location])
        dispersion.append(initial_eta[column][n_location:])
    return torch.cat(location), torch.cat(dispersion)


class Dispersion(nn.Module):
    """Completes location outputs with learned dispersion outputs, global or an item's own.

    A network then has one output for each location parameter (`n_location` in all); scales,
    thresholds and the like do not depend on the context.
    """

    def __init__(
        self,
        families: Mapping[str, Family],
        start: Float[Tensor, "dispersion"],
        *,
        n_items: int | None = None,
    ) -> None:
        super().__init__()
        self.n_dispersion = [family.n_dispersion for family in families.values()]
        self.n_locations = [family.n_params - family.n_dispersion for family in families.values()]
        if len(start) != sum(self.n_dispersion):
            raise ValueError(f"{len(start)} starting values for {self.n_dispersion} dispersions")
        self.bias = ItemBias(start, n_items=n_items)

    @property
    def n_location(self) -> int:
        """Location outputs of all columns."""
        return sum(self.n_locations)

    def forward(
        self, location: Float[Tensor, "batch length location"], batch: Batch
    ) -> Float[Tensor, "batch length eta"]:
        """The columns' parameters side by side, each location before its dispersion."""
        locations = location.split(self.n_locations, dim=-1)
        dispersions = self.bias(batch).to(location.dtype).split(self.n_dispersion, dim=-1)
        pairs = zip(locations, dispersions, strict=True)
        return torch.cat([part for pair in pairs for part in pair], dim=-1)


class GroupOffset(nn.Module):
    """slope * (sum of the context's residuals) / (their number + k), beside the attention.

    A residual is a standardized value minus its item's expected one. Expectations (from `center`),
    `k` and slopes are learned. It is the mean of a random effect of the group, given its context.

    >>> from exfam.families import Gaussian
    >>> start = {"center": torch.tensor([3.0]), "slope": torch.ones(1, 1)}
    >>> offset = GroupOffset({"stars": Gaussian()}, direction="causal", **start)
    >>> offset.log_k.exp().round().tolist()
    [5.0]
    """

    def __init__(
        self,
        families: Mapping[str, Family],
        *,
        slope: Float[Tensor, "columns outputs"],
        center: Float[Tensor, "columns"],
        direction: str,
        n_items: int | None = None,
        k: float = 5.0,
    ) -> None:
        super().__init__()
        check_positive("k", k)
        self.families, self.direction = dict(families), direction
        self.expected = ItemBias(center, n_items=n_items)
        self.log_k = nn.Parameter(torch.full((len(self.families),), math.log(k)))
        self.slope = nn.Parameter(slope.clone())

    def forward(self, batch: Batch) -> Float[Tensor, "batch length outputs"]:
        """What the context's residuals add to each location output."""
        shown = batch.observed & batch.present
        expected = self.expected(batch)
        values = value_inputs(self.families, batch).to(expected.dtype)
        residuals = torch.where(shown[..., None], values - expected, 0.0)
        total = visible_sum(residuals, shown, self.direction)
        number = visible_sum(shown[..., None].to(total.dtype), shown, self.direction)
        return total / (number + self.log_k.exp()) @ self.slope


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
