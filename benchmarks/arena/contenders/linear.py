"""Popularity, item-kNN and EASE: scores linear in the context, closed form."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from benchmarks.arena.kind import Contender, Data, Fitted
from benchmarks.arena.protocol import best_on_validation, popularity

from exfam.efa.recommenders import LinearRecommender, ease, item_knn

NEIGHBORS, SHRINKAGES = (5, 10, 20, 50, 200), (0.0, 10.0, 100.0)
RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)


def fit_popularity(data: Data, seed: int) -> Fitted:
    log_popularity = np.log(popularity(data))
    return Fitted(lambda groups: np.tile(log_popularity, (groups.n_elements, 1)))


def _linear(recommender: LinearRecommender, data: Data) -> Fitted:
    return Fitted(lambda groups: recommender.scores(groups, direction=data.direction), exact=False)


def fit_knn(data: Data, seed: int) -> Fitted:
    def candidates() -> Iterator[tuple[dict[str, Any], Fitted]]:
        for n_neighbors in NEIGHBORS:
            if n_neighbors > NEIGHBORS[0] and n_neighbors >= 4 * data.n_items:
                continue
            for shrinkage in SHRINKAGES:
                settings = {"n_neighbors": n_neighbors, "shrinkage": shrinkage}
                yield settings, _linear(item_knn(data.train, **settings), data)

    return best_on_validation(candidates(), data)


def fit_ease(data: Data, seed: int) -> Fitted:
    candidates = (
        ({"ridge": ridge}, _linear(ease(data.train, ridge=ridge), data)) for ridge in RIDGES
    )
    return best_on_validation(candidates, data)


CONTENDERS: dict[str, Contender] = {
    "popularity": Contender(label="popularity", fit=fit_popularity),
    "item-knn": Contender(label="item-kNN", fit=fit_knn),
    "ease": Contender(label="EASE", fit=fit_ease, most_items=10_000),
}
