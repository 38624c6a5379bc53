"""The head of classes: a log-linear pool of what the levels, the item and the group say.

    logit_k = w0 log g_k + w1 log F_k + (w2 + w4 n / (n + exp a)) log H_k
              + (w3 - w5 n / (n + exp a)) log E_k + w6 (log I_k - log g_k)

with the margin g, the ordered logistic F at the location and scale, the item's shares I, and the
other cells' classes H = (counts + beta g) / (n + beta), E likewise of what their items expect.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from exfam.efa.values.features import ValueFeatures
from exfam.efa.values.head_numbers import (
    N_LOCATION,
    N_SCALE,
    HeadInputs,
    Numbers,
    fit_head_numbers,
    head_inputs,
    location_and_log_scale,
    location_start,
    scale_start,
)

_AT_POOL = N_LOCATION + N_SCALE
# w0 to w6, a, log beta.
_POOL_START = [0.0, 1.0, 0.1, 0.0, 0.0, 0.0, 0.0, 3.0, float(np.log(5.0))]
_AT_THRESHOLDS = _AT_POOL + len(_POOL_START)


@dataclass(frozen=True, eq=False)
class ClassHead:
    """Numbers of the location, the scale, the pool and the thresholds, and the margin."""

    numbers: Float64[np.ndarray, "numbers"]
    margin: Float64[np.ndarray, "classes"]


@dataclass(frozen=True, eq=False)
class ClassPrediction:
    """Probabilities of the classes of every cell; values are `start`, `start + 1`, ..."""

    log_probability: Float64[np.ndarray, "cells classes"]
    start: float = 0.0

    @property
    def values(self) -> Float64[np.ndarray, "classes"]:
        return self.start + np.arange(self.log_probability.shape[1], dtype=np.float64)

    @property
    def probability(self) -> Float64[np.ndarray, "cells classes"]:
        return np.exp(self.log_probability)

    def log_prob(self, value: Float64[np.ndarray, "cells"]) -> Float64[np.ndarray, "cells"]:
        """Of one value a cell; NaN where it is NaN."""
        known = np.isfinite(value)
        index = np.where(known, value - self.start, 0).astype(np.int64)
        own = np.take_along_axis(self.log_probability, index[:, None], 1)[:, 0]
        return np.where(known, own, np.nan)

    def mean(self) -> Float64[np.ndarray, "cells"]:
        return self.probability @ self.values

    def variance(self) -> Float64[np.ndarray, "cells"]:
        return np.sum(self.probability * (self.values - self.mean()[:, None]) ** 2, axis=1)

    def cdf(self, value: Float64[np.ndarray, "cells"]) -> Float64[np.ndarray, "cells"]:
        """The probability of at most this value."""
        below = self.values <= value[:, None]
        return np.minimum((self.probability * below).sum(1), 1.0)

    def quantile(self, p: Float64[np.ndarray, "cells"]) -> Float64[np.ndarray, "cells"]:
        """The least value whose cdf is at least `p`."""
        reached = np.cumsum(self.probability, axis=1) >= p[:, None] - 1e-12
        reached[:, -1] = True
        return self.values[reached.argmax(axis=1)]

    def sample(self, generator: np.random.Generator) -> Float64[np.ndarray, "cells"]:
        return self.quantile(generator.random(len(self.log_probability)))


def fit_class_head(
    features: ValueFeatures,
    classes: Int64[np.ndarray, "cells"],
    margin: Float64[np.ndarray, "classes"],
) -> ClassHead:
    """Fitted to the classes, from 0 on, of cells whose features are cross-fitted."""
    inputs = _PoolInputs.of(features, margin)
    own = torch.from_numpy(classes)[:, None]

    def nats(numbers: Numbers) -> Tensor:
        return -_log_probs(inputs, numbers).gather(1, own)[:, 0]

    start = [*location_start(1.8), *scale_start(0.5), *_POOL_START, *_thresholds_of(margin)]
    return ClassHead(fit_head_numbers(nats, start, len(classes)), margin)


def predict_classes(
    head: ClassHead, features: ValueFeatures, *, start: float = 0.0
) -> ClassPrediction:
    """Distributions of all cells."""
    inputs = _PoolInputs.of(features, head.margin)
    return ClassPrediction(_log_probs(inputs, torch.from_numpy(head.numbers)).numpy(), start)


@dataclass(frozen=True, eq=False)
class _PoolInputs:
    """Tensors of the pool that its numbers do not change."""

    features: HeadInputs
    margin: Tensor
    others: Tensor
    expected: Tensor
    log_share: Tensor

    @classmethod
    def of(cls, features: ValueFeatures, margin: np.ndarray) -> "_PoolInputs":
        arrays = margin, features.others, features.expected, np.log(features.share / margin)
        return cls(head_inputs(features), *map(torch.from_numpy, arrays))


def _thresholds_of(margin: Float64[np.ndarray, "classes"]) -> list[float]:
    """Logistic thresholds of the margin: the first, then what softplus makes steps of."""
    below = np.cumsum(margin)[:-1].clip(1e-6, 1 - 1e-6)
    at = np.log(below / (1 - below))
    steps = np.maximum(np.diff(at), 1e-3)
    return [float(at[0]), *np.log(np.expm1(steps)).tolist()]


def ordered_log_probs(
    location: Tensor, log_scale: Tensor, steps: Tensor
) -> Float64[Tensor, "cells classes"]:
    """log F_k of ordered logistic classes, exact in both tails."""
    thresholds = torch.cat([steps[:1], steps[:1] + softplus(steps[1:]).cumsum(0)])
    at = (thresholds - location[:, None]) * (-log_scale)[:, None].exp()
    width = softplus(steps[1:]) * (-log_scale)[:, None].exp()
    inner = logsigmoid(at[:, 1:]) + logsigmoid(-at[:, :-1]) + torch.log(-torch.expm1(-width))
    return torch.cat([logsigmoid(at[:, :1]), inner, logsigmoid(-at[:, -1:])], dim=1)


def _log_probs(inputs: _PoolInputs, numbers: Numbers) -> Float64[Tensor, "cells classes"]:
    location, log_scale = location_and_log_scale(inputs.features, numbers)
    w = numbers[_AT_POOL:_AT_THRESHOLDS]
    n = inputs.features.n_context[:, None]
    log_margin = inputs.margin.log()
    ordered = ordered_log_probs(location, log_scale, numbers[_AT_THRESHOLDS:])
    beta, many = w[8].exp(), n / (n + w[7].exp())
    others = torch.log((inputs.others + beta * inputs.margin) / (n + beta))
    expected = torch.log((inputs.expected + beta * inputs.margin).clamp_min(1e-12) / (n + beta))
    logits = w[0] * log_margin + w[1] * ordered + (w[2] + w[4] * many) * others
    logits = logits + (w[3] - w[5] * many) * expected + w[6] * inputs.log_share
    return logits.log_softmax(1)
