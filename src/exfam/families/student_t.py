"""Student's t: real numbers of which some lie far out."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from exfam.checks import ExfamError, check_positive
from exfam.families.base import (
    MAX_LOG_DISPERSION,
    Eta,
    Level,
    Numbers,
    PlainFamily,
    Values,
    bounded,
)
from exfam.families.likelihood import maximize_nats
from exfam.families.numeric import log_rising_factorial, through_scipy
from exfam.families.real import LOG_ROOT_TWO_PI, mirrored

_MIN_LOG_EXCESS = -3.0  # df from 2.05 on: a variance of at most 41 squared scales
_START_LOG_EXCESS = (-3.0, 5.0)  # beyond 150 degrees of freedom the likelihood is flat
_START_LOG_SCALE = (math.log(1e-3), math.log(1e3))  # around the sample's own spread


def t_log_prob(
    value: Float[Tensor, "*#shape"],
    location: Float[Tensor, "*#shape"],
    log_scale: Float[Tensor, "*#shape"],
    df: Float[Tensor, "*#shape"],
) -> Float[Tensor, "..."]:
    """The log density of finite numbers; `log_scale` is bounded already."""
    r = (value - location) * (-log_scale).exp() / df.sqrt()
    # log(1 + r^2), where r^2 may overflow far out and vanishes beside 1 near by.
    far = r.abs() > 1
    outer = 2 * torch.hypot(torch.ones_like(r), torch.where(far, r, 1.0)).log()
    growth = torch.where(far, outer, torch.log1p(torch.where(far, 0.0, r) ** 2))
    height = log_rising_factorial(df / 2, torch.full_like(df, 0.5)) - LOG_ROOT_TWO_PI
    return height - log_scale - 0.5 * (df + 1) * growth


@dataclass(frozen=True)
class StudentT(PlainFamily):
    """Real numbers around eta0 with heavy tails: (y - eta0) / scale is Student's t.

    scale = exp(eta1) and variance = scale^2 df / (df - 2), so that one value far out moves a fit
    less than with Gaussian(). `df` are the degrees of freedom, above 2 so that there is a variance,
    and Gaussian() in the limit. With df=None they are 2 + exp(eta2). eta1 is bounded by 20 on both
    sides, eta2 by -3 and 20.

    Raises ExfamError unless df > 2.

    >>> StudentT(df=4.0).log_prob(torch.tensor([0.0]), torch.zeros(1, 2))
    tensor([-0.9808])
    >>> StudentT().n_params, StudentT().n_dispersion
    (3, 2)
    """

    df: float | None = None
    name: ClassVar[str] = "student-t"
    equivariance: ClassVar[str] = "location-scale"
    support: ClassVar[str] = "a finite number"

    def __post_init__(self) -> None:
        if self.df is None:
            return
        check_positive("df", self.df)
        if not self.df > 2:
            raise ExfamError(
                f"`df` must be a number > 2, got {self.df!r}: from 2 down there is no variance."
            )

    @property
    def n_dispersion(self) -> int:
        return 2 if self.df is None else 1

    def _log_scale(self, eta: Tensor) -> Tensor:
        return bounded(eta[..., 1], -MAX_LOG_DISPERSION, MAX_LOG_DISPERSION)

    def _log_excess(self, eta: Tensor) -> Tensor:
        """log(df - 2)."""
        if self.df is not None:
            return eta.new_tensor(math.log(self.df - 2))
        return bounded(eta[..., 2], _MIN_LOG_EXCESS, MAX_LOG_DISPERSION)

    def parameters(
        self, eta: Float[Tensor, "*shape params"]
    ) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
        """Location and scale, in the unit of the value, and degrees of freedom."""
        df = 2 + self._log_excess(eta).exp()
        return eta[..., 0], self._log_scale(eta).exp(), df.expand(eta.shape[:-1])

    def _in_support(self, value: Tensor) -> Tensor:
        return value.isfinite()

    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor:
        return t_log_prob(value, eta[..., 0], self._log_scale(eta), self.parameters(eta)[2])

    def _mean(self, eta: Tensor) -> Tensor:
        return eta[..., 0]

    def _variance(self, eta: Tensor) -> Tensor:
        # df / (df - 2) = 1 + 2 / (df - 2): no difference of two numbers near 2.
        return (2 * self._log_scale(eta)).exp() * (1 + 2 * (-self._log_excess(eta)).exp())

    def _cdf(self, value: Tensor, eta: Tensor) -> Tensor:
        from scipy.special import stdtr

        location, scale, df = self.parameters(eta.double())
        return through_scipy(stdtr, df, (value.double() - location) / scale)

    def above(self, value: Values, eta: Eta) -> Numbers:
        return self.cdf(-value.double(), mirrored(eta))

    def quantile_above(self, p: Level, eta: Eta) -> Numbers:
        return -self.quantile(p, mirrored(eta))

    def _quantile(self, p: Tensor, eta: Tensor) -> Tensor:
        from scipy.special import stdtrit

        location, scale, df = self.parameters(eta.double())
        unit = through_scipy(stdtrit, df, p)
        return location + scale * torch.where(p == 0, -torch.inf, unit)

    def _sample(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        location, scale, df = self.parameters(eta)
        half = df / 2
        tiny = torch.finfo(eta.dtype).tiny
        precision = torch._standard_gamma(half, generator=generator).clamp(min=tiny) / half
        noise = torch.empty_like(location).normal_(generator=generator)
        return location + scale * noise * precision.rsqrt()

    def _from_mean(self, mean: Tensor, dispersion: Tensor) -> Tensor:
        return mean.unsqueeze(-1)

    def _initial_eta(self, value: Tensor) -> Tensor:
        """By likelihood, with a scale of at least a thousandth of the spread of the middle half."""
        center, spread = _middle(value.cpu().numpy())
        unit = (value - center) / spread
        bounds = [(None, None), _START_LOG_SCALE, _START_LOG_EXCESS][: self.n_params]
        eta = maximize_nats(
            lambda eta: self._log_prob(unit, eta).mean(),
            [0.0, 0.0, math.log(3)][: self.n_params],
            bounds=bounds,
            device=value.device,
        )
        eta[0] = center + spread * eta[0]
        eta[1] += math.log(spread)
        return eta


def _middle(value: np.ndarray) -> tuple[float, float]:
    """Median and a spread > 0: half the distance of the quartiles, if these differ."""
    n = len(value)
    quarters = [n // 4, n // 2, (3 * n) // 4]
    low, center, high = np.partition(value, quarters)[quarters].tolist()
    with np.errstate(over="ignore", invalid="ignore"):
        spreads = (high / 2 - low / 2, float(value.std()))
    for spread in spreads:
        # Equal values have the spread of their rounding.
        if 1e-12 * abs(center) < spread < math.inf:
            return center, spread
    return center, max(abs(center), 1.0)
