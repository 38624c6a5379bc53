"""Numbers from 0 on with many zeros: powers of a Student's t that is cut off at 0."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from exfam.checks import ExfamError
from exfam.families.base import INTERIOR, MAX_LOG_DISPERSION, bounded
from exfam.families.latent import OfLatent
from exfam.families.likelihood import maximize_nats
from exfam.families.numeric import bisected, log_rising_factorial, through_scipy
from exfam.families.real import LOG_ROOT_TWO_PI
from exfam.families.student_t import StudentT

MOST_ROOT = 6
# df is above twice the root by this much at least, so that values have a variance.
_LEAST_EXCESS = math.exp(-3.0)
START_LOG_SCALE = (math.log(1e-3), math.log(1e3))
_MOST_START = 5.0  # beyond, the likelihood is flat


def check_root(root: object) -> None:
    """Raise ExfamError unless it is a whole number in range."""
    whole = isinstance(root, int) and not isinstance(root, bool)
    if not (whole and 1 <= root <= MOST_ROOT):  # type: ignore[operator]
        raise ExfamError(
            f"`root` must be a whole number from 1 to {MOST_ROOT}, got {root!r}. Use "
            "LogStudentT() for numbers above 0 over many orders of magnitude."
        )


def bounds_of_root(root: int) -> tuple[float, float]:
    """Between which log(df - 2) of a fit lies."""
    return math.log(2 * root - 2 + _LEAST_EXCESS), _MOST_START


def at_least_root(eta: Float[Tensor, "*shape 3"], root: int) -> Float[Tensor, "*shape 3"]:
    """Parameters of a Student's t whose powers of that root have a variance."""
    least = bounds_of_root(root)[0]
    log_excess = bounded(eta[..., 2], least, MAX_LOG_DISPERSION)
    return torch.stack([eta[..., 0], eta[..., 1], log_excess], -1)


def powers_above(
    location: Float[Tensor, "*shape"],
    scale: Float[Tensor, "*shape"],
    df: Float[Tensor, "*shape"],
    cut: Float[Tensor, "*shape"],
    *,
    powers: Sequence[int],
) -> list[Float[Tensor, "*shape"]]:
    """E[L^n; L > cut] for some n below df: sums of moments of the unit t above the cut."""
    from scipy.special import stdtr

    low = (cut - location) / scale
    constant = log_rising_factorial(df / 2, torch.full_like(df, 0.5)) - LOG_ROOT_TWO_PI
    density = (constant - 0.5 * (df + 1) * torch.log1p(low.square() / df)).exp()
    above = [through_scipy(stdtr, df, -low), density * (df + low.square()) / (df - 1)]
    for j in range(2, max(powers) + 1):
        edge = (df + low.square()) * low ** (j - 1) * density
        above.append((edge + df * (j - 1) * above[j - 2]) / (df - j))
    out = []
    for n in powers:
        terms = [math.comb(n, j) * location ** (n - j) * scale**j * above[j] for j in range(n + 1)]
        out.append(torch.stack(terms).sum(0))
    return out


class RootOfLatent(OfLatent):
    """Values whose roots are Student's t, those below a limit cut off there.

    `root`: a whole number from 1 to 6
    """

    root: int
    n_dispersion: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_root(self.root)

    @cached_property
    def latent(self) -> StudentT:
        """Student's t of the roots."""
        return StudentT()

    @abstractmethod
    def _moments(self, eta: Tensor) -> tuple[Tensor, Tensor]:
        """E y and E y^2, in double precision."""

    def from_latent(self, latent: Tensor) -> Tensor:
        return latent.clamp(min=0) ** self.root

    def _of_latent(self, eta: Tensor) -> Tensor:
        return at_least_root(eta, self.root)

    def _mean(self, eta: Tensor) -> Tensor:
        return self._moments(eta)[0].clamp(0, torch.finfo(eta.dtype).max).to(eta.dtype)

    def _variance(self, eta: Tensor) -> Tensor:
        first, second = self._moments(eta)
        variance = (second - first.square()).clamp(0, torch.finfo(eta.dtype).max)
        return variance.to(eta.dtype)

    def _from_mean(self, mean: Tensor, dispersion: Tensor) -> Tensor:
        """By bisection: the mean rises with the location."""
        wanted, spread = mean.clamp(min=INTERIOR).double().unsqueeze(-1), dispersion.double()
        scale = bounded(spread[..., :1], -MAX_LOG_DISPERSION, MAX_LOG_DISPERSION).exp()

        def enough(location: Tensor) -> Tensor:
            return self._moments(torch.cat([location, spread], -1))[0][..., None] >= wanted

        high = (wanted + 1) ** (1 / self.root) + scale
        found = bisected(-1.0 - 1e3 * scale, high, enough, times=200)
        return torch.where(wanted.isnan(), wanted, found).to(mean.dtype)


