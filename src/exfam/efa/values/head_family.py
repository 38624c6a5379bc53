"""Heads whose distribution is one of the library's families: counts and positive numbers.

The location and the scale on the working scale become the family's mean and dispersion: of
Poisson, negative binomial and gamma log mean = mu + sd loc and log dispersion = 2 (log sd + log s),
of binomial and Bernoulli the logit of the mean.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
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
from exfam.families import Bernoulli, Binomial, Family, Gamma


@dataclass(frozen=True, eq=False)
class FamilyHead:
    """Numbers of the location and the scale, and the family they are for."""

    numbers: Float64[np.ndarray, "numbers"]
    family: Family


@dataclass(frozen=True, eq=False)
class FamilyPrediction:
    """A family's distribution of every cell."""

    eta: Float64[Tensor, "cells params"]
    family: Family

    def log_prob(self, value: Float64[np.ndarray, "cells"]) -> Float64[np.ndarray, "cells"]:
        """Of one value a cell; NaN where it is NaN."""
        known = np.isfinite(value)
        inside = self.family.mean(self.eta).numpy().round() if not known.all() else value
        y = torch.from_numpy(np.where(known, value, inside))
        return np.where(known, self.family.log_prob(y, self.eta).numpy(), np.nan)

    def mean(self) -> Float64[np.ndarray, "cells"]:
        return self.family.mean(self.eta).numpy()

    def variance(self) -> Float64[np.ndarray, "cells"]:
        return self.family.variance(self.eta).numpy()

    def cdf(self, value: Float64[np.ndarray, "cells"]) -> Float64[np.ndarray, "cells"]:
        return self.family.cdf(torch.from_numpy(value), self.eta).numpy()

    def quantile(self, p: Float64[np.ndarray, "cells"]) -> Float64[np.ndarray, "cells"]:
        return self.family.quantile(torch.from_numpy(p), self.eta).numpy()

    def sample(self, generator: np.random.Generator) -> Float64[np.ndarray, "cells"]:
        own = torch.Generator().manual_seed(int(generator.integers(2**62)))
        return self.family.sample(self.eta, generator=own).numpy()


def fit_family_head(
    features: ValueFeatures,
    value: Float64[np.ndarray, "cells"],
    working: WorkingScale,
    family: Family,
) -> FamilyHead:
    """Fitted to values of cells whose features are cross-fitted."""
    inputs, y = head_inputs(features), torch.from_numpy(value)
    if isinstance(family, Gamma):
        # The same numbers whatever the unit: the loss is that of values over their typical one.
        y, working = y * math.exp(-working.mean), replace(working, mean=0.0)

    def nats(numbers: Numbers) -> Tensor:
        location, log_scale = location_and_log_scale(inputs, numbers)
        return -family.log_prob(y, _eta_of(family, working, location, log_scale))

    scale = scale_start() if family.n_params == 2 else [0.0] * 6 + scale_start()[-1:]
    return FamilyHead(fit_head_numbers(nats, [*location_start(), *scale], len(value)), family)


def predict_family(
    head: FamilyHead, features: ValueFeatures, working: WorkingScale
) -> FamilyPrediction:
    """Distributions of all cells."""
    numbers = torch.from_numpy(head.numbers)
    location, log_scale = location_and_log_scale(head_inputs(features), numbers)
    return FamilyPrediction(_eta_of(head.family, working, location, log_scale), head.family)


def _eta_of(
    family: Family,
    working: WorkingScale,
    location: Float64[Tensor, "cells"],
    log_scale: Float64[Tensor, "cells"],
) -> Float64[Tensor, "cells params"]:
    """The family's parameters; of one parameter, the location is divided by the scale."""
    if isinstance(family, Binomial | Bernoulli):
        rate = min(max(working.mean / family.trials, 1e-6), 1 - 1e-6)
        slope = working.sd / (family.trials * rate * (1 - rate))
        logit = math.log(rate / (1 - rate)) + slope * location * (-log_scale).exp()
        return logit.clamp(-30.0, 30.0)[:, None]
    if family.n_params == 1:
        return (working.mean + working.sd * location * (-log_scale).exp())[:, None]
    log_dispersion = 2 * (math.log(working.sd) + log_scale)
    return torch.stack([working.mean + working.sd * location, -log_dispersion], dim=1)
