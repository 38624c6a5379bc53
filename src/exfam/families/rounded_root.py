"""Counts whose roots are Student's t: exact masses, and a mean."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float64
from torch import Tensor

from exfam.families.censored import START_LOG_SCALE, RootOfLatent, bounds_of_root, powers_above
from exfam.families.likelihood import likeliest
from exfam.families.numeric import integers_from, through_scipy

# Counts that a mean is summed over one by one; beyond, steps are narrow enough for an integral.
_ONE_BY_ONE = 128
_MOST = 2.0**512
_LARGEST_DRAW = 2.0**100


@dataclass(frozen=True)
class RoundedRootStudentT(RootOfLatent):
    """Counts from 0 on: y = max(0, L)^root, rounded, where L is Student's t.

    `root`: a whole number from 1 to 6; 2 says that square roots of counts are Student's t

    L has location eta0, scale exp(eta1) and df = 2 + exp(eta2), at least 2 root + 0.05, so that y
    has a variance. eta1 is bounded by 20 on both sides. A count y has the mass of L between the
    roots of y - 1/2 and y + 1/2, and 0 all mass below the root of 1/2.

    Raises ExfamError for another `root`.

    >>> family = RoundedRootStudentT(root=1)
    >>> family.log_prob(torch.tensor([0.0, 1.0]), torch.zeros(2, 3))
    tensor([-0.3941, -1.5586])
    """

    root: int = 2
    name: ClassVar[str] = "rounded-root-student-t"
    equivariance: ClassVar[str] = "none"
    support: ClassVar[str] = "an integer >= 0"
    hint: ClassVar[str] = "Use CensoredStudentT() for amounts, StudentT() for real numbers."

    @property
    def limit(self) -> float:  # type: ignore[override]
        return 0.5 ** (1 / self.root)

    def to_latent(self, value: Tensor) -> Tensor:
        return torch.where(value > 0, value.clamp(min=0) ** (1 / self.root), self.limit)

    def from_latent(self, latent: Tensor) -> Tensor:
        return super().from_latent(latent).round()

    def log_slope(self, value: Tensor) -> Tensor:
        return torch.zeros_like(value)

    def latent_unit(self, scale: float) -> tuple[float, float]:
        return 0.0, 1.0

    def has_mass(self, value: Tensor, item: Tensor | None = None) -> Tensor:
        return torch.ones_like(value, dtype=torch.bool)

    def _in_support(self, value: Tensor) -> Tensor:
        return integers_from(value, 0)

    def bins(
        self, count: Float64[Tensor, "*cells"]
    ) -> tuple[Float64[Tensor, "*cells"], Float64[Tensor, "*cells"]]:
        """Where the latent numbers that round to each count begin, and how wide that interval is.

        Of 0 it begins at -inf; the second number is where it ends.
        """
        high = self._edge(count)
        low = self._edge((count - 1).clamp(min=0))
        # high - low, by the quotient: no difference of two large numbers.
        ratio = torch.log1p(1 / (count - 0.5).clamp(min=0.5)) / self.root
        width = torch.where(count > 0, low * ratio.expm1(), high)
        return torch.where(count > 0, low, -torch.inf), width

    def _edge(self, count: Tensor) -> Tensor:
        """Up to where latent numbers round to the count."""
        return (count + 0.5) ** (1 / self.root)

    def _parameters(self, eta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.latent.parameters(self._of_latent(eta.double()))

    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor:
        from exfam.families.bin_mass import log_bin_mass

        low, width = self.bins(value.double().clamp(max=_MOST))
        location, scale, df = self._parameters(eta)
        cells = torch.broadcast_tensors(low, width, location, scale.log(), df)
        nats = log_bin_mass(*(cell.reshape(-1) for cell in cells))
        return nats.reshape(cells[0].shape).to(eta.dtype)

    def _moments(self, eta: Tensor) -> tuple[Tensor, Tensor]:
        """E y = sum P(y > k) and E y^2 = sum (2 k + 1) P(y > k).

        From some k on by the Euler-Maclaurin formula of the midpoint rule, whose integrals are
        moments of the part of L above a cut.
        """
        from scipy.special import stdtr

        location, scale, df = self._parameters(eta)
        count = torch.arange(_ONE_BY_ONE).to(location)
        at = (self._edge(count) - location[..., None]) / scale[..., None]
        above = through_scipy(stdtr, df[..., None].expand_as(at), -at)
        first, second = above.sum(-1), ((2 * count + 1) * above).sum(-1)
        k = float(_ONE_BY_ONE)
        cut = torch.full_like(location, k ** (1 / self.root))
        none, one, two = powers_above(
            location, scale, df, cut, powers=(0, self.root, 2 * self.root)
        )
        density = self.latent.log_prob(cut, self._of_latent(eta.double())).exp()
        slope = -density * k ** (1 / self.root - 1) / self.root
        first = first + one - k * none + slope / 24
        second = second + two - k * k * none + (2 * none + 2 * k * slope) / 24
        return first, second

    def _cdf(self, value: Tensor, eta: Tensor) -> Tensor:
        from scipy.special import stdtr

        location, scale, df = self._parameters(eta)
        count = value.double().floor()
        inside = through_scipy(stdtr, df, (self._edge(count.clamp(min=0)) - location) / scale)
        return torch.where(count < 0, 0.0, inside)

    def _quantile(self, p: Tensor, eta: Tensor) -> Tensor:
        latent = self.latent.quantile(p, self._of_latent(eta.double()))
        count = self.from_latent(latent)
        # Rounding may put a level that an edge reaches exactly on the other side of it.
        enough = (count > 0) & (self._cdf(count - 1, eta.double()) >= p)
        count = torch.where(enough, count - 1, count)
        return torch.where(self._cdf(count, eta.double()) < p, count + 1, count)

    def _sample(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        drawn = self.latent.sample(self._of_latent(eta), generator=generator)
        return self.from_latent(drawn).clamp(max=_LARGEST_DRAW)

    def _initial_eta(self, value: Tensor) -> Tensor:
        """By likelihood, with a scale of at least a thousandth of the sample's."""
        latent = value ** (1 / self.root)
        center = float(latent.mean())
        spread = max(float(latent.std(correction=0)), 1e-3 * center, 0.1)

        def eta_of(at: Tensor) -> Tensor:
            return torch.stack([center + spread * at[0], at[1] + math.log(spread), at[2]])

        bounds = [(-1e3, 1e3), START_LOG_SCALE, bounds_of_root(self.root)]
        start = [0.0, 0.0, math.log(10)]
        return eta_of(
            likeliest(lambda y, at: self._log_prob(y, eta_of(at)), value, start, bounds=bounds)
        )
