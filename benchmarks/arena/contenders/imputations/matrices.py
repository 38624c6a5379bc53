"""Imputation of a matrix of times and sites: shrunk singular values, and trees in turn.

Both fill in anomalies from what is normal at a site and time of the year; a Student t stands about
the filled values, its scale learned from values held out in the way that others are hidden.
"""

import warnings
from typing import Any

import numpy as np
from benchmarks.arena.fields.calibration import Scores
from benchmarks.arena.fields.data import FieldData, Maps
from benchmarks.arena.fields.judge import best_on_validation
from benchmarks.arena.fields.normals import Normals, design, fit_normals
from benchmarks.arena.kind import Contender, Fitted
from jaxtyping import Float

# Penalties as shares of the largest singular value, and most ranks.
PENALTIES = (0.3, 0.1, 0.05, 0.025, 0.0125)
RANKS = (5, 20)
ROUNDS = 60
# Of trees: rounds over all sites, trees of a forest, sites that one is predicted from.
TREE_ROUNDS, N_TREES, N_NEAR = 3, 30, 12

Matrix = Float[np.ndarray, "times sites"]


def fit_soft_impute(data: FieldData, seed: int) -> Fitted:
    """Penalty and rank chosen by the values held out."""
    candidates = (
        ({"penalty": penalty, "rank": rank}, _shrunk(penalty, rank, data))
        for penalty in PENALTIES
        for rank in RANKS
    )
    return best_on_validation(candidates, data)


def _shrunk(penalty: float, rank: int, data: FieldData) -> Fitted:
    normals = fit_normals(data, kind="seasonal")

    def predict(maps: Maps) -> Scores:
        anomalies = normals.anomalies(maps.time, maps.visible)
        return _scores(soft_impute(anomalies, penalty=penalty, rank=rank), maps, normals)

    return Fitted(predict, exact=False, refit=lambda other: _shrunk(penalty, rank, other))


def soft_impute(matrix: Matrix, *, penalty: float, rank: int) -> Matrix:
    """The matrix with its gaps filled by iterative singular values less a penalty, at least 0.

    The penalty is a share of the largest singular value of the matrix with gaps as 0.
    Source: Mazumder, Hastie & Tibshirani (2010), algorithm 1.
    """
    there = ~np.isnan(matrix)
    observed = np.where(there, matrix, 0.0)
    most = np.linalg.svd(observed, compute_uv=False)[0]
    filled, size = observed, max(float(np.linalg.norm(observed)), 1e-12)
    # From large penalties to small ones, each from where the last one ended.
    for share in (s for s in (*PENALTIES, penalty) if s >= penalty):
        for _ in range(ROUNDS):
            left, values, right = np.linalg.svd(filled, full_matrices=False)
            kept = np.maximum(values[:rank] - share * most, 0.0)
            low = (left[:, :rank] * kept) @ right[:rank]
            before, filled = filled, np.where(there, matrix, low)
            if np.linalg.norm(filled - before) < 1e-4 * size:
                break
    return filled


def fit_iterative_trees(data: FieldData, seed: int) -> Fitted:
    """Each site in turn by a forest on others, as MissForest does, and on the time of year."""
    normals = fit_normals(data, kind="seasonal")

    def predict(maps: Maps) -> Scores:
        anomalies = normals.anomalies(maps.time, maps.visible)
        waves = design(maps.time, "seasonal", data.period)[:, 1:3]
        with warnings.catch_warnings():
            # A few rounds need not converge.
            warnings.simplefilter("ignore")
            filled = _imputer(seed).fit_transform(np.concatenate([anomalies, waves], axis=1))
        return _scores(filled[:, : data.n_items], maps, normals)

    return Fitted(predict, exact=False, refit=lambda other: fit_iterative_trees(other, seed))


def _imputer(seed: int) -> Any:
    from sklearn.ensemble import ExtraTreesRegressor
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    forest = ExtraTreesRegressor(n_estimators=N_TREES, min_samples_leaf=3, random_state=seed)
    return IterativeImputer(
        forest,
        max_iter=TREE_ROUNDS,
        n_nearest_features=N_NEAR,
        keep_empty_features=True,
        random_state=seed,
    )


def _scores(filled: Matrix, maps: Maps, normals: Normals) -> Scores:
    of_map, site = maps.targets
    scale = normals.scale[site]
    loc = normals.location(maps.time)[of_map, site] + scale * filled[of_map, site]
    n_shown = maps.shown.sum(1)[of_map]
    return Scores(loc, np.stack([np.log(scale), np.log1p(n_shown)], axis=1))


CONTENDERS = {
    "soft-impute": Contender(label="softImpute", fit=fit_soft_impute),
    "iterative-trees": Contender(
        label="extra trees, site by site", fit=fit_iterative_trees, is_random=True
    ),
}
