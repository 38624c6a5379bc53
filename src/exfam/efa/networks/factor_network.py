"""Latent factor models: attention that weighs its whole context alike (propositions 1 and 3)."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.catalog.linear import LinearEta, item_products
from exfam.checks import ExfamError
from exfam.efa.networks.context import pooled_context, value_inputs
from exfam.efa.networks.efa_network import Dispersion, ItemBias, split_initial
from exfam.embeddings import ItemEmbedding, Reflected
from exfam.families import Family
from exfam.groups import Batch
from exfam.layers import normal


@dataclass(frozen=True)
class LatentFactorSettings:
    """Sizes and choices of a latent factor model; the estimator's parameters have their names.

    `intercept` is one an item, and in a value part a global one; `mask_vector` is of item parts
    alone, `dispersion` of value parts.
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

    row_parameters = ("intercept",)

    def __init__(
        self,
        context: ItemEmbedding,
        center: ItemEmbedding | Reflected,
        *,
        direction: str,
        pooling: str,
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
        eta = self.pooled(batch) @ self.center.vectors().T
        return eta if self.intercept is None else eta + self.intercept

    @property
    def n_items(self) -> int:
        return self.context.n_items

    def linear(self, batch: Batch) -> LinearEta:
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
        pooling: str,
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
    """The item part from numbers; intercepts start at `intercept` (log-frequencies, say) or 0."""
    start = torch.zeros(n_items) if intercept is None else intercept
    return LatentFactorItems(
        ItemEmbedding(n_items, settings.dim, generator=generator),
        ItemEmbedding(n_items, settings.dim, generator=generator),
        direction=settings.direction,
        pooling=settings.pooling,
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
    """The value part from numbers; intercepts and dispersions start at `initial_eta` or 0."""
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
        pooling=settings.pooling,
        intercept=ItemBias(start.float(), n_items=n_items) if settings.intercept else None,
    )
