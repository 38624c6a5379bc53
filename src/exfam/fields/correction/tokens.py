"""What attention sees of a base: innovations of the values near each target, free of its own."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from exfam.fields.base.columns import MapColumns
from exfam.fields.base.conditionals import GivenOthers, NearColumns, first_shown

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
    """Rows as attention sees them: innovations, and what is known of each target beside."""

    innovation: Float[Tensor, "rows targets near"]
    context: Float[Tensor, "rows targets context"]


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
    rows: Float64[Tensor, "rows columns"],
    pairs: NearPairs,
    covariance: NearColumns,
    given: GivenOthers,
    df: float,
    *,
    around: Float64[Tensor, "rows targets around"],
) -> Innovations:
    """Innovations (C_JJ^-1 z_J)_c / sqrt((C_JJ^-1)_cc) of the columns J near each target.

    That of a column given all others of J, of unit variance; the target is not among J. `around`:
    what else is known of each target
    """
    inverse = torch.cholesky_inverse(_factor(covariance.among(pairs.first).block, pairs.used))
    inverse = inverse[pairs.pattern]
    used = pairs.used[pairs.pattern]
    z = rows[torch.arange(len(rows))[:, None, None], pairs.column[pairs.pattern]]
    z = torch.where(used, z, 0.0)
    unit = inverse.diagonal(dim1=-2, dim2=-1).sqrt()
    innovation = torch.einsum("...jk,...k->...j", inverse, z) / unit
    innovation = torch.where(used, innovation, 0.0).clamp(-FARTHEST, FARTHEST)
    mean_of_others = z.sum(-1) / used.sum(-1).clamp_min(1)
    stretch = ((df - 2 + given.squares) / (df + given.number)).log()
    context = torch.stack([given.mean, stretch, mean_of_others], -1)
    return Innovations(innovation.float(), torch.cat([context, around], -1).float())


def _factor(
    block: Float64[Tensor, "patterns targets near near"],
    used: Bool[Tensor, "patterns targets near"],
) -> Float64[Tensor, "patterns targets near near"]:
    both = used[..., :, None] & used[..., None, :]
    return torch.linalg.cholesky(torch.where(both, block, torch.eye(used.shape[-1]).to(block)))
