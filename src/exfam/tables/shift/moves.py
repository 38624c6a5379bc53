"""How far a mean moved from one sample of rows to another, and which moves are no chance."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.stats
from jaxtyping import Float64


@dataclass(frozen=True)
class Moved:
    """A mean on training rows and on new rows, each with its standard error.

    >>> move = Moved(train=1.0, train_error=0.3, new=3.0, new_error=0.4)
    >>> move.difference, move.error, move.z
    (2.0, 0.5, 4.0)
    """

    train: float
    train_error: float
    new: float
    new_error: float

    @property
    def difference(self) -> float:
        """New minus train."""
        return self.new - self.train

    @property
    def error(self) -> float:
        """Standard error of the difference; the samples are independent."""
        return math.hypot(self.train_error, self.new_error)

    @property
    def z(self) -> float:
        """The difference in standard errors; infinite where there is one without any error."""
        if math.isinf(self.difference) or (self.error == 0 and self.difference):
            return math.copysign(math.inf, self.difference)
        return self.difference / self.error if self.error else 0.0

    @property
    def p(self) -> float:
        """Two-sided p-value of `z` by the normal distribution."""
        return float(2 * scipy.stats.norm.sf(abs(self.z)))

    def as_dict(self) -> dict[str, float | None]:
        """Plain JSON; None for what is not a finite number."""
        names = ("train", "train_error", "new", "new_error", "difference", "error", "z")
        return {name: finite_or_none(getattr(self, name)) for name in names}


def moved(train: Float64[np.ndarray, "train_rows"], new: Float64[np.ndarray, "new_rows"]) -> Moved:
    """The means of two samples of independent numbers, without those that are NaN.

    A mean of no number is NaN, and so is the error of fewer than two or of an infinite mean.

    >>> moved(np.array([1.0, 3.0]), np.array([2.0, np.nan]))
    Moved(train=2.0, train_error=1.0, new=2.0, new_error=nan)
    """
    return Moved(*_mean_and_error(train), *_mean_and_error(new))


def bonferroni(p: Mapping[str, float], *, level: float) -> tuple[str, ...]:
    """Names whose p-value is at most `level` divided by the number of p-values.

    If nothing moved, the chance that any name is listed is at most `level`. NaN is no p-value.

    >>> bonferroni({"a": 0.004, "b": 0.006, "c": math.nan}, level=0.01)
    ('a',)
    """
    n_tests = sum(not math.isnan(value) for value in p.values())
    return tuple(name for name, value in p.items() if value * n_tests <= level)


def finite_or_none(number: float) -> float | None:
    """The number as JSON has it."""
    return number if math.isfinite(number) else None


def _mean_and_error(numbers: Float64[np.ndarray, "rows"]) -> tuple[float, float]:
    numbers = numbers[~np.isnan(numbers)]
    mean = float(numbers.mean()) if len(numbers) else math.nan
    if len(numbers) < 2 or not math.isfinite(mean):
        return mean, math.nan
    return mean, float(numbers.std(ddof=1) / math.sqrt(len(numbers)))
