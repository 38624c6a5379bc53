"""Sequences by counts: first-order Markov chain, and co-occurrence within windows."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from benchmarks.arena.kind import Contender, Data, Fitted
from benchmarks.arena.protocol import best_on_validation, popularity
from scipy.special import logsumexp

from exfam.groups import Groups

SHRINKAGES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
WINDOWS, RECENCIES, WINDOW_SHRINKAGES = (1, 5, 20), (0.1, 0.3, 0.6, 0.9), (1.0, 10.0, 100.0)
# Earlier elements beyond that weigh nothing.
MOST_LAGS = 40


def fit_markov(data: Data, seed: int) -> Fitted:
    """The counts of what follows an item, shrunk to popularity; before the first is a start."""
    candidates = (({"shrinkage": number}, _followers(number, data)) for number in SHRINKAGES)
    return best_on_validation(candidates, data)


def _followers(shrinkage: float, data: Data) -> Fitted:
    counts, common = _starts_and_followers(data), popularity(data)
    total = counts.sum(axis=1)

    def predict(groups: Groups) -> np.ndarray:
        before = _before(groups, start=data.n_items)
        followers = counts[before].toarray() + shrinkage * common
        return np.log(followers / (total[before] + shrinkage)[:, None])

    return Fitted(predict, refit=partial(_followers, shrinkage))


def fit_between(data: Data, seed: int) -> Fitted:
    """A Markov chain's probability of what is between two items, by counts shrunk to popularity.

    Before the first is a start, and after the last an end.
    """
    candidates = (({"shrinkage": number}, _between(number, data)) for number in SHRINKAGES)
    return best_on_validation(candidates, data)


def _between(shrinkage: float, data: Data) -> Fitted:
    n = data.n_items
    before, own, after = _neighbors(data.train, edge=n)
    pairs = [np.append(before, own[after == n]), np.append(own, after[after == n])]
    counts = scipy.sparse.coo_array((np.ones(len(pairs[0])), pairs), shape=(n + 1, n + 1)).toarray()
    ends = (after == n).mean()
    common = np.append(popularity(data) * (1 - ends), ends)
    chance = counts + shrinkage * common
    log_chance = np.log(chance / chance.sum(axis=1, keepdims=True))

    def predict(groups: Groups) -> np.ndarray:
        before, _, after = _neighbors(groups, edge=n)
        eta = log_chance[before, :n] + log_chance[:n].T[after]
        return eta - logsumexp(eta, axis=1, keepdims=True)

    return Fitted(predict, refit=partial(_between, shrinkage))


def _neighbors(groups: Groups, *, edge: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The item before each element, its own, and the one after; `edge` where there is none."""
    own, group = _flat(groups)
    joined = group[1:] == group[:-1]
    before, after = np.full(len(own), edge), np.full(len(own), edge)
    before[1:][joined], after[:-1][joined] = own[:-1][joined], own[1:][joined]
    return before, own, after


def fit_windows(data: Data, seed: int) -> Fitted:
    """A mixture over earlier elements, the recent ones the more, of what comes soon after them.

    Counts within a window go by 1 / sqrt(distance), and are shrunk to popularity.
    """

    def candidates() -> Iterator[tuple[dict[str, Any], Fitted]]:
        for window in WINDOWS:
            counts = _soon_after(data, window)
            for recency in RECENCIES:
                for shrinkage in WINDOW_SHRINKAGES:
                    settings = {"window": window, "recency": recency, "shrinkage": shrinkage}
                    mixture = _mixture(counts, data, recency, shrinkage)
                    yield settings, replace(mixture, refit=partial(_windows, settings))

    return best_on_validation(candidates(), data)


def _windows(settings: dict[str, Any], data: Data) -> Fitted:
    counts = _soon_after(data, settings["window"])
    return _mixture(counts, data, settings["recency"], settings["shrinkage"])


def _mixture(
    counts: scipy.sparse.csr_array, data: Data, recency: float, shrinkage: float
) -> Fitted:
    common = popularity(data)
    weight = 1 / (counts.sum(axis=1) + shrinkage)
    after = (scipy.sparse.diags_array(weight) @ counts).tocsr()

    def predict(groups: Groups) -> np.ndarray:
        history = _history(groups, data.n_items, recency)
        is_first = np.diff(history.indptr) == 0
        of_common = history @ (weight * shrinkage) + is_first
        return np.log((history @ after).toarray() + of_common[:, None] * common)

    return Fitted(predict)


def _starts_and_followers(data: Data) -> scipy.sparse.csr_array:
    """How often each item follows each item, and in the last row how often it is first."""
    before = _before(data.train, start=data.n_items)
    own = data.train.item[data.train.elements()]
    shape = (data.n_items + 1, data.n_items)
    return scipy.sparse.coo_array((np.ones(len(own)), (before, own)), shape=shape).tocsr()


def _before(groups: Groups, *, start: int) -> np.ndarray:
    own = groups.item[groups.elements()].astype(np.int64)
    before = np.append(start, own[:-1])
    is_first = groups.elements() == np.repeat(groups.start, groups.stop - groups.start)
    return np.where(is_first, start, before)


def _soon_after(data: Data, window: int) -> scipy.sparse.csr_array:
    item, group = _flat(data.train)
    total = scipy.sparse.csr_array((data.n_items, data.n_items))
    for distance in range(1, window + 1):
        same = group[distance:] == group[:-distance]
        pair = item[:-distance][same], item[distance:][same]
        weight = np.full(len(pair[0]), distance**-0.5)
        total = total + scipy.sparse.coo_array((weight, pair), shape=total.shape).tocsr()
    return total


def _history(groups: Groups, n_items: int, recency: float) -> scipy.sparse.csr_array:
    """Weights of earlier items at every element, which sum to 1 where there are any."""
    item, group = _flat(groups)
    rows, columns, weights = [], [], []
    for lag in range(1, MOST_LAGS + 1):
        row = np.flatnonzero(group[lag:] == group[:-lag]) + lag
        rows.append(row)
        columns.append(item[row - lag])
        weights.append(np.full(len(row), recency ** (lag - 1)))
    row, column, weight = (np.concatenate(parts) for parts in (rows, columns, weights))
    weight = weight / np.bincount(row, weights=weight, minlength=len(item))[row]
    return scipy.sparse.coo_array((weight, (row, column)), shape=(len(item), n_items)).tocsr()


def _flat(groups: Groups) -> tuple[np.ndarray, np.ndarray]:
    group = np.repeat(np.arange(len(groups)), groups.stop - groups.start)
    return groups.item[groups.elements()].astype(np.int64), group


CONTENDERS = {
    "markov": Contender(label="Markov chain", fit=fit_markov),
    "windows": Contender(label="windowed co-occurrence", fit=fit_windows),
}
ON_BOTH_SIDES = {
    "markov-between": Contender(label="Markov chain on both sides", fit=fit_between),
}
