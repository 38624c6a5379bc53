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

Matrix = Float64[Tensor, "columns columns"]
Numbers = Float64[Tensor, "numbers"]


class NatsAndSlope(NamedTuple):
    """Nats, and their derivatives by some numbers."""

    nats: float
    slope: Tensor


def fit_kernel(moments: Matrix, columns: MapColumns, *, n_flat: int) -> MovingKernel:
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

    def __init__(self, moments: Matrix, columns: MapColumns, *, n_flat: int) -> None:
        self.moments, self.n_flat = moments, n_flat
        self.start = start_numbers(n_flat)
        self.before: Int64[Tensor, "before"] = (columns.lag > 0).nonzero()[:, 0]
        self.n_own = max(1, len(columns.lag) - len(self.before))
        self.row, self.column = torch.tril_indices(len(moments), len(moments))
        row, column = columns.take(self.row), columns.take(self.column)
        way, same = column.points - row.points, row.site == column.site
        self.pairs = Pairs(way, row.lag - column.lag, same)
        # Covariances above the diagonal are those below it.
        self.weight = torch.where(self.row == self.column, 1.0, 2.0).double() / self.n_own

    def of(self, numbers: Numbers) -> NatsAndSlope:
        """Nats of an own column under the kernel of these numbers, and the ridge."""
        terms, away = terms_of(numbers, self.pairs, n_flat=self.n_flat), numbers - self.start
        covariance, before = torch.zeros_like(self.moments), self.before
        covariance[self.row, self.column] = covariance[self.column, self.row] = terms.total()
        covariance.diagonal().add_(JITTER)
        nats, slope = _nats(covariance, self.moments)
        if len(before):
            block = (before[:, None], before)
            less = _nats(covariance[block], self.moments[block])
            nats, slope[block] = nats - less.nats, slope[block] - less.slope
        of_pairs = self.weight * slope[self.row, self.column]
        slope = slope_of(terms, self.pairs, of_pairs, n_flat=self.n_flat) + 2 * RIDGE * away
        return NatsAndSlope(nats / self.n_own + RIDGE * float(away.square().sum()), slope)


def _nats(covariance: Matrix, moments: Matrix) -> NatsAndSlope:
    """1/2 tr(K^-1 S) + 1/2 log|K|, and 1/2 (K^-1 - K^-1 S K^-1)."""
    factor = torch.linalg.cholesky(covariance)
    solved = torch.cholesky_solve(moments, factor)
    nats = 0.5 * solved.diagonal().sum() + factor.diagonal().log().sum()
    slope = torch.cholesky_inverse(factor) - torch.cholesky_solve(solved.mT, factor)
    return NatsAndSlope(float(nats), 0.5 * slope)


class Pairs(NamedTuple):
    """From one column to another: the way, the steps, and whether they are of the same site."""

    way: Float64[Tensor, "pairs space"]
    step: Float64[Tensor, "pairs"]
    same: Bool[Tensor, "pairs"]


class KernelTerms(NamedTuple):
    """What the covariances of pairs in a `MovingKernel` are sums of, and what these are made of.

    `stretch`, `rate`: A and 1 / m of each part; `moved`: h - u t; `decay`: v exp(-r - |t| / m),
    r = sqrt(3) |A moved|; `smooth`: (1 + r) decay; `own`, `noise`: what a site has of its own
    """

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


def terms_of(numbers: Numbers, pairs: Pairs, *, n_flat: int) -> KernelTerms:
    """The terms of all pairs in the kernel of these numbers."""
    d, space, steps = n_flat, pairs.way.shape[1], pairs.step.abs()
    flat, high, (row, column) = torch.arange(d), torch.arange(d, space), _below(d)
    *of_parts, log_own, log_own_memory, log_noise = numbers.split([len(numbers) - 3, 1, 1, 1])
    found = of_parts[0].view(N_PARTS, -1).split([1, 1, d, d, len(row)], 1)
    log_variance, log_memory, log_length, velocity, below = found
    stretch = numbers.new_zeros(N_PARTS, space, space)
    stretch[:, flat, flat] = (-log_length).exp()
    stretch[:, row, column] = below * (-log_length[:, :1]).exp()
    stretch[:, high, high] = (-log_length.mean(1, keepdim=True)).exp().expand(-1, space - d)
    velocity = torch.nn.functional.pad(velocity, (0, space - d))
    rate, own_rate = (-log_memory[:, 0]).exp(), (-log_own_memory[0]).exp()
    moved = pairs.way - velocity[:, None] * pairs.step[:, None]
    r = (3 * (moved @ stretch.mT).square().sum(-1)).sqrt()
    decay = (log_variance - r - steps * rate[:, None]).exp()
    own = torch.where(pairs.same, (log_own - steps * own_rate).exp(), 0.0)
    noise = torch.where(pairs.same & (pairs.step == 0), log_noise.exp(), 0.0)
    return KernelTerms(stretch, rate, own_rate, moved, decay, (1 + r) * decay, own, noise)


def slope_of(
    terms: KernelTerms, pairs: Pairs, slope: Float64[Tensor, "pairs"], *, n_flat: int
) -> Numbers:
    """Derivatives by a kernel's numbers of what has these derivatives by covariances of pairs.

    Of a part (1 + r) exp(-r), the derivative by z = A (h - u t) is -3 exp(-r) z.
    """
    stretch, moved, steps, d = terms.stretch, terms.moved, pairs.step.abs(), n_flat
    smooth, pull = slope * terms.smooth, -3 * slope * terms.decay
    by_stretch = stretch @ ((pull[..., None] * moved).mT @ moved)
    by_way = (pull * pairs.step)[:, None] @ moved @ stretch.mT @ stretch
    # A length divides its axis's entry, the first those below the diagonal too, all the heights.
    entries, (row, column) = stretch * by_stretch, _below(d)
    on_axes = entries.diagonal(dim1=1, dim2=2)
    by_length = -on_axes[:, :d] - on_axes[:, d:].sum(1, keepdim=True) / d
    by_length[:, 0] -= entries[:, row, column].sum(1)
    below = by_stretch[:, row, column] * stretch[:, :1, 0]
    by_variance, by_memory = smooth.sum(1)[:, None], (smooth @ steps * terms.rate)[:, None]
    of_parts = torch.cat([by_variance, by_memory, by_length, -by_way[:, 0, :d], below], 1)
    own = slope * terms.own
    alone = torch.stack([own.sum(), own @ steps * terms.own_rate, slope @ terms.noise])
    return torch.cat([of_parts.flatten(), alone])


def _below(n: int) -> Int64[Tensor, "2 entries"]:
    """Rows and columns of the entries below a diagonal."""
    return torch.tril_indices(n, n, -1)
