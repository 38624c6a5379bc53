"""The head of counts: a discretized Student t of log(y + c), mixed with three counts of values.

A count y has the mass of t between log(y - 1/2 + c) and log(y + 1/2 + c), the least one that of all
below. Beside it stand how often training values, the item's, and the group's others equal y, with
weights by softmax of lines in log(1 + n), log(1 + n_i) and the location.
"""

from dataclasses import dataclass

import numpy as np
import scipy.special
import scipy.stats
import torch
from jaxtyping import Float64
from torch import Tensor

from exfam.efa.values.cells import ValueCells
from exfam.efa.values.count_tables import (
    N_ATOMS,
    CountTable,
    atom_means,
    atom_probabilities,
)
from exfam.efa.values.features import ValueFeatures
from exfam.efa.values.head_numbers import (
    LOG_DF,
    N_LOCATION,
    N_SCALE,
    Numbers,
    fit_head_numbers,
    head_inputs,
    location_and_log_scale,
    location_start,
    scale_start,
)
from exfam.efa.values.working_scale import WorkingScale
from exfam.families.bin_mass import log_bin_mass

_AT_DF = N_LOCATION + N_SCALE
_AT_WEIGHTS = _AT_DF + 1
_START_DF, _START_BIAS = 7.0, -3.0
_N_LEVELS = 64


@dataclass(frozen=True, eq=False)
class CountHead:
    """Numbers of the location, the scale, log(df - 1) and the weights; the least count."""

    numbers: Float64[np.ndarray, "numbers"]
    start: float

    @property
    def df(self) -> float:
        return float(1 + np.exp(np.clip(self.numbers[_AT_DF], *LOG_DF)))


@dataclass(frozen=True, eq=False)
class CountPrediction:
    """The distribution of every cell of `cells`, whole: t and three counts of values, mixed."""

    location: Float64[np.ndarray, "cells"]
    log_scale: Float64[np.ndarray, "cells"]
    df: float
    log_weight: Float64[np.ndarray, "cells four"]
    working: WorkingScale
    table: CountTable
    cells: ValueCells
    n_context: Float64[np.ndarray, "cells"]
    causal: bool
    start: float

    def log_prob(self, value: Float64[np.ndarray, "cells"]) -> Float64[np.ndarray, "cells"]:
        """Of one value a cell; NaN where it is NaN."""
        known = np.isfinite(value)
        y = np.where(known, value, self.start)
        low, width = (
            torch.from_numpy(edge) for edge in count_intervals(y, self.working, self.start)
        )
        at = torch.from_numpy(self.location), torch.from_numpy(self.log_scale)
        mass = log_bin_mass(low, width, *at, torch.tensor(self.df).double()).numpy()
        with np.errstate(divide="ignore"):
            atoms = np.log(self._atoms(y))
        parts = np.column_stack([mass, atoms]) + self.log_weight
        return np.where(known, scipy.special.logsumexp(parts, axis=1), np.nan)

    def cdf(self, value: Float64[np.ndarray, "cells"]) -> Float64[np.ndarray, "cells"]:
        """The probability of at most this value."""
        k = np.floor(value)
        edge = self.working.standardize(np.maximum(k, self.start) + 0.5)
        of_t = scipy.special.stdtr(self.df, (edge - self.location) / np.exp(self.log_scale))
        parts = np.column_stack([of_t, self._atoms(k, below=True)])
        return np.where(k < self.start, 0.0, np.sum(parts * np.exp(self.log_weight), axis=1))

    def quantile(self, p: Float64[np.ndarray, "cells"]) -> Float64[np.ndarray, "cells"]:
        """The least value whose cdf is at least `p`; infinite at 1."""
        low = np.full(len(p), self.start - 1)
        high = np.full(len(p), self.start)
        open_above = (self.cdf(high) < p) & (p < 1)
        while open_above.any():
            low = np.where(open_above, high, low)
            high = np.where(open_above, 2 * high + 1, high)
            open_above = (self.cdf(high) < p) & (p < 1) & (high < 2.0**52)
        while (high - low > 1).any():
            middle = np.floor((low + high) / 2)
            reached = self.cdf(middle) >= p
            high, low = np.where(reached, middle, high), np.where(reached, low, middle)
        return np.where(p < 1, high, np.inf)

    def sample(self, generator: np.random.Generator) -> Float64[np.ndarray, "cells"]:
        return self.quantile(generator.random(len(self.location)))

    def mean(self) -> Float64[np.ndarray, "cells"]:
        """Infinite: the exponential of Student's t has no mean. See `median` and `mean_log1p`."""
        return np.full(len(self.location), np.inf)

    def variance(self) -> Float64[np.ndarray, "cells"]:
        """Infinite, as the mean."""
        return np.full(len(self.location), np.inf)

    def median(self) -> Float64[np.ndarray, "cells"]:
        return self.quantile(np.full(len(self.location), 0.5))

    def mean_log1p(self) -> Float64[np.ndarray, "cells"]:
        """The mean of log(1 + y): of t by 64 of its quantiles, of the counts exactly."""
        level = (np.arange(_N_LEVELS) + 0.5) / _N_LEVELS
        standard = scipy.stats.t.ppf(level, self.df)
        scale, of_t = np.exp(self.log_scale), np.zeros(len(self.location))
        for r in standard:
            # Far out the logarithm is what it is made of.
            inner = self.working.mean + self.working.sd * (self.location + scale * r)
            count = np.round(np.exp(np.minimum(inner, 700.0)) - self.working.shift)
            of_t += np.log1p(np.maximum(count, self.start))
        logs = np.log1p(np.where(self.cells.observed, self.cells.value, 0.0))
        others = sum_others(self.cells, logs, causal=self.causal)
        transformed = np.log1p(self.table.values)
        atoms = atom_means(self.table, self.cells, self.n_context, transformed, others)
        parts = np.column_stack([of_t / _N_LEVELS, atoms])
        return np.sum(parts * np.exp(self.log_weight), axis=1)

    def _atoms(self, value: np.ndarray, below: bool = False) -> np.ndarray:
        return atom_probabilities(
            self.table, self.cells, value, self.n_context, causal=self.causal, below=below
        )


