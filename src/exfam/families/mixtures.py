"""Predictive distributions: a family's, averaged over the members of an ensemble."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from exfam.checks import ExfamError
from exfam.families import Family

_BISECTIONS = 60
# Between 0 and 1, and no value of a family of finitely many or of whole numbers.
_NO_STEP = 0.31371


@dataclass(frozen=True, eq=False)
class Mixture:
    """The mixture of one family at several members' parameters.

    `weight`: of every member in every row, at least 0 and summing to 1; None: all members alike
    """

    family: Family
    eta: Float[Tensor, "members rows params"]
    item: Int[Tensor, "rows"] | None = None
    weight: Float[Tensor, "members rows"] | None = None

    def __getitem__(self, rows: Tensor | slice) -> "Mixture":
        """The distributions of some rows, by their index or a mask."""
        item = None if self.item is None else self.item[rows]
        weight = None if self.weight is None else self.weight[:, rows]
        return Mixture(self.family, self.eta[:, rows], item, weight)

    def double(self, device: str | None = None) -> "Mixture":
        """The same distributions in double precision, without gradients, on `device` if given."""

        def moved(numbers: Tensor) -> Tensor:
            return numbers.detach().to(device, torch.float64)

        item = None if self.item is None else self.item.to(device)
        weight = None if self.weight is None else moved(self.weight)
        return Mixture(self.family, moved(self.eta), item, weight)

    def average(self, numbers: Float[Tensor, "members rows *more"]) -> Float[Tensor, "rows *more"]:
        """The mean over members, by their weights."""
        if self.weight is None:
            return numbers.mean(0)
        weight = self.weight.reshape(*self.weight.shape, *[1] * (numbers.dim() - 2))
        # A member without weight counts for nothing, also where its number is infinite.
        return torch.where(weight > 0, weight * numbers, 0.0).sum(0)

    def _items(self) -> Int[Tensor, "members rows"] | None:
        return None if self.item is None else self.item.expand(self.eta.shape[0], -1)

    def mean(self) -> Float[Tensor, "rows"]:
        """Expected value."""
        return self.average(self.family.mean(self.eta, item=self._items()))

    def center(self) -> Float[Tensor, "rows"]:
        """Means, or medians of families without a mean."""
        center = self.mean()
        if self.family.has_mean:
            return center
        # Of families by item, some may have a mean.
        rows = center.isposinf()
        center[rows] = self[rows].quantile(0.5)
        return center

    def variance(self) -> Float[Tensor, "rows"]:
        """The members' mean variance plus the variance of their means; infinite without a mean."""
        mean = self.family.mean(self.eta, item=self._items())
        within = self.average(self.family.variance(self.eta, item=self._items()))
        between = self.average((mean - self.average(mean)) ** 2)
        # Infinite means would have no variance.
        return torch.where(within.isinf(), within, within + between)

    def log_prob(self, value: Float[Tensor, "rows"]) -> Float[Tensor, "rows"]:
        """Log of the members' mean probability or density, in nats; -inf outside the support."""
        values = value.expand(self.eta.shape[0], -1)
        nats = self.family.log_prob(values, self.eta, item=self._items())
        if self.weight is None:
            return nats.logsumexp(0) - math.log(len(nats))
        return (nats + self.weight.log()).logsumexp(0)

    def cdf(self, value: Float[Tensor, "rows"]) -> Float[Tensor, "rows"]:
        """Probability of at most `value`."""
        values = value.expand(self.eta.shape[0], -1)
        return self.average(self.family.cdf(values, self.eta, item=self._items()))

    def quantile(self, p: float | Float[Tensor, "rows"]) -> Float[Tensor, "rows"]:
        """Smallest value whose cdf is at least `p`, one level or one for each row.

        Raises ExfamError unless 0 < p < 1.
        """
        level = torch.as_tensor(p, dtype=self.eta.dtype)
        outside = ~((level > 0) & (level < 1))
        if outside.any():
            wrong = p if isinstance(p, float) else level[outside].flatten()[0].item()
            raise ExfamError(
                f"`quantiles` must be numbers strictly between 0 and 1, got {wrong!r}."
            )
        spacing = self.family.spacing
        quantiles = self.family.quantile(level, self.eta, item=self._items())
        # The mixture's quantile lies between its members': bisect where they differ.
        low, high = quantiles.amin(0), quantiles.amax(0)
        whole = self.has_jumps(high)
        for _ in range(_BISECTIONS):
            if bool((low >= high).all()):
                break
            middle = (low + high) / 2
            middle = torch.where(whole, (middle / spacing).floor() * spacing, middle)
            enough = self.cdf(middle) >= level
            above = torch.where(whole, middle + spacing, middle)
            low = torch.where(enough | (low >= high), low, above)
            high = torch.where(enough, middle, high)
        return high

    def has_jumps(self, value: Float[Tensor, "rows"]) -> Bool[Tensor, "rows"]:
        """Where the family knows some numbers only: others are outside its support."""
        near = value.round().abs() + _NO_STEP
        others = (near, torch.full_like(near, _NO_STEP))  # of numbers between 0 and 1 the latter
        return ~torch.stack([self.family.in_support(h, item=self.item) for h in others]).any(0)

    def probs(self) -> Float[Tensor, "rows categories"]:
        """Probabilities of a finite family's categories."""
        return self.average(self.family.probs(self.eta, item=self._items()))

    def sample(self, generator: torch.Generator) -> Float[Tensor, "rows"]:
        """One draw a row: a member at random, then a value from it."""
        members, rows = self.eta.shape[:2]
        if self.weight is None:
            chosen = torch.randint(members, (rows,), generator=generator)
        else:
            chosen = torch.multinomial(self.weight.T, 1, generator=generator)[:, 0]
        eta = self.eta[chosen, torch.arange(rows)]
        return self.family.sample(eta, generator=generator, item=self.item)
