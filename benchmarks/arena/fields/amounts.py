"""Amounts from 0 on whose logarithms are judged: contenders may see the amounts themselves."""

from dataclasses import dataclass, replace

import numpy as np
from benchmarks.arena.fields.data import FieldData, Maps
from benchmarks.arena.values.distributions import OfMixture, Values
from jaxtyping import Float

# Quantiles that the mean of a logarithm is taken over.
N_LEVELS = 40


def amounts_of(maps: Maps, data: FieldData) -> Maps:
    """The maps with amounts for values, those below the resolution being 0."""
    return replace(maps, value=amounts(maps.value, data), before=amounts(maps.before, data))


def amounts(value: Float[np.ndarray, "*shape"], data: FieldData) -> Float[np.ndarray, "*shape"]:
    """Amounts y of values log(offset + y)."""
    assert data.offset is not None
    amount = np.exp(value) - data.offset
    return np.where(amount < data.resolution, 0.0, amount)


@dataclass(frozen=True, eq=False)
class LogOfAmounts:
    """Distributions of log(offset + y) where those of amounts y are known.

    What is below the resolution was drawn from it evenly: the probability of 0 is spread over it.
    """

    of_amounts: OfMixture
    data: FieldData

    def log_prob(self, value: Values) -> Values:
        amount = amounts(value, self.data)
        nats = self.of_amounts.log_prob(amount)
        # How fast amounts rise with their logarithms.
        return np.where(amount > 0, nats, nats - np.log(self.data.resolution)) + value

    def at_most(self, value: Values) -> Values:
        amount = amounts(value, self.data)
        share = (np.exp(value) - self._offset) / self.data.resolution
        return self.of_amounts.at_most(amount) * np.where(amount > 0, 1.0, share.clip(0, 1))

    def below(self, value: Values) -> Values:
        return self.at_most(value)

    def center(self) -> Values:
        levels = (np.arange(N_LEVELS) + 0.5) / N_LEVELS
        amount = np.stack([self.of_amounts.mixture.quantile(level).numpy() for level in levels])
        top = self._offset + self.data.resolution
        # The mean of log(offset + u) for u between 0 and the resolution.
        least = (top * np.log(top) - self._offset * np.log(self._offset)) / self.data.resolution - 1
        logs = np.log(self._offset + amount)
        return np.where(amount < self.data.resolution, least, logs).mean(0)

    @property
    def _offset(self) -> float:
        assert self.data.offset is not None
        return self.data.offset
