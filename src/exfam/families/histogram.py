"""Histograms: real numbers by bins, of which the outer two have no end."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from exfam.checks import ExfamError, check_positive
from exfam.families.base import PlainFamily
from exfam.families.numeric import finite_quantile, pick


@dataclass(frozen=True)
class Histogram(PlainFamily):
    """Real numbers with a density that is constant between edges and exponential beyond them.

    `edges`: the inner edges of len(edges) + 1 bins, increasing; a value equal to an edge lies in
        the lower bin
    `tails`: mean distance from the first and from the last edge in the outer bins, > 0; None takes
        the widths of the bins beside them, which needs two edges

    The bins have probabilities softmax(eta): adding a constant to eta changes nothing. No real
    number is impossible, however far it lies from the values that the edges were taken from.

    Raises ExfamError unless the edges are finite and increase, and the tails are > 0.
    """

    edges: tuple[float, ...]
    tails: tuple[float, ...] | None = None
    name: ClassVar[str] = "histogram"
    support: ClassVar[str] = "a finite number"

    def __post_init__(self) -> None:
        # A family can be a key only if it holds tuples, and not tensors or lists.
        object.__setattr__(self, "edges", tuple(map(float, self.edges)))
        steps = [right - left for left, right in zip(self.edges, self.edges[1:], strict=False)]
        finite = all(math.isfinite(number) for number in (*self.edges, *steps))
        if not self.edges or not finite or any(step <= 0 for step in steps):
            raise ExfamError(
                f"`edges` must be finite numbers that increase, at least one, got {self.edges}."
            )
        if self.tails is not None:
            if len(self.tails) != 2:
                raise ExfamError(f"`tails` must be two numbers, below and above, got {self.tails}.")
            for tail in self.tails:
                check_positive("tails", tail)
            object.__setattr__(self, "tails", tuple(map(float, self.tails)))
        elif len(self.edges) < 2:
            raise ExfamError(
                f"`tails` must be given for a single edge, got {self.edges[0]:g}, which has no bin "
                "beside it. Pass the mean distances of values below and above, tails=(1.0, 1.0)."
            )

    @property
    def n_params(self) -> int:
        return len(self.edges) + 1

    @property
    def widths(self) -> tuple[float, ...]:
        """The width of each bin; of the outer two the mean distance from their edge."""
        inner = tuple(right - left for left, right in zip(self.edges, self.edges[1:], strict=False))
        low, high = self.tails or (inner[0], inner[-1])
        return (low, *inner, high)

    def _of_bins(self, numbers: Sequence[float], eta: Tensor) -> Tensor:
        return torch.tensor(numbers, dtype=eta.dtype, device=eta.device)

    def _left(self, eta: Tensor) -> Tensor:
        """The edge that a position in a bin is measured from: the left, of the first the right."""
        return self._of_bins((self.edges[0], *self.edges), eta)

    def _bin(self, value: Tensor, eta: Tensor) -> Tensor:
        return torch.searchsorted(self._of_bins(self.edges, eta), value.contiguous())

    def _in_support(self, value: Tensor) -> Tensor:
        return value.isfinite()

    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor:
        # Logarithms of float64: edges that are equal in float32 are no infinite density.
        log_widths = self._of_bins([math.log(width) for width in self.widths], eta)
        density = pick(eta.log_softmax(-1) - log_widths, self._bin(value, eta))
        below = (self.edges[0] - value).clamp(min=0) / self.widths[0]
        above = (value - self.edges[-1]).clamp(min=0) / self.widths[-1]
        return density - below - above

    def _mean(self, eta: Tensor) -> Tensor:
        return eta.softmax(-1) @ self._means(eta)

    def _means(self, eta: Tensor) -> Tensor:
        """The mean of each bin."""
        inner = [
            left + width / 2 for left, width in zip(self.edges, self.widths[1:-1], strict=False)
        ]
        outer = self.edges[0] - self.widths[0], self.edges[-1] + self.widths[-1]
        return self._of_bins((outer[0], *inner, outer[1]), eta)

    def _variance(self, eta: Tensor) -> Tensor:
        square = self._of_bins(self.widths, eta) ** 2
        # An exponential has the square of its mean as variance, a uniform a twelfth of its width's.
        shares = self._of_bins((1.0, *([1 / 12] * (len(self.edges) - 1)), 1.0), eta)
        distance = self._means(eta) - self._mean(eta).unsqueeze(-1)
        return (eta.softmax(-1) * (square * shares + distance**2)).sum(-1)

    def _cdf(self, value: Tensor, eta: Tensor) -> Tensor:
        probs, bins = eta.softmax(-1), self._bin(value, eta)
        position = (value - self._left(eta)[bins]) / self._of_bins(self.widths, eta)[bins]
        # The sum of all bins before may round to just over or under what is left of 1.
        above = 1 - probs[..., -1] * (-position.clamp(min=0)).exp()
        share = torch.where(bins == 0, position.clamp(max=0).exp(), position.clamp(0, 1))
        inside = pick(probs.cumsum(-1) - probs, bins) + pick(probs, bins) * share
        return torch.where(bins == len(self.edges), above, inside).clamp(0, 1)

    def _quantile(self, p: Tensor, eta: Tensor) -> Tensor:
        probs = eta.double().softmax(-1)
        reached = probs.cumsum(-1)
        bins = finite_quantile(reached, p)
        inside = pick(probs, bins).clamp(min=torch.finfo(torch.float64).tiny)
        share = ((p - pick(reached - probs, bins)) / inside).clamp(0, 1)
        share = torch.where(bins == 0, (p / inside).clamp(max=1).log(), share)
        upper = -((1 - p) / inside).clamp(max=1).log()
        share = torch.where(bins == len(self.edges), upper, share)
        left, width = self._left(eta.double()), self._of_bins(self.widths, eta.double())
        value = torch.where(p == 0, -torch.inf, left[bins] + width[bins] * share)
        return torch.where(p == 1, torch.inf, value)

    def _sample(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        uniform = torch.empty_like(eta[..., 0], dtype=torch.float64).uniform_(generator=generator)
        # A uniform of 0 would be a draw of minus infinity.
        return self._quantile(uniform.clamp(min=2.0**-54), eta).to(eta.dtype)

    def _from_mean(self, mean: Tensor, dispersion: Tensor) -> Tensor:
        raise ExfamError(
            f"`family` must be determined by its mean to be built from one, got {self}. "
            "Use initial_eta, or a family such as Gaussian."
        )

    def _initial_eta(self, value: Tensor) -> Tensor:
        counts = torch.bincount(self._bin(value, value), minlength=self.n_params).double()
        counts = counts.clamp(min=0.5)
        return (counts / counts.sum()).log()
