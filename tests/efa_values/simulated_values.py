"""Values drawn from the factor model, and a dense Gaussian to compare it with."""

import numpy as np

from exfam.efa.values.cells import ValueCells
from exfam.efa.values.factor_em import FactorModel


def drawn_cells(*, n_groups=60, n_items=12, rank=2, noise=0.5, share=0.7, seed=0):
    """Groups of some of the items, with levels of both, and `rank` factors."""
    draw = np.random.default_rng(seed)
    level, loading = draw.normal(size=n_items), draw.normal(size=(n_items, rank))
    groups, items, values = [], [], []
    for _ in range(n_groups):
        item = np.flatnonzero(draw.random(n_items) < share)
        draw.shuffle(item)
        value = level[item] + 0.7 * draw.normal() + loading[item] @ draw.normal(size=rank)
        groups.append(len(item))
        items.append(item)
        values.append(value + noise * draw.normal(size=len(item)))
    offset = np.concatenate([[0], np.cumsum(groups)]).astype(np.int64)
    return ValueCells(offset, np.concatenate(items).astype(np.int64), np.concatenate(values))


def drawn_model(n_items=12, rank=3, seed=1):
    """A factor model with random numbers."""
    draw = np.random.default_rng(seed)
    return FactorModel(
        mu=0.3,
        level=draw.normal(size=n_items + 1),
        loading=draw.normal(size=(n_items + 1, rank + 1)),
        noise=draw.uniform(0.3, 1.5, n_items + 1),
        count=np.append(draw.integers(1, 50, n_items), 0).astype(float),
    )


def conditioned(model, item, value, context, target):
    """Mean, variance and chi-square of a group's dense Gaussian given some of its cells."""
    item = np.where((item < 0) | (item >= model.n_items), model.n_items, item)
    center, loading = model.mu + model.level[item], model.loading[item]
    covariance = loading @ loading.T + np.diag(model.noise[item])
    rest = value[context] - center[context]
    inner = np.linalg.inv(covariance[np.ix_(context, context)])
    onto = covariance[target, context] @ inner
    variance = covariance[target, target] - onto @ covariance[context, target]
    return center[target] + onto @ rest, variance, rest @ inner @ rest


def without_own(cells, cell, value):
    """The cells with another value at one of them."""
    changed = cells.value.copy()
    changed[cell] = value
    return cells.with_value(changed)