@dataclass(frozen=True)
class CensoredStudentT(RootOfLatent):
    """Numbers from 0 on, such as amounts of rain: y = max(0, L)^root, where L is Student's t.

    `root`: a whole number from 1 to 6; 2 says that square roots of amounts are Student's t

    L has location eta0, scale exp(eta1) and df = 2 + exp(eta2), at least 2 root + 0.05, so that y
    has a variance. eta1 is bounded by 20 on both sides. P(y = 0) = P(L <= 0) is a probability,
    `log_prob` of a number above 0 is of a density.

    Raises ExfamError for another `root`.

    >>> family = CensoredStudentT(root=1)
    >>> family.log_prob(torch.tensor([0.0, 1e-9]), torch.zeros(2, 3))
    tensor([-0.6931, -1.0009])
    """

    root: int = 2
    name: ClassVar[str] = "censored-student-t"
    support: ClassVar[str] = "a finite number >= 0"
    hint: ClassVar[str] = "Use StudentT() for numbers of either sign."
    limit: ClassVar[float | None] = 0.0

    def to_latent(self, value: Tensor) -> Tensor:
        return value.clamp(min=0) ** (1 / self.root)

    def log_slope(self, value: Tensor) -> Tensor:
        above = torch.where(value > 0, value, 1.0)
        slope = (1 / self.root - 1) * above.log() - math.log(self.root)
        return torch.where(value > 0, slope, 0.0)

    def latent_unit(self, scale: float) -> tuple[float, float]:
        return 0.0, scale ** (1 / self.root)

    def has_mass(self, value: Tensor, item: Tensor | None = None) -> Tensor:
        return value == 0

    def _in_support(self, value: Tensor) -> Tensor:
        return (value >= 0) & (value < torch.inf)

    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor:
        latent = self._of_latent(eta)
        above = self.latent.log_prob(self.to_latent(value), latent) + self.log_slope(value)
        return torch.where(value > 0, above, self._log_mass(latent).to(eta.dtype))

    def _log_mass(self, latent: Tensor) -> Tensor:
        """log P(L <= 0), in double precision."""
        from exfam.families.bin_mass import log_bin_mass

        location, scale, df = (part.double().flatten() for part in self.latent.parameters(latent))
        low, width = torch.full_like(location, -torch.inf), torch.zeros_like(location)
        return log_bin_mass(low, width, location, scale.log(), df).reshape(latent.shape[:-1])

    def _moments(self, eta: Tensor) -> tuple[Tensor, Tensor]:
        location, scale, df = self.latent.parameters(self._of_latent(eta.double()))
        cut = torch.zeros_like(location)
        first, second = powers_above(location, scale, df, cut, powers=(self.root, 2 * self.root))
        return first.clamp(min=0), second.clamp(min=0)

    def _cdf(self, value: Tensor, eta: Tensor) -> Tensor:
        exact = value.double()
        inside = self.latent.cdf(self.to_latent(exact), self._of_latent(eta.double()))
        return torch.where(exact < 0, 0.0, inside)

    def _quantile(self, p: Tensor, eta: Tensor) -> Tensor:
        return self.from_latent(self.latent.quantile(p, self._of_latent(eta.double())))

    def _sample(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        drawn = self.latent.sample(self._of_latent(eta), generator=generator)
        return self.from_latent(drawn).clamp(max=torch.finfo(eta.dtype).max)

    def _initial_eta(self, value: Tensor) -> Tensor:
        """By likelihood, with a scale of at least a thousandth of the sample's."""
        latent = self.to_latent(value)
        spread = float(latent.std(correction=0).clamp(min=1e-3 * float(latent.mean()) + 1e-12))
        center = float(latent.mean())
        unit, shift = value / spread**self.root, center / spread
        bounds = [(-1e3, 1e3), START_LOG_SCALE, bounds_of_root(self.root)]
        eta = maximize_nats(
            lambda at: self._log_prob(unit, at + at.new_tensor([shift, 0.0, 0.0])).mean(),
            [0.0, 0.0, math.log(10)],
            bounds=bounds,
            device=value.device,
        )
        return torch.stack([spread * (eta[0] + shift), eta[1] + math.log(spread), eta[2]])
