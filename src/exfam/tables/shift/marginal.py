"""How far the cells of one column moved from its distribution by the model."""

import math
from dataclasses import dataclass

import numpy as np
import scipy.stats
from jaxtyping import Float64

from exfam.families.mixtures import Mixture
from exfam.tables.shift.moves import finite_or_none, moved


@dataclass(frozen=True)
class MarginalShift:
    """The cells of training and of new rows beside the model's marginal distribution of the column.

    `kl`: of labels, for training and new cells, the mean of log(share of the label among these
        cells) - log(its probability by the model): the Kullback-Leibler divergence in nats, on
        average about (labels - 1) / (2 cells) if the model is right; None for numbers
    `mean_shift`: of numbers, for both, mean of the cells minus mean of the distribution, in
        standard deviations of the distribution; None for labels
    `sd_ratio`: of numbers, for both, standard deviation of the cells over that of the distribution;
        None for labels
    `p`: p-value that training and new cells have one distribution: of labels by the G test; of
        numbers twice the smaller of two, that their means and that their variances are equal (z
        tests)
    """

    p: float
    kl: tuple[float, float] | None = None
    mean_shift: tuple[float, float] | None = None
    sd_ratio: tuple[float, float] | None = None

    def as_dict(self) -> dict[str, float | None]:
        """Plain JSON; None for what is not a finite number."""
        numbers = {"p": self.p}
        for key in ("kl", "mean_shift", "sd_ratio"):
            pair = getattr(self, key)
            numbers |= {} if pair is None else {f"train_{key}": pair[0], f"new_{key}": pair[1]}
        return {key: finite_or_none(number) for key, number in numbers.items()}


def marginal_shift(
    distribution: Mixture,
    train: Float64[np.ndarray, "train_rows"],
    new: Float64[np.ndarray, "new_rows"],
) -> MarginalShift:
    """The move of one column; `distribution` has one row, the model's for a row without cells.

    `train`, `new`: values as the family of `distribution` has them, NaN where absent.

    >>> import torch
    >>> from exfam.families import Gaussian
    >>> distribution = Mixture(Gaussian(scale=2.0), torch.ones(1, 1, 1))
    >>> marginal_shift(distribution, np.array([0.0, 2.0]), np.array([6.0, 8.0])).mean_shift
    (0.0, 3.0)
    """
    train, new = train[~np.isnan(train)], new[~np.isnan(new)]
    if distribution.family.categories:
        log_probs = distribution.probs().double()[0].log().numpy()
        n_labels = len(log_probs)
        counts = np.stack(
            [np.bincount(codes.astype(np.int64), minlength=n_labels) for codes in (train, new)]
        ).astype(np.float64)
        kl = _kl(counts[0], log_probs), _kl(counts[1], log_probs)
        return MarginalShift(_independence_p(counts), kl=kl)
    center, spread = float(distribution.mean()[0]), float(distribution.variance()[0].sqrt())
    means = moved(train, new)
    spreads = moved((train - means.train) ** 2, (new - means.new) ** 2)
    return MarginalShift(
        p=min(1.0, 2 * min(means.p, spreads.p)),
        mean_shift=((means.train - center) / spread, (means.new - center) / spread),
        sd_ratio=(math.sqrt(spreads.train) / spread, math.sqrt(spreads.new) / spread),
    )


def _kl(counts: Float64[np.ndarray, "labels"], log_probs: Float64[np.ndarray, "labels"]) -> float:
    if not counts.sum():
        return math.nan
    share = counts / counts.sum()
    seen = share > 0
    return float((share[seen] * (np.log(share[seen]) - log_probs[seen])).sum())


def _independence_p(counts: Float64[np.ndarray, "samples labels"]) -> float:
    """The G test that the samples have one distribution."""
    if not counts.sum(axis=1).all():
        return math.nan
    seen = counts[:, counts.sum(axis=0) > 0]
    if seen.shape[1] == 1:
        return 1.0
    test = scipy.stats.chi2_contingency(seen, correction=False, lambda_="log-likelihood")
    return float(test.pvalue)