def sum_others(
    cells: ValueCells, number: Float64[np.ndarray, "cells"], *, causal: bool
) -> Float64[np.ndarray, "cells"]:
    """Sums of a number over the others of the group, or the earlier ones."""
    before = np.concatenate([[0.0], np.cumsum(number)])
    if causal:
        return before[:-1] - np.repeat(before[cells.offset[:-1]], cells.length)
    return np.repeat(np.diff(before[cells.offset]), cells.length) - number


def count_intervals(
    value: Float64[np.ndarray, "cells"], working: WorkingScale, start: float
) -> tuple[Float64[np.ndarray, "cells"], Float64[np.ndarray, "cells"]]:
    """Lower end and width of a count's interval; -inf and the upper end of the least count's."""
    least = value <= start
    inner = np.where(least, start + 1, value) - 0.5
    low = np.where(least, -np.inf, working.standardize(inner))
    width = np.log1p(1 / (inner + working.shift)) / working.sd
    return low, np.where(least, working.standardize(np.full_like(value, start + 0.5)), width)


def fit_count_head(
    features: ValueFeatures,
    value: Float64[np.ndarray, "cells"],
    working: WorkingScale,
    start: float,
) -> CountHead:
    """Fitted to counts of cells whose features, `atoms` among them, are cross-fitted."""
    inputs = head_inputs(features)
    low, width = (torch.from_numpy(edge) for edge in count_intervals(value, working, start))
    log_atoms = torch.from_numpy(np.log(np.maximum(features.atoms, 1e-300)))
    sizes = _sizes(features)

    def nats(numbers: Numbers) -> Tensor:
        location, log_scale = location_and_log_scale(inputs, numbers)
        df = 1 + numbers[_AT_DF].clamp(*LOG_DF).exp()
        mass = log_bin_mass(low, width, location, log_scale, df)
        parts = torch.cat([mass[:, None], log_atoms], dim=1)
        return -(parts + _log_weights(sizes, location, numbers)).logsumexp(1)

    first = [*location_start(), *scale_start(), float(np.log(_START_DF - 1))]
    first += N_ATOMS * [_START_BIAS, 0.0, 0.0, 0.0]
    return CountHead(fit_head_numbers(nats, first, len(value)), start)


def predict_counts(
    head: CountHead,
    features: ValueFeatures,
    working: WorkingScale,
    table: CountTable,
    cells: ValueCells,
    *,
    causal: bool,
) -> CountPrediction:
    """Distributions of all cells; values of `cells` are counts."""
    numbers = torch.from_numpy(head.numbers)
    location, log_scale = location_and_log_scale(head_inputs(features), numbers)
    return CountPrediction(
        location=location.numpy(),
        log_scale=log_scale.numpy(),
        df=head.df,
        log_weight=_log_weights(_sizes(features), location, numbers).numpy(),
        working=working,
        table=table,
        cells=cells,
        n_context=features.n_context,
        causal=causal,
        start=head.start,
    )


def _sizes(features: ValueFeatures) -> Float64[Tensor, "cells three"]:
    one = np.ones(len(features.mean))
    logs = np.log1p(features.n_context), np.log1p(features.item_count)
    return torch.from_numpy(np.column_stack([one, *logs]))


def _log_weights(
    sizes: Float64[Tensor, "cells three"], location: Float64[Tensor, "cells"], numbers: Numbers
) -> Float64[Tensor, "cells four"]:
    lines = numbers[_AT_WEIGHTS:].reshape(N_ATOMS, 4)
    logits = torch.cat([sizes, location[:, None]], dim=1) @ lines.T
    return torch.cat([torch.zeros_like(logits[:, :1]), logits], dim=1).log_softmax(1)
