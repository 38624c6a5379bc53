"""From ridge scores and popularity to outputs: the link of the ridge base.

    eta_j = a log pop_j + b (log pop_j + 6)^2 / 10
            + g s_j + c log(softplus(100 s_j) / 100 + kappa pop_j) + d log max(s_j, 1/10000)

with a, b, g, c, d and log kappa that are lines in the log of how many items the context has. Where
a fit saw hardly any context without items, eta_j = log pop_j there.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor, maximum

# Scores far below 1 / _SHARPNESS count as nothing.
_SHARPNESS = 100.0
# Scores below this are alike in their own logarithm.
_LEAST_SCORE = 1e-4


class RidgeNumbers(NamedTuple):
    """Weights of the terms of an output, and the log of the popularity in its link."""

    popularity: Float[Tensor, "rows one"]
    score: Float[Tensor, "rows one"]
    link: Float[Tensor, "rows one"]
    curve: Float[Tensor, "rows one"]
    log_score: Float[Tensor, "rows one"]
    log_kappa: Float[Tensor, "rows one"]

    @classmethod
    def at(
        cls, numbers: Float[Tensor, "two six"], log_size: Float[Tensor, "rows"]
    ) -> "RidgeNumbers":
        """Of contexts of these sizes: `numbers[0] + numbers[1] * log_size`; of -inf (1, 0, ...)."""
        empty = log_size.isinf()
        line = numbers[0] + numbers[1] * log_size.masked_fill(empty, 0.0)[:, None]
        alone = torch.zeros_like(line)
        alone[:, 0] = 1.0
        return cls(*torch.where(empty[:, None], alone, line).T[:, :, None])

    def rows(self, rows: slice) -> "RidgeNumbers":
        """Those of some rows."""
        return RidgeNumbers(*(number[rows] for number in self))


class LinkInputs(NamedTuple):
    """Scores of some items, their log popularity, and the logs of the contexts' sizes.

    `log_size` is 0 at 4 or 5 items; of no item it is as of one, or -inf.
    """

    score: Float[Tensor, "rows chosen"]
    log_popularity: Float[Tensor, "rows_or_one chosen"]
    log_size: Float[Tensor, "rows"]


class PopularityTerms(NamedTuple):
    """What popularity adds to outputs, and what it adds within the logarithm of the link."""

    added: Float[Tensor, "rows chosen"]
    share: Float[Tensor, "rows chosen"]

    @classmethod
    def of(
        cls, log_popularity: Float[Tensor, "rows_or_one chosen"], at: RidgeNumbers
    ) -> "PopularityTerms":
        """Of contexts with these numbers."""
        added = (at.popularity * log_popularity).addcmul_(at.curve, curve_of(log_popularity))
        return cls(added, (at.log_kappa + log_popularity).exp_())

    def rows(self, index: Int64[Tensor, "index"]) -> "PopularityTerms":
        """Those of some rows, copied."""
        return PopularityTerms(*(part.index_select(0, index) for part in self))

    def among(self, chosen: Int64[Tensor, "chosen"]) -> "PopularityTerms":
        """Those of some items, copied."""
        return PopularityTerms(*(part.index_select(1, chosen) for part in self))


def chance_of(score: Float[Tensor, "rows chosen"]) -> Float[Tensor, "rows chosen"]:
    """Scores as probabilities, above 0: `softplus(100 s) / 100`."""
    # In place, and without torch's softplus, in less than half its time. From 20 on it is 100 s.
    chance = (score * _SHARPNESS).clamp_max_(20.0).exp_().log1p_().div_(_SHARPNESS)
    return maximum(chance, score, out=chance)


def curve_of(log_popularity: Float[Tensor, "rows chosen"]) -> Float[Tensor, "rows chosen"]:
    """What makes outputs a parabola in log popularity: `(log pop + 6)^2 / 10`."""
    return (log_popularity + 6).square_().div_(10)


def log_of(score: Float[Tensor, "rows chosen"]) -> Float[Tensor, "rows chosen"]:
    """The logarithm of scores from 1/10000 on."""
    return score.clamp_min(_LEAST_SCORE).log_()


def add_scores(
    terms: PopularityTerms, score: Float[Tensor, "rows chosen"], at: RidgeNumbers
) -> Float[Tensor, "rows chosen"]:
    """Outputs, in place of what popularity adds."""
    link = chance_of(score).add_(terms.share).log_()
    eta = terms.added.addcmul_(at.score, score).addcmul_(at.link, link)
    return eta.addcmul_(at.log_score, log_of(score))


def ridge_link(
    inputs: LinkInputs, numbers: Float[Tensor, "two six"]
) -> Float[Tensor, "rows chosen"]:
    """Outputs of scores and popularity, by the equation of this file."""
    at = RidgeNumbers.at(numbers, inputs.log_size)
    return add_scores(PopularityTerms.of(inputs.log_popularity, at), inputs.score, at)
