"""LightGBM on the values of the nearest sites, of the map before, places and seasons.

It adds to the mean of the nearest departures by inverse distances, all in units of what is usual
at a site. At new sites what is normal is read from their neighbors, in training as well. Trees are
as many as validation wants; a Student t stands about the scores.
"""

from typing import Any

import numpy as np
from benchmarks.arena.contenders.fields.inverse_distances import log_of_nearest
from benchmarks.arena.fields.calibration import Scores
from benchmarks.arena.fields.data import FieldData, Maps, with_gaps
from benchmarks.arena.fields.judge import best_on_validation
from benchmarks.arena.fields.neighbors import nearest
from benchmarks.arena.fields.normals import Normals, design, fit_normals
from benchmarks.arena.kind import Contender, Fitted
from jaxtyping import Float

LEAVES: tuple[dict[str, Any], ...] = ({"num_leaves": 7}, {"num_leaves": 31})
MOST_TREES, PATIENCE, LEARNING_RATE = 400, 15, 0.1
NEIGHBORS, POWER = 8, 2.0
# Training targets that are worth their time.
MOST_TARGETS = 50_000

Columns = Float[np.ndarray, "targets columns"]


def fit_trees(data: FieldData, seed: int) -> Fitted:
    candidates = ((settings, _trees(settings, seed, data)) for settings in LEAVES)
    return best_on_validation(candidates, data)


def _trees(
    settings: dict[str, Any], seed: int, data: FieldData, n_trees: int | None = None
) -> Fitted:
    """As many trees as validation wants, or `n_trees`."""
    import lightgbm

    normals = fit_normals(data, kind="seasonal")
    parameters: dict[str, Any] = {
        **settings,
        "objective": "regression",
        "learning_rate": LEARNING_RATE,
        "min_data_in_leaf": 20,
        "lambda_l2": 1.0,
        "feature_fraction": 0.7,
        "seed": seed,
        "num_threads": 1,
        "verbose": -1,
    }
    learned = training_targets(data)
    own = lightgbm.Dataset(*_examples(learned, data, normals))
    until: dict[str, Any] = {"num_boost_round": n_trees}
    if n_trees is None:
        until = {
            "num_boost_round": MOST_TREES,
            "valid_sets": [own.create_valid(*_examples(data.validation, data, normals))],
            "callbacks": [lightgbm.early_stopping(PATIENCE, verbose=False)],
        }
    booster = lightgbm.train(parameters, own, **until)
    n_trees = n_trees or booster.best_iteration

    def predict(maps: Maps) -> Scores:
        columns, around = _columns(maps, data, normals)
        location, scale = _of_targets(maps, data, normals)
        added = around + booster.predict(columns, num_iteration=n_trees)
        return Scores(location + scale * added, np.stack([np.log(scale), columns[:, 0]], axis=1))

    return Fitted(
        predict,
        exact=False,
        settings={"trees": n_trees, "targets": int(learned.target.sum())},
        refit=lambda other: _trees(settings, seed, other, n_trees),
    )


def training_targets(data: FieldData) -> Maps:
    """Training maps with gaps as the task has them, and at most so many targets."""
    maps, random = data.train, np.random.default_rng(0)
    if data.hide:
        maps = with_gaps(maps, data.hide, random.random(maps.value.shape))
    kept = random.random(maps.target.shape) < MOST_TARGETS / max(int(maps.target.sum()), 1)
    return maps.with_targets(maps.target & kept)


def _examples(maps: Maps, data: FieldData, normals: Normals) -> tuple[Columns, Any]:
    columns, around = _columns(maps, data, normals)
    location, scale = _of_targets(maps, data, normals)
    return columns, (maps.truth - location) / scale - around


def _of_targets(maps: Maps, data: FieldData, normals: Normals) -> tuple[Any, Any]:
    """What is normal of each target, in training too without its site where targets are new."""
    if data.new_sites:
        assert normals.elsewhere is not None
        normals = normals.elsewhere
    of_map, site = maps.targets
    return normals.location(maps.time)[of_map, site], normals.scale[site]


def _columns(
    maps: Maps, data: FieldData, normals: Normals
) -> tuple[Columns, Float[np.ndarray, "targets"]]:
    """What a tree sees of targets, first the log of the nearest distance; and the mean around."""
    of_map, site = maps.targets
    near = nearest(maps, data, k=NEIGHBORS)
    anomalies = normals.anomalies(maps.time, maps.visible)
    around = near.weighted(maps, anomalies, power=POWER, k=NEIGHBORS)
    location, scale = _of_targets(maps, data, normals)
    columns = [
        log_of_nearest(near.distance),
        around,
        near.of(maps, anomalies),
        near.distance,
        data.coordinates[site],
        design(maps.time, "seasonal", data.period)[of_map, 1:3],
        location,
        np.log(scale),
        _mean_of_others(anomalies, maps),
    ]
    if data.lags:
        before = normals.anomalies(maps.time - 1, maps.before)
        columns += [before[of_map, site], near.of(maps, before)]
    return np.column_stack(columns), around


def _mean_of_others(
    anomalies: Float[np.ndarray, "maps sites"], maps: Maps
) -> Float[np.ndarray, "targets"]:
    """Of all shown values of the map but the target's own, 0 where there is none."""
    of_map, site = maps.targets
    held = np.nan_to_num(anomalies)
    total = held.sum(1)[of_map] - held[of_map, site]
    n = maps.shown.sum(1)[of_map] - maps.shown[of_map, site]
    return total / np.maximum(n, 1)


CONTENDERS = {
    "trees": Contender(
        label="LightGBM, nearest sites", fit=fit_trees, is_random=True, needs="lightgbm"
    ),
}
