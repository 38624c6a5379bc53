"""Scores on the working scale: shrunk offsets, and matrix factors by alternating ridge regressions.

The prediction of an element leaves it out exactly: offsets and factors of its group are those of
the others, or of the earlier elements.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from benchmarks.arena.kind import Contender, Fitted
from benchmarks.arena.values.data import Flat, ValueData, flat
from benchmarks.arena.values.judge import best_on_validation
from jaxtyping import Float

from exfam.groups import Groups

OFFSETS: tuple[dict[str, Any], ...] = tuple(
    {"of_item": of_item, "of_group": of_group}
    for of_item in (1.0, 3.0, 10.0, 30.0)
    for of_group in (1.0, 3.0, 10.0, 30.0)
)
FACTORS: tuple[dict[str, Any], ...] = tuple(
    {"rank": rank, "ridge": ridge} for rank in (1, 2, 4, 8, 16) for ridge in (3.0, 10.0, 30.0)
)
PASSES, OF_BIASES = 12, 5.0


def fit_offsets(data: ValueData, seed: int) -> Fitted:
    """A mean, and of items and groups sums of residuals over their number and a constant."""
    candidates = ((settings, _offsets(settings, data)) for settings in OFFSETS)
    return best_on_validation(candidates, data)


def _offsets(settings: dict[str, Any], data: ValueData) -> Fitted:
    own, z = data.learned, data.working(data.learned.value)
    mean = z.mean()
    item, group = np.zeros(data.n_items), np.zeros(len(own.lengths))
    n_of_item = np.bincount(own.item, minlength=data.n_items)
    for _ in range(5):
        rest = z - mean - group[own.group]
        summed = np.bincount(own.item, weights=rest, minlength=data.n_items)
        item = summed / (n_of_item + settings["of_item"])
        rest = z - mean - item[own.item]
        group = np.bincount(own.group, weights=rest) / (own.lengths + settings["of_group"])

    def predict(groups: Groups) -> np.ndarray:
        elements = flat(groups)
        base = mean + item[elements.item]
        rest = data.working(elements.value) - base
        n = elements.n_context(causal=data.causal)
        return base + sum_of_context(rest, elements, causal=data.causal) / (
            n + settings["of_group"]
        )

    return Fitted(predict, exact=False, refit=partial(_offsets, settings))


def sum_of_context(
    number: Float[np.ndarray, "elements"], elements: Flat, *, causal: bool
) -> Float[np.ndarray, "elements"]:
    """The sum over the others, or over the earlier elements of the group."""
    if not causal:
        return np.bincount(elements.group, weights=number)[elements.group] - number
    before = np.cumsum(number) - number
    return before - before[elements.start][elements.group]


@dataclass(frozen=True, eq=False)
class Factors:
    """Value = mean + sd * (bias of item + bias of group + product of factors), and its ridge."""

    bias: Float[np.ndarray, "items"]
    factors: Float[np.ndarray, "items rank"]
    ridge: Float[np.ndarray, "columns"]

    @property
    def design(self) -> Float[np.ndarray, "items columns"]:
        return np.column_stack([np.ones(len(self.bias)), self.factors])


def fit_factors(data: ValueData, seed: int) -> Fitted:
    """Biased matrix factors by alternating ridge regressions; new groups are folded in."""
    candidates = ((settings, _factors(settings, seed, data)) for settings in FACTORS)
    return best_on_validation(candidates, data)


def _factors(settings: dict[str, Any], seed: int, data: ValueData) -> Fitted:
    own, z = data.learned, data.working(data.learned.value)
    mean, sd = z.mean(), max(z.std(), 1e-12)
    model = start_factors(data.n_items, seed=seed, **settings)
    table = incidence(own, data.n_items)
    values = scipy.sparse.csr_array(((z - mean) / sd, (own.group, own.item)), shape=table.shape)
    for _ in range(PASSES):
        model = one_pass(model, table, values)[0]

    def predict(groups: Groups) -> np.ndarray:
        elements = flat(groups)
        base = model.bias[elements.item]
        rest = (data.working(elements.value) - mean) / sd - base
        design = model.design[elements.item]
        folded = leave_one_out(design, rest, elements, model.ridge, causal=data.causal)
        return mean + sd * (base + folded)

    return Fitted(predict, exact=False, refit=partial(_factors, settings, seed))


def start_factors(n_items: int, *, rank: int, ridge: float, seed: int) -> Factors:
    """Small random factors."""
    factors = np.random.default_rng(seed).normal(scale=0.3, size=(n_items, rank))
    return Factors(np.zeros(n_items), factors, np.array([OF_BIASES, *[ridge] * rank]))


def incidence(own: Flat, n_items: int) -> scipy.sparse.csr_array:
    """How often each group has each item."""
    shape = (len(own.lengths), n_items)
    return scipy.sparse.csr_array((np.ones(len(own.item)), (own.group, own.item)), shape=shape)


def one_pass(
    model: Factors, table: scipy.sparse.csr_array, values: scipy.sparse.csr_array
) -> tuple[Factors, Float[np.ndarray, "groups columns"]]:
    """Groups given items, then items given groups; and the groups' biases and factors."""
    group = _solve(table, values, model.bias, model.design, model.ridge)
    design = np.column_stack([np.ones(len(group)), group[:, 1:]])
    item = _solve(table.T.tocsr(), values.T.tocsr(), group[:, 0], design, model.ridge)
    return Factors(item[:, 0], item[:, 1:], model.ridge), group


