"""Each value of a Gaussian vector given all others that were observed, from one inverse."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

__all__ = ["Given", "condition", "conditionals"]

# Entries of the covariances that are worked on at once: bounds memory.
MOST_ENTRIES = 2**22


@dataclass(frozen=True, eq=False)
class Given:
    """What the observed values say of each value: weights of the observed ones, and a variance.

    The mean of value i is the sum of `weights[i, j]` times value j, with 0 at j = i and wherever
    j is not observed.

    >>> weights, variance = torch.zeros(1, 1, 1).double(), torch.ones(1, 1).double()
    >>> Given(weights, variance).mean(torch.ones(1, 1).double())
    tensor([[0.]], dtype=torch.float64)
    """

    weights: Float64[Tensor, "batch length length"]
    variance: Float64[Tensor, "batch length"]

    def mean(self, value: Float64[Tensor, "batch length"]) -> Float64[Tensor, "batch length"]:
        """The conditional means; values that are not observed may be anything finite."""
        return (self.weights @ value[..., None])[..., 0]


def condition(
    covariance: Float64[Tensor, "batch length length"],
    observed: Bool[Tensor, "batch length"],
    *,
    flat_mean: bool = False,
) -> Given:
    """Leave-one-out at observed values, plain conditional at the others, of mean 0.

    With Q the inverse covariance of the observed values, the weights of an observed value i are
    -Q_ij / Q_ii and its variance is 1 / Q_ii. With `flat_mean` the mean is unknown and the same
    for all values, which is ordinary kriging; where no other value is observed the weights are 0
    and the variance is infinite.
    Source: Dubrule (1983), Cross validation of kriging in a unique neighborhood.

    >>> covariance = torch.tensor([[[1.0, 0.5], [0.5, 1.0]]]).double()
    >>> condition(covariance, torch.ones(1, 2, dtype=torch.bool)).weights
    tensor([[[0.0000, 0.5000],
             [0.5000, 0.0000]]], dtype=torch.float64)
    """
    seen = observed.to(covariance.dtype)
    both = seen[:, :, None] * seen[:, None]
    identity = torch.eye(seen.shape[1], dtype=seen.dtype, device=seen.device)
    # Values that are not observed become unit variables that are independent of all others.
    inverse = torch.cholesky_inverse(
        torch.linalg.cholesky(torch.where(both > 0, covariance, identity))
    )
    inverse = inverse * both
    to_observed = covariance * seen[:, None]
    weights = to_observed @ inverse
    variance = covariance.diagonal(dim1=1, dim2=2) - (weights * to_observed).sum(-1)
    lone = torch.zeros_like(observed)
    if flat_mean:
        total = inverse.sum(-1)
        norm = total.sum(-1, keepdim=True)
        missing = 1 - weights.sum(-1)
        weights = weights + missing[..., None] * torch.where(norm > 0, total / norm, 0.0)[:, None]
        variance = variance + torch.where(norm > 0, missing.square() / norm, torch.inf)
        shared = total[:, :, None] * total[:, None]
        inverse = inverse - shared * torch.where(norm > 0, 1 / norm, 0.0)[..., None]
        lone = observed & (observed.sum(-1, keepdim=True) == 1)
    pivot = torch.where(observed & ~lone, inverse.diagonal(dim1=1, dim2=2), 1.0)
    others = torch.where(lone[..., None], 0.0, inverse) * (1 - identity)
    own_variance = torch.where(lone, torch.inf, 1 / pivot)
    return Given(
        torch.where(observed[..., None], 0.0 - others / pivot[..., None], weights),
        torch.where(observed, own_variance, variance),
    )


def conditionals(
    value: Float64[Tensor, "batch length"],
    observed: Bool[Tensor, "batch length"],
    *,
    signature: Float64[Tensor, "batch numbers"],
    covariance: Callable[[Int64[Tensor, "rows"]], Float64[Tensor, "rows length length"]],
    flat_mean: bool = False,
) -> tuple[Float64[Tensor, "batch length"], Float64[Tensor, "batch length"]]:
    """Conditional means and variances; rows with one signature share one factorization.

    `covariance` gives the covariances of the rows at some indices. Rows of equal signature must
    have equal covariances and observe the same values.

    >>> value, observed = torch.ones(2, 2).double(), torch.ones(2, 2, dtype=torch.bool)
    >>> like = torch.tensor([[1.0, 0.5], [0.5, 1.0]]).double()
    >>> def covariance(rows):
    ...     return like.expand(len(rows), 2, 2)
    >>> conditionals(value, observed, signature=value, covariance=covariance)[0]
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]], dtype=torch.float64)
    """
    first, like = _first_of_each(signature)
    means, variances = torch.zeros_like(value), torch.zeros_like(value)
    at_once = max(1, MOST_ENTRIES // value.shape[1] ** 2)
    for begin in range(0, len(first), at_once):
        chosen = first[begin : begin + at_once]
        given = condition(covariance(chosen), observed[chosen], flat_mean=flat_mean)
        for k in range(len(chosen)):
            rows = (like == begin + k).nonzero()[:, 0]
            means[rows] = value[rows] @ given.weights[k].T
            variances[rows] = given.variance[k]
    return means, variances


def _first_of_each(
    signature: Float64[Tensor, "batch numbers"],
) -> tuple[Int64[Tensor, "distinct"], Int64[Tensor, "batch"]]:
    """The first row of every distinct signature, and which of these each row is like."""
    distinct, like = torch.unique(signature, dim=0, return_inverse=True)
    first = torch.full((len(distinct),), len(signature), device=signature.device)
    rows = torch.arange(len(signature), device=signature.device)
    return first.scatter_reduce(0, like, rows, "amin"), like
