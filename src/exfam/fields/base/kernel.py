"""A kernel of fields that move and forget, stretched along any direction, and its fit."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from exfam.fields.base.columns import MapColumns
from exfam.fields.base.likelihood import NatsAndSlope, SeenRows
from exfam.fields.networks.places import chord_distances, lowest_by_slope, matern_3_2

# A large and a small structure, each with half of what is not a site's own.
N_PARTS = 2
START_VARIANCE, START_LOG_LENGTHS = 0.4, (1.0, -0.5)
START_LOG_MEMORY, START_LOG_OWN, START_LOG_NOISE = 0.5, -3.0, -3.0
# Columns that a search looks at, which factorizes their covariance a hundred times.
MOST_COLUMNS = 400
JITTER = 1e-9

Matrix = Float64[Tensor, "*shape rows columns"]

# How far numbers may go, from where they start, and what that costs.
FARTHEST, RIDGE = 8.0, 1e-3
# `FEW_ROUNDS`: from the numbers of more maps.
MOST_ROUNDS, FEW_ROUNDS = 150, 12

Numbers = Float64[Tensor, "numbers"]


@dataclass(frozen=True, eq=False)
class MovingKernel:
    """k(h, t) = sum_c v_c M(|A_c (h - u_c t)|) exp(-|t| / m_c) + own, noise and common terms.

    h is the way from one point to another, t the steps from its map to the other's, M the Matern
    3/2 correlation. Each of two parts has a variance v, a stretch A (lower triangular), a velocity
    u and a memory m; a site's own part has a variance and a memory, the noise a variance. A
    `common` variance is that of all sites together, for as long as the part that lasts longest.
    Positive definite for any points and steps: a part is a stationary field carried along.

    `numbers`: all of these but `common`, free of bounds; `n_flat`: axes that are stretched and
    moved along, further ones (the height of a globe) are scaled by the mean stretch
    """

    numbers: Float64[Tensor, "numbers"]
    n_flat: int
    common: float = 0.0

    def between(self, first: MapColumns, second: MapColumns) -> Matrix:
        """Covariances of all pairs, in units of the anomalies' variance."""
        step = (first.lag[..., :, None] - second.lag[..., None, :]).abs()
        same: Bool[Tensor, "*shape rows columns"] = (
            first.site[..., :, None] == second.site[..., None, :]
        )
        parts, (log_own, log_own_memory, log_noise) = self._unpacked(first.points.shape[-1])
        # A site's own part where it is seen twice; of one map alone nothing is forgotten.
        own, noise, moving = log_own.exp(), log_noise.exp(), bool((step > 0).any())
        total = same * (own + noise)
        if moving:
            total = same * (own * _kept(step, log_own_memory) + (step == 0) * noise)
        for log_variance, stretch, velocity, log_memory in parts:
            here, there = (_carried(some, velocity) @ stretch.T for some in (first, second))
            shared = log_variance.exp() * matern_3_2(chord_distances(here, there), 1.0)
            total = total + (shared * _kept(step, log_memory) if moving else shared)
        if not self.common:
            return total
        return total + self.common * _kept(step, torch.stack([part[-1] for part in parts]).max())

    def of(self, columns: MapColumns) -> Matrix:
        """Covariances of columns with one another."""
        return self.between(columns, columns)

    def metrics(self, space: int) -> list[tuple[Tensor, Tensor]]:
        """Of each part the stretch A of ways and the velocity."""
        return [(stretch, velocity) for _, stretch, velocity, _ in self._unpacked(space)[0]]

    def _unpacked(self, space: int) -> tuple[list[tuple[Tensor, ...]], tuple[Tensor, ...]]:
        numbers, d = self.numbers, self.n_flat
        per_part = 2 + d + d + d * (d - 1) // 2
        parts = [self._part(some, space) for some in numbers[:-3].split(per_part)]
        return parts, tuple(numbers[-3:])

    def _part(self, numbers: Tensor, space: int) -> tuple[Tensor, ...]:
        d = self.n_flat
        log_variance, log_memory = numbers[0], numbers[1]
        log_length, velocity = numbers[2 : 2 + d], numbers[2 + d : 2 + 2 * d]
        below = torch.tril_indices(d, d, -1)
        scales = torch.diag((-log_length).exp())
        flat = scales.index_put((below[0], below[1]), numbers[2 + 2 * d :] * (-log_length[0]).exp())
        high = (-log_length.mean()).exp().expand(space - d)
        velocity = torch.nn.functional.pad(velocity, (0, space - d))
        return log_variance, torch.block_diag(flat, torch.diag(high)), velocity, log_memory


