"""The scale values are modeled on: themselves or a function of them, standardized."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from exfam.checks import DataError, check_choice
from exfam.efa.values.cells import ValueCells

# The second logarithm is that of values above 0: others have none.
TRANSFORMS = ("identity", "log", "log above 0", "logit", "asinh")


@dataclass(frozen=True)
class WorkingScale:
    """z = (t(y) - mean) / sd, with t(y) = y, log(y + shift), log(y / (1 - y)) or asinh(y / shift).

    >>> WorkingScale("log", shift=0.0, mean=0.0, sd=2.0).standardize(np.array([np.e]))
    array([0.5])
    """

    transform: str
    shift: float
    mean: float
    sd: float

    def standardize(self, value: Float64[np.ndarray, "cells"]) -> Float64[np.ndarray, "cells"]:
        return (self._transformed(value) - self.mean) / self.sd

    def restore(self, z: Float64[np.ndarray, "cells"]) -> Float64[np.ndarray, "cells"]:
        """The value of a standardized one."""
        inner = self.mean + self.sd * z
        if self.transform in ("log", "log above 0"):
            return np.exp(inner) - self.shift
        if self.transform == "asinh":
            return self.shift * np.sinh(inner)
        return inner if self.transform == "identity" else 1 / (1 + np.exp(-inner))

    def log_slope(self, value: Float64[np.ndarray, "cells"]) -> Float64[np.ndarray, "cells"]:
        """log |dz / dy|, which is added to log-densities of z."""
        slope = np.full_like(value, -np.log(self.sd))
        if self.transform == "log":
            slope -= np.log(value + self.shift)
        elif self.transform == "log above 0":
            slope -= np.log(np.where(value > 0, value + self.shift, 1.0))
        elif self.transform == "logit":
            slope -= np.log(value) + np.log1p(-value)
        elif self.transform == "asinh":
            slope -= np.log(np.hypot(self.shift, value))
        return slope

    def _transformed(self, value: np.ndarray) -> np.ndarray:
        if self.transform == "log":
            return np.log(value + self.shift)
        if self.transform == "log above 0":
            return np.log(np.where(value > 0, value + self.shift, np.nan))
        if self.transform == "asinh":
            return np.arcsinh(value / self.shift)
        return value if self.transform == "identity" else np.log(value) - np.log1p(-value)

    def cells(self, cells: ValueCells) -> ValueCells:
        """The cells with standardized values."""
        return cells.with_value(self.standardize(cells.value))


def working_scale(
    value: Float64[np.ndarray, "cells"], *, transform: str = "identity", shift: float = 0.0
) -> WorkingScale:
    """By mean and standard deviation of training values; equal ones have a deviation of 1."""
    check_choice("transform", transform, TRANSFORMS)
    value = value[np.isfinite(value)]
    if not len(value):
        raise DataError(
            "`value` must have a number for some cell, got none. Pass values that are observed."
        )
    plain = WorkingScale(transform, shift, 0.0, 1.0)
    inner = plain.standardize(value)
    if transform == "log above 0":
        inner = inner[value > 0] if (value > 0).any() else np.zeros(1)
    if not np.isfinite(inner).all():
        row = int(np.flatnonzero(~np.isfinite(inner))[0])
        raise DataError(
            f"`value` must have a finite {transform}, got {value[row]!r} (observed value {row}). "
            "Choose a head whose support has all values."
        )
    center = float(inner.mean())
    # Of equal values only rounding is left.
    sd = float(np.sqrt(np.mean((inner - center) ** 2)))
    least = 1e-13 * float(np.abs(inner).max())
    return WorkingScale(transform, shift, center, sd if sd > least else 1.0)
