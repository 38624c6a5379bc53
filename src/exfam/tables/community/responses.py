"""What is observed of a species at a site: presence, a count, a count or cover where present.

Each is a distribution of a natural parameter `eta` and, but for presence, of the log of a size,
larger where values spread less. Numbers are in nats; `score` is the derivative of `log_prob` by
`eta`, `information` the expected square of it.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import betaln, digamma, expit, gammaln, log_expit, logit, polygamma

Array = Float[np.ndarray, "..."]

# Residuals are those of probabilities within .02 and .98, and at most this large.
MOST_RESIDUAL = 4.0
_MOST_PRESENCE = float(logit(0.98))
_MOST_LOG_MEAN = 25.0
_LEAST_INFORMATION = 1e-10


class SpeciesResponse(ABC):
    """A distribution of what is observed of a species."""

    name: ClassVar[str]
    # Whether values spread by a size beside `eta`.
    has_size: ClassVar[bool] = True
    # Some value that it may have.
    possible: ClassVar[float] = 0.0

    @abstractmethod
    def log_prob(self, value: Array, eta: Array, log_size: Array) -> Array:
        """Log-probability, or density, in nats."""

    @abstractmethod
    def score_and_information(
        self, value: Array, eta: Array, log_size: Array
    ) -> tuple[Array, Array]:
        """The derivative of `log_prob` by `eta`, and its expected square, above 0."""

    @abstractmethod
    def mean(self, eta: Array, log_size: Array) -> Array:
        """Expected value."""

    @abstractmethod
    def eta_of_mean(self, mean: Array) -> Array:
        """The `eta` of a mean, about: where fits start."""

    @abstractmethod
    def sample(self, eta: Array, log_size: Array, random: np.random.Generator) -> Array:
        """One draw for each `eta`."""

    def safe(self, value: Array, there: Bool[np.ndarray, "..."]) -> Array:
        """Values, with one that is possible where there is none."""
        return np.where(there, value, self.possible)

    def bounded(self, eta: Array) -> Array:
        """`eta` within what residuals are made of."""
        return eta

    def residual(self, value: Array, eta: Array, log_size: Array) -> Array:
        """Score in units of its spread, within +-4: Pearson's residual where eta is canonical."""
        score, information = self.score_and_information(value, self.bounded(eta), log_size)
        return np.clip(score / np.sqrt(information), -MOST_RESIDUAL, MOST_RESIDUAL)


class PresenceResponse(SpeciesResponse):
    """0 or 1; eta is the logit of the probability of 1."""

    name = "presence"
    has_size = False

    def log_prob(self, value: Array, eta: Array, log_size: Array) -> Array:
        return log_expit(np.where(value > 0.5, eta, -eta))

    def score_and_information(
        self, value: Array, eta: Array, log_size: Array
    ) -> tuple[Array, Array]:
        p = expit(eta)
        return value - p, np.maximum(p * (1 - p), _LEAST_INFORMATION)

    def mean(self, eta: Array, log_size: Array) -> Array:
        return expit(eta)

    def eta_of_mean(self, mean: Array) -> Array:
        return logit(mean)

    def sample(self, eta: Array, log_size: Array, random: np.random.Generator) -> Array:
        return (random.random(eta.shape) < expit(eta)).astype(np.float64)

    def bounded(self, eta: Array) -> Array:
        return np.clip(eta, -_MOST_PRESENCE, _MOST_PRESENCE)


class CountResponse(SpeciesResponse):
    """Counts from 0 of mean mu = exp(eta) and variance mu + mu^2 / size: negative binomial."""

    name = "count"

    def log_prob(self, value: Array, eta: Array, log_size: Array) -> Array:
        size, eta = np.exp(log_size), np.minimum(eta, _MOST_LOG_MEAN)
        choices = gammaln(value + size) - gammaln(size) - gammaln(value + 1)
        less = np.logaddexp(0.0, eta - log_size)
        return choices + value * (eta - log_size) - (value + size) * less

    def score_and_information(
        self, value: Array, eta: Array, log_size: Array
    ) -> tuple[Array, Array]:
        mean = np.exp(np.minimum(eta, _MOST_LOG_MEAN))
        spread = 1 + mean * np.exp(-log_size)
        return (value - mean) / spread, np.maximum(mean / spread, _LEAST_INFORMATION)

    def mean(self, eta: Array, log_size: Array) -> Array:
        return np.exp(np.minimum(eta, _MOST_LOG_MEAN))

    def eta_of_mean(self, mean: Array) -> Array:
        return np.log(mean)

    def sample(self, eta: Array, log_size: Array, random: np.random.Generator) -> Array:
        size = np.broadcast_to(np.exp(log_size), eta.shape)
        unit = random.gamma(size) / size
        return random.poisson(unit * np.exp(np.minimum(eta, _MOST_LOG_MEAN))).astype(np.float64)


