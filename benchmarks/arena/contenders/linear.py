"""Popularity, item-kNN and EASE: scores linear in the context, closed form."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from benchmarks.arena.kind import Contender, Data, Fitted
from benchmarks.arena.protocol import best_on_validation, popularity

from exfam.efa.recommenders import LinearRecommender, ease, item_knn
from exfam.groups import Groups

NEIGHBORS, SHRINKAGES = (5, 10, 20, 50, 200), (0.0, 10.0, 100.0)
RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)


def fit_popularity(data: Data, seed: int) -> Fitted:
    def fit(data: Data) -> Fitted:
        log_popularity = np.log(popularity(data))
        return Fitted(lambda groups: np.tile(log_popularity, (groups.n_elements, 1)), refit=fit)

    return fit(data)


def _linear(make: Callable[[Groups], LinearRecommender], data: Data) -> Fitted:
    recommender = make(data.train)
    return Fitted(
        lambda groups: recommender.scores(groups, direction=data.direction),
        exact=False,
        refit=partial(_linear, make),
    )


def fit_knn(data: Data, seed: int) -> Fitted:
    def candidates() -> Iterator[tuple[dict[str, Any], Fitted]]:
        for n_neighbors in NEIGHBORS:
            if n_neighbors > NEIGHBORS[0] and n_neighbors >= 4 * data.n_items:
                continue
            for shrinkage in SHRINKAGES:
                settings = {"n_neighbors": n_neighbors, "shrinkage": shrinkage}
                yield settings, _linear(partial(item_knn, **settings), data)

    return best_on_validation(candidates(), data)


def fit_ease(data: Data, seed: int) -> Fitted:
    candidates = (({"ridge": ridge}, _linear(partial(ease, ridge=ridge), data)) for ridge in RIDGES)
    return best_on_validation(candidates, data)


CONTENDERS: dict[str, Contender] = {
    "popularity": Contender(label="popularity", fit=fit_popularity),
    "item-knn": Contender(label="item-kNN", fit=fit_knn),
    "ease": Contender(label="EASE", fit=fit_ease, most_items=10_000),
}
