"""The nearest sites whose values a prediction is shown."""

from dataclasses import dataclass

import numpy as np
from benchmarks.arena.fields.data import FieldData, Maps
from jaxtyping import Float, Int64


@dataclass(frozen=True, eq=False)
class Neighbors:
    """Of each target, sites that are shown, nearest first; where they are too few, -1 and inf."""

    site: Int64[np.ndarray, "targets k"]
    distance: Float[np.ndarray, "targets k"]

    def of(
        self, maps: Maps, number: Float[np.ndarray, "maps sites"]
    ) -> Float[np.ndarray, "targets k"]:
        """Numbers of those sites on the map of the target, NaN where there is no such site."""
        of_map, _ = maps.targets
        return np.where(self.site < 0, np.nan, number[of_map[:, None], self.site])

    def weighted(
        self, maps: Maps, number: Float[np.ndarray, "maps sites"], *, power: float, k: int
    ) -> Float[np.ndarray, "targets"]:
        """Means of the `k` nearest numbers by inverse distances, 0 where there is none."""
        near, apart = self.of(maps, number)[:, :k], self.distance[:, :k]
        # In units of the nearest, no power of a distance is too large or small.
        ratio = np.maximum(apart, 1e-9) / np.maximum(apart[:, :1], 1e-9)
        weight = np.where(np.isnan(near), 0.0, np.where(np.isfinite(ratio), ratio, 1.0) ** -power)
        return (weight * np.nan_to_num(near)).sum(1) / np.maximum(weight.sum(1), 1e-300)


def nearest(maps: Maps, data: FieldData, *, k: int) -> Neighbors:
    """The `k` nearest shown sites of each target other than its own."""
    of_map, site = maps.targets
    found, apart = np.full((len(site), k), -1), np.full((len(site), k), np.inf)
    for own in np.unique(site):
        rows = np.flatnonzero(site == own)
        order = np.argsort(data.distance[own], kind="stable")
        order = order[order != own]
        seen = maps.shown[of_map[rows]][:, order]
        rank = np.cumsum(seen, axis=1)
        row, column = (seen & (rank <= k)).nonzero()
        to = rows[row], rank[row, column] - 1
        found[to], apart[to] = order[column], data.distance[own, order[column]]
    return Neighbors(found, apart)
