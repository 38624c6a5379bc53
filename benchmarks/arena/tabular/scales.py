"""Scales of a response that is a number: itself, its square root or its logarithm, standardized."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

Numbers = Float[np.ndarray, "..."]
NAMES = ("identity", "sqrt", "log")
# Of a standardized response, how far outside of training's range a prediction goes at most.
_MARGIN = 1.0


@dataclass(frozen=True)
class Scale:
    """(f(y) - mean) / sd. `low`, `high`: what is taken back at least and at most."""

    name: str
    mean: float
    sd: float
    low: float
    high: float

    def to(self, response: Numbers) -> Numbers:
        return (_FORWARD[self.name](response) - self.mean) / self.sd

    def back(self, numbers: Numbers) -> Numbers:
        return _BACK[self.name](np.clip(numbers, self.low, self.high) * self.sd + self.mean)

    def log_slope(self, response: Numbers) -> Numbers:
        """The logarithm of the derivative of `to`."""
        if self.name == "identity":
            slope = np.zeros_like(response)
        elif self.name == "log":
            slope = -np.log(response)
        else:
            slope = -np.log(2 * np.sqrt(response))
        return slope - np.log(self.sd)


def possible_scales(response: Float[np.ndarray, "rows"]) -> list[Scale]:
    """The scales that all responses of training have; those not above 0 have theirs alone."""
    names = NAMES if response.min() > 0 else NAMES[:1]
    return [_learned(name, response) for name in names]


def _learned(name: str, response: Float[np.ndarray, "rows"]) -> Scale:
    numbers = _FORWARD[name](response)
    mean, sd = float(numbers.mean()), float(numbers.std())
    unit = (numbers - mean) / sd
    return Scale(name, mean, sd, float(unit.min()) - _MARGIN, float(unit.max()) + _MARGIN)


def _itself(numbers: Numbers) -> Numbers:
    return numbers


def _squared(numbers: Numbers) -> Numbers:
    return np.square(np.maximum(numbers, 0))


_FORWARD = {"identity": _itself, "sqrt": np.sqrt, "log": np.log}
_BACK = {"identity": _itself, "sqrt": _squared, "log": np.exp}
