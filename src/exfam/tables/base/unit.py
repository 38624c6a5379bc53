"""The unit that members know numbers in."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float64

from exfam.checks import check_choice
from exfam.families import (
    Family,
    LogStudentT,
    RoundedRootStudentT,
    Scaled,
    SinhStudentT,
    StudentT,
)

Rows = Float64[np.ndarray, "rows"]

_COUNTS = RoundedRootStudentT(root=2)

# From the 10th to the 90th percentile a Gaussian has 2.56 standard deviations.
_SPREADS_BETWEEN = 2.56
# The standard deviation of a number that is rounded, in units of the gap between two.
_OF_GAP = 12**-0.5
# Where straight lines turn into logarithms, in units of the median number without its sign.
_BENDS = (1.0, 0.1)

SCALES = ("identity", "log", "root", "asinh")


@dataclass(frozen=True)
class Unit:
    """Numbers as members know them: (y - center) / spread, or of a function of y on a `scale`.

    `bend`: of the scale "asinh", asinh(y / bend), where straight lines turn into logarithms
    `least`: the least scale of a distribution in that unit, which is how finely numbers are
        recorded: a density that is narrower says nothing about them

    Raises ValueError for a `scale` that is none of SCALES.
    """

    center: float = 0.0
    spread: float = 1.0
    scale: str = "identity"
    least: float = 0.0
    bend: float = 1.0

    def __post_init__(self) -> None:
        check_choice("scale", self.scale, SCALES)

    def on_scale(self, y: Rows) -> Rows:
        """The numbers, their logarithms, roots, or inverse hyperbolic sines in units of `bend`."""
        if self.scale == "root":
            return np.sqrt(y)
        if self.scale == "asinh":
            return np.arcsinh(y / self.bend)
        return np.log(y) if self.scale == "log" else y

    def to_unit(self, y: Rows) -> Rows:
        return (self.on_scale(y) - self.center) / self.spread

    def bins_of(self, y: Rows) -> tuple[Rows, Rows]:
        """Where numbers within 1/2 of each whole one begin, in the unit, and how wide they lie.

        Of counts 0 begins at -inf; its second number is where it ends.
        """
        if self.scale == "root":
            low, width = (edge.numpy() for edge in _COUNTS.bins(torch.from_numpy(y)))
        else:
            low = self.on_scale(y - 0.5)
            width = self.on_scale(y + 0.5) - low
            if self.scale == "log":
                width = np.log1p(1 / (y - 0.5))
        width = np.where(np.isinf(low), width - self.center, width) / self.spread
        return (low - self.center) / self.spread, width

    @property
    def of_counts(self) -> bool:
        """Whether numbers are counts, which have masses in place of densities."""
        return self.scale == "root"

    def counts(self, unit: Rows) -> Rows:
        """The counts that are `unit` in the unit of roots."""
        return np.rint((unit * self.spread + self.center) ** 2)

    def log_slope(self, y: Rows) -> Rows:
        """log of the derivative of `to_unit`: what densities in that unit lack."""
        slope = np.zeros(len(y))
        if self.scale == "log":
            slope = -np.log(y)
        elif self.scale == "asinh":
            slope = -np.log(np.hypot(self.bend, y))
        return slope - np.log(self.spread)

    @property
    def family(self) -> Family:
        """The family of y that `eta` gives the parameters of."""
        if self.scale == "root":
            return _COUNTS
        if self.scale == "log":
            return Scaled(LogStudentT(), 0.0, float(np.exp(self.center)))
        if self.scale == "asinh":
            return SinhStudentT(self.bend)
        return Scaled(StudentT(), self.center, self.spread)

    def eta(
        self, location: np.ndarray, log_scale: np.ndarray, df: float | np.ndarray
    ) -> Float64[np.ndarray, "rows 3"]:
        """Parameters of `family`."""
        log_excess = np.broadcast_to(np.log(df - 2), len(location))
        if self.least > 0:
            log_scale = np.maximum(log_scale, np.log(self.least))
        if self.scale != "identity":
            # The center of logarithms is in the family.
            location = location * self.spread + (self.center if self.scale != "log" else 0.0)
            log_scale = log_scale + np.log(self.spread)
        return np.column_stack([location, log_scale, log_excess])


def units_of(y: Rows, scales: Sequence[str]) -> list[Unit]:
    """The units of these numbers on each of some scales, on "asinh" with bends of several sizes."""
    return [_learned(y, unit) for scale in scales for unit in _bent(y, scale)]


def _bent(y: Rows, scale: str) -> Iterator[Unit]:
    size = np.abs(y[y != 0])
    if scale != "asinh":
        yield Unit(scale=scale)
    elif len(size):
        yield from (Unit(scale=scale, bend=bend * float(np.median(size))) for bend in _BENDS)


def _learned(y: Rows, unit: Unit) -> Unit:
    """The unit with center, spread and least scale of the numbers."""
    value = unit.on_scale(y)
    low, center, high = np.quantile(value, [0.1, 0.5, 0.9])
    spread = (high - low) / _SPREADS_BETWEEN
    if not spread > 0:
        spread = float(np.std(value)) or 1.0
    distinct = np.unique(value)
    gap = float(np.median(np.diff(distinct))) if len(distinct) > 1 else spread
    return replace(
        unit, center=float(center), spread=float(spread), least=_OF_GAP * gap / float(spread)
    )
