"""Histograms of cells of the value: global, by item, and of the group's other values.

Cells are the levels of ordinal values; of counts the frequent ones and the stretches between; of
real values twenty of equal frequency. Within a cell all elements share the global distribution.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from benchmarks.arena.kind import Contender, Fitted
from benchmarks.arena.values.calibration import some_groups
from benchmarks.arena.values.data import Flat, ValueData, flat
from benchmarks.arena.values.distributions import Atoms, Cells, Mixed, RoundedT, Steps, StudentT
from benchmarks.arena.values.judge import best_on_validation
from jaxtyping import Float, Int64
from torch import Tensor

from exfam.groups import Groups

STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0)
# Of values that have a cell of their own, and of the stretches between them.
_OWN_SHARE, _STRETCH = 0.01, 0.02
_REAL_CELLS, _STEPS = 20, 100
_WEIGHT_OF_SMOOTH = 20.0


@dataclass(frozen=True, eq=False)
class Grid:
    """Cells, the distribution that is shared within them, and the means of their values."""

    cuts: Float[np.ndarray, "inner"]
    within: Any
    means: Float[np.ndarray, "cells"]
    share: Float[np.ndarray, "cells"]

    def cell(self, value: Float[np.ndarray, "elements"]) -> Int64[np.ndarray, "elements"]:
        return np.searchsorted(self.cuts, value, side="left")

    def distribution(self, probs: Float[np.ndarray, "elements cells"]) -> Cells:
        return Cells(probs, self.cuts, self.within, self.means)


def grid(data: ValueData) -> Grid:
    """The cells of the training values."""
    value = data.learned.value
    cuts, within = _CUTS[data.form](value, data)
    n_cells = len(cuts) + 1
    cell = np.searchsorted(cuts, value, side="left")
    count = np.bincount(cell, minlength=n_cells)
    total = np.bincount(cell, weights=data.judged(value), minlength=n_cells)
    means = total / np.maximum(count, 1)
    if data.form == "ordinal":
        means = np.arange(data.limits[0], data.limits[1] + 1)
    share = (count + 0.5) / (count + 0.5).sum()
    return Grid(cuts, within, means, share)


def _ordinal_cuts(value: np.ndarray, data: ValueData) -> tuple[np.ndarray, Any]:
    levels = np.arange(data.limits[0], data.limits[1] + 1)
    return levels[:-1], Atoms(levels, np.full(len(levels), 1 / len(levels)))


def _count_cuts(value: np.ndarray, data: ValueData) -> tuple[np.ndarray, Any]:
    values, count = np.unique(value, return_counts=True)
    share = count / count.sum()
    cuts, held = [], 0.0
    for index in range(len(values) - 1):
        held += share[index]
        next_is_frequent = share[index + 1] >= _OWN_SHARE
        if share[index] >= _OWN_SHARE or held >= _STRETCH or next_is_frequent:
            # Values between that training lacks are of the cell above.
            cuts.append(values[index])
            held = 0.0
    z = data.working(value)
    smooth = RoundedT(z.mean(), max(z.std(), 0.1), 5.0, data.offset)
    mixed = Mixed(len(value) / (len(value) + _WEIGHT_OF_SMOOTH), Atoms(values, share), smooth)
    return np.array(cuts), mixed


def _real_cuts(value: np.ndarray, data: ValueData) -> tuple[np.ndarray, Any]:
    cuts = np.unique(np.quantile(value, np.arange(1, _REAL_CELLS) / _REAL_CELLS))
    edges = np.linspace(value.min(), value.max(), _STEPS + 1)
    count = np.histogram(value, edges)[0] + 0.5
    tails = StudentT(value.mean(), value.std(), 5.0)
    return cuts, Mixed(0.99, Steps(edges, count / count.sum()), tails)


_CUTS = {"ordinal": _ordinal_cuts, "count": _count_cuts, "real": _real_cuts}


def of_items(data: ValueData, cells: Grid) -> Float[np.ndarray, "items cells"]:
    """How often the training values of each item are in each cell."""
    counted = np.zeros((data.n_items, len(cells.share)))
    np.add.at(counted, (data.learned.item, cells.cell(data.learned.value)), 1.0)
    return counted


def of_context(elements: Flat, cells: Grid, *, causal: bool) -> Float[np.ndarray, "elements cells"]:
    """How many of the others, or of the earlier values of the group are in each cell."""
    own = np.eye(len(cells.share))[cells.cell(elements.value)]
    up_to = np.cumsum(own, axis=0)
    before = up_to[elements.start] - own[elements.start]
    if causal:
        return up_to - own - before[elements.group]
    total = np.diff(np.concatenate([before, up_to[-1:]]), axis=0)
    return total[elements.group] - own


def fit_marginal(data: ValueData, seed: int) -> Fitted:
    cells = grid(data)
    return Fitted(
        lambda groups: cells.distribution(np.tile(cells.share, (groups.n_elements, 1))),
        refit=partial(fit_marginal, seed=seed),
    )


def fit_items(data: ValueData, seed: int) -> Fitted:
    """Item histograms, drawn to the global one by a number of values chosen on validation."""
    candidates = (({"strength": number}, _items(number, data)) for number in STRENGTHS)
    return best_on_validation(candidates, data)


def _items(strength: float, data: ValueData) -> Fitted:
    cells = grid(data)
    counted = of_items(data, cells) + strength * cells.share
    probs = counted / counted.sum(axis=1, keepdims=True)
    return Fitted(
        lambda groups: cells.distribution(probs[flat(groups).item]),
        refit=partial(_items, strength),
    )


@dataclass(frozen=True, eq=False)
class _Histograms:
    """Of elements: those of their items and contexts, and the sizes of both."""

    item: Tensor
    context: Tensor
    n_item: Tensor
    n_context: Tensor
    share: Tensor


_START = (0.0, 1.0, 0.3, 0.0, np.log(10.0), np.log(5.0), np.log(10.0))


def fit_histogram(data: ValueData, seed: int) -> Fitted:
    """A product of powers of the global, the item's and the context's histogram.

    The context's power grows with its size; powers and smoothing are fitted on validation.
    """
    shown = some_groups(data.validation, most=8_000)
    cells = grid(data)
    given = _histograms(shown, data, cells, of_items(data, cells))
    own = torch.as_tensor(cells.cell(flat(shown).value))
    numbers = torch.tensor(_START, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([numbers], max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        log_prob = _pooled(numbers, given).log_softmax(1).gather(1, own[:, None])
        loss = 1e-3 * ((numbers - torch.tensor(_START)) ** 2).mean() - log_prob.mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    return _histogram(numbers.detach(), data)


def _histogram(numbers: Tensor, data: ValueData) -> Fitted:
    cells = grid(data)
    counted = of_items(data, cells)

    def predict(groups: Groups) -> Cells:
        given = _histograms(groups, data, cells, counted)
        return cells.distribution(_pooled(numbers, given).softmax(1).numpy())

    settings = {"numbers": numbers.numpy().round(3).tolist()}
    return Fitted(predict, settings=settings, refit=partial(_histogram, numbers))


def _histograms(
    groups: Groups, data: ValueData, cells: Grid, counted: Float[np.ndarray, "items cells"]
) -> _Histograms:
    elements = flat(groups)
    item = counted[elements.item]
    context = of_context(elements, cells, causal=data.causal)
    columns = (item, context, item.sum(1, keepdims=True), context.sum(1, keepdims=True))
    return _Histograms(*map(torch.as_tensor, columns), torch.as_tensor(cells.share))


def _pooled(numbers: Tensor, given: _Histograms) -> Tensor:
    """Logits of the cells."""
    strength, smoothing, half = numbers[4:].exp()
    item = (given.item + strength * given.share) / (given.n_item + strength)
    context = (given.context + smoothing * given.share) / (given.n_context + smoothing)
    power = numbers[2] + numbers[3] * given.n_context / (given.n_context + half)
    common = given.share.log()
    return numbers[0] * common + numbers[1] * item.log() + power * context.log()


CONTENDERS = {
    "marginal": Contender(label="global marginal", fit=fit_marginal),
    "items": Contender(label="item marginals", fit=fit_items),
    "histogram": Contender(label="histograms of group and item", fit=fit_histogram),
}
