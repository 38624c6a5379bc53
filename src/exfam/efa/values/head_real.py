"""The head of real values: Student's t, or a Gaussian, on the working scale."""

from dataclasses import dataclass

import numpy as np
import scipy.special
import scipy.stats
import torch
from jaxtyping import Float64
from torch import Tensor

from exfam.efa.values.features import ValueFeatures
from exfam.efa.values.head_numbers import (
    LOG_DF,
    N_LOCATION,
    N_SCALE,
    Numbers,
    fit_head_numbers,
    head_inputs,
    location_and_log_scale,
    location_start,
    scale_start,
)
from exfam.efa.values.working_scale import WorkingScale

_AT_DF = N_LOCATION + N_SCALE
_START_DF = 7.0


@dataclass(frozen=True, eq=False)
class RealHead:
    """Numbers of the location and the scale, then log(df - 1) unless `gaussian`."""

    numbers: Float64[np.ndarray, "numbers"]
    gaussian: bool

    @property
    def df(self) -> float:
        """Degrees of freedom, infinite for a Gaussian."""
        return (
            np.inf if self.gaussian else float(1 + np.exp(np.clip(self.numbers[_AT_DF], *LOG_DF)))
        )


@dataclass(frozen=True, eq=False)
class RealPrediction:
    """Student's t at `location` and `scale` on the working scale, of every cell."""

    location: Float64[np.ndarray, "cells"]
    scale: Float64[np.ndarray, "cells"]
    df: float
    working: WorkingScale

    def log_prob(self, value: Float64[np.ndarray, "cells"]) -> Float64[np.ndarray, "cells"]:
        """The log-density of one value a cell; NaN where it is NaN."""
        r = (self.working.standardize(value) - self.location) / self.scale
        density = scipy.stats.norm.logpdf(r) if np.isinf(self.df) else _log_t(r, self.df)
        return density - np.log(self.scale) + self.working.log_slope(value)

    def mean(self) -> Float64[np.ndarray, "cells"]:
        """On the values' scale; infinite of the exponential of a t."""
        if self.working.transform == "identity":
            mean = self.location if self.df > 1 else np.full_like(self.location, np.nan)
            return self.working.restore(mean)
        return self._moments()[0]

    def variance(self) -> Float64[np.ndarray, "cells"]:
        """On the values' scale; infinite of a t with at most 2 degrees of freedom."""
        if self.working.transform == "identity":
            ratio = 1.0 if np.isinf(self.df) else self.df / (self.df - 2) if self.df > 2 else np.inf
            return (self.working.sd * self.scale) ** 2 * ratio
        return self._moments()[1]

    def cdf(self, value: Float64[np.ndarray, "cells"]) -> Float64[np.ndarray, "cells"]:
        return self._standard_cdf((self.working.standardize(value) - self.location) / self.scale)

    def quantile(self, p: Float64[np.ndarray, "cells"]) -> Float64[np.ndarray, "cells"]:
        inner = scipy.stats.norm.ppf(p) if np.isinf(self.df) else scipy.stats.t.ppf(p, self.df)
        return self.working.restore(self.location + self.scale * inner)

    def sample(self, generator: np.random.Generator) -> Float64[np.ndarray, "cells"]:
        size = len(self.location)
        gaussian = np.isinf(self.df)
        drawn = generator.standard_normal(size) if gaussian else generator.standard_t(self.df, size)
        return self.working.restore(self.location + self.scale * drawn)

    def _standard_cdf(self, r: np.ndarray) -> np.ndarray:
        return scipy.special.ndtr(r) if np.isinf(self.df) else scipy.special.stdtr(self.df, r)

    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the exponential."""
        at, sd = self.working.mean + self.working.sd * self.location, self.working.sd * self.scale
        if not np.isinf(self.df):
            return np.full_like(at, np.inf), np.full_like(at, np.inf)
        mean = np.exp(at + sd**2 / 2)
        return mean - self.working.shift, mean**2 * np.expm1(sd**2)


def _log_t(r: np.ndarray, df: float) -> np.ndarray:
    """The log-density of Student's t, far out too."""
    constant = scipy.special.gammaln((df + 1) / 2) - scipy.special.gammaln(df / 2)
    # log(1 + r^2 / df) without squaring what may overflow.
    return constant - 0.5 * np.log(df * np.pi) - (df + 1) * np.log(np.hypot(1.0, r / np.sqrt(df)))


def fit_real_head(
    features: ValueFeatures, z: Float64[np.ndarray, "cells"], *, gaussian: bool = False
) -> RealHead:
    """Fitted to standardized values of cells whose features are cross-fitted."""
    inputs, target = head_inputs(features), torch.from_numpy(z)

    def nats(numbers: Numbers) -> Tensor:
        location, log_scale = location_and_log_scale(inputs, numbers)
        square = ((target - location) * (-log_scale).exp()).square()
        if gaussian:
            return 0.5 * square + log_scale
        df = 1 + numbers[_AT_DF].clamp(*LOG_DF).exp()
        constant = ((df + 1) / 2).lgamma() - (df / 2).lgamma() - 0.5 * (df * torch.pi).log()
        return (df + 1) / 2 * torch.log1p(square / df) + log_scale - constant

    start = [*location_start(), *scale_start()]
    if not gaussian:
        start.append(float(np.log(_START_DF - 1)))
    return RealHead(fit_head_numbers(nats, start, len(z)), gaussian)


def predict_real(head: RealHead, features: ValueFeatures, working: WorkingScale) -> RealPrediction:
    """Distributions of all cells."""
    location, log_scale = location_and_log_scale(
        head_inputs(features), torch.from_numpy(head.numbers)
    )
    return RealPrediction(location.numpy(), log_scale.exp().numpy(), head.df, working)
