"""Matrix factors of the package `implicit`: ALS and BPR.

A context's factors are folded in: by ALS the least squares solution given its items, by BPR, which
has none, the mean of its items' factors.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from benchmarks.arena.kind import Contender, Data, Fitted
from benchmarks.arena.protocol import best_on_validation, context_holds

from exfam.groups import Groups

ALS: tuple[dict[str, Any], ...] = (
    {"factors": 16, "regularization": 1.0, "alpha": 1.0},
    {"factors": 32, "regularization": 1.0, "alpha": 1.0},
    {"factors": 64, "regularization": 1.0, "alpha": 1.0},
    {"factors": 64, "regularization": 10.0, "alpha": 1.0},
    {"factors": 64, "regularization": 100.0, "alpha": 1.0},
    {"factors": 128, "regularization": 30.0, "alpha": 1.0},
    {"factors": 32, "regularization": 1.0, "alpha": 10.0},
)
BPR: tuple[dict[str, Any], ...] = (
    {"factors": 32, "learning_rate": 0.05, "regularization": 0.01},
    {"factors": 64, "learning_rate": 0.05, "regularization": 0.01},
    {"factors": 32, "learning_rate": 0.05, "regularization": 0.05},
    {"factors": 32, "learning_rate": 0.01, "regularization": 0.01},
)


def fit_als(data: Data, seed: int) -> Fitted:
    from implicit.cpu.als import AlternatingLeastSquares

    def fitted(settings: dict[str, Any], data: Data) -> Fitted:
        model = AlternatingLeastSquares(num_threads=1, random_state=seed, **settings)
        model.fit(_held(data), show_progress=False)
        return replace(_folded_in(model, data), refit=partial(fitted, settings))

    return best_on_validation(((settings, fitted(settings, data)) for settings in ALS), data)


def fit_bpr(data: Data, seed: int) -> Fitted:
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    def fitted(settings: dict[str, Any], data: Data) -> Fitted:
        model = BayesianPersonalizedRanking(
            num_threads=1, random_state=seed, iterations=100, **settings
        )
        model.fit(_held(data), show_progress=False)
        return replace(_averaged(model, data), refit=partial(fitted, settings))

    return best_on_validation(((settings, fitted(settings, data)) for settings in BPR), data)


def _folded_in(model: Any, data: Data) -> Fitted:
    def predict(groups: Groups) -> np.ndarray:
        context = _context(groups, data)
        factors = model.recalculate_user(np.arange(context.shape[0]), context)
        return factors @ model.item_factors.T

    return Fitted(predict, exact=False)


def _averaged(model: Any, data: Data) -> Fitted:
    def predict(groups: Groups) -> np.ndarray:
        context = _context(groups, data)
        size = np.maximum(np.diff(context.indptr), 1)[:, None]
        factors = context @ model.item_factors / size
        factors[:, -1] = 1.0  # the last of an item's factors is its bias
        return factors @ model.item_factors.T

    return Fitted(predict, exact=False)


def _held(data: Data) -> scipy.sparse.csr_matrix:
    train = data.train
    group = np.repeat(np.arange(len(train)), train.stop - train.start)
    item = train.item[train.elements()]
    shape = (len(train), data.n_items)
    held = scipy.sparse.csr_matrix((np.ones(len(item), np.float32), (group, item)), shape=shape)
    held.data[:] = 1.0
    return held


def _context(groups: Groups, data: Data) -> scipy.sparse.csr_matrix:
    holds = context_holds(groups, data.n_items, causal=data.causal)
    return scipy.sparse.csr_matrix(holds.astype(np.float32))


CONTENDERS = {
    "als": Contender(label="implicit ALS", fit=fit_als, is_random=True, needs="implicit"),
    "bpr": Contender(label="implicit BPR", fit=fit_bpr, is_random=True, needs="implicit"),
}
