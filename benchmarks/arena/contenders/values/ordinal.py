"""Ordinal matrix factors: thresholds of a latent normal value, by EM over alternating regressions.

A group's factors given its other elements are found by the same EM from these alone.
"""

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
import scipy.special
from benchmarks.arena.contenders.values.additive import Factors, incidence, one_pass, start_factors
from benchmarks.arena.kind import Contender, Fitted
from benchmarks.arena.values.data import ValueData, flat
from benchmarks.arena.values.judge import best_on_validation
from jaxtyping import Float

from exfam.groups import Groups

SETTINGS: tuple[dict[str, Any], ...] = tuple(
    {"rank": rank, "ridge": ridge} for rank in (1, 2, 4, 8) for ridge in (3.0, 10.0)
)
PASSES, FOLDED_PASSES = 20, 4


def fit_ordinal(data: ValueData, seed: int) -> Fitted:
    candidates = ((settings, _ordinal(settings, seed, data)) for settings in SETTINGS)
    return best_on_validation(candidates, data)


def unsuited(data: Any) -> str | None:
    """Why the data cannot have thresholds, if so."""
    return None if data.form == "ordinal" else "values have no levels"


def _ordinal(settings: dict[str, Any], seed: int, data: ValueData) -> Fitted:
    own, low = data.learned, data.limits[0]
    level = (own.value - low).astype(int)
    n_levels = int(data.limits[1] - low) + 1
    count = np.bincount(level, minlength=n_levels) + 0.5
    up_to = np.cumsum(count / count.sum())[:-1]
    model, mean = start_factors(data.n_items, seed=seed, **settings), np.zeros(len(level))
    table = incidence(own, data.n_items)
    for _ in range(PASSES):
        ends = _thresholds(up_to, mean)
        latent = mean + _residual(ends[level] - mean, ends[level + 1] - mean)
        values = scipy.sparse.csr_array((latent, (own.group, own.item)), shape=table.shape)
        model, group = one_pass(model, table, values)
        factors = (group[own.group, 1:] * model.factors[own.item]).sum(1)
        mean = model.bias[own.item] + group[own.group, 0] + factors

    def predict(groups: Groups) -> np.ndarray:
        elements = flat(groups)
        level = (elements.value - low).astype(int)
        out = np.zeros(len(level))
        stop = elements.start + elements.lengths
        for first, last in zip(elements.start, stop, strict=True):
            rows = slice(first, last)
            out[rows] = _folded_in(
                model, ends, elements.item[rows], level[rows], causal=data.causal
            )
        return out

    return Fitted(predict, exact=False, refit=partial(_ordinal, settings, seed))


def _folded_in(
    model: Factors, ends: np.ndarray, item: np.ndarray, level: np.ndarray, *, causal: bool
) -> Float[np.ndarray, "elements"]:
    """Latent means of a group's elements given the others, or the earlier ones."""
    n, bias, design = len(item), model.bias[item], model.design[item]
    sees = np.tri(n, k=-1) if causal else 1 - np.eye(n)
    products = np.einsum("jk,ka,kb->jab", sees, design, design, optimize=True)
    products += np.diag(model.ridge)
    mean = np.tile(bias, (n, 1))
    for _ in range(FOLDED_PASSES):
        latent = mean + _residual(ends[level] - mean, ends[level + 1] - mean)
        aim = (sees * (latent - bias)) @ design
        own = np.linalg.solve(products, aim[:, :, None])[:, :, 0]
        mean = bias + own @ design.T
    return mean.diagonal()


def _thresholds(
    up_to: Float[np.ndarray, "inner"], mean: Float[np.ndarray, "elements"]
) -> Float[np.ndarray, "ends"]:
    """At which the mean probability of being below is the share of values that are."""
    low = np.full(len(up_to), mean.min() - 8)
    high = np.full(len(up_to), mean.max() + 8)
    shown = mean[:: max(1, len(mean) // 5_000)]
    for _ in range(40):
        middle = (low + high) / 2
        is_below = scipy.special.ndtr(middle[:, None] - shown).mean(1) < up_to
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return np.concatenate([[-np.inf], low, [np.inf]])


def _residual(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The mean of a standard normal number between two ends."""
    low, high = np.clip(low, -12, 12), np.clip(high, -12, 12)
    # By symmetry, so that the upper tail loses no digits.
    flip = low > 0
    left, right = np.where(flip, -high, low), np.where(flip, -low, high)
    mass = np.maximum(scipy.special.ndtr(right) - scipy.special.ndtr(left), 1e-300)
    density = np.exp(-0.5 * low**2) - np.exp(-0.5 * high**2)
    mean = density / (np.sqrt(2 * np.pi) * mass)
    return np.clip(mean, low, high)


CONTENDERS = {
    "ordinal-factors": Contender(
        label="ordinal matrix factors", fit=fit_ordinal, is_random=True, unsuited=unsuited
    ),
}
