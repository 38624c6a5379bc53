"""Means of the nearest values by inverse distances; a Student t stands about them."""

from itertools import product

import numpy as np
from benchmarks.arena.fields.calibration import Scores
from benchmarks.arena.fields.data import FieldData, Maps
from benchmarks.arena.fields.judge import best_on_validation
from benchmarks.arena.fields.neighbors import nearest
from benchmarks.arena.fields.normals import KINDS, fit_normals
from benchmarks.arena.kind import Contender, Fitted

POWERS, NEIGHBORS = (1.0, 2.0, 3.0), (4, 8, 16)


def fit_inverse_distances(data: FieldData, seed: int) -> Fitted:
    """Of values at new sites, of departures from what is normal at known ones."""
    kinds = ("none",) if data.new_sites else KINDS
    candidates = (
        ({"normals": kind, "power": power, "k": k}, _fitted(kind, power, k, data))
        for kind, power, k in product(kinds, POWERS, NEIGHBORS)
    )
    return best_on_validation(candidates, data)


def _fitted(kind: str, power: float, k: int, data: FieldData) -> Fitted:
    normals = fit_normals(data, kind="site" if kind == "none" else kind)

    def predict(maps: Maps) -> Scores:
        of_map, site = maps.targets
        location = normals.location(maps.time)
        if kind == "none":
            location = np.full_like(location, np.nanmean(data.train.value))
        near = nearest(maps, data, k=k)
        apart = near.weighted(maps, maps.visible - location, power=power, k=k)
        features = [np.log(normals.scale[site]), log_of_nearest(near.distance)]
        return Scores(location[of_map, site] + apart, np.stack(features, axis=1))

    return Fitted(predict, exact=False, refit=lambda other: _fitted(kind, power, k, other))


def log_of_nearest(apart: np.ndarray) -> np.ndarray:
    """Of a target that sees no other value, that of the farthest there is."""
    first = apart[:, 0]
    some = np.isfinite(first)
    most = first[some].max() if some.any() else 1.0
    return np.log(np.maximum(np.where(some, first, most), 1e-9))


CONTENDERS = {
    "inverse-distances": Contender(label="inverse distances", fit=fit_inverse_distances),
}
