"""From linear outputs to nats: labels, ordered labels, numbers, counts."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float64
from scipy.special import expit, log_expit, log_softmax

from exfam.tables.base.unit import Rows, Unit

_LEAST_GAP = 1e-3
_DF = 5.0
# Of numbers that are the same in every row of training, or a line of others, to the last digit.
_LEAST_LOG_SCALE, _LARGEST_LOG_SCALE = -12.0, 12.0

Outputs = Float64[np.ndarray, "rows outputs"]


@runtime_checkable
class Head(Protocol):
    """From linear outputs, and some numbers shared by all rows, to nats."""

    @property
    def n_outputs(self) -> int:
        """How many linear outputs a row has."""

    def start(self, y: Rows, weight: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Biases of the outputs, and shared numbers, to begin with."""

    def bounded(self, shared: np.ndarray) -> np.ndarray:
        """The shared numbers as they count: no scale may fall to 0."""

    def nats(
        self, outputs: Outputs, shared: np.ndarray, y: Rows
    ) -> tuple[Rows, Outputs, Float64[np.ndarray, "rows shared"]]:
        """Of each row the nats, and their derivatives by outputs and by shared numbers."""


@dataclass(frozen=True)
class SoftmaxHead:
    """Labels without order: one logit each."""

    n_outputs: int

    def bounded(self, shared: np.ndarray) -> np.ndarray:
        return shared

    def start(self, y: Rows, weight: Rows) -> tuple[np.ndarray, np.ndarray]:
        share = np.bincount(y.astype(np.int64), weights=weight, minlength=self.n_outputs) + 0.5
        logs = np.log(share)
        return logs - logs.mean(), np.empty(0)

    def nats(
        self, outputs: Outputs, shared: np.ndarray, y: Rows
    ) -> tuple[Rows, Outputs, Float64[np.ndarray, "rows shared"]]:
        log_probs, own = log_softmax(outputs, axis=1), y.astype(np.int64)
        rows = np.arange(len(y))
        slope = np.exp(log_probs)
        slope[rows, own] -= 1.0
        return -log_probs[rows, own], slope, np.empty((len(y), 0))


@dataclass(frozen=True)
class OrderedHead:
    """Ordered labels: one score, cut into labels."""

    n_labels: int
    n_outputs: int = 1

    def bounded(self, shared: np.ndarray) -> np.ndarray:
        return shared

    def start(self, y: Rows, weight: Rows) -> tuple[np.ndarray, np.ndarray]:
        share = np.bincount(y.astype(np.int64), weights=weight, minlength=self.n_labels) + 0.5
        below = np.cumsum(share / share.sum())[:-1]
        cuts = np.log(below / (1 - below))
        gaps = np.maximum(np.diff(cuts) - _LEAST_GAP, 1e-6)
        return np.zeros(1), np.append(cuts[:1], gaps + np.log(-np.expm1(-gaps)))

    def cuts(self, shared: np.ndarray) -> np.ndarray:
        gaps = np.logaddexp(0.0, shared[1:]) + _LEAST_GAP
        return shared[0] + np.append(0.0, np.cumsum(gaps))

    def log_probs(self, score: Rows, shared: np.ndarray) -> Float64[np.ndarray, "rows labels"]:
        labels = np.arange(self.n_labels, dtype=np.float64)
        repeated = np.repeat(score, self.n_labels)[:, None]
        nats, _, _ = self.nats(repeated, shared, np.tile(labels, len(score)))
        return -nats.reshape(len(score), self.n_labels)

    def nats(
        self, outputs: Outputs, shared: np.ndarray, y: Rows
    ) -> tuple[Rows, Outputs, Float64[np.ndarray, "rows shared"]]:
        own, score = y.astype(np.int64), outputs[:, 0]
        cuts = np.concatenate([[-np.inf], self.cuts(shared), [np.inf]])
        high, low = cuts[own + 1] - score, cuts[own] - score
        # sigma(high) - sigma(low) = sigma(high) sigma(-low) (1 - exp(low - high))
        with np.errstate(invalid="ignore"):
            gap = np.where(np.isinf(high) | np.isinf(low), np.inf, high - low)
        log_prob = log_expit(high) + log_expit(-low) + np.log(-np.expm1(-gap))
        closing = np.where(np.isinf(gap), 0.0, 1 / np.expm1(np.minimum(gap, 700.0)))
        by_high, by_low = -(expit(-high) + closing), expit(low) + closing
        by_cut = np.zeros((len(y), self.n_labels + 1))
        rows = np.arange(len(y))
        by_cut[rows, own + 1] += by_high
        by_cut[rows, own] += by_low
        by_cut = by_cut[:, 1:-1]
        above = by_cut[:, ::-1].cumsum(1)[:, ::-1]
        by_shared = above.copy()
        by_shared[:, 1:] *= expit(shared[1:])
        return -log_prob, -(by_high + by_low)[:, None], by_shared


