"""How likely rows of anomalies are under a covariance of their columns, and its derivatives."""

from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

# Multiplications of one look at incomplete rows, and how many numbers each is looked at by at most.
MOST_MULTIPLICATIONS, MOST_OF_A_ROW = 2e7, 32

Square = Float64[Tensor, "columns columns"]
Lags = Float64[Tensor, "columns"]


class NatsAndSlope(NamedTuple):
    """Nats, and their derivatives by some numbers."""

    nats: float
    slope: Tensor


@runtime_checkable
class SeenRows(Protocol):
    """Rows of maps, earlier ones beside each, that a covariance of their columns may explain."""

    def nats(self, covariance: Square) -> NatsAndSlope:
        """Nats of a map's value given earlier maps, less those of independent unit variables."""


class CompleteRows:
    """Rows without gaps, of which the mean outer products `moments` say all."""

    def __init__(self, moments: Square, lag: Lags) -> None:
        self.moments = moments
        self.before: Int64[Tensor, "before"] = (lag > 0).nonzero()[:, 0]
        self.n_own = max(1, len(lag) - len(self.before))

    def nats(self, covariance: Square) -> NatsAndSlope:
        """1/2 tr(K^-1 S) + 1/2 log|K| less the same of the earlier maps, per own column."""
        nats, slope = _of_moments(covariance, self.moments)
        if len(self.before):
            block = (self.before[:, None], self.before)
            less = _of_moments(covariance[block], self.moments[block])
            nats, slope[block] = nats - less.nats, slope[block] - less.slope
        return NatsAndSlope(nats / self.n_own, slope / self.n_own)


def _of_moments(covariance: Square, moments: Square) -> NatsAndSlope:
    """1/2 tr(K^-1 S) + 1/2 log|K|, and 1/2 (K^-1 - K^-1 S K^-1)."""
    factor = torch.linalg.cholesky(covariance)
    solved = torch.cholesky_solve(moments, factor)
    nats = 0.5 * solved.diagonal().sum() + factor.diagonal().log().sum()
    slope = torch.cholesky_inverse(factor) - torch.cholesky_solve(solved.mT, factor)
    return NatsAndSlope(float(nats), 0.5 * slope)


class IncompleteRows:
    """Rows of which each shows some columns alone: what they show, nothing filled in.

    Of many rows some are looked at, evenly taken, and of many columns some of each row, drawn.
    """

    def __init__(
        self,
        values: Float64[Tensor, "rows columns"],
        shown: Bool[Tensor, "rows columns"],
        lag: Lags,
    ) -> None:
        able = shown.any(1).nonzero()[:, 0]
        width = max(1, min(MOST_OF_A_ROW, int(shown.sum(1).max()))) if len(able) else 1
        n_rows = min(len(able), int(MOST_MULTIPLICATIONS / width**3))
        rows = able[torch.linspace(0, len(able) - 1, n_rows).round().long()]
        shown = shown[rows]
        drawn = torch.rand(shown.shape, generator=torch.Generator().manual_seed(0))
        self.index: Int64[Tensor, "rows width"] = (drawn + ~shown).argsort(1)[:, :width]
        self.there: Bool[Tensor, "rows width"] = shown.gather(1, self.index)
        self.values = torch.where(self.there, values[rows].gather(1, self.index), 0.0)
        self.before = self.there & (lag[self.index] > 0)
        self.n_own = max(1, int((self.there & ~self.before).sum()))

    def nats(self, covariance: Square) -> NatsAndSlope:
        """1/2 x' K^-1 x + 1/2 log|K| less the same of the earlier maps, per own value."""
        at = self.index[:, :, None] * len(covariance) + self.index[:, None]
        block = covariance.flatten()[at]
        nats, slope = self._of_some(block, self.there)
        if bool(self.before.any()):
            less = self._of_some(block, self.before)
            nats, slope = nats - less.nats, slope - less.slope
        total = torch.zeros_like(covariance).flatten()
        total = total.index_add(0, at.flatten(), slope.flatten()).view_as(covariance)
        return NatsAndSlope(nats / self.n_own, total / self.n_own)

    def _of_some(
        self, block: Float64[Tensor, "rows width width"], some: Bool[Tensor, "rows width"]
    ) -> NatsAndSlope:
        """Sums over the rows of some of what each shows, and the slopes of each row."""
        both = some[:, :, None] & some[:, None]
        factor = torch.linalg.cholesky(
            torch.where(both, block, torch.eye(block.shape[1]).to(block))
        )
        x = torch.where(some, self.values, 0.0)[..., None]
        solved = torch.cholesky_solve(x, factor)
        heights = factor.diagonal(dim1=1, dim2=2).log().sum()
        slope = torch.where(both, torch.cholesky_inverse(factor) - solved @ solved.mT, 0.0)
        return NatsAndSlope(float(0.5 * (solved * x).sum() + heights), 0.5 * slope)
