"""How far the cells of one column moved from its law by the model, whatever the other columns."""

import math
from dataclasses import dataclass

import numpy as np
import scipy.stats
from jaxtyping import Float64

from exfam.families.mixtures import Mixture
from exfam.tables.shift.moves import moved

__all__ = ["MarginalShift", "label_counts", "marginal_shift"]


@dataclass(frozen=True)
class MarginalShift:
    """The cells of training and of new rows beside the model's marginal law of the column.

    `kl`: of labels, for training and new cells, the mean of log(share of the label among these
        cells) - log(its probability by the model): the Kullback-Leibler divergence in nats, on
        average about (labels - 1) / (2 cells) if the model's law is the true one; None for numbers
    `mean_shift`: of numbers, for both, mean of the cells minus mean of the law, in standard
        deviations of the law; None for labels
    `sd_ratio`: of numbers, for both, standard deviation of the cells over that of the law; None
        for labels
    `p`: p-value that training and new cells have one law: of labels by the G test; of numbers
        twice the smaller of two, that their means and that their variances are equal (z tests)

    >>> MarginalShift(p=0.5, kl=(0.0, 0.1)).kl
    (0.0, 0.1)
    """

    p: float
    kl: tuple[float, float] | None = None
    mean_shift: tuple[float, float] | None = None
    sd_ratio: tuple[float, float] | None = None

    def as_dict(self) -> dict[str, float | None]:
        """Plain JSON; None for what is not a finite number."""
        told = {"p": self.p}
        for key in ("kl", "mean_shift", "sd_ratio"):
            pair = getattr(self, key)
            told |= {} if pair is None else {f"train_{key}": pair[0], f"new_{key}": pair[1]}
        return {key: number if math.isfinite(number) else None for key, number in told.items()}


def marginal_shift(
    law: Mixture, train: Float64[np.ndarray, "train_rows"], new: Float64[np.ndarray, "new_rows"]
) -> MarginalShift:
    """The move of one column; `law` has one row, the model's for a row without cells.

    `train`, `new`: values as the family of `law` knows them, NaN where absent.

    >>> import torch
    >>> from exfam.families import Gaussian
    >>> law = Mixture(Gaussian(scale=2.0), torch.ones(1, 1, 1))
    >>> marginal_shift(law, np.array([0.0, 2.0]), np.array([6.0, 8.0])).mean_shift
    (0.0, 3.0)
    """
    train, new = train[~np.isnan(train)], new[~np.isnan(new)]
    if law.family.categories:
        log_law = law.probs().double()[0].log().numpy()
        counts = np.stack([label_counts(train, len(log_law)), label_counts(new, len(log_law))])
        return MarginalShift(
            _independence_p(counts), kl=(_kl(counts[0], log_law), _kl(counts[1], log_law))
        )
    center, spread = float(law.mean()[0]), float(law.variance()[0].sqrt())
    means = moved(train, new)
    spreads = moved((train - means.train) ** 2, (new - means.new) ** 2)
    return MarginalShift(
        p=min(1.0, 2 * min(means.p, spreads.p)),
        mean_shift=((means.train - center) / spread, (means.new - center) / spread),
        sd_ratio=(math.sqrt(spreads.train) / spread, math.sqrt(spreads.new) / spread),
    )


def label_counts(
    value: Float64[np.ndarray, "rows"], n_labels: int
) -> Float64[np.ndarray, "labels"]:
    """How often each label occurs among codes without NaN.

    >>> label_counts(np.array([0.0, 2.0, 2.0]), 3)
    array([1., 0., 2.])
    """
    return np.bincount(value.astype(np.int64), minlength=n_labels).astype(np.float64)


def _kl(counts: Float64[np.ndarray, "labels"], log_law: Float64[np.ndarray, "labels"]) -> float:
    if not counts.sum():
        return math.nan
    share = counts / counts.sum()
    seen = share > 0
    return float((share[seen] * (np.log(share[seen]) - log_law[seen])).sum())


def _independence_p(counts: Float64[np.ndarray, "samples labels"]) -> float:
    """The G test that the samples have one law."""
    if not counts.sum(axis=1).all():
        return math.nan
    seen = counts[:, counts.sum(axis=0) > 0]
    if seen.shape[1] == 1:
        return 1.0
    told = scipy.stats.chi2_contingency(seen, correction=False, lambda_="log-likelihood")
    return float(told.pvalue)
