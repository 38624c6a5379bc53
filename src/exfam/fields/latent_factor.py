"""The latent factor model of fields: factors of places, pooled over neighbors, as an estimator."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from exfam.checks import check_positive
from exfam.embeddings import NumberAttribute
from exfam.estimator.base import parameter
from exfam.fields.data.facts import observed_own
from exfam.fields.declarations import ClimateModel, LatentFactorParameters
from exfam.fields.field_estimator import TrainedField
from exfam.fields.networks.climate import Climate
from exfam.fields.networks.places import chord_distances, to_points
from exfam.fields.plan import FieldPlan
from exfam.geometry import check_metric
from exfam.groups import Batch, Groups

Places = Float[Tensor, "places dims"]
Which = Int64[Tensor, "batch length"]
# Initial spread of the factors over places, relative to what they have in common.
VARIETY = 0.1


@dataclass(frozen=True)
class NearestObserved:
    """Which elements each element is predicted from: the `k` nearest observed others of its map.

    With `k` None all of them. Of places equally far the one whose coordinates sort first counts as
    nearer; elements at one place count as one neighbor.
    """

    k: int | None
    metric: str

    def __post_init__(self) -> None:
        check_metric(self.metric)
        if self.k is not None:
            check_positive("k", self.k)

    def __call__(self, batch: Batch) -> Bool[Tensor, "batch query key"]:
        return self.among(batch, *distinct_places(batch))

    def among(self, batch: Batch, places: Places, which: Which) -> Bool[Tensor, "batch query key"]:
        """The neighbors, given the distinct places of the batch and which each element has."""
        n, length = which.shape
        shown = batch.observed & batch.present & (batch.steps_back == 0)
        itself = torch.eye(length, dtype=torch.bool, device=shown.device)
        visible = shown[:, None, :] & ~itself
        if self.k is None or self.k >= length:
            return visible
        if bool((which == which[:1]).all() and (shown == shown[:1]).all()):
            visible, which = visible[:1], which[:1]  # maps that are alike are looked at once
        points = to_points(places, self.metric)
        nearest = chord_distances(points, points).argsort(dim=-1, stable=True)
        rank = nearest.argsort(-1).int()[which[:, :, None], which[:, None, :]]
        rank = rank.masked_fill(~visible, len(places))
        limit = rank.kthvalue(self.k, dim=-1, keepdim=True).values
        return (visible & (rank <= limit)).expand(n, -1, -1)


class FieldLatentFactorPart(nn.Module):
    """mean_i = h(tau_i) . (sum of h(tau_j) y_j over the neighbors j of i), and one scale for all.

    h are `factors`, a network of the coordinates; y is the value, or its anomaly from `climate`.
    Source: "Exponential Family Attention", proposition 2 and section 6.4.
    """

    direction = "bidirectional"

    def __init__(
        self,
        factors: NumberAttribute,
        *,
        neighbors: NearestObserved,
        scale: float,
        intercept: float | None = None,
        climate: nn.Module | None = None,
    ) -> None:
        super().__init__()
        check_positive("scale", scale)
        self.factors, self.neighbors, self.climate = factors, neighbors, climate
        self.log_scale = nn.Parameter(torch.tensor(math.log(scale)))
        self.intercept = None if intercept is None else nn.Parameter(torch.tensor(intercept))

    def eta(self, batch: Batch) -> Float[Tensor, "batch length 2"]:
        """Mean and log scale of every own element, given its neighbors."""
        places, which = distinct_places(batch)
        h = self.factors.network((places - self.factors.center) / self.factors.spread)
        h = nn.functional.embedding(which, h)
        (value,) = batch.values.values()
        value = torch.where(batch.observed, value, 0.0).to(h.dtype)
        if self.climate is not None:
            location, scale, doubt = (part.to(h.dtype) for part in self.climate(batch))
            value = (value - location) / scale
        pooled = self.neighbors.among(batch, places, which).to(h.dtype) @ (h * value[..., None])
        mean = (h * pooled).sum(-1)
        if self.intercept is not None:
            mean = mean + self.intercept
        log_scale = self.log_scale.expand_as(mean)
        if self.climate is not None:
            mean = location + scale * mean
            log_scale = 0.5 * ((scale * log_scale.exp()).square() + doubt.square()).log()
        return torch.stack([mean, log_scale], -1)


def build_field_latent_factor(
    groups: Groups,
    settings: LatentFactorParameters,
    *,
    metric: str,
    climate: nn.Module | None = None,
    generator: torch.Generator,
) -> FieldLatentFactorPart:
    """The model before training: each prediction starts near the mean of its neighbors."""
    elements = groups.elements()
    (column,) = groups.values.values()
    neighbors = NearestObserved(settings.k, metric)
    shown = column[observed_own(groups)]
    coordinates = torch.from_numpy(groups.attributes["coordinates"][elements])
    spread = coordinates.std(0, correction=0)
    factors = NumberAttribute(
        "coordinates",
        center=coordinates.mean(0).float(),
        spread=torch.where(spread > 0, spread, 1.0).float(),
        dim=settings.dim,
        hidden_dim=settings.hidden_dim,
        generator=generator,
    )
    n_others = max(1, int((groups.stop - groups.start).max()) - 1)
    # Products of factors near 1/n at first: sums over n neighbors are means.
    n = n_others if settings.k is None else min(settings.k, n_others)
    last: Any = factors.network[-1]  # nn.Module's attributes have no better type
    with torch.no_grad():
        last.weight.mul_(VARIETY / math.sqrt(n))
        last.bias.fill_(1.0 / math.sqrt(n * factors.dim))
    return FieldLatentFactorPart(
        factors,
        neighbors=neighbors,
        scale=1.0 if climate is not None else float(np.std(shown)) or 1.0,
        intercept=0.0 if settings.intercept else None,
        climate=climate,
    )


def distinct_places(batch: Batch) -> tuple[Places, Which]:
    """The distinct coordinates of a batch, in sorted order, and which of them each element has."""
    coordinates = batch.attributes["coordinates"].flatten(0, 1)
    code = torch.zeros(len(coordinates), dtype=torch.int64, device=coordinates.device)
    # Column by column: torch.unique of whole rows takes twenty times as long.
    for column in coordinates.unbind(-1):
        distinct, rank = torch.unique(column, return_inverse=True)
        code = torch.unique(code * len(distinct) + rank, return_inverse=True)[1]
    places = coordinates.new_zeros(int(code.max()) + 1, coordinates.shape[1])
    places[code] = coordinates
    return places, code.view(batch.present.shape)


class FieldLatentFactor(ClimateModel, LatentFactorParameters, TrainedField):
    """Each value is normal around a weighted sum of the values at the nearest observed sites.

        y_i | others ~ N(h_i . sum of h_j y_j over the k nearest observed sites j, sigma^2)

    The factors h are a network of the coordinates. The baseline of "Exponential Family Attention":
    proposition 2, over the nearest sites as in section 6.4.

    {parameters}

    >>> frame = {"day": [1, 1, 2, 2, 3, 3], "city": ["Oslo", "Bonn"] * 3, "x": [0, 5] * 3,
    ...     "celsius": [5.0, 9.0, 4.0, 7.0, 6.0, 9.0]}
    >>> model = FieldLatentFactor(time="day", site="city", coordinates="x", value="celsius",
    ...     metric="euclidean", max_epochs=2, progress=False)
    >>> model.fit(frame).predict(frame).shape
    (6,)
    """

    kind = "field-latent-factor"
    standardize: str = parameter(
        text='what anomalies are taken from: "none" (one center and scale of the whole column, so '
        "that its unit does not matter; the paper's sums are of values as they are), "
        '"global", "site" or "seasonal"',
        default="none",
    )
    learning_rate: float = parameter(default=0.005)
    weight_decay: float = parameter(default=0.0)
    max_epochs: int = parameter(default=300)
    patience: int = parameter(default=60)

    def _fit_parts(self, plan: FieldPlan, climate: Climate) -> list[nn.Module]:
        return self._train(plan, lambda generator: self._part(plan.train, climate, generator))

    def _empty_part(self, climate: Climate) -> nn.Module:
        n_sites = len(self.site_coordinates_)
        like = Groups(
            start=np.array([0]),
            stop=np.array([n_sites]),
            values={self.shape_.column: np.arange(n_sites, dtype=float)},
            attributes={"coordinates": self.site_coordinates_},
        )
        return self._part(like, climate, torch.Generator().manual_seed(0))

    def _part(
        self, groups: Groups, climate: Climate, generator: torch.Generator
    ) -> FieldLatentFactorPart:
        normal = None if self.standardize == "none" else climate
        return build_field_latent_factor(
            groups, self, metric=self.metric, climate=normal, generator=generator
        )
