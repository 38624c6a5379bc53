"""Whether accuracy rises with locality and symmetry: slopes and rank correlations over settings."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float64
from scipy.stats import rankdata

from exfam_studies.common.rows import Row, row_over_seeds

Scores = Float64[np.ndarray, "seeds settings"]


@dataclass(frozen=True, eq=False)
class Trend:
    """A number of each setting, and between which of its values a trend is looked for."""

    by: str
    numbers: Float64[np.ndarray, "settings"]
    span: tuple[float, float]

    @property
    def inside(self) -> Bool[np.ndarray, "settings"]:
        """Which settings are within the span."""
        return (self.numbers >= self.span[0]) & (self.numbers <= self.span[1])

    def settings(self) -> dict[str, str]:
        """What rows say of it.

        >>> Trend("locality", np.array([0.1, 0.2]), (-np.inf, 0.15)).settings()
        {'by': 'locality', 'over': '0.1 to 0.1'}
        """
        numbers = self.numbers[self.inside]
        return {"by": self.by, "over": f"{numbers.min():.2g} to {numbers.max():.2g}"}


def trend_rows(row: Row, trends: Sequence[Trend], *, test: Scores, validation: Scores) -> list[Row]:
    """Slope and rank correlation of each trend, over seeds; none where all numbers are one."""
    rows = []
    for trend in trends:
        inside = trend.inside
        x = trend.numbers[inside]
        # Settings that are to have the same locality have it but for rounding.
        if len(x) < 2 or np.ptp(x) < 1e-6:
            continue
        for name, measure in (("slope", slope), ("spearman", spearman)):
            own = replace(
                row, settings={**row.settings, **trend.settings()}, metric=f"position-{name}"
            )
            values, validations = (
                [measure(x, y[inside]) for y in scores] for scores in (test, validation)
            )
            rows.append(row_over_seeds(own, values=values, validations=validations))
    return rows


def gain_of_symmetry(
    row: Row,
    held: Float64[np.ndarray, "settings"],
    even: Bool[np.ndarray, "settings"],
    *,
    test: Scores,
    validation: Scores,
) -> list[Row]:
    """Scores at the even setting less the mean of the others, for each locality that is held."""
    rows = []
    for locality in np.unique(held):
        here = held == locality
        own = replace(
            row,
            settings={**row.settings, "locality": float(locality)},
            metric="minus-asymmetric",
        )
        values, validations = (
            (scores[:, here & even].mean(1) - scores[:, here & ~even].mean(1)).tolist()
            for scores in (test, validation)
        )
        rows.append(row_over_seeds(own, values=values, validations=validations))
    return rows


def slope(x: Float64[np.ndarray, "points"], y: Float64[np.ndarray, "points"]) -> float:
    """Of the line of least squares.

    >>> slope(np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0]))
    2.0
    """
    apart = x - x.mean()
    return float(apart @ (y - y.mean()) / (apart @ apart))


def spearman(x: Float64[np.ndarray, "points"], y: Float64[np.ndarray, "points"]) -> float:
    """The rank correlation; 0 where one of the two is constant.

    >>> spearman(np.array([0.1, 0.2, 0.9]), np.array([3.0, 2.0, 1.0]))
    -1.0
    """
    a, b = (rankdata(each) - (len(each) + 1) / 2 for each in (x, y))
    mass = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / mass if mass else 0.0
