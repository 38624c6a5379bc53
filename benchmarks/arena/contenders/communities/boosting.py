"""Gradient boosting, one for each species, on sites stacked with different species known."""

from functools import partial
from typing import Any

import numpy as np
from benchmarks.arena.communities.data import CommunityData, Sites
from benchmarks.arena.communities.judge import SHARES, best_community, with_known
from benchmarks.arena.contenders.communities.regressions import designer
from benchmarks.arena.kind import Contender, Fitted

# Of these, validation sites choose; of trees, as many as are best there.
SETTINGS: tuple[dict[str, Any], ...] = (
    {"num_leaves": 4, "learning_rate": 0.05},
    {"num_leaves": 12, "learning_rate": 0.05},
)
ROUNDS = 300
_CHECKED = (25, 50, 100, 200, 300)


def fit_boosting(data: CommunityData, seed: int) -> Fitted:
    """Leaves and rounds, one choice for all species."""
    tried: list[tuple[dict[str, Any], Fitted]] = []
    for settings in SETTINGS:
        boosters, design = _boosters(data, settings, ROUNDS, seed)
        for rounds in (rounds for rounds in _CHECKED if rounds <= ROUNDS):
            refit = partial(_boosted, settings=settings, rounds=rounds, seed=seed)
            fitted = Fitted(_predictor(boosters, design, rounds), refit=refit)
            tried.append(({**settings, "rounds": rounds}, fitted))
    return best_community(tried, data)


def _boosted(data: CommunityData, *, settings: dict[str, Any], rounds: int, seed: int) -> Fitted:
    boosters, design = _boosters(data, settings, rounds, seed)
    return Fitted(_predictor(boosters, design, rounds))


def _boosters(
    data: CommunityData, settings: dict[str, Any], rounds: int, seed: int
) -> tuple[list[Any], Any]:
    import lightgbm

    design = designer(data.train.covariates, squares=False)
    columns = np.concatenate([_inputs(design, with_known(data.train, share)) for share in SHARES])
    present = np.tile(data.train.present, (len(SHARES), 1))
    more = {"objective": "binary", "min_data_in_leaf": 10 * len(SHARES), "lambda_l2": 3.0}
    more |= {"feature_fraction": 0.6, "bagging_fraction": 0.7, "bagging_freq": 1, "seed": seed}
    quiet = {"num_threads": 1, "verbose": -1, "deterministic": True}
    boosters = []
    for s in range(present.shape[1]):
        own = columns.copy()
        own[:, columns.shape[1] - present.shape[1] + s] = np.nan
        held = lightgbm.Dataset(own, present[:, s])
        boosters.append(lightgbm.train({**settings, **more, **quiet}, held, rounds))
    return boosters, design


def _predictor(boosters: list[Any], design: Any, rounds: int) -> Any:
    def predict(sites: Sites) -> Any:
        columns, n_species = _inputs(design, sites), len(boosters)
        result = np.empty((len(sites), n_species))
        for s, booster in enumerate(boosters):
            own = columns.copy()
            own[:, columns.shape[1] - n_species + s] = np.nan
            result[:, s] = booster.predict(own, num_iteration=rounds, num_threads=1)
        return result

    return predict


def _inputs(design: Any, sites: Sites) -> np.ndarray:
    return np.column_stack([design(sites.covariates), sites.shown()])


CONTENDERS = {
    "lightgbm": Contender(
        label="LightGBM for each species",
        fit=fit_boosting,
        is_random=True,
        needs="lightgbm",
        most_items=100,
    )
}
