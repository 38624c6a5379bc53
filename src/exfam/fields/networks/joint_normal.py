"""Gaussian vectors, partly known: conditionals, and moments of incomplete rows."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from exfam.fields.base.conditionals import PatternPart, given_all, pattern_parts
from exfam.fields.base.moments import filled_rows

# EM stops when no entry of the covariance moves by more than this share of the largest variance.
TOLERANCE = 1e-4
MAX_STEPS = 100
# Entries of the matrices that are worked on at once: bounds memory.
MOST_ENTRIES = 2**22

Matrices = Float64[Tensor, "batch length length"]
Values = Float64[Tensor, "batch length"]
Slots = Float[Tensor, "rows slots"]


def condition(
    covariance: Matrices, observed: Bool[Tensor, "batch length"], *, flat_mean: bool = False
) -> tuple[Matrices, Values]:
    """Weights and variances: leave-one-out at observed values, plain conditional at the others.

    The mean of value i is the sum of `weights[i, j]` times value j, all values having mean 0. With
    Q the inverse covariance of the observed values, the weights of an observed value i are -Q_ij /
    Q_ii and its variance is 1 / Q_ii. With `flat_mean` the mean is unknown and the same for all
    values, which is ordinary kriging; where no other value is observed the variance is infinite.
    Source: Dubrule (1983), Cross validation of kriging in a unique neighborhood.
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
    value: Values,
    observed: Bool[Tensor, "batch length"],
    *,
    signature: Float64[Tensor, "batch numbers"],
    covariance: Callable[[Int64[Tensor, "rows"]], Matrices],
    flat_mean: bool = False,
) -> tuple[Values, Values]:
    """Conditional means and variances; rows with one signature share one factorization.

    `covariance`: the covariances of the rows at some indices
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


class SlotRows(NamedTuple):
    """One number per slot in each row; what is not `known` may hold anything finite."""

    value: Slots
    known: Bool[Tensor, "rows slots"]

    def take(self, index: Tensor) -> "SlotRows":
        """Some of the rows."""
        return SlotRows(self.value[index], self.known[index])


class JointNormal(NamedTuple):
    """Mean and covariance of a joint normal distribution of slots."""

    mean: Float[Tensor, "slots"]
    covariance: Float[Tensor, "slots slots"]


def leave_one_out(normal: JointNormal, rows: SlotRows) -> tuple[Slots, Slots]:
    """Mean and variance of every slot given the known others of its row.

    With P the precision of the known slots the mean of one of them is z_i - (P z)_i / P_ii and its
    variance 1 / P_ii.
    """
    z, slots = rows.value - normal.mean, torch.arange(rows.value.shape[1])
    given = given_all(z, rows.known, normal.covariance, slots)
    return normal.mean + given.mean, given.variance


def fit_normal(rows: SlotRows, *, ridge: float, start: JointNormal | None = None) -> JointNormal:
    """Mean and covariance of the rows, with `ridge` on the diagonal.

    The maximum of the log-likelihood minus (n / 2) ridge tr(covariance^-1), by
    expectation-maximization where something is missing (Little & Rubin, ch. 8). Slots that no row
    knows keep mean 0 and variance 1 + ridge.
    """
    normal = start
    if normal is None:
        count = rows.known.sum(0).clamp_min(1)
        mean = torch.where(rows.known, rows.value, 0.0).sum(0) / count
        variance = (torch.where(rows.known, rows.value - mean, 0.0) ** 2).sum(0) / count
        variance = torch.where(rows.known.any(0), variance, 1.0) + ridge
        normal = JointNormal(mean, torch.diag(variance))
    seen, parts = rows.known.any(0), pattern_parts(rows.known)
    complete = bool((rows.known | ~seen).all())
    for _ in range(1 if complete else MAX_STEPS):
        previous, normal = normal, _step(normal, rows, parts, ridge=ridge, seen=seen)
        moved = (normal.covariance - previous.covariance).abs().max()
        if moved <= TOLERANCE * normal.covariance.diagonal().max():
            break
    return normal


def _step(
    normal: JointNormal,
    rows: SlotRows,
    parts: Sequence[PatternPart],
    *,
    ridge: float,
    seen: Bool[Tensor, "slots"],
) -> JointNormal:
    z = torch.where(rows.known, rows.value - normal.mean, 0.0)
    filled, left = filled_rows(z, parts, normal.covariance)
    shift = filled.mean(0)
    centered = filled - shift
    second = (centered.T @ centered + left) / len(filled)
    own = torch.where(seen, second.diagonal(), 1.0) + ridge
    covariance = second - torch.diag(second.diagonal()) + torch.diag(own)
    return JointNormal(normal.mean + shift, covariance)
