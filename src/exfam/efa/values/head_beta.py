"""The head of shares between 0 and 1: a beta distribution by its mean and its precision."""

from dataclasses import dataclass

import numpy as np
import scipy.special
import torch
from jaxtyping import Float64
from torch import Tensor

from exfam.efa.values.features import ValueFeatures
from exfam.efa.values.head_numbers import (
    Numbers,
    fit_head_numbers,
    head_inputs,
    location_and_log_scale,
    location_start,
    scale_start,
)
from exfam.efa.values.working_scale import WorkingScale

# Where beta's two shapes are kept.
_SHAPES = (1e-6, 1e9)


@dataclass(frozen=True, eq=False)
class BetaHead:
    """Numbers of the location and the scale."""

    numbers: Float64[np.ndarray, "numbers"]


@dataclass(frozen=True, eq=False)
class BetaPrediction:
    """Beta(a, b) of every cell."""

    a: Float64[np.ndarray, "cells"]
    b: Float64[np.ndarray, "cells"]

    def log_prob(self, value: Float64[np.ndarray, "cells"]) -> Float64[np.ndarray, "cells"]:
        """The log-density of one value a cell; NaN where it is NaN."""
        of_ends = scipy.special.betaln(self.a, self.b)
        return (self.a - 1) * np.log(value) + (self.b - 1) * np.log1p(-value) - of_ends

    def mean(self) -> Float64[np.ndarray, "cells"]:
        return self.a / (self.a + self.b)

    def variance(self) -> Float64[np.ndarray, "cells"]:
        total = self.a + self.b
        return self.a / total * (self.b / total) / (total + 1)

    def cdf(self, value: Float64[np.ndarray, "cells"]) -> Float64[np.ndarray, "cells"]:
        return scipy.special.betainc(self.a, self.b, np.clip(value, 0.0, 1.0))

    def quantile(self, p: Float64[np.ndarray, "cells"]) -> Float64[np.ndarray, "cells"]:
        return scipy.special.betaincinv(self.a, self.b, p)

    def sample(self, generator: np.random.Generator) -> Float64[np.ndarray, "cells"]:
        return generator.beta(self.a, self.b)


def fit_beta_head(
    features: ValueFeatures, value: Float64[np.ndarray, "cells"], working: WorkingScale
) -> BetaHead:
    """Fitted to values of cells whose features are cross-fitted."""
    inputs, y = head_inputs(features), torch.from_numpy(value)

    def nats(numbers: Numbers) -> Tensor:
        a, b = _shapes(working, *location_and_log_scale(inputs, numbers))
        of_ends = a.lgamma() + b.lgamma() - (a + b).lgamma()
        return of_ends - (a - 1) * y.log() - (b - 1) * torch.log1p(-y)

    return BetaHead(fit_head_numbers(nats, [*location_start(), *scale_start()], len(value)))


def predict_beta(head: BetaHead, features: ValueFeatures, working: WorkingScale) -> BetaPrediction:
    """Distributions of all cells."""
    numbers = torch.from_numpy(head.numbers)
    a, b = _shapes(working, *location_and_log_scale(head_inputs(features), numbers))
    return BetaPrediction(a.numpy(), b.numpy())


def _shapes(
    working: WorkingScale, location: Tensor, log_scale: Tensor
) -> tuple[Float64[Tensor, "cells"], Float64[Tensor, "cells"]]:
    """Those whose logit has about this location and scale: var(logit) = 1 / (total m (1 - m))."""
    logit = (working.mean + working.sd * location).clamp(-30.0, 30.0)
    mean, rest = logit.sigmoid(), (-logit).sigmoid()
    total = (-2 * (np.log(working.sd) + log_scale)).exp() / (mean * rest)
    return (mean * total).clamp(*_SHAPES), (rest * total).clamp(*_SHAPES)
