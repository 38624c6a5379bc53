"""A Gaussian process of anomalies over places and earlier maps, solved exactly."""

import numpy as np
import scipy.optimize
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn

from exfam.checks import check_choice
from exfam.fields.networks.anomalies import (
    Matrices,
    Patterns,
    gaps,
    patterns_of,
    read_anomalies,
    thinned,
)
from exfam.fields.networks.climate import Climate
from exfam.fields.networks.joint_normal import conditionals
from exfam.fields.networks.places import chord_distances, matern_3_2
from exfam.groups import Batch, Groups

KERNELS = ("exponential", "matern")
# Where a search starts and may go, as logarithms, in the order of the parameters: variance and
# length of what sites share, variances of a site's own part and of the noise, and the memories of
# the shared and of the own part. Units: the anomalies' variance, the sites' median distance, steps.
START = (-0.3, 0.0, -2.5, -2.5, 0.5, 0.5)
BOUNDS = [(-7, 4), (-5, 4), (-12, 3), (-9, 3), (-3, 7), (-3, 7)]


class GaussianProcessPart(nn.Module):
    """Each value given all observed others, of its own map and of earlier ones.

    Anomalies have one mean everywhere. The covariance of two, at distance d and k steps apart, is
    variance c(d) exp(-k / memory) + own [same site] exp(-k / own_memory) + noise [same value],
    c a Matern 3/2 or exponential correlation. What is not known of the normal location of a site
    adds to its own part and does not fade. Distances on the globe are straight ones, in km.
    Raises ExfamError for another kernel.
    Source: Rasmussen & Williams (2006), eq. 5.10 to 5.12 for the leave-one-out conditionals.
    """

    direction = "bidirectional"
    log_parameters: Tensor
    level: Tensor

    def __init__(self, climate: Climate, *, kernel: str) -> None:
        super().__init__()
        check_choice("kernel", kernel, KERNELS)
        self.climate, self.kernel = climate, kernel
        self.register_buffer("log_parameters", torch.zeros(len(START), dtype=torch.float64))
        self.register_buffer("level", torch.zeros((), dtype=torch.float64))

    @torch.no_grad()
    def eta(self, batch: Batch) -> Float[Tensor, "batch length 2"]:
        """Mean and log standard deviation given the observed others, in the value's unit.

        Raises ExfamError for maps of more than 5,000 elements.
        """
        maps = read_anomalies(batch, self.climate)

        def covariance(rows: Int64[Tensor, "rows"]) -> Matrices:
            distance = chord_distances(maps.points[rows], maps.points[rows])
            doubt = maps.doubt[rows]
            unknown = doubt[:, :, None] * doubt[:, None] * (distance == 0)
            gap = gaps(maps.steps_back[rows])
            return _covariance(distance, gap, self.log_parameters, self.kernel) + unknown

        mean, variance = conditionals(
            maps.above(self.level).value,
            maps.observed,
            signature=maps.signature,
            covariance=covariance,
        )
        return maps.to_eta(self.level + mean, variance)


def fit_gaussian_process(
    groups: Groups, climate: Climate, *, kernel: str = "matern"
) -> GaussianProcessPart:
    """The process under which the maps' anomalies are most likely, each given its earlier maps.

    At most 400 sites, evenly taken, are looked at, and of patterns of observed sites the most
    frequent ones. Without lags the memories stay where they are: nothing speaks of them.
    """
    part = GaussianProcessPart(climate, kernel=kernel)
    maps = thinned(groups, climate)
    part.level.copy_(maps.value[maps.observed].mean())
    patterns = patterns_of(maps.above(part.level))
    unit = _log_units(patterns)

    def loss(free: np.ndarray) -> tuple[float, np.ndarray]:
        point = torch.tensor(free, requires_grad=True)
        nats = _mean_nats(patterns, point + unit, kernel)
        nats.backward()
        assert point.grad is not None
        return float(nats.detach()), point.grad.numpy()

    with torch.enable_grad():
        fit = scipy.optimize.minimize(loss, START, jac=True, method="L-BFGS-B", bounds=BOUNDS)
    part.log_parameters.copy_(torch.from_numpy(fit.x) + unit)
    return part


def _log_units(patterns: Patterns) -> Float64[Tensor, "parameters"]:
    """Logarithms of the unit that each parameter of a search is in."""
    apart = patterns.distance[patterns.distance > 0]
    observed = (patterns.count[:, None] * patterns.observed).sum()
    spread = patterns.squares.diagonal(dim1=1, dim2=2).sum() / observed
    length = apart.median().log() if len(apart) else spread.new_zeros(())
    variance = spread.clamp_min(1e-12).log()
    one = torch.zeros_like(variance)
    return torch.stack([variance, length, variance, variance, one, one])


def _covariance(distance: Matrices, gap: Matrices, log_parameters: Tensor, kernel: str) -> Matrices:
    variance, length, own, noise, memory, own_memory = log_parameters.exp()
    shape = matern_3_2(distance, length) if kernel == "matern" else (-distance / length).exp()
    shared = variance * shape * (-gap / memory).exp()
    of_site = own * (-gap / own_memory).exp() * (distance == 0)
    identity = torch.eye(distance.shape[-1], dtype=distance.dtype, device=distance.device)
    return shared + of_site + noise * identity


def _mean_nats(patterns: Patterns, log_parameters: Tensor, kernel: str) -> Float64[Tensor, ""]:
    """-log p per value of the maps given their earlier maps, without constants."""
    covariance = _covariance(patterns.distance, patterns.gap, log_parameters, kernel)
    nats = _nats(covariance, patterns, patterns.observed)
    if patterns.before.any():
        nats = nats - _nats(covariance, patterns, patterns.before)
    return nats / (patterns.own.sum(1) * patterns.count).sum()


def _nats(
    covariance: Matrices, patterns: Patterns, seen: Bool[Tensor, "rows length"]
) -> Float64[Tensor, ""]:
    both = seen[:, :, None] & seen[:, None]
    identity = torch.eye(seen.shape[1], dtype=covariance.dtype)
    factor = torch.linalg.cholesky(torch.where(both, covariance, identity))
    solved = torch.cholesky_solve(patterns.squares * both, factor)
    squares = solved.diagonal(dim1=1, dim2=2).sum()
    return 0.5 * squares + (patterns.count[:, None] * factor.diagonal(dim1=1, dim2=2).log()).sum()
