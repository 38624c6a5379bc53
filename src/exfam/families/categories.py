"""Families of finitely many labels: categorical and ordinal."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid, one_hot

from exfam.checks import ExfamError, check_positive
from exfam.families import base, numeric

# Of a step: values that are as near to a label are it, also in single precision.
_NEAR = 1e-3


class Finite(base.PlainFamily):
    """Labels start, start + step, ..., from the log-probabilities of all of them."""

    n: int
    start: int | float
    step: int | float

    @abstractmethod
    def _log_probs(self, eta: Tensor) -> Tensor:
        """Log-probability of each category, in the last dimension."""

    @property
    def support(self) -> str:
        first, last = self.categories[0], self.categories[-1]
        if self.step == 1:
            return f"an integer from {first} to {last}"
        return f"a number from {first} to {last} in steps of {self.step:g}"

    @property
    def hint(self) -> str:
        family = type(self).__name__
        if self.step != 1:
            return f"Use {family} of another start, step or n, whose labels are all values."
        other = 1 if self.start == 0 else 0
        last = self.n + other - 1
        return f"Use {family}({self.n}, start={other}) for {other} to {last}, or a larger n."

    @property
    def categories(self) -> tuple[int | float, ...]:
        # Discretized, as 0.1 + 2 * 0.1 is not 0.3.
        return tuple(round(self.start + k * self.step, 10) for k in range(self.n))

    @property
    def spacing(self) -> float:
        return float(self.step)

    def __repr__(self) -> str:
        step = "" if self.step == 1 else f", step={self.step}"
        return f"{type(self).__name__}(n={self.n}, start={self.start}{step})"

    def _check_labels(self, *, at_least: int) -> None:
        """Raise ExfamError for options of no labels; whole numbers become integers."""
        numeric.check_integer("n", self.n, at_least=at_least)
        check_positive("step", self.step)
        if self.step == 1:
            object.__setattr__(self, "step", 1)
            if isinstance(self.start, float) and self.start.is_integer():
                object.__setattr__(self, "start", int(self.start))
            numeric.check_integer("start", self.start)
        elif not isinstance(self.start, int | float) or not math.isfinite(self.start):
            raise ExfamError(f"`start` must be a finite number, got {self.start!r}.")

    def _index(self, value: Tensor) -> Tensor:
        """Which label each value is, counted from 0; between two labels a fraction."""
        return value - self.start if self.step == 1 else (value - self.start) / self.step

    @property
    def _inside(self) -> float:
        return float(self.start)

    def probs(self, eta: base.Eta, *, item: base.Items = None) -> Float[Tensor, "*out categories"]:
        self.check_eta(eta)
        return self._log_probs(eta).exp()

    def _in_support(self, value: Tensor) -> Tensor:
        if self.step == 1:
            return numeric.integers_from(value, int(self.start)) & (value < self.start + self.n)
        index = self._index(value.double())
        near = (index - index.round()).abs() < _NEAR
        return near & (index.round() >= 0) & (index.round() < self.n)

    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor:
        return numeric.pick(self._log_probs(eta), self._index(value).round().long())

    def _values(self, eta: Tensor) -> Tensor:
        return torch.tensor(self.categories, dtype=eta.dtype, device=eta.device)

    def _mean(self, eta: Tensor) -> Tensor:
        return self._log_probs(eta).exp() @ self._values(eta)

    def _variance(self, eta: Tensor) -> Tensor:
        distance = self._values(eta) - self._mean(eta).unsqueeze(-1)
        return (self._log_probs(eta).exp() * distance**2).sum(-1)

    def _cumulative(self, eta: Tensor) -> Tensor:
        return self._log_probs(eta).exp().cumsum(-1).clamp(max=1.0)

    def _cdf(self, value: Tensor, eta: Tensor) -> Tensor:
        index = self._index(value.double()).add(_NEAR).floor().clamp(-1, self.n - 1).long()
        inside = numeric.pick(self._cumulative(eta), index.clamp(min=0))
        # The last partial sum may round to just under 1.
        inside = torch.where(index == self.n - 1, 1.0, inside)
        return torch.where(index < 0, 0.0, inside)

    def _quantile(self, p: Tensor, eta: Tensor) -> Tensor:
        index = numeric.finite_quantile(self._cumulative(eta.double()), p)
        return self._values(eta.double())[index]

    def _sample(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        uniform = torch.empty_like(eta[..., 0]).uniform_(generator=generator)
        return self._values(eta)[numeric.finite_quantile(self._cumulative(eta), uniform)]

    def _log_odds(self, mean: Tensor) -> Tensor:
        """The log-odds of the second of two labels; ExfamError if there are more."""
        if self.n > 2:
            raise ExfamError(
                f"`family` must be determined by its mean to be built from one, got {self}. "
                "Use initial_eta, or a family such as Binomial."
            )
        return self._index(mean).clamp(base.INTERIOR, 1 - base.INTERIOR).logit()

    def _proportions(self, value: Tensor) -> Tensor:
        counts = torch.bincount(self._index(value).round().long(), minlength=self.n).double()
        counts = counts.clamp(min=0.5)
        return counts / counts.sum()


@dataclass(frozen=True, repr=False)
class Categorical(Finite, base.ExponentialFamily):
    """Labels start, start + step, ..., n of them, with probabilities softmax(eta).

    T is the one-hot label, natural = eta, A = logsumexp(eta), h = 1. Adding a constant to eta
    changes nothing. The mean is that of the labels as numbers.

    >>> Categorical(2, start=1).mean(torch.zeros(2))
    tensor(1.5000)
    """

    n: int
    start: int | float = 0
    step: int | float = 1
    name: ClassVar[str] = "categorical"

    def __post_init__(self) -> None:
        self._check_labels(at_least=1)

    @property
    def n_params(self) -> int:
        return self.n

    def natural(self, eta: base.Eta) -> base.Statistics:
        return eta

    def sufficient_statistic(self, value: base.Values) -> base.Statistics:
        return one_hot(self._index(value).round().long(), self.n).to(value.dtype)

    def log_normalizer(self, natural: base.Statistics) -> base.Numbers:
        return natural.logsumexp(-1)

    def _log_probs(self, eta: Tensor) -> Tensor:
        return eta.log_softmax(-1)

    def _from_mean(self, mean: Tensor, dispersion: Tensor) -> Tensor:
        log_odds = self._log_odds(mean)
        return torch.stack([torch.zeros_like(log_odds), log_odds], -1)

    def _initial_eta(self, value: Tensor) -> Tensor:
        return self._proportions(value).log()


@dataclass(frozen=True, repr=False)
class Ordinal(Finite):
    """Ordered labels by cumulative logits: P(Y <= label j) = sigmoid(threshold_j - eta0).

    Labels are start, start + step, ..., n of them: Ordinal(10, start=0.5, step=0.5) has half stars.
    threshold_0 = eta1 and threshold_j = threshold_{j-1} + softplus(eta_{j+1}), so they increase
    for any eta. With gap = softplus(x) between neighbors, 1 - exp(-gap) = sigmoid(x), hence
    log p of a middle label is logsigmoid(upper) + logsigmoid(-lower) + logsigmoid(x): no
    difference of sigmoids is ever taken. The n - 1 threshold outputs count as dispersion.

    >>> Ordinal(2).probs(torch.zeros(2))
    tensor([0.5000, 0.5000])
    """

    n: int
    start: int | float = 0
    step: int | float = 1
    name: ClassVar[str] = "ordinal"

    def __post_init__(self) -> None:
        self._check_labels(at_least=2)

    @property
    def n_dispersion(self) -> int:
        return self.n - 1  # the thresholds

    def _log_probs(self, eta: Tensor) -> Tensor:
        steps = eta[..., 2:]
        thresholds = torch.cat([eta[..., 1:2], numeric.softplus(steps)], -1).cumsum(-1)
        distance = thresholds - eta[..., :1]
        below, above = logsigmoid(distance), logsigmoid(-distance)
        middle = below[..., 1:] + above[..., :-1] + logsigmoid(steps)
        return torch.cat([below[..., :1], middle, above[..., -1:]], -1)

    def _from_mean(self, mean: Tensor, dispersion: Tensor) -> Tensor:
        return self._log_odds(mean).unsqueeze(-1) + dispersion

    def _initial_eta(self, value: Tensor) -> Tensor:
        thresholds = self._proportions(value).cumsum(-1)[:-1].logit()
        gaps = thresholds.diff()
        steps = gaps + (-(-gaps).expm1()).log()
        return torch.cat([gaps.new_zeros(1), thresholds[:1], steps])
