"""Predictive distributions as a user gets them: arrays by row, NaN where there is none."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from exfam.checks import ExfamError, check_inside, check_seed, check_whole
from exfam.columns.results import SHOWN_ROWS, PlottedResult
from exfam.families.mixtures import Mixture
from exfam.scores.calibration import central_share, integral_ends, probability_integral
from exfam.scores.crps import crps

_ENTRIES_AT_ONCE = 1_000_000


@dataclass(frozen=True, eq=False, repr=False)
class Prediction(PlottedResult):
    """A distribution of the value for each of `n_rows` rows, or for some of them.

    `mixture`: the distributions, one for each of `rows`
    `rows`: which rows of the data they are of, each once
    `n_rows`: number of rows of the data

    Arrays are float64 with one number a row, NaN in rows without a distribution. A `value` is one
    number a row, or one for all rows, else ExfamError is raised; NaN where it is not known, and
    there NaN comes back. Raises ExfamError for `rows` that are not as many as the distributions, or
    not among `n_rows`.

    >>> from exfam.families import Gaussian
    >>> mixture = Mixture(Gaussian(scale=2.0), torch.tensor([[[5.0], [7.0]]]))
    >>> prediction = Prediction(mixture, rows=np.array([0, 2]), n_rows=3)
    >>> prediction.mean
    array([ 5., nan,  7.])
    >>> low, high = prediction.interval(0.9)
    >>> low.round(1), high.round(1)
    (array([1.7, nan, 3.7]), array([ 8.3,  nan, 10.3]))
    """

    mixture: Mixture
    rows: Int[np.ndarray, "predicted"]
    n_rows: int

    picture = "interval_dots"

    def __post_init__(self) -> None:
        n = self.mixture.eta.shape[1]
        if len(self.rows) != n:
            raise ExfamError(
                f"`rows` must hold one row for each of {n} distributions, got {len(self.rows)}."
            )
        outside = (self.rows < 0) | (self.rows >= self.n_rows)
        if outside.any():
            raise ExfamError(
                f"`rows` must be in 0 to {self.n_rows - 1}, got {self.rows[outside][0]}."
            )
        rows, counts = np.unique(self.rows, return_counts=True)
        if len(rows) < len(self.rows):
            raise ExfamError(f"`rows` must hold each row once, got {rows[counts > 1][0]} again.")

    def to_dict(self) -> dict[str, np.ndarray]:
        """Columns `row`, `center`, `sd`, `low`, `high`: the ends of 90 % intervals."""
        low, high = self.interval()
        numbers = {"center": self.center, "sd": self.sd, "low": low, "high": high}
        return {"row": np.arange(self.n_rows)} | numbers

    def headline(self) -> str:
        """Of which family, and how many rows and members."""
        members = self.mixture.eta.shape[0]
        of = f" of {self.n_rows}" if len(self.rows) < self.n_rows else ""
        return f"Prediction({self.mixture.family}, {len(self.rows)}{of} rows, {members} members)"

    def _view(self) -> tuple[dict[str, np.ndarray], int]:
        shown = np.flatnonzero(self.rows < SHOWN_ROWS)
        some = self.mixture[torch.from_numpy(shown)]
        first = Prediction(some, self.rows[shown], min(self.n_rows, SHOWN_ROWS))
        return first.to_dict(), self.n_rows

    def __len__(self) -> int:
        return self.n_rows

    @property
    def mean(self) -> Float[np.ndarray, "rows"]:
        """Expected value, in the unit of the value; infinite for families without a mean."""
        return self._placed(self._double.mean())

    @property
    def center(self) -> Float[np.ndarray, "rows"]:
        """Expected value, or the median where it is infinite."""
        return self._placed(self._double.center())

    @property
    def variance(self) -> Float[np.ndarray, "rows"]:
        """Variance, in the squared unit of the value; what members disagree on included."""
        return self._placed(self._double.variance())

    @property
    def sd(self) -> Float[np.ndarray, "rows"]:
        """Standard deviation, in the unit of the value."""
        return np.sqrt(self.variance)

    def quantile(self, p: float | np.floating) -> Float[np.ndarray, "rows"]:
        """The smallest value whose cdf reaches `p`; the median at 0.5.

        Raises ExfamError unless 0 < p < 1.
        """
        check_inside("p", p)
        return self._placed(self._double.quantile(float(p)))

    def interval(
        self, level: float | np.floating = 0.9
    ) -> tuple[Float[np.ndarray, "rows"], Float[np.ndarray, "rows"]]:
        """Lower and upper end of the central interval of probability `level`.

        Outside of it, (1 - level) / 2 lies on each side. Raises ExfamError unless 0 < level < 1.
        """
        check_inside("level", level)
        tail = (1 - float(level)) / 2
        return self.quantile(tail), self.quantile(1 - tail)

    def cdf(self, value: Any) -> Float[np.ndarray, "rows"]:
        """Probability of at most `value`, in [0, 1]."""
        return self._of_values(value, self._double.cdf)

    def log_prob(self, value: Any) -> Float[np.ndarray, "rows"]:
        """Log-probability or density of `value` in nats: the log of the members' mean.

        -inf where the family cannot produce it.
        """
        return self._of_values(value, self._double.log_prob)

    def crps(self, value: Any) -> Float[np.ndarray, "rows"]:
        """Continuous ranked probability score, in the unit of the value; lower is better.

        See `exfam.scores.crps.crps`.
        """
        return self._of_values(value, lambda own: crps(self._double, own))

    def pit(self, value: Any, *, seed: int = 0) -> Float[np.ndarray, "rows"]:
        """The cdf at `value`, uniform in [0, 1] over rows if all distributions are right.

        Whole numbers jump: there a uniform draw between the cdf below the value and at it, which
        `seed`, an integer from 0, fixes.
        """
        check_seed("seed", seed)
        return self._of_values(
            value, lambda own: torch.from_numpy(probability_integral(self._double, own, seed=seed))
        )

    def inside(self, value: Any, level: float | np.floating = 0.9) -> Float[np.ndarray, "rows"]:
        """How much of each value is in its central interval of probability `level`, in [0, 1].

        The mean over rows is `level`, but for chance, if all distributions are right. Of continuous
        ones it is 0 or 1; whole numbers at an end of the interval are inside in part, where those
        within `interval`, ends included, would be more. See
        `exfam.scores.calibration.central_share`. Raises ExfamError unless 0 < level < 1.
        """
        check_inside("level", level)

        def share(own: Tensor) -> Tensor:
            ends = integral_ends(self._double, own)
            return torch.from_numpy(central_share(*ends, level=float(level)))

        return self._of_values(value, share)

    def sample(self, n: int | np.integer, *, seed: int = 0) -> Float[np.ndarray, "draws rows"]:
        """`n` draws a row, each row by itself: from its own distribution, not from the joint one.

        Sums or differences of rows of a draw do not have their true spread, since the dependence
        between rows is not in it. `seed`, an integer from 0, fixes the draws.
        """
        check_whole("n", n)
        check_seed("seed", seed)
        generator = torch.Generator().manual_seed(int(seed))
        mixture, drawn = self._double, np.full((n, self.n_rows), np.nan)
        at_once = max(1, _ENTRIES_AT_ONCE // max(1, mixture.eta.numel()))
        for first in range(0, n, at_once):
            times = min(at_once, n - first)
            several = mixture[torch.arange(len(self.rows)).repeat(times)].sample(generator)
            drawn[first : first + times, self.rows] = several.reshape(times, -1).numpy()
        return drawn

    @cached_property
    def _double(self) -> Mixture:
        """The mixture in double precision, on the CPU."""
        return self.mixture.double("cpu")

    def _placed(self, numbers: Tensor) -> np.ndarray:
        out = np.full(self.n_rows, np.nan)
        out[self.rows] = numbers.numpy()
        return out

    def _of_values(self, value: Any, measure: Callable[[Tensor], Tensor]) -> np.ndarray:
        """What `measure` gives for the rows' own values, NaN where there is no value."""
        own = torch.from_numpy(self._checked(value)[self.rows])
        return self._placed(torch.where(own.isnan(), torch.nan, measure(own)))

    def _checked(self, value: Any) -> np.ndarray:
        rule = f"`value` must be a number for each of {self.n_rows} rows, or one number"
        try:
            numbers = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ExfamError(f"{rule}, got {type(value).__name__} of other things.") from error
        if numbers.ndim and numbers.shape != (self.n_rows,):
            raise ExfamError(f"{rule}, got shape {numbers.shape}.")
        return np.broadcast_to(numbers, (self.n_rows,))
