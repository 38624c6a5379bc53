"""Each value of a Gaussian vector given all others that were observed, from one inverse."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

# Entries of the covariances that are worked on at once: bounds memory.
MOST_ENTRIES = 2**22


def condition(
    covariance: Float64[Tensor, "batch length length"],
    observed: Bool[Tensor, "batch length"],
    *,
    flat_mean: bool = False,
) -> tuple[Float64[Tensor, "batch length length"], Float64[Tensor, "batch length"]]:
    """Weights and variances: leave-one-out at observed values, plain conditional at the others.

    The mean of value i is the sum of `weights[i, j]` times value j, all values having mean 0; the
    weight is 0 at j = i and wherever j is not observed. With Q the inverse covariance of the
    observed values, the weights of an observed value i are -Q_ij / Q_ii and its variance is
    1 / Q_ii. With `flat_mean` the mean is unknown and the same for all values, which is ordinary
    kriging; where no other value is observed the weights are 0 and the variance is infinite.
    Source: Dubrule (1983), Cross validation of kriging in a unique neighborhood.

    >>> covariance = torch.tensor([[[1.0, 0.5], [0.5, 1.0]]]).double()
    >>> condition(covariance, torch.ones(1, 2, dtype=torch.bool))[0]
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
    weights = torch.where(observed[..., None], 0.0 - others / pivot[..., None], weights)
    return weights, torch.where(observed, own_variance, variance)


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
    """
    distinct, like = torch.unique(signature, dim=0, return_inverse=True)
    order = torch.arange(len(like), device=like.device)
    first = order.new_full((len(distinct),), len(like)).scatter_reduce(0, like, order, "amin")
    means, variances = torch.zeros_like(value), torch.zeros_like(value)
    at_once = max(1, MOST_ENTRIES // value.shape[1] ** 2)
    for begin in range(0, len(first), at_once):
        chosen = first[begin : begin + at_once]
        weights, variance = condition(covariance(chosen), observed[chosen], flat_mean=flat_mean)
        for k in range(len(chosen)):
            rows = (like == begin + k).nonzero()[:, 0]
            means[rows] = value[rows] @ weights[k].T
            variances[rows] = variance[k]
    return means, variances
