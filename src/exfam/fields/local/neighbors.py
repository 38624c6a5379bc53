"""Columns near each site, found by trees: no table of all pairs is made."""

import torch
from jaxtyping import Float64, Int64
from scipy.spatial import cKDTree
from torch import Tensor

from exfam.fields.base.columns import MapColumns
from exfam.fields.base.kernel import MOST_COLUMNS, MovingKernel

# Sites near each other that a kernel is fitted to together: their distances show its short lengths.
SITES_OF_A_CLUSTER = 4

Near = Int64[Tensor, "targets near"]


def near_columns(
    kernel: MovingKernel, columns: MapColumns, targets: Int64[Tensor, "targets"], *, most: int
) -> Near:
    """The columns of the largest |covariance| with own columns, these left out; best first.

    Looked for among those nearest to where each part of the kernel comes from at each step back,
    and at the target's own site.
    """
    n_lags = int(columns.lag.max())
    n_sites = len(columns.lag) // (n_lags + 1)
    points, found = columns.points[:n_sites], []
    for stretch, velocity in kernel.metrics(points.shape[1]):
        tree = cKDTree((points @ stretch.T).numpy())
        for lag in range(n_lags + 1):
            came_from = (points[targets] - lag * velocity) @ stretch.T
            at = tree.query(came_from.numpy(), k=range(1, min(most + 1, n_sites) + 1))[1]
            found.append(lag * n_sites + torch.from_numpy(at))
    found.append(targets[:, None] + n_sites * torch.arange(1, n_lags + 1))
    candidate = torch.cat(found, 1).sort(1).values
    new = torch.ones_like(candidate, dtype=torch.bool)
    new[:, 1:] = candidate[:, 1:] != candidate[:, :-1]
    own, others = columns.take(targets[:, None]), columns.take(candidate)
    strength = kernel.between(own, others)[:, 0].abs()
    strength = torch.where(new & (candidate != targets[:, None]), strength, -1.0)
    n = min(most, len(columns.lag) - 1)
    return candidate.gather(1, strength.topk(n, dim=1).indices)


def clusters(points: Float64[Tensor, "sites space"], n_lags: int) -> Int64[Tensor, "chosen"]:
    """Columns that a kernel is fitted to: sites evenly taken, with their nearest ones, all lags."""
    n = max(1, MOST_COLUMNS // ((n_lags + 1) * SITES_OF_A_CLUSTER))
    centers = torch.linspace(0, len(points) - 1, n).round().long()
    k = range(1, min(SITES_OF_A_CLUSTER, len(points)) + 1)
    found = cKDTree(points.numpy()).query(points[centers].numpy(), k=k)[1]
    sites = torch.from_numpy(found).flatten().unique()
    return (len(points) * torch.arange(n_lags + 1)[:, None] + sites).flatten()
