"""The kernel under which maps are likeliest given those before them."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from exfam.fields.base.columns import MapColumns
from exfam.fields.base.kernel import JITTER, N_PARTS, MovingKernel, start_numbers
from exfam.fields.networks.places import lowest_by_slope

# How far numbers may go, from where they start, and what that costs.
FARTHEST, RIDGE = 8.0, 1e-3
MOST_ROUNDS = 150

Square = Float64[Tensor, "columns columns"]
Numbers = Float64[Tensor, "numbers"]


class NatsAndSlope(NamedTuple):
    """Nats, and their derivatives by some numbers."""

    nats: float
    slope: Tensor


def fit_kernel(moments: Square, columns: MapColumns, *, n_flat: int) -> MovingKernel:
    """The kernel under which maps are likeliest given those before them.

    `moments`: mean outer products of the rows' anomalies. Minimized, by L-BFGS, is 1/2 tr(K^-1 S) +
    1/2 log|K| less the same of the earlier maps' columns, per own column, and a small ridge.
    """
    search = KernelSearch(moments, columns, n_flat=n_flat)
    bounds = [(x - FARTHEST, x + FARTHEST) for x in search.start.tolist()]
    with torch.no_grad():
        numbers = lowest_by_slope(search.of, search.start.tolist(), bounds, most_rounds=MOST_ROUNDS)
    return MovingKernel(numbers, n_flat)


class KernelSearch:
    """What a fit minimizes, with derivatives by hand: it is computed a thousand times."""

    def __init__(self, moments: Square, columns: MapColumns, *, n_flat: int) -> None:
        self.moments, self.start = moments, start_numbers(n_flat)
        self.before: Int64[Tensor, "before"] = (columns.lag > 0).nonzero()[:, 0]
        self.n_own = max(1, len(columns.lag) - len(self.before))
        self.row, self.column = torch.tril_indices(len(moments), len(moments))
        row, column = columns.take(self.row), columns.take(self.column)
        way, same = column.points - row.points, row.site == column.site
        self.pairs = ColumnPairs(way, row.lag - column.lag, same)
        self.layout = layout_of(n_flat, way.shape[1])
        # Covariances above the diagonal are those below it.
        self.weight = torch.where(self.row == self.column, 1.0, 2.0).double() / self.n_own

    def of(self, numbers: Numbers) -> NatsAndSlope:
        """Nats of an own column under the kernel of these numbers, and the ridge."""
        terms, away = terms_of(numbers, self.pairs, self.layout), numbers - self.start
        covariance, before = torch.zeros_like(self.moments), self.before
        covariance[self.row, self.column] = covariance[self.column, self.row] = terms.total()
        covariance.diagonal().add_(JITTER)
        nats, slope = _nats(covariance, self.moments)
        if len(before):
            block = (before[:, None], before)
            less = _nats(covariance[block], self.moments[block])
            nats, slope[block] = nats - less.nats, slope[block] - less.slope
        of_pairs = self.weight * slope[self.row, self.column]
        slope = slope_of(terms, self.pairs, self.layout, of_pairs) + 2 * RIDGE * away
        return NatsAndSlope(nats / self.n_own + RIDGE * float(away.square().sum()), slope)


def _nats(covariance: Square, moments: Square) -> NatsAndSlope:
    """1/2 tr(K^-1 S) + 1/2 log|K|, and 1/2 (K^-1 - K^-1 S K^-1)."""
    factor = torch.linalg.cholesky(covariance)
    solved = torch.cholesky_solve(moments, factor)
    nats = 0.5 * solved.diagonal().sum() + factor.diagonal().log().sum()
    slope = torch.cholesky_inverse(factor) - torch.cholesky_solve(solved.mT, factor)
    return NatsAndSlope(float(nats), 0.5 * slope)


class ColumnPairs(NamedTuple):
    """From one column to another: the way, the steps, and whether they are of the same site."""

    way: Float64[Tensor, "pairs space"]
    step: Float64[Tensor, "pairs"]
    same: Bool[Tensor, "pairs"]


class Layout(NamedTuple):
    """Where the numbers of a kernel's part are in its stretch, whose rows follow each other.

    `size`: of which lengths an entry is the inverse; `below`: the entries below the diagonal
    """

    size: Float64[Tensor, "flat entries"]
    below: Float64[Tensor, "below entries"]
    diagonal: Float64[Tensor, "entries"]
    space: Float64[Tensor, "flat space"]


def layout_of(n_flat: int, space: int) -> Layout:
    """The layout where so many of the axes are stretched."""
    row, column = torch.tril_indices(n_flat, n_flat, -1)
    size = torch.zeros(n_flat, space, space).double()
    below = torch.zeros(len(row), space, space).double()
    flat, high = torch.arange(n_flat), torch.arange(n_flat, space)
    size[flat, flat, flat] = 1.0
    size[0, row, column] = 1.0
    size[:, high, high] = 1 / n_flat
    below[torch.arange(len(row)), row, column] = 1.0
    diagonal = torch.eye(space).double().flatten()
    return Layout(size.flatten(1), below.flatten(1), diagonal, torch.eye(n_flat, space).double())


class KernelTerms(NamedTuple):
    """What the covariances of pairs in a `MovingKernel` are sums of, and what these are made of.

    `size`: of each entry of A; `stretch`, `rate`: A and 1 / m of each part; `moved`: h - u t;
    `decay`: v exp(-r - |t| / m), r = sqrt(3) |A moved|; `smooth`: (1 + r) decay; `own`, `noise`:
    what a site has of its own
    """

    size: Float64[Tensor, "parts entries"]
    stretch: Float64[Tensor, "parts space space"]
    rate: Float64[Tensor, "parts"]
    own_rate: Float64[Tensor, ""]
    moved: Float64[Tensor, "parts pairs space"]
    decay: Float64[Tensor, "parts pairs"]
    smooth: Float64[Tensor, "parts pairs"]
    own: Float64[Tensor, "pairs"]
    noise: Float64[Tensor, "pairs"]

    def total(self) -> Float64[Tensor, "pairs"]:
        """The covariances."""
        return self.smooth.sum(0) + self.own + self.noise


def terms_of(numbers: Numbers, pairs: ColumnPairs, layout: Layout) -> KernelTerms:
    """The terms of all pairs in the kernel of these numbers."""
    (d, space), steps = layout.space.shape, pairs.step.abs()
    of_parts = numbers[:-3].view(N_PARTS, -1).split([1, 1, d, d, len(layout.below)], 1)
    log_variance, log_memory, log_length, velocity, below = of_parts
    log_own, log_own_memory, log_noise = numbers[-3:]
    size = (-log_length @ layout.size).exp()
    stretch = ((layout.diagonal + below @ layout.below) * size).view(N_PARTS, space, space)
    rate, own_rate = (-log_memory[:, 0]).exp(), (-log_own_memory).exp()
    moved = pairs.way - (velocity @ layout.space)[:, None] * pairs.step[:, None]
    r = (3 * (moved @ stretch.mT).square().sum(-1)).sqrt()
    decay = (log_variance - r - steps * rate[:, None]).exp()
    own = torch.where(pairs.same, (log_own - steps * own_rate).exp(), 0.0)
    noise = torch.where(pairs.same & (steps == 0), log_noise.exp(), 0.0)
    return KernelTerms(size, stretch, rate, own_rate, moved, decay, (1 + r) * decay, own, noise)


def slope_of(
    terms: KernelTerms, pairs: ColumnPairs, layout: Layout, slope: Float64[Tensor, "pairs"]
) -> Numbers:
    """Derivatives by a kernel's numbers of what has these derivatives by covariances of pairs.

    Of a part (1 + r) exp(-r), the derivative by z = A (h - u t) is -3 exp(-r) z.
    """
    stretch, moved, steps = terms.stretch, terms.moved, pairs.step.abs()
    smooth, pull = slope * terms.smooth, -3 * slope * terms.decay
    by_stretch = stretch @ ((pull[..., None] * moved).mT @ moved)
    by_way = ((pull * pairs.step)[:, None] @ moved @ stretch.mT @ stretch)[:, 0]
    of_parts = [
        smooth.sum(1, keepdim=True),
        (smooth @ steps * terms.rate)[:, None],
        -(stretch * by_stretch).flatten(1) @ layout.size.T,
        -by_way @ layout.space.T,
        (by_stretch.flatten(1) * terms.size) @ layout.below.T,
    ]
    own = slope * terms.own
    alone = torch.stack([own.sum(), own @ steps * terms.own_rate, slope @ terms.noise])
    return torch.cat([torch.cat(of_parts, 1).flatten(), alone])
