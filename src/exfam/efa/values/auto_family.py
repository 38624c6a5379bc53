"""The family of a column of values that none was named for."""

import numpy as np
import torch
from jaxtyping import Float64

from exfam.efa.values.cells import ValueCells
from exfam.efa.values.values_base import ValueOptions, fit_and_keep
from exfam.families import (
    Bernoulli,
    Family,
    Histogram,
    Ordinal,
    RoundedStudentT,
    StudentT,
    scaled_to,
)

# Whole numbers in a range of at most so many are ordered classes, if they fill half of it.
MOST_LEVELS, FILLED = 20, 0.5
# Bins of a histogram, which needs so many values, and must gain so many nats a value.
N_BINS, LEAST_FOR_BINS, LEAST_GAIN = 40, 2_000, 0.02
# Families are compared on groups with about this many values.
_MOST_TO_COMPARE = 20_000


def auto_family(cells: ValueCells, n_items: int, options: ValueOptions) -> Family:
    """The family that values are likely to have.

    Whole numbers in a short range are ordered classes, 0 and 1 alone a Bernoulli's; others from 0
    on are counts with heavy tails. Real numbers have a Student t, or a histogram where what
    predicts values from the others of their group is ahead by it, as where there is more than one
    peak: the wide groups of a scale's users, say.

    >>> cells = ValueCells(np.array([0, 3]), np.zeros(3, dtype=np.int64), np.array([4.0, 5.0, 2.0]))
    >>> auto_family(cells, 1, ValueOptions())
    Ordinal(n=4, start=2)
    """
    value = cells.value[cells.observed]
    if len(value) and (value == np.floor(value)).all() and np.abs(value).max() < 2**53:
        low, high = int(value.min()), int(value.max())
        distinct = len(np.unique(value[:1_000_000]))
        if low >= 0 and high <= 1:
            return Bernoulli()
        if high - low < MOST_LEVELS and distinct >= FILLED * (high - low + 1):
            return Ordinal(high - low + 1, start=low)
        if low >= 0:
            return RoundedStudentT(start=min(low, 1))
    if len(value) < LEAST_FOR_BINS:
        return StudentT()
    return _of_reals(cells, n_items, options)


def _of_reals(cells: ValueCells, n_items: int, options: ValueOptions) -> Family:
    """Student's t, or a histogram if its nats are better where a simple base predicts by both."""
    order = np.random.default_rng(options.seed).permutation(cells.n_groups)
    share = min(1.0, _MOST_TO_COMPARE / max(1, cells.n_cells))
    some = cells.take(np.sort(order[: int(np.ceil(share * cells.n_groups))])).only_observed()
    simple = ValueOptions(causal=options.causal, rank=0, seed=options.seed)
    bins = histogram_of(cells.value[cells.observed])
    if bins is None:
        return StudentT()
    gain = _nats(some, n_items, bins, simple) - _nats(some, n_items, StudentT(), simple)
    return bins if gain > LEAST_GAIN else StudentT()


def _nats(cells: ValueCells, n_items: int, family: Family, options: ValueOptions) -> float:
    """Mean log-density of values given the others, by features that did not see their groups."""
    scaled = scaled_to(family, torch.from_numpy(cells.value))
    standard = cells.with_value(scaled.standardize(torch.from_numpy(cells.value)).numpy())
    base, kept = fit_and_keep(standard, n_items, scaled.of_units, options)
    value = torch.from_numpy(cells.value[kept.cells])
    return float(scaled.log_prob(value, base.eta_of(kept.features)).mean())


def histogram_of(value: Float64[np.ndarray, "values"]) -> Histogram | None:
    """Bins between quantiles; None where values are too much alike for them."""
    edges = np.unique(np.quantile(value, np.arange(1, N_BINS) / N_BINS))
    below, above = value[value < edges[0]], value[value > edges[-1]]
    if len(edges) < 2 or not len(below) or not len(above):
        return None
    tails = float((edges[0] - below).mean()), float((above - edges[-1]).mean())
    return Histogram(tuple(edges.tolist()), tails=tails)