@dataclass(frozen=True)
class StudentHead:
    """Numbers: a location, and one scale, of Student's t with five degrees of freedom."""

    n_outputs: int = 1

    @property
    def variance(self) -> float:
        """In squared scales."""
        return _DF / (_DF - 2)

    def start(self, y: Rows, weight: Rows) -> tuple[np.ndarray, np.ndarray]:
        return np.full(1, np.median(y)), np.zeros(1)

    def bounded(self, shared: np.ndarray) -> np.ndarray:
        return np.maximum(shared, _LEAST_LOG_SCALE)

    def nats(
        self, outputs: Outputs, shared: np.ndarray, y: Rows
    ) -> tuple[Rows, Outputs, Float64[np.ndarray, "rows shared"]]:
        (log_scale,) = self.bounded(shared)
        scale = np.exp(log_scale)
        z = (y - outputs[:, 0]) / scale
        nats = (_DF + 1) / 2 * np.log1p(z**2 / _DF) + log_scale + _LOG_CONSTANT
        slope = (_DF + 1) * z / (_DF + z**2)
        by_shared = (1 - slope * z)[:, None] * float(shared[0] >= log_scale)
        return nats, (-slope / scale)[:, None], by_shared


@dataclass(frozen=True)
class LatentRootHead:
    """Counts: a latent number, Student's t with five degrees of freedom, whose square is rounded.

    Of 0 all that is known is that the latent number lies below some bound, which may be far.
    """

    unit: Unit
    n_outputs: int = 1

    def start(self, y: Rows, weight: Rows) -> tuple[np.ndarray, np.ndarray]:
        return np.full(1, np.median(y)), np.zeros(1)

    def bounded(self, shared: np.ndarray) -> np.ndarray:
        least = np.log(max(self.unit.least, np.exp(_LEAST_LOG_SCALE)))
        return np.clip(shared, least, _LARGEST_LOG_SCALE)

    def nats(
        self, outputs: Outputs, shared: np.ndarray, y: Rows
    ) -> tuple[Rows, Outputs, Float64[np.ndarray, "rows shared"]]:
        (log_scale,) = self.bounded(shared)
        log_mass, by_location, by_scale = self._masses(outputs[:, 0], log_scale, y)
        inside = float(shared[0] == log_scale)
        return -log_mass, -by_location[:, None], -by_scale[:, None] * inside

    def completed(self, location: Rows, shared: np.ndarray, y: Rows) -> Rows:
        """About the expected latent number of each count, given what is predicted of it.

        What a least-squares fit can be fitted to: location + scale^2 d log mass / d location, as of
        a normal distribution, within the count's bin.
        """
        (log_scale,) = self.bounded(shared)
        _, by_location, _ = self._masses(location, log_scale, y)
        low, width = self._bins(y)
        high = np.where(np.isinf(low), width, low + width)
        expected: np.ndarray = np.clip(location + np.exp(2 * log_scale) * by_location, low, high)
        return expected

    def _masses(self, location: Rows, log_scale: float, y: Rows) -> tuple[Rows, Rows, Rows]:
        return binned(self._bins(y), location, log_scale)

    def _bins(self, y: Rows) -> tuple[Rows, Rows]:
        return self.unit.bins_of(self.unit.counts(y))


def binned(bins: tuple[Rows, Rows], location: Rows, log_scale: float) -> tuple[Rows, Rows, Rows]:
    """The log-probability of bins, and its derivatives by location and log scale."""
    from exfam.families.bin_mass import bin_masses

    return bin_masses(*bins, location, np.full(len(location), log_scale), _DF)


# log of sqrt(5 pi) Gamma(5/2) / Gamma(3)
_LOG_CONSTANT = float(np.log(np.sqrt(_DF * np.pi) * 1.329340388179137 / 2.0))
