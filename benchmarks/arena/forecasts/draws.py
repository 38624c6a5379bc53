"""Draws as distributions: scores whose mean does not depend on how many draws there are."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

Values = Float[np.ndarray, "targets"]


@dataclass(frozen=True, eq=False)
class OfDraws:
    """The same number of draws of every target."""

    draws: Float[np.ndarray, "draws targets"]

    def below(self, value: Values) -> Values:
        """The share of the draws and the value that is less than it."""
        return (self.draws < value).sum(0) / (len(self.draws) + 1)

    def at_most(self, value: Values) -> Values:
        """As `below`, with the value itself: uniform between both if it is one more draw."""
        return (1 + (self.draws <= value).sum(0)) / (len(self.draws) + 1)

    def center(self) -> Values:
        return self.draws.mean(0)

    def error(self, value: Values) -> Values:
        """Squared error of the mean, less what the mean of so few draws adds to it."""
        return (value - self.center()) ** 2 - self.draws.var(0, ddof=1) / len(self.draws)

    def crps(self, value: Values) -> Values:
        """E |Y - value| - E |Y - Y'| / 2, the second over pairs of different draws.

        Source: Ferro (2014), Fair scores for ensemble forecasts.
        """
        n = len(self.draws)
        weight = 2 * np.arange(1, n + 1) - n - 1
        apart = weight @ np.sort(self.draws, axis=0) / (n * (n - 1))
        return np.abs(self.draws - value).mean(0) - apart
