"""The unit that members know numbers in."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64

from exfam.checks import check_choice
from exfam.families import Family, LogStudentT, RoundedRootStudentT, Scaled, StudentT

Rows = Float64[np.ndarray, "rows"]

_COUNTS = RoundedRootStudentT(root=2)

SCALES = ("identity", "log", "root")


@dataclass(frozen=True)
class Unit:
    """Numbers as members know them: (y - center) / spread, or of logarithms or of roots.

    `least`: the least scale of a distribution in that unit, which is how finely numbers are
        recorded: a density that is narrower says nothing about them

    Raises ValueError for a `scale` that is none of SCALES.
    """

    center: float = 0.0
    spread: float = 1.0
    scale: str = "identity"
    least: float = 0.0

    def __post_init__(self) -> None:
        check_choice("scale", self.scale, SCALES)

    def on_scale(self, y: Rows) -> Rows:
        """The numbers, their logarithms, or their roots."""
        if self.scale == "root":
            return np.sqrt(y)
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
            width = np.log1p(1 / (y - 0.5)) if self.scale == "log" else np.ones(len(y))
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
        return (-np.log(y) if self.scale == "log" else np.zeros(len(y))) - np.log(self.spread)

    @property
    def family(self) -> Family:
        """The family of y that `eta` gives the parameters of."""
        if self.scale == "root":
            return _COUNTS
        if self.scale == "log":
            return Scaled(LogStudentT(), 0.0, float(np.exp(self.center)))
        return Scaled(StudentT(), self.center, self.spread)

    def eta(
        self, location: np.ndarray, log_scale: np.ndarray, df: float | np.ndarray
    ) -> Float64[np.ndarray, "rows 3"]:
        """Parameters of `family`."""
        log_excess = np.broadcast_to(np.log(df - 2), len(location))
        if self.least > 0:
            log_scale = np.maximum(log_scale, np.log(self.least))
        if self.scale != "identity":
            location = location * self.spread + (self.center if self.scale == "root" else 0.0)
            log_scale = log_scale + np.log(self.spread)
        return np.column_stack([location, log_scale, log_excess])
