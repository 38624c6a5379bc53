"""How far columns moved between training and new rows, and which moves are no chance."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats
from jaxtyping import Float64, Int64

from exfam.families.mixtures import Mixture
from exfam.tables.answers.distributions import TableModel, distribution_blocks
from exfam.tables.data import Cells

# A Gaussian's mean, and one standard deviation to both sides of it.
_CENTRAL = (0.1587, 0.5, 0.8413)


@dataclass(frozen=True)
class Moved:
    """A mean on training rows and on new rows, each with its standard error."""

    train: float
    train_error: float
    new: float
    new_error: float

    @property
    def difference(self) -> float:
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


def moved(train: Float64[np.ndarray, "train_rows"], new: Float64[np.ndarray, "new_rows"]) -> Moved:
    """The means of two samples of independent numbers, without those that are NaN."""
    return Moved(*_mean_and_error(train), *_mean_and_error(new))


def bonferroni(p: Mapping[str, float], *, level: float) -> tuple[str, ...]:
    """Names whose p-value is at most `level` divided by the number of p-values that are no NaN."""
    n_tests = sum(not math.isnan(value) for value in p.values())
    return tuple(name for name, value in p.items() if value * n_tests <= level)


def _mean_and_error(numbers: Float64[np.ndarray, "rows"]) -> tuple[float, float]:
    numbers = numbers[~np.isnan(numbers)]
    mean = float(numbers.mean()) if len(numbers) else math.nan
    if len(numbers) < 2 or not math.isfinite(mean):
        return mean, math.nan
    return mean, float(numbers.std(ddof=1) / math.sqrt(len(numbers)))


@dataclass(frozen=True)
class MarginalShift:
    """The cells of training and of new rows beside the model's marginal distribution of the column.

    `p`: that both have one distribution: of labels by the G test; of numbers twice the smaller of
        two z tests', of means and of variances
    `kl`: of labels, for both, the Kullback-Leibler divergence from the distribution in nats
    `mean_shift`, `sd_ratio`: of numbers, for both, mean of the cells minus that of the
        distribution, in its standard deviations, and the ratio of these
    `median_shift`, `width_ratio`: the same where the distribution has no mean, of medians, and of
        half the widths that hold the central 68 %, as one standard deviation of a Gaussian does
    """

    p: float
    kl: tuple[float, float] | None = None
    mean_shift: tuple[float, float] | None = None
    sd_ratio: tuple[float, float] | None = None
    median_shift: tuple[float, float] | None = None
    width_ratio: tuple[float, float] | None = None


def marginal_shift(
    distribution: Mixture,
    train: Float64[np.ndarray, "train_rows"],
    new: Float64[np.ndarray, "new_rows"],
) -> MarginalShift:
    """The move of one column; `distribution` has one row, the model's for a row without cells."""
    train, new = train[~np.isnan(train)], new[~np.isnan(new)]
    if distribution.family.categories:
        probs = distribution.probs().double()[0].numpy()
        counts = np.stack(
            [np.bincount(codes.astype(np.int64), minlength=len(probs)) for codes in (train, new)]
        )
        before, after = (
            float(scipy.stats.entropy(own, probs)) if own.any() else math.nan for own in counts
        )
        return MarginalShift(_independence_p(counts), kl=(before, after))
    means = moved(train, new)
    spreads = moved((train - means.train) ** 2, (new - means.new) ** 2)
    p = min(1.0, 2 * min(means.p, spreads.p))
    if not distribution.family.has_mean:
        return _quantile_shift(distribution, train, new, p=p)
    center, spread = float(distribution.center()[0]), float(distribution.variance()[0].sqrt())
    return MarginalShift(
        p=p,
        mean_shift=((means.train - center) / spread, (means.new - center) / spread),
        sd_ratio=(math.sqrt(spreads.train) / spread, math.sqrt(spreads.new) / spread),
    )


def _quantile_shift(
    distribution: Mixture,
    train: Float64[np.ndarray, "train_rows"],
    new: Float64[np.ndarray, "new_rows"],
    *,
    p: float,
) -> MarginalShift:
    low, center, high = (float(distribution.quantile(level)[0]) for level in _CENTRAL)
    width = max((high - low) / 2, np.finfo(np.float64).tiny)
    both = [
        np.quantile(cells, _CENTRAL) if len(cells) else np.full(3, math.nan)
        for cells in (train, new)
    ]
    shifts = [float((cells[1] - center) / width) for cells in both]
    ratios = [float((cells[2] - cells[0]) / 2 / width) for cells in both]
    return MarginalShift(p, median_shift=(shifts[0], shifts[1]), width_ratio=(ratios[0], ratios[1]))


def _independence_p(counts: Int64[np.ndarray, "samples labels"]) -> float:
    if not counts.sum(axis=1).all():
        return math.nan
    seen = counts[:, counts.sum(axis=0) > 0]
    if seen.shape[1] == 1:
        return 1.0
    test = scipy.stats.chi2_contingency(seen, correction=False, lambda_="log-likelihood")
    return float(test.pvalue)


@dataclass(frozen=True)
class TargetShift:
    """The average distribution of the target over training and over new rows.

    `labels`: of a finite column; empty for numbers
    `predicted`, `observed`: mean probability and share of each label, or means (predicted medians
        of families without a mean)
    `predicted_sd`, `observed_sd`: of numbers, for training and new rows
    """

    name: str
    labels: tuple[Any, ...]
    predicted: tuple[Moved, ...]
    observed: tuple[Moved, ...]
    predicted_sd: tuple[float, float] | None = None
    observed_sd: tuple[float, float] | None = None


def target_shift(model: TableModel, train: Cells, new: Cells, *, target: str) -> TargetShift:
    """The move of one column, predicted from the other cells of each row, and observed."""
    index = model.schema.index(target)
    labels = model.schema.columns[index].labels
    values = [cells.value[:, index] for cells in (train, new)]
    predicted = [_predicted(model, cells, target) for cells in (train, new)]
    if labels is not None:
        # 1 at each row's label, 0 at others, NaN where it is absent.
        observed = [
            np.where(np.isnan(code), np.nan, code == np.arange(len(labels)))
            for code in (value[:, None] for value in values)
        ]
        return TargetShift(target, tuple(labels.tolist()), _moves(predicted), _moves(observed))
    # Of the average of distributions: their mean variance, and that of their means.
    before, after = (np.sqrt(m[:, 1].mean() + m[:, 0].var()) for m in predicted)
    observed_sd = _sd(values[0]), _sd(values[1])
    means = _moves([moments[:, :1] for moments in predicted])
    predicted_sd = float(before), float(after)
    return TargetShift(target, (), means, (moved(*values),), predicted_sd, observed_sd)


def _predicted(model: TableModel, cells: Cells, target: str) -> Float64[np.ndarray, "rows numbers"]:
    parts = []
    for _, _, distributions in distribution_blocks(model, cells, [target]):
        distribution = distributions[target]
        if model.schema.column(target).labels is not None:
            parts.append(distribution.probs().double().numpy())
        else:
            moments = distribution.center(), distribution.variance()
            parts.append(np.stack([part.double().numpy() for part in moments], axis=1))
    return np.concatenate(parts)


def _moves(samples: Sequence[np.ndarray]) -> tuple[Moved, ...]:
    return tuple(moved(train, new) for train, new in zip(samples[0].T, samples[1].T, strict=True))


def _sd(value: Float64[np.ndarray, "rows"]) -> float:
    value = value[~np.isnan(value)]
    return float(value.std()) if len(value) else math.nan
