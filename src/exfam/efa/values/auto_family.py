"""The family of a column of values that none was named for."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from exfam.efa.values.cells import ValueCells, base_values, value_cells
from exfam.efa.values.given import GivenColumn
from exfam.efa.values.head_counts import counts_of, own_atoms, without_own_value
from exfam.efa.values.values_base import ValueOptions, fit_and_keep
from exfam.families import (
    Bernoulli,
    Family,
    Gamma,
    Histogram,
    LogStudentT,
    NegativeBinomial,
    Ordinal,
    RoundedStudentT,
    Scaled,
    SinhStudentT,
    StudentT,
    ZeroInflated,
    scaled_to,
)
from exfam.groups import Groups

# Whole numbers in a range of at most so many are ordered classes, if they fill half of it.
MOST_LEVELS, FILLED = 20, 0.5
# Those from 0 or 1 whose largest one is rarer than that are counts, of which larger ones may come;
# one that occurs so few times is rare where it is less than a hundredth, or levels are many, fewer
# of which do from 0 on: classes of another number would be an error, and ratings begin at 1.
RARE, FEW_TIMES, FEW_SHARE, FEW_LEVELS, FEW_FROM_ZERO = 1e-3, 2, 1e-2, 7, 5
# Families are compared of so many values; one that is not the usual one must gain so many nats.
LEAST_TO_COMPARE, LEAST_OF_OTHERS = 50, 0.01
# Bins of a histogram, which needs so many values, and must gain so many nats a value.
N_BINS, LEAST_FOR_BINS, LEAST_GAIN = 40, 2_000, 0.02
# It is fitted only where shares of the bins are further than this, in nats, from those predicted
# for so many values without it, which costs a twentieth.
_LEAST_MISSED, _FOR_SHARES = 0.005, 2_000
# Numbers are compared with their inverse hyperbolic sines where the middle of the 5th and the 95th
# percentile is so far from the median, in units of the distance of both, or these two are so many
# times as far apart as the quartiles. A Gaussian has 0 and 2.4.
SKEWED, WIDE = 0.3, 5.0
# Of amounts so many zeros are no chance, nor of counts if they are so many times as many as ones.
MANY_ZEROS, TIMES_ONES = 0.1, 2.0
# Families are compared on groups with about this many values.
_MOST_TO_COMPARE = 20_000


def auto_family(
    groups: Groups, column: str, options: ValueOptions, known: Sequence[GivenColumn] = ()
) -> Family:
    """The family that a column's values are likely to have, given what is `known` of each.

    Whole numbers in a short range are ordered classes, as are half ones (half stars), 0 and 1 alone
    a Bernoulli's; others from 0 on, and those whose largest one is rare, are counts. Where what
    predicts values from the others of their group is ahead by it, counts have a negative binomial
    distribution in place of one with heavy tails, or a zero-inflated one where zeros are many, real
    numbers a histogram in place of a Student t, as where they have several peaks, those above 0 a
    gamma or a log Student t, and skewed ones of either sign a Student t of their inverse hyperbolic
    sine. Amounts of which a tenth or more are 0 have zeros with a probability
    of their own.

    >>> groups = Groups(start=[0], stop=[3], values={"stars": np.array([4.0, 5.0, 2.0])})
    >>> auto_family(groups, "stars", ValueOptions())
    Ordinal(n=5, start=1)
    """
    found = _summary(groups, column)
    if found.are_whole and found.n:
        # Of ratings the worst may be missing.
        low, high = 1 if 1 < found.low <= 3 else int(found.low), int(found.high)
        n_levels = high - low + 1
        if low >= 0 and high <= 1:
            return Bernoulli()
        is_short = 1 < n_levels <= MOST_LEVELS and len(found.distinct) >= FILLED * n_levels
        if is_short and not _has_open_ends(found, n_levels):
            return Ordinal(n_levels, start=low)
        if low >= 0:
            start = min(low, 1)
            many: list[Family] = [NegativeBinomial(shift=start)]
            if found.n_zeros > max(MANY_ZEROS * found.n, TIMES_ONES * found.n_ones):
                many.append(ZeroInflated(NegativeBinomial()))
            heavy = RoundedStudentT(start=start)
            return _best(groups, column, heavy, many, options=options, known=known, n=found.n)
    if found.are_half and not found.are_whole:
        # The worst may be missing here, too.
        least = 0.5 if 0.5 < found.low <= 1.5 else found.low
        n_levels = int(2 * (found.high - least)) + 1
        if n_levels <= MOST_LEVELS and len(found.distinct) >= FILLED * n_levels:
            return Ordinal(n_levels, start=least, step=0.5)
    # Shares may be 1 as well.
    if found.low == 0 and found.high != 1 and found.n_zeros > MANY_ZEROS * found.n:
        usual = ZeroInflated(LogStudentT())
        return _best(
            groups, column, usual, [ZeroInflated(Gamma())], options=options, known=known, n=found.n
        )
    others: list[Family] = [LogStudentT(), Gamma()] if found.low > 0 else _bent(groups, column)
    return _best(groups, column, StudentT(), others, options=options, known=known, n=found.n)


def _bent(groups: Groups, column: str) -> list[Family]:
    """Families on an inverse hyperbolic sine, for numbers of either sign that are far from normal.

    They are bent at the median number without its sign, and at a tenth of it.
    """
    value = value_cells(next(groups.chunks()), column).only_observed().value
    if len(value) < LEAST_TO_COMPARE:
        return []
    low, first, middle, third, high = np.quantile(value, (0.05, 0.25, 0.5, 0.75, 0.95))
    is_skewed = abs(low + high - 2 * middle) > SKEWED * (high - low)
    is_wide = high - low > WIDE * (third - first)
    usual = float(np.median(np.abs(value)))
    if usual == 0 or not (is_skewed or is_wide):
        return []
    return [SinhStudentT(bend * usual) for bend in (1.0, 0.1)]


class _Summary(NamedTuple):
    """Of observed values: how many, whether whole, or half, the ends, and different ones.

    `n_lowest`, `n_highest`: how many are at the ends; `n_zeros`, `n_ones`: how many are 0 and 1
    """

    n: int
    are_whole: bool
    are_half: bool
    low: float
    high: float
    distinct: set[float]
    n_lowest: int
    n_highest: int
    n_zeros: int
    n_ones: int


def _has_open_ends(found: _Summary, n_levels: int) -> bool:
    """Whether an end occurs so seldom that values beyond it are likely to come.

    Ratings from 2 or 3 on are from 1 on, and nothing is below 0 of what begins there.
    """
    if found.low in (0, 1):
        most = FEW_LEVELS if found.low else FEW_FROM_ZERO
        return _is_rare(found.n_highest, found.n, n_levels, most)
    if found.low in (2, 3):
        return False
    ends = (found.n_lowest, found.n_highest)
    return any(_is_rare(count, found.n, n_levels, FEW_LEVELS) for count in ends)


def _is_rare(count: int, n: int, n_levels: int, most: int) -> bool:
    share, few = count / n, count <= FEW_TIMES
    return share < RARE or (few and (share < FEW_SHARE or n_levels > most))


def _summary(groups: Groups, column: str) -> _Summary:
    """Piece by piece: values may be many."""
    n, n_lowest, n_highest, low, high = 0, 0, 0, math.inf, -math.inf
    are_whole = are_half = True
    n_zeros = n_ones = 0
    distinct = set[float]()
    for chunk in groups.chunks():
        cells = value_cells(chunk, column)
        value = cells.value[cells.observed]
        if not len(value):
            continue
        n += len(value)
        n_zeros, n_ones = n_zeros + int((value == 0).sum()), n_ones + int((value == 1).sum())
        lowest, highest = min(low, float(value.min())), max(high, float(value.max()))
        n_lowest = (n_lowest if lowest == low else 0) + int((value == lowest).sum())
        n_highest = (n_highest if highest == high else 0) + int((value == highest).sum())
        low, high = lowest, highest
        are_whole = are_whole and bool((value == np.floor(value)).all()) and abs(high) < 2**53
        are_half = are_half and bool((2 * value == np.floor(2 * value)).all())
        if are_half and high - low < MOST_LEVELS:
            distinct |= set(np.unique(value).tolist())
    return _Summary(
        n, are_whole, are_half, low, high, distinct, n_lowest, n_highest, n_zeros, n_ones
    )


def _best(
    groups: Groups,
    column: str,
    usual: Family,
    others: Sequence[Family],
    *,
    options: ValueOptions,
    known: Sequence[GivenColumn],
    n: int,
) -> Family:
    """The usual family, or one that a simple base predicts better by, and not by chance."""
    if n < LEAST_TO_COMPARE:
        return usual
    share = min(1.0, _MOST_TO_COMPARE / n)
    order = np.random.default_rng(options.seed).permutation(len(groups))
    some = groups[np.sort(order[: int(np.ceil(share * len(groups)))])]
    n_items = groups.n_items if groups.item is not None else 1
    cells = value_cells(some, column, known).only_observed()
    cells = cells.with_item(np.where(cells.item < 0, n_items, cells.item))
    simple = replace(options, rank=0)
    fits = {family: _Fit.of(cells, n_items + 1, family, simple) for family in (usual, *others)}
    best = usual
    for family in others:
        gain, error = fits[family].gain_over(fits[best])
        if gain > LEAST_OF_OTHERS + error:
            best = family
    has_bins = isinstance(usual, StudentT) and n >= LEAST_FOR_BINS
    bins = histogram_of(cells.value) if has_bins else None
    if bins is None or fits[best].missed(bins) < _LEAST_MISSED:
        return best
    gain, _ = _Fit.of(cells, n_items + 1, bins, simple).gain_over(fits[best])
    return bins if gain > LEAST_GAIN else best


@dataclass(frozen=True, eq=False)
class _Fit:
    """Values and their predictions given the others, by features that did not see their groups."""

    family: Family
    value: Float64[Tensor, "cells"]
    eta: Float64[Tensor, "cells params"]
    group: Int64[np.ndarray, "cells"]
    n_numbers: int

    @classmethod
    def of(cls, cells: ValueCells, n_items: int, family: Family, options: ValueOptions) -> "_Fit":
        scaled = scaled_to(family, torch.from_numpy(cells.value))
        standard = cells.with_value(base_values(scaled, torch.from_numpy(cells.value)).numpy())
        base, kept = fit_and_keep(standard, n_items, scaled.of_units, options, judged=False)
        value = torch.from_numpy(cells.value[kept.cells])
        predicted = scaled if isinstance(scaled, Scaled) else base.family
        group, eta = cells.group[kept.cells], base.eta_of(kept.features)
        if isinstance(base.family, RoundedStudentT):
            known = value.numpy()
            eta = without_own_value(eta, own_atoms(base.family, known, counts_of(known)))
        return cls(predicted, value, eta, group, len(base.numbers))

    @cached_property
    def nats(self) -> Float64[np.ndarray, "cells"]:
        """Log-densities less what the numbers, fitted to the same values, gain by chance.

        Source: Akaike (1974).
        """
        found = self.family.log_prob(self.value, self.eta).numpy()
        return found - self.n_numbers / len(self.value)

    def gain_over(self, other: "_Fit") -> tuple[float, float]:
        """Mean nats that this one is ahead by, and their standard error between groups."""
        more = self.nats - other.nats
        gain = float(more.mean())
        by_group = np.bincount(self.group, more - gain)
        return gain, float(np.sqrt(np.square(by_group).sum())) / len(more)

    def missed(self, bins: Histogram) -> float:
        """The divergence of the bins' shares from predicted ones, less what chance adds to it."""
        edges = torch.tensor(bins.edges, dtype=torch.float64)
        some = self.eta[:_FOR_SHARES]
        below = [self.family.cdf(edge.expand(len(some)), some).mean() for edge in edges]
        expected = torch.tensor([0.0, *below, 1.0]).diff().clamp_min(1e-12)
        n_bins, n = len(expected), len(self.value)
        share = torch.bincount(torch.searchsorted(edges, self.value), minlength=n_bins) / n
        divergence = torch.special.xlogy(share, share / expected).sum()
        return float(divergence) - (n_bins - 1) / (2 * n)


def histogram_of(value: Float64[np.ndarray, "values"]) -> Histogram | None:
    """Bins between quantiles; None where values are too much alike for them."""
    # Between values, where rounding moves none of them into another bin.
    distinct = np.unique(value)
    at = np.searchsorted(distinct, np.quantile(value, np.arange(1, N_BINS) / N_BINS))
    at = np.unique(at[at > 0])
    if len(at) < 2:
        return None
    edges = (distinct[at - 1] + distinct[at]) / 2
    below, above = value[value < edges[0]], value[value > edges[-1]]
    tails = float((edges[0] - below).mean()), float((above - edges[-1]).mean())
    return Histogram(tuple(edges.tolist()), tails=tails)