def _carried(columns: MapColumns, velocity: Tensor) -> Float64[Tensor, "*shape columns space"]:
    """Where points of earlier maps are by the time of the latest."""
    return columns.points + velocity * columns.lag[..., None]


def _kept(step: Matrix, log_memory: Tensor) -> Matrix:
    """What is not forgotten after so many steps."""
    return (-step * (-log_memory).exp()).exp()


def most_of(n_sites: int, n_lags: int) -> Int64[Tensor, "chosen"]:
    """Columns that a kernel is fitted to: sites evenly taken, and the nearest of earlier maps."""
    lags = min(n_lags, max(0, MOST_COLUMNS // min(n_sites, MOST_COLUMNS // 4) - 1))
    most = min(n_sites, max(2, MOST_COLUMNS // (lags + 1)))
    some = torch.linspace(0, n_sites - 1, most).round().long().unique()
    return (n_sites * torch.arange(lags + 1)[:, None] + some).flatten()


def n_numbers(n_flat: int) -> int:
    """How many numbers a kernel has: 17 in a plane."""
    return N_PARTS * (2 + 2 * n_flat + n_flat * (n_flat - 1) // 2) + 3


def start_numbers(n_flat: int) -> Float64[Tensor, "numbers"]:
    """Where a fit starts: equal parts, not stretched, not moving."""
    variance = torch.tensor(START_VARIANCE).double().log()
    parts = []
    for log_length in START_LOG_LENGTHS:
        part = torch.zeros(2 + 2 * n_flat + n_flat * (n_flat - 1) // 2).double()
        part[0], part[1], part[2 : 2 + n_flat] = variance, START_LOG_MEMORY, log_length
        parts.append(part)
    ends = torch.tensor([START_LOG_OWN, START_LOG_MEMORY, START_LOG_NOISE]).double()
    return torch.cat([*parts, ends])


def fit_kernel(
    rows: SeenRows,
    columns: MapColumns,
    *,
    n_flat: int,
    variance: Float64[Tensor, ""],
    near: MovingKernel | None = None,
) -> MovingKernel:
    """The kernel under which maps are likeliest given those before them.

    Minimized, by L-BFGS, are the nats of `rows` and a small ridge. What that leaves of the mean
    variance of a value is common: values given those around them say little of it, and the spread
    of whole maps lacks it. `near`: of more maps, from which it takes a few steps
    """
    search = KernelSearch(rows, columns, n_flat=n_flat)
    bounds = [(x - FARTHEST, x + FARTHEST) for x in search.start.tolist()]
    start, rounds = (search.start, MOST_ROUNDS) if near is None else (near.numbers, FEW_ROUNDS)
    with torch.no_grad():
        numbers = lowest_by_slope(search.of, start.tolist(), bounds, most_rounds=rounds)
        left = variance - MovingKernel(numbers, n_flat).of(columns).diagonal().mean()
    return MovingKernel(numbers, n_flat, max(0.0, float(left)))


class KernelSearch:
    """What a fit minimizes, with derivatives by hand: it is computed a thousand times."""

    def __init__(self, rows: SeenRows, columns: MapColumns, *, n_flat: int) -> None:
        self.rows, self.start, n = rows, start_numbers(n_flat), len(columns.lag)
        self.row, self.column = torch.tril_indices(n, n)
        row, column = columns.take(self.row), columns.take(self.column)
        way, same = column.points - row.points, row.site == column.site
        self.pairs = ColumnPairs(way, row.lag - column.lag, same)
        self.layout = layout_of(n_flat, way.shape[1])
        # Covariances above the diagonal are those below it.
        self.weight = torch.where(self.row == self.column, 1.0, 2.0).double()

    def of(self, numbers: Numbers) -> NatsAndSlope:
        """Nats of an own value under the kernel of these numbers, and the ridge."""
        terms, away = terms_of(numbers, self.pairs, self.layout), numbers - self.start
        n = int(self.row[-1]) + 1
        covariance = torch.zeros(n, n).to(numbers)
        covariance[self.row, self.column] = covariance[self.column, self.row] = terms.total()
        covariance.diagonal().add_(JITTER)
        nats, slope = self.rows.nats(covariance)
        of_pairs = self.weight * slope[self.row, self.column]
        slope = slope_of(terms, self.pairs, self.layout, of_pairs) + 2 * RIDGE * away
        return NatsAndSlope(nats + RIDGE * float(away.square().sum()), slope)


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