def _solve(
    table: scipy.sparse.csr_array,
    values: scipy.sparse.csr_array,
    bias: Float[np.ndarray, "columns"],
    design: Float[np.ndarray, "columns numbers"],
    ridge: Float[np.ndarray, "numbers"],
) -> Float[np.ndarray, "rows numbers"]:
    """Of each row, the ridge regression of its values less biases on the design."""
    products = table @ _outer(design)
    size = len(ridge)
    products = products.reshape(-1, size, size) + np.diag(ridge)
    aim = values @ design - table @ (bias[:, None] * design)
    return np.linalg.solve(products, aim[:, :, None])[:, :, 0]


def _outer(design: Float[np.ndarray, "rows numbers"]) -> Float[np.ndarray, "rows products"]:
    return (design[:, :, None] * design[:, None, :]).reshape(len(design), -1)


def leave_one_out(
    design: Float[np.ndarray, "elements numbers"],
    rest: Float[np.ndarray, "elements"],
    elements: Flat,
    ridge: Float[np.ndarray, "numbers"],
    *,
    causal: bool,
) -> Float[np.ndarray, "elements"]:
    """What the ridge regression on the group's other, or earlier, elements predicts."""
    if causal:
        return _earlier(design, rest, elements, ridge)
    size = len(ridge)
    ones, row = np.ones(len(rest)), np.arange(len(rest))
    member = scipy.sparse.csr_array((ones, (elements.group, row)))
    inverse = np.linalg.inv((member @ _outer(design)).reshape(-1, size, size) + np.diag(ridge))
    mean = (inverse @ (member @ (design * rest[:, None]))[:, :, None])[:, :, 0]
    turned = np.einsum("ejk,ek->ej", inverse[elements.group], design)
    leverage = (turned * design).sum(1)
    fit = (mean[elements.group] * design).sum(1)
    return (fit - leverage * rest) / (1 - leverage)


def _earlier(
    design: np.ndarray, rest: np.ndarray, elements: Flat, ridge: np.ndarray
) -> Float[np.ndarray, "elements"]:
    """By one update of all groups for every position."""
    n_groups = len(elements.lengths)
    covariance = np.tile(np.diag(1 / ridge), (n_groups, 1, 1))
    mean = np.zeros((n_groups, len(ridge)))
    out = np.zeros(len(rest))
    for position in range(int(elements.lengths.max())):
        group = np.flatnonzero(elements.lengths > position)
        row = elements.start[group] + position
        x = design[row]
        out[row] = (mean[group] * x).sum(1)
        turned = np.einsum("gjk,gk->gj", covariance[group], x)
        gain = turned / (1 + (turned * x).sum(1))[:, None]
        mean[group] += gain * (rest[row] - out[row])[:, None]
        covariance[group] -= gain[:, :, None] * turned[:, None, :]
    return out


CONTENDERS = {
    "offsets": Contender(label="shrunk offsets", fit=fit_offsets),
    "als-values": Contender(label="biased matrix factors (ALS)", fit=fit_factors, is_random=True),
}
