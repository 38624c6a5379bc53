"""Maps that observe the same sites, added up: what covariances are estimated from."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from exfam.fields.networks.anomalies import Anomalies, read_anomalies
from exfam.fields.networks.climate import Climate
from exfam.fields.networks.places import chord_distances
from exfam.groups import Groups

# What a search looks at, which takes some dozens of rounds over it: sites, maps, padded elements,
# and multiplications of all factorizations.
MOST_SITES = 400
MOST_MAPS = 500
MOST_PADDED = 2**20
MOST_MULTIPLICATIONS = 1e8


def gaps(steps_back: Float64[Tensor, "rows length"]) -> Float64[Tensor, "rows length length"]:
    """How many steps lie between the maps of each two elements."""
    return (steps_back[:, :, None] - steps_back[:, None]).abs()


@dataclass(frozen=True, eq=False)
class Patterns:
    """Maps that observe the same sites, added up: sums of z z' and how many maps they are of.

    `before` marks observed elements of earlier maps; `gap` is in steps. Anomalies are 0 where
    they are not observed.
    """

    distance: Float64[Tensor, "patterns length length"]
    gap: Float64[Tensor, "patterns length length"]
    observed: Bool[Tensor, "patterns length"]
    before: Bool[Tensor, "patterns length"]
    squares: Float64[Tensor, "patterns length length"]
    count: Float64[Tensor, "patterns"]

    @property
    def own(self) -> Bool[Tensor, "patterns length"]:
        """Observed elements of the maps themselves."""
        return self.observed & ~self.before


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
