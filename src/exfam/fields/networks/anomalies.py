"""Maps as anomalies at points, and summed by the sites that they observe: what covariances need."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from exfam.checks import ExfamError
from exfam.fields.networks.climate import Climate
from exfam.fields.networks.places import chord_distances, to_points
from exfam.groups import Batch, Groups

# A map's covariance is factorized whole: its time grows with the cube of this number.
MOST_ELEMENTS = 5000
# Doubts are rounded to this share of the scale, so that days of like doubts share a factorization.
DOUBT_GRID = 0.05
# What a search looks at, which takes some dozens of rounds over it: sites, maps, padded elements,
# and multiplications of all factorizations.
MOST_SITES = 400
MOST_MAPS = 500
MOST_PADDED = 2**20
MOST_MULTIPLICATIONS = 1e8

Column = Float64[Tensor, "batch length"]
Matrices = Float64[Tensor, "rows length length"]


@dataclass(frozen=True, eq=False)
class Anomalies:
    """Departures from what is normal, in units of the normal scale; 0 where not observed.

    `doubt`: what is not known of the normal location, in the same units
    """

    value: Column
    observed: Bool[Tensor, "batch length"]
    points: Float64[Tensor, "batch length space"]
    doubt: Column
    steps_back: Column
    scale: Column
    location: Column

    @property
    def signature(self) -> Float64[Tensor, "batch numbers"]:
        """Places, observed ones, doubts and times of each map, side by side."""
        parts = [self.observed.double(), self.doubt, self.steps_back, self.points.flatten(1)]
        return torch.cat(parts, -1)

    def above(self, level: Float64[Tensor, ""]) -> "Anomalies":
        """The same maps with that much taken from every observed anomaly."""
        return replace(self, value=torch.where(self.observed, self.value - level, 0.0))

    def to_eta(self, mean: Column, variance: Column) -> Float[Tensor, "batch length 2"]:
        """Mean and log standard deviation in the value's unit, of those of anomalies."""
        log_sd = self.scale.log() + 0.5 * variance.clamp_min(1e-12).log()
        return torch.stack([self.location + self.scale * mean, log_sd], -1).float()


def read_anomalies(batch: Batch, climate: Climate) -> Anomalies:
    """The anomalies of a batch of field groups with one value column."""
    length = batch.present.shape[1]
    if length > MOST_ELEMENTS:
        raise ExfamError(
            f"`groups` must have at most {MOST_ELEMENTS:,} elements a map, earlier maps included, "
            f"where all of them are solved for at once, got {length:,}. Use fewer lags or sites, "
            "or FieldEFA."
        )
    location, scale, doubt = (part.double() for part in climate(batch))
    observed = batch.observed & batch.present
    (value,) = batch.values.values()
    return Anomalies(
        value=torch.where(observed, (value.double() - location) / scale, 0.0),
        observed=observed,
        points=to_points(batch.attributes["coordinates"], climate.metric),
        doubt=(doubt / scale / DOUBT_GRID).round() * DOUBT_GRID,
        steps_back=batch.steps_back.double(),
        scale=scale,
        location=location,
    )


def thinned(groups: Groups, climate: Climate) -> Anomalies:
    """Anomalies of at most 400 sites on at most 500 maps, evenly taken; doubts are left out."""
    longest = max(1, int(groups.lengths.max()))
    n_maps = min(MOST_MAPS, max(1, MOST_PADDED // longest))
    index = np.unique(np.linspace(0, len(groups) - 1, n_maps).round().astype(np.int64))
    batch = groups.pad(index)
    maps = read_anomalies(batch, climate)
    sites = np.linspace(0, climate.n_sites - 1, MOST_SITES).round().astype(np.int64)
    assert batch.item is not None
    keep = maps.observed & torch.isin(batch.item, torch.from_numpy(np.unique(sites)))
    # Kept elements first: what lies behind the longest of these rows is dropped.
    length = max(1, int(keep.sum(1).max()))
    order = keep.double().argsort(dim=1, descending=True, stable=True)[:, :length]
    columns = {
        name: getattr(maps, name).gather(1, order)
        for name in ("value", "steps_back", "scale", "location")
    }
    points = maps.points.gather(1, order[..., None].expand(-1, -1, maps.points.shape[-1]))
    no_doubt = torch.zeros_like(columns["value"])
    return Anomalies(observed=keep.gather(1, order), points=points, doubt=no_doubt, **columns)


def gaps(steps_back: Float64[Tensor, "rows length"]) -> Matrices:
    """How many steps lie between the maps of each two elements."""
    return (steps_back[:, :, None] - steps_back[:, None]).abs()


@dataclass(frozen=True, eq=False)
class Patterns:
    """Maps that observe the same sites, added up: sums of z z' and how many maps they are of.

    `before` marks observed elements of earlier maps, `own` those of the maps themselves
    """

    distance: Matrices
    gap: Matrices
    observed: Bool[Tensor, "rows length"]
    before: Bool[Tensor, "rows length"]
    squares: Matrices
    count: Float64[Tensor, "rows"]

    @property
    def own(self) -> Bool[Tensor, "rows length"]:
        """Observed elements of the maps themselves."""
        return self.observed & ~self.before


def patterns_of(maps: Anomalies) -> Patterns:
    """The most frequent patterns of observed sites, as many as a search can afford."""
    like, count = torch.unique(maps.signature, dim=0, return_inverse=True, return_counts=True)[1:]
    afford = max(1, int(MOST_MULTIPLICATIONS / maps.value.shape[1] ** 3))
    chosen = count.argsort(descending=True, stable=True)[:afford]
    rows = [(like == pattern).nonzero()[:, 0] for pattern in chosen]
    first = torch.stack([row[0] for row in rows])
    value = torch.where(maps.observed, maps.value, 0.0)
    observed = maps.observed[first]
    return Patterns(
        distance=chord_distances(maps.points[first], maps.points[first]),
        gap=gaps(maps.steps_back[first]),
        observed=observed,
        before=observed & (maps.steps_back[first] > 0),
        squares=torch.stack([value[row].T @ value[row] for row in rows]),
        count=count[chosen].double(),
    )
