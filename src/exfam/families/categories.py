"""Families of finitely many labels: categorical and ordinal."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid, one_hot

from exfam.checks import ExfamError
from exfam.families import base, numeric


class Finite(base.PlainFamily):
    """Labels start, start + 1, ..., from the log-probabilities of all of them."""

    n: int
    start: int

    @abstractmethod
    def _log_probs(self, eta: Tensor) -> Tensor:
        """Log-probability of each category, in the last dimension."""

    @property
    def support(self) -> str:
        return f"an integer from {self.start} to {self.start + self.n - 1}"

    @property
    def hint(self) -> str:
        other = 1 if self.start == 0 else 0
        family, last = type(self).__name__, self.n + other - 1
        return f"Use {family}({self.n}, start={other}) for {other} to {last}, or a larger n."

    @property
    def categories(self) -> tuple[int, ...]:
        return tuple(range(self.start, self.start + self.n))

    @property
    def _inside(self) -> float:
        return float(self.start)

    def probs(self, eta: base.Eta, *, item: base.Items = None) -> Float[Tensor, "*out categories"]:
        self.check_eta(eta)
        return self._log_probs(eta).exp()

    def _in_support(self, value: Tensor) -> Tensor:
        return numeric.integers_from(value, self.start) & (value < self.start + self.n)

    def _log_prob(self, value: Tensor, eta: Tensor) -> Tensor:
        return numeric.pick(self._log_probs(eta), (value - self.start).long())

    def _values(self, eta: Tensor) -> Tensor:
        return torch.tensor(self.categories, dtype=eta.dtype, device=eta.device)

    def _mean(self, eta: Tensor) -> Tensor:
        return self._log_probs(eta).exp() @ self._values(eta)

    def _variance(self, eta: Tensor) -> Tensor:
        distance = self._values(eta) - self._mean(eta).unsqueeze(-1)
        return (self._log_probs(eta).exp() * distance**2).sum(-1)

    def _cumulative(self, eta: Tensor) -> Tensor:
        return self._log_probs(eta).exp().cumsum(-1)

    def _cdf(self, value: Tensor, eta: Tensor) -> Tensor:
        index = (value.floor() - self.start).clamp(-1, self.n - 1).long()
        inside = numeric.pick(self._cumulative(eta), index.clamp(min=0))
        # The last partial sum may round to just under 1.
        inside = torch.where(index == self.n - 1, 1.0, inside)
        return torch.where(index < 0, 0.0, inside)

    def _quantile(self, p: Tensor, eta: Tensor) -> Tensor:
        return numeric.finite_quantile(self._cumulative(eta.double()), p) + self.start

    def _sample(self, eta: Tensor, generator: torch.Generator) -> Tensor:
        uniform = torch.empty_like(eta[..., 0]).uniform_(generator=generator)
        return (numeric.finite_quantile(self._cumulative(eta), uniform) + self.start).to(eta.dtype)

    def _log_odds(self, mean: Tensor) -> Tensor:
        """The log-odds of the second of two labels; ExfamError if there are more."""
        if self.n > 2:
            raise ExfamError(
                f"`family` must be determined by its mean to be built from one, got {self}. "
                "Use initial_eta, or a family such as Binomial."
            )
        return (mean - self.start).clamp(base.INTERIOR, 1 - base.INTERIOR).logit()

    def _proportions(self, value: Tensor) -> Tensor:
        counts = torch.bincount((value - self.start).long(), minlength=self.n).double()
        counts = counts.clamp(min=0.5)
        return counts / counts.sum()


@dataclass(frozen=True)
class Categorical(Finite, base.ExponentialFamily):
    """Labels from `start` to `start` + n - 1 with probabilities softmax(eta).

    T is the one-hot label, natural = eta, A = logsumexp(eta), h = 1. Adding a constant to eta
    changes nothing. The mean is that of the labels as numbers.

    >>> Categorical(2, start=1).mean(torch.zeros(2))
    tensor(1.5000)
    """

    n: int
    start: int = 0
    name: ClassVar[str] = "categorical"

    def __post_init__(self) -> None:
        numeric.check_integer("n", self.n, at_least=1)
        numeric.check_integer("start", self.start)

    @property
    def n_params(self) -> int:
        return self.n

    def natural(self, eta: base.Eta) -> base.Statistics:
        return eta

    def sufficient_statistic(self, value: base.Values) -> base.Statistics:
        return one_hot((value - self.start).long(), self.n).to(value.dtype)

    def log_normalizer(self, natural: base.Statistics) -> base.Numbers:
        return natural.logsumexp(-1)

    def _log_probs(self, eta: Tensor) -> Tensor:
        return eta.log_softmax(-1)

    def _from_mean(self, mean: Tensor, dispersion: Tensor) -> Tensor:
        log_odds = self._log_odds(mean)
        return torch.stack([torch.zeros_like(log_odds), log_odds], -1)

    def _initial_eta(self, value: Tensor) -> Tensor:
        return self._proportions(value).log()


@dataclass(frozen=True)
class Ordinal(Finite):
    """Ordered labels by cumulative logits: P(Y <= start + j) = sigmoid(threshold_j - eta0).

    threshold_0 = eta1 and threshold_j = threshold_{j-1} + softplus(eta_{j+1}), so they increase
    for any eta. With gap = softplus(x) between neighbors, 1 - exp(-gap) = sigmoid(x), hence
    log p of a middle label is logsigmoid(upper) + logsigmoid(-lower) + logsigmoid(x): no
    difference of sigmoids is ever taken. The n - 1 threshold outputs count as dispersion.

    >>> Ordinal(2).probs(torch.zeros(2))
    tensor([0.5000, 0.5000])
    """

    n: int
    start: int = 0
    name: ClassVar[str] = "ordinal"

    def __post_init__(self) -> None:
        numeric.check_integer("n", self.n, at_least=2)
        numeric.check_integer("start", self.start)

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
