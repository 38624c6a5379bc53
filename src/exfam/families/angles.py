"""The von Mises distribution: angles."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from exfam.checks import ExfamError
from exfam.families import base
from exfam.families.likelihood import maximize_nats
from exfam.families.numeric import bisected

_MOST_CONCENTRATION = 1e8
# Where the density is exp(-45) of its largest, it ends.
_END = 45.0
_X, _W = np.polynomial.legendre.leggauss(64)
_LEAST_CONCENTRATION = 1e-5  # of proposals; below, the circle is even to double precision


@dataclass(frozen=True)
class VonMises(base.ExponentialFamily):
    """Angles from -pi to pi: log p = eta0 cos y + eta1 sin y - log(2 pi I0(|eta|)).

    |eta| is the concentration, at most 1e8; the direction of `eta` is that of the angles.
    T = (cos y, sin y), natural = eta, A = log(2 pi I0(|eta|)), h = 1. The mean is the mean
    direction and the variance the mean square of the shortest turn from it; the cdf starts at -pi.

    >>> VonMises().log_prob(torch.tensor([0.0]), torch.zeros(1, 2))
    tensor([-1.8379])
    >>> VonMises().mean(torch.tensor([0.0, 2.0]))
    tensor(1.5708)
    """

    name: ClassVar[str] = "von-mises"
    support: ClassVar[str] = "an angle from -pi to pi"
    hint: ClassVar[str] = "Turn degrees into radians, and take whole turns off."
    n_params: ClassVar[int] = 2

    def natural(self, eta: base.Eta) -> base.Statistics:
        size = torch.hypot(eta[..., :1], eta[..., 1:]).detach()
        return eta * (_MOST_CONCENTRATION / size.clamp(min=_MOST_CONCENTRATION))

    def sufficient_statistic(self, value: base.Values) -> base.Statistics:
        return torch.stack([value.cos(), value.sin()], -1)

    def log_normalizer(self, natural: base.Statistics) -> base.Numbers:
        size = self._size(natural)
        return torch.special.i0e(size).log() + size + math.log(2 * math.pi)

    @staticmethod
    def _size(natural: Tensor) -> Tensor:
        """The concentration, with gradient 0 where it is 0."""
        return (natural.square().sum(-1) + torch.finfo(natural.dtype).tiny).sqrt()

    def _in_support(self, value: Tensor) -> Tensor:
        # In single precision pi is a little more than pi.
        return value.abs() <= math.nextafter(math.pi, 4) + 1e-7

    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor:
        # Of a large concentration hardly anything is left of two large numbers.
        natural = self.natural(eta.double())
        exponent = (natural * self.sufficient_statistic(value.double())).sum(-1)
        return (exponent - self.log_normalizer(natural)).to(eta.dtype)

    def _parts(self, eta: Tensor) -> tuple[Tensor, Tensor]:
        """Direction and concentration, in double precision."""
        natural = self.natural(eta.double())
        return torch.atan2(natural[..., 1], natural[..., 0]), self._size(natural)

    def _mean(self, eta: Tensor) -> Tensor:
        return torch.atan2(eta[..., 1], eta[..., 0])

    def _of_nodes(self, end: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
        """Angles between 0 and `end` and what the density has there, Gauss-Legendre weights in."""
        reach = 2 * (_END / (2 * size)).sqrt().clamp(max=1).asin()
        end = end.minimum(reach).unsqueeze(-1)
        nodes, weights = torch.from_numpy(_X).to(end), torch.from_numpy(_W).to(end)
        angle = end * (nodes + 1) / 2
        exponent = -2 * size.unsqueeze(-1) * (angle / 2).sin().square()
        log_height = (torch.special.i0e(size) * 2 * math.pi).log().unsqueeze(-1)
        return angle, weights * end / 2 * (exponent - log_height).exp()

    def _variance(self, eta: Tensor) -> Tensor:
        size = self._parts(eta)[1]
        angle, mass = self._of_nodes(torch.full_like(size, math.pi), size)
        return (2 * (angle.square() * mass).sum(-1)).to(eta.dtype)

    def _from_mode(self, turn: Tensor, size: Tensor) -> Tensor:
        """The mass between the direction and a turn from it, at most a whole turn, either way."""
        rest = turn.abs()
        wrapped = torch.where(rest > math.pi, 2 * math.pi - rest, rest)
        half = self._of_nodes(*torch.broadcast_tensors(wrapped, size))[1].sum(-1).clamp(max=0.5)
        return turn.sign() * torch.where(rest > math.pi, 1 - half, half)

    def _cdf(self, value: Tensor, eta: Tensor) -> Tensor:
        direction, size = self._parts(eta)
        at = value.double().clamp(-math.pi, math.pi)
        start = self._from_mode(-math.pi - direction, size)
        return (self._from_mode(at - direction, size) - start).clamp(0, 1)

    def _quantile(self, p: Tensor, eta: Tensor) -> Tensor:
        direction, size = self._parts(eta)
        level = p + self._from_mode(-math.pi - direction, size)
        level, direction, size = torch.broadcast_tensors(level, direction, size)
        ends = -math.pi - direction, math.pi - direction
        found = bisected(*ends, lambda at: self._from_mode(at, size) >= level, times=60)
        inside = (found + direction).clamp(-math.pi, math.pi)
        return torch.where(p == 0, -math.pi, torch.where(p == 1, math.pi, inside))

    def _sample(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        """By rejection from a wrapped Cauchy: Best and Fisher (1979)."""
        direction, size = self._parts(eta)
        kappa = size.clamp(min=_LEAST_CONCENTRATION)
        tau = 1 + (1 + 4 * kappa.square()).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        r = (1 + rho.square()) / (2 * rho)
        turn, waiting = torch.zeros_like(size), torch.ones_like(size, dtype=torch.bool)
        while waiting.any():
            first, second, side = torch.empty(3, *size.shape).to(size).uniform_(generator=generator)
            z = (math.pi * first).cos()
            cos = ((1 + r * z) / (r + z)).clamp(-1, 1)
            c = kappa * (r - cos)
            taken = waiting & ((c * (2 - c) > second) | ((c / second).log() + 1 >= c))
            turn = torch.where(taken, (side - 0.5).sign() * cos.acos(), turn)
            waiting = waiting & ~taken
        wrapped = torch.remainder(direction + turn + math.pi, 2 * math.pi) - math.pi
        return wrapped.to(eta.dtype)

    def _from_mean(self, mean: Tensor, dispersion: Tensor) -> Tensor:
        raise ExfamError(
            f"`family` must be determined by its mean to be built from one, got {self}. "
            "Use initial_eta, or (c cos(mean), c sin(mean)) of a concentration c."
        )

    def _initial_eta(self, value: Tensor) -> Tensor:
        """By likelihood: along the mean direction."""
        mean = self.sufficient_statistic(value).mean(0)
        length = float(mean.square().sum().sqrt())
        (log_size,) = maximize_nats(
            lambda at: at.exp().sum() * (length - 1) - torch.special.i0e(at.exp()).log().sum(),
            [0.0],
            bounds=[(-7.0, 7.0)],
            device=value.device,
        )
        return mean / max(length, base.INTERIOR) * log_size.exp()
