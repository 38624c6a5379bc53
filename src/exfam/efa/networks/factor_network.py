"""Latent factor models: attention that weighs its whole context alike (propositions 1 and 3)."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.catalog import LinearEta, item_products
from exfam.checks import ExfamError
from exfam.efa.networks.parts import (
    CONTEXT_POOLINGS,
    Dispersion,
    ItemBias,
    Pooling,
    pooled_context,
    split_initial,
    value_inputs,
)
from exfam.embeddings import ItemEmbedding, Reflected
from exfam.families import Family
from exfam.groups import Batch
from exfam.layers import normal


@dataclass(frozen=True)
class LatentFactorSettings:
    """Sizes and choices of a latent factor model.

    `pooling`: "mean" over the visible context, "sum" (the notebooks' item models) or "paper" (the
    sum over the group's final length minus 1: as printed, but a causal model then sees the future).
    `intercept`: one an item, and in a value part a global one. `mask_vector`: a learned context
    vector that is always there (item part only). `dispersion`: scales and the like, "global" or of
    each "item" (value part only).
    """

    direction: str = "bidirectional"
    dim: int = 32
    pooling: str = "mean"
    intercept: bool = True
    mask_vector: bool = False
    dispersion: str = "global"


class LatentFactorItems(nn.Module):
    """eta_i = rho (pooled context vectors alpha of the other items) + intercept.

    Proposition 1 with `mean` pooling, bidirectional, no intercept and no mask vector.
    Source: "Exponential Family Attention", section 4.1.
    """

    def __init__(
        self,
        context: ItemEmbedding,
        center: ItemEmbedding | Reflected,
        *,
        direction: str,
        pooling: Pooling,
        intercept: Float[Tensor, "items"] | None = None,
        mask_vector: Float[Tensor, "dim"] | None = None,
    ) -> None:
        super().__init__()
        self.context, self.center = context, center
        self.direction, self.pooling = direction, pooling
        self.intercept = None if intercept is None else nn.Parameter(intercept.clone())
        self.mask_vector = None if mask_vector is None else nn.Parameter(mask_vector.clone())

    def pooled(self, batch: Batch) -> Float[Tensor, "batch length dim"]:
        """The context of every element as one vector."""
        pooled = pooled_context(
            self.context(batch), batch.present, direction=self.direction, pooling=self.pooling
        )
        return pooled if self.mask_vector is None else pooled + self.mask_vector

    def eta(self, batch: Batch) -> Float[Tensor, "batch length items"]:
        """One output an item for every element, given its context."""
        eta = self.pooled(batch) @ self.center.vectors().T
        return eta if self.intercept is None else eta + self.intercept

    @property
    def n_items(self) -> int:
        """How many outputs there are."""
        return self.context.n_items

    def linear(self, batch: Batch) -> LinearEta:
        """The outputs as factors."""
        return item_products(self.pooled(batch), self.center, self.intercept)


class LatentFactorValues(nn.Module):
    """kappa_i = rho_{x_i} . (pooled alpha_{x_j} y_j of the others) + intercepts.

    Values enter as they are, continuous ones standardized, unobserved ones not at all; with several
    value columns each has its own alpha and all inform all. Dispersion outputs do not depend on the
    context.
    Proposition 3 with `mean` pooling, bidirectional, Poisson(shift=1) and no intercept.
    Source: "Exponential Family Attention", section 4.1.
    """

    def __init__(
        self,
        context: ItemEmbedding,
        center: ItemEmbedding,
        *,
        families: Mapping[str, Family],
        dispersion: Dispersion,
        direction: str,
        pooling: Pooling,
        intercept: ItemBias | None = None,
    ) -> None:
        super().__init__()
        if context.dim * dispersion.n_location != center.dim * len(families):
            raise ExfamError(
                f"`context` must have {len(families)} vectors an item and `center` "
                f"{dispersion.n_location} of the same length, got lengths {context.dim} and "
                f"{center.dim} in all."
            )
        self.context, self.center = context, center
        self.families = dict(families)
        self.dispersion, self.intercept = dispersion, intercept
        self.direction, self.pooling = direction, pooling

    def pooled(self, batch: Batch) -> Float[Tensor, "batch length dim"]:
        """The context of every element as one vector."""
        alpha = self.context(batch).unflatten(-1, (len(self.families), -1))
        value = value_inputs(self.families, batch).to(alpha.dtype)
        token = (alpha * value[..., None]).sum(-2)
        return pooled_context(token, batch.observed, direction=self.direction, pooling=self.pooling)

    def eta(self, batch: Batch) -> Float[Tensor, "batch length eta"]:
        """The parameters of the value columns, given each element's item and context."""
        rho = self.center(batch).unflatten(-1, (self.dispersion.n_location, -1))
        location = (rho * self.pooled(batch)[..., None, :]).sum(-1)
        if self.intercept is not None:
            location = location + self.intercept(batch)
        return self.dispersion(location, batch)


def build_latent_factor_items(
    n_items: int,
    settings: LatentFactorSettings,
    *,
    generator: torch.Generator,
    intercept: Float[Tensor, "items"] | None = None,
) -> LatentFactorItems:
    """The item part from numbers; intercepts start at `intercept` (log-frequencies, say) or 0.

    >>> generator = torch.Generator().manual_seed(0)
    >>> part = build_latent_factor_items(5, LatentFactorSettings(dim=3), generator=generator)
    >>> part.center.vectors().shape
    torch.Size([5, 3])
    """
    start = torch.zeros(n_items) if intercept is None else intercept
    return LatentFactorItems(
        ItemEmbedding(n_items, settings.dim, generator=generator),
        ItemEmbedding(n_items, settings.dim, generator=generator),
        direction=settings.direction,
        pooling=CONTEXT_POOLINGS[settings.pooling],
        intercept=start if settings.intercept else None,
        mask_vector=(
            normal(settings.dim, scale=0.1, generator=generator) if settings.mask_vector else None
        ),
    )


def build_latent_factor_values(
    n_items: int,
    families: Mapping[str, Family],
    settings: LatentFactorSettings,
    *,
    generator: torch.Generator,
    initial_eta: Mapping[str, Tensor] | None = None,
) -> LatentFactorValues:
    """The value part from numbers; intercepts and dispersions start at `initial_eta` or 0.

    >>> from exfam.families import Poisson
    >>> generator, settings = torch.Generator().manual_seed(0), LatentFactorSettings(dim=3)
    >>> families = {"rating": Poisson(shift=1)}
    >>> part = build_latent_factor_values(5, families, settings, generator=generator)
    >>> part.context.vectors().shape
    torch.Size([5, 3])
    """
    zeros = {name: torch.zeros(family.n_params) for name, family in families.items()}
    start, spread = split_initial(families, zeros if initial_eta is None else initial_eta)
    dispersion = Dispersion(
        families, spread.float(), n_items=n_items if settings.dispersion == "item" else None
    )
    n_location = dispersion.n_location
    return LatentFactorValues(
        ItemEmbedding(n_items, len(families) * settings.dim, generator=generator),
        ItemEmbedding(n_items, n_location * settings.dim, generator=generator),
        families=families,
        dispersion=dispersion,
        direction=settings.direction,
        pooling=CONTEXT_POOLINGS[settings.pooling],
        intercept=ItemBias(start.float(), n_items=n_items) if settings.intercept else None,
    )