class PositiveCountResponse(CountResponse):
    """Counts from 1: the negative binomial of `CountResponse`, given that it is not 0."""

    name = "positive count"
    possible = 1.0

    def _log_zero(self, eta: Array, log_size: Array) -> Array:
        return -np.exp(log_size) * np.logaddexp(0.0, np.minimum(eta, _MOST_LOG_MEAN) - log_size)

    def log_prob(self, value: Array, eta: Array, log_size: Array) -> Array:
        eta = np.maximum(eta, -_MOST_LOG_MEAN)
        above = -np.expm1(np.minimum(self._log_zero(eta, log_size), -1e-300))
        return super().log_prob(value, eta, log_size) - np.log(above)

    def score_and_information(
        self, value: Array, eta: Array, log_size: Array
    ) -> tuple[Array, Array]:
        eta = np.clip(eta, -_MOST_LOG_MEAN, _MOST_LOG_MEAN)
        mean = np.exp(eta)
        spread = 1 + mean * np.exp(-log_size)
        above = -np.expm1(self._log_zero(eta, log_size))
        seen = mean / above
        variance = (mean * spread + mean**2) / above - seen**2
        information = np.maximum(variance, 1e-8 * seen) / spread**2
        return (value - seen) / spread, np.maximum(information, _LEAST_INFORMATION)

    def mean(self, eta: Array, log_size: Array) -> Array:
        eta = np.clip(eta, -_MOST_LOG_MEAN, _MOST_LOG_MEAN)
        return np.exp(eta) / -np.expm1(self._log_zero(eta, log_size))

    def eta_of_mean(self, mean: Array) -> Array:
        return np.log(np.maximum(mean - 1, 0.05 * mean))

    def sample(self, eta: Array, log_size: Array, random: np.random.Generator) -> Array:
        from scipy.stats import nbinom

        size = np.broadcast_to(np.exp(log_size), eta.shape)
        chance = 1 / (1 + np.exp(np.clip(eta, -_MOST_LOG_MEAN, _MOST_LOG_MEAN) - log_size))
        zero = np.exp(self._log_zero(eta, log_size))
        level = zero + (1 - zero) * random.random(eta.shape)
        return np.maximum(nbinom.ppf(np.minimum(level, 1 - 1e-12), size, chance), 1.0)


class CoverResponse(SpeciesResponse):
    """Shares above 0 and below 1 of mean sigmoid(eta): a beta of precision `size`."""

    name = "cover"
    possible = 0.5

    def _shapes(self, eta: Array, log_size: Array) -> tuple[Array, Array, Array]:
        mean, size = np.clip(expit(eta), 1e-6, 1 - 1e-6), np.exp(log_size)
        return mean, mean * size, (1 - mean) * size

    def log_prob(self, value: Array, eta: Array, log_size: Array) -> Array:
        _, a, b = self._shapes(eta, log_size)
        return (a - 1) * np.log(value) + (b - 1) * np.log1p(-value) - betaln(a, b)

    def score_and_information(
        self, value: Array, eta: Array, log_size: Array
    ) -> tuple[Array, Array]:
        mean, a, b = self._shapes(eta, log_size)
        slope = np.exp(log_size) * mean * (1 - mean)
        score = slope * (logit(value) - digamma(a) + digamma(b))
        information = slope**2 * (polygamma(1, a) + polygamma(1, b))
        return score, np.maximum(information, _LEAST_INFORMATION)

    def mean(self, eta: Array, log_size: Array) -> Array:
        return self._shapes(eta, log_size)[0]

    def eta_of_mean(self, mean: Array) -> Array:
        return logit(np.clip(mean, 1e-3, 1 - 1e-3))

    def sample(self, eta: Array, log_size: Array, random: np.random.Generator) -> Array:
        _, a, b = self._shapes(eta, log_size)
        return np.clip(random.beta(a, b), 1e-9, 1 - 1e-9)


RESPONSES: dict[str, SpeciesResponse] = {
    response.name: response
    for response in (PresenceResponse(), CountResponse(), PositiveCountResponse(), CoverResponse())
}
