"""A kernel of fields that move and forget, stretched along any direction."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from exfam.fields.base.columns import MapColumns
from exfam.fields.networks.places import chord_distances, matern_3_2

# A large and a small structure, each with half of what is not a site's own.
N_PARTS = 2
START_VARIANCE, START_LOG_LENGTHS = 0.4, (1.0, -0.5)
START_LOG_MEMORY, START_LOG_OWN, START_LOG_NOISE = 0.5, -3.0, -3.0
# Columns that a search looks at, which factorizes their covariance a hundred times.
MOST_COLUMNS = 400
JITTER = 1e-9

Matrix = Float64[Tensor, "*shape rows columns"]


@dataclass(frozen=True, eq=False)
class MovingKernel:
    """k(h, t) = sum_c v_c M(|A_c (h - u_c t)|) exp(-|t| / m_c) + own and noise terms.

    h is the way from one point to another, t the steps from its map to the other's, M the Matern
    3/2 correlation. Each of two parts has a variance v, a stretch A (lower triangular), a velocity
    u and a memory m; a site's own part has a variance and a memory, the noise a variance. Positive
    definite for any points and steps: a part is a stationary field carried along.

    `numbers`: all of these, free of bounds; `n_flat`: axes that are stretched and moved along,
    further ones (the height of a globe) are scaled by the mean stretch
    """

    numbers: Float64[Tensor, "numbers"]
    n_flat: int

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
        return total

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
