"""What attention sees of a base: innovations of the values near each target, free of its own."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from exfam.fields.base.columns import MapColumns
from exfam.fields.base.conditionals import MOST_ENTRIES, GivenOthers, NearColumns, first_shown
from exfam.fields.base.limits import Evidence

# Innovations beyond count as this many standard deviations.
FARTHEST = 4.0
# Added to a distance before its logarithm, in units of the sites' median distance.
NEARBY = 0.05
# Columns of each target that attention weighs.
MOST_NEAR = 32


class NearPairs(NamedTuple):
    """The columns near each target, and what of each pair attention is scored by.

    One for each pattern of what rows show; `first`: where they are among all that are near;
    `pattern`: of each row
    """

    column: Int64[Tensor, "patterns targets near"]
    first: Int64[Tensor, "patterns targets near"]
    used: Bool[Tensor, "patterns targets near"]
    features: Float[Tensor, "patterns targets near pair"]
    pattern: Int64[Tensor, "rows"]

    def take(self, rows: Int64[Tensor, "some"]) -> "NearPairs":
        """Of some of the rows."""
        pattern = self.pattern[rows]
        if len(self.column) <= len(rows):
            return self._replace(pattern=pattern)
        column, first, used, features = (part[pattern] for part in self[:4])
        return NearPairs(column, first, used, features, torch.arange(len(rows)))


class Innovations(NamedTuple):
    """Rows as attention sees them: innovations, and what is known of each target beside.

    `censored`: 1 for values of which no more is known than that they are at most a limit, 0 for
    others; None if there are none
    """

    innovation: Float[Tensor, "rows targets near"]
    context: Float[Tensor, "rows targets context"]
    censored: Float[Tensor, "rows targets near"] | None = None

    def take(self, index: Tensor) -> "Innovations":
        """Of some of the rows."""
        censored = None if self.censored is None else self.censored[index]
        return Innovations(self.innovation[index], self.context[index], censored)


def pairs_of(
    shown: Bool[Tensor, "rows columns"],
    prior: NearColumns,
    columns: MapColumns,
    targets: Int64[Tensor, "targets"],
    *,
    n_near: int | None,
) -> NearPairs:
    """Pairs of targets, whose own columns these are, by geometry and the kernel alone.

    Nothing here comes from the values: an empirical covariance that saw the row would leak.
    """
    shown, pattern = torch.unique(shown, dim=0, return_inverse=True)
    n_used = min(n_near or MOST_NEAR, MOST_NEAR, prior.columns.shape[1])
    first, used = first_shown(shown, prior.columns, n_used=n_used)
    index = prior.columns.expand(len(shown), -1, -1).gather(-1, first)
    block, shared = prior.among(first)
    shared = torch.where(used, shared, 0.0)
    spread = (prior.variance[:, None] * block.diagonal(dim1=-2, dim2=-1)).sqrt()
    factor = _factor(block, used)
    beta = torch.cholesky_solve(shared[..., None], factor)[..., 0]
    way = columns.points[index] - columns.points[targets][:, None]
    distance = way.square().sum(-1).clamp_min(1e-24).sqrt()
    lag = columns.lag[index]
    features = [
        way[..., 0],
        way[..., 1] if way.shape[-1] > 1 else torch.zeros_like(distance),
        distance,
        (distance + NEARBY).log(),
        3 * beta,
        2 * beta.abs().sqrt(),
        2 * shared / spread,
        (columns.site[index] == columns.site[targets][:, None]).double(),
        *((lag == step).double() for step in range(1, int(columns.lag.max()) + 1)),
    ]
    return NearPairs(index, first, used, torch.stack(features, -1).float(), pattern)


def n_pair_features(n_lags: int) -> int:
    """How many numbers a pair has."""
    return 8 + n_lags


def tokens_of(
    evidence: Evidence,
    pairs: NearPairs,
    covariance: NearColumns,
    given: GivenOthers,
    df: float,
    *,
    around: Float64[Tensor, "rows targets around"],
) -> Innovations:
    """Innovations (C_JJ^-1 z_J)_c / sqrt((C_JJ^-1)_cc) of the columns J near each target.

    That of a column given all others of J, of unit variance; the target is not among J. Values that
    may be off by some noise have it added to their variances. `around`: what else is known of each
    target
    """
    block, used = covariance.among(pairs.first).block, pairs.used[pairs.pattern]
    z = _near(evidence.values, pairs)
    if evidence.noise is None:
        inverse = torch.cholesky_inverse(_factor(block, pairs.used))
        innovation, noise = _innovation(inverse[pairs.pattern], z), None
    else:
        noise = _near(evidence.noise, pairs)
        at_once = max(1, MOST_ENTRIES // (block.shape[1] * block.shape[2] ** 2))
        innovation = torch.cat(
            [
                _noisy_innovation(block[pairs.pattern[some]], noise[some], used[some], z[some])
                for some in torch.arange(len(z)).split(at_once)
            ]
        )
        z = z / (1 + noise)  # what is expected of the anomaly, whose variance is 1
    innovation = torch.where(used, innovation, 0.0).clamp(-FARTHEST, FARTHEST)
    mean_of_others = z.sum(-1) / used.sum(-1).clamp_min(1)
    stretch = ((df - 2 + given.squares) / (df + given.number)).log()
    context = torch.cat([torch.stack([given.mean, stretch, mean_of_others], -1), around], -1)
    censored = None if noise is None else (noise > 0).float()
    return Innovations(innovation.float(), context.float(), censored)


def _near(
    numbers: Float64[Tensor, "rows columns"], pairs: NearPairs
) -> Float64[Tensor, "rows targets near"]:
    """Of the columns near each target, 0 where there is none."""
    row = torch.arange(len(numbers))[:, None, None]
    near = numbers[row, pairs.column[pairs.pattern]]
    return torch.where(pairs.used[pairs.pattern], near, 0.0)


def _innovation(
    inverse: Float64[Tensor, "rows targets near near"], z: Float64[Tensor, "rows targets near"]
) -> Float64[Tensor, "rows targets near"]:
    unit = inverse.diagonal(dim1=-2, dim2=-1).sqrt()
    return torch.einsum("...jk,...k->...j", inverse, z) / unit


def _noisy_innovation(
    block: Float64[Tensor, "rows targets near near"],
    noise: Float64[Tensor, "rows targets near"],
    used: Bool[Tensor, "rows targets near"],
    z: Float64[Tensor, "rows targets near"],
) -> Float64[Tensor, "rows targets near"]:
    factor = _factor(block + torch.diag_embed(noise), used)
    return _innovation(torch.cholesky_inverse(factor), z)


def _factor(
    block: Float64[Tensor, "patterns targets near near"],
    used: Bool[Tensor, "patterns targets near"],
) -> Float64[Tensor, "patterns targets near near"]:
    both = used[..., :, None] & used[..., None, :]
    return torch.linalg.cholesky(torch.where(both, block, torch.eye(used.shape[-1]).to(block)))
