"""A normal distribution of slots: moments from incomplete rows, conditionals of any subset."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

# EM stops when no entry of the covariance moves by more than this share of the largest variance.
TOLERANCE = 1e-4
MAX_STEPS = 100
# Of the matrices that are held at once, one for each row.
MOST_NUMBERS = 1 << 22


class SlotRows(NamedTuple):
    """One number per slot in each row; what is not `known` may hold anything finite."""

    value: Float[Tensor, "rows slots"]
    known: Bool[Tensor, "rows slots"]

    def take(self, index: Tensor) -> "SlotRows":
        """Some of the rows."""
        return SlotRows(self.value[index], self.known[index])


class JointNormal(NamedTuple):
    """Mean and covariance of a joint normal distribution."""

    mean: Float[Tensor, "slots"]
    covariance: Float[Tensor, "slots slots"]


class _Part(NamedTuple):
    """Some rows, by which slots they know, with the precision of these slots, 0 elsewhere."""

    row: slice
    kinds: Bool[Tensor, "kinds slots"]
    kind: Int[Tensor, "some"]
    precision: Float[Tensor, "kinds slots slots"]


def leave_one_out(
    normal: JointNormal, rows: SlotRows
) -> tuple[Float[Tensor, "rows slots"], Float[Tensor, "rows slots"]]:
    """Mean and variance of every slot given the known others of its row.

    A known slot is left out of what is given: with P the precision of the known slots its mean is
    z_i - (P z)_i / P_ii and its variance 1 / P_ii. Rows that know the same slots share one
    factorization.

    >>> normal = JointNormal(torch.zeros(2), torch.tensor([[1.0, 0.6], [0.6, 1.0]]))
    >>> rows = SlotRows(torch.tensor([[2.0, 0.0]]), torch.tensor([[True, False]]))
    >>> mean, variance = leave_one_out(normal, rows)
    >>> mean.tolist(), [round(v, 2) for v in variance[0].tolist()]
    ([[0.0, 1.2000000476837158]], [1.0, 0.64])
    """
    means, variances = [], []
    prior = normal.covariance.diagonal()
    for part in _parts(normal, rows.known):
        value, known = rows.value[part.row], rows.known[part.row]
        weight = _weights(normal, rows, part)
        own = torch.where(part.kinds, part.precision.diagonal(dim1=1, dim2=2), 1.0)
        explained = ((normal.covariance @ part.precision) * normal.covariance).sum(-1)
        spread = torch.where(part.kinds, own.reciprocal(), prior - explained)
        given_all = normal.mean + weight @ normal.covariance
        means.append(torch.where(known, value - weight / own[part.kind], given_all))
        variances.append(spread[part.kind])
    return torch.cat(means), torch.cat(variances)


def fit_normal(rows: SlotRows, *, ridge: float, start: JointNormal | None = None) -> JointNormal:
    """Mean and covariance of the rows, with `ridge` on the diagonal.

    The maximum of the log-likelihood minus (n / 2) ridge tr(covariance^-1): the second moments
    plus the ridge where all is known, else by expectation-maximization (Little & Rubin, ch. 8).
    Slots that no row knows keep mean 0 and variance 1 + ridge of their own.

    >>> value = torch.tensor([[1.0, 2.0], [3.0, 6.0]])
    >>> normal = fit_normal(SlotRows(value, torch.ones(2, 2, dtype=torch.bool)), ridge=0.5)
    >>> normal.mean.tolist(), normal.covariance.tolist()
    ([2.0, 4.0], [[1.5, 2.0], [2.0, 4.5]])
    """
    normal = start if start is not None else _start(rows, ridge=ridge)
    seen = rows.known.any(0)
    complete = bool((rows.known | ~seen).all())
    for _ in range(1 if complete else MAX_STEPS):
        previous, normal = normal, _step(normal, rows, ridge=ridge, seen=seen)
        moved = (normal.covariance - previous.covariance).abs().max()
        if moved <= TOLERANCE * normal.covariance.diagonal().max():
            break
    return normal


def _parts(normal: JointNormal, known: Bool[Tensor, "rows slots"]) -> Iterator[_Part]:
    """The rows in parts whose matrices fit into memory."""
    n_slots = known.shape[1]
    size = max(1, MOST_NUMBERS // n_slots**2)
    eye = torch.eye(n_slots, dtype=normal.covariance.dtype, device=normal.covariance.device)
    for first in range(0, len(known), size):
        row = slice(first, first + size)
        kinds, kind = torch.unique(known[row], dim=0, return_inverse=True)
        both = kinds[:, :, None] & kinds[:, None, :]
        factor = torch.linalg.cholesky(torch.where(both, normal.covariance, eye))
        precision = torch.where(both, torch.cholesky_inverse(factor), 0.0)
        yield _Part(row, kinds, kind, precision)


def _weights(normal: JointNormal, rows: SlotRows, part: _Part) -> Float[Tensor, "some slots"]:
    """P z of each row: the other slots' means are the normal's own plus S P z."""
    z = torch.where(rows.known[part.row], rows.value[part.row] - normal.mean, 0.0)
    order = torch.argsort(part.kind, stable=True)
    count = torch.bincount(part.kind, minlength=len(part.kinds)).tolist()
    pairs = zip(z[order].split(count), part.precision, strict=True)
    return torch.cat([some @ precision for some, precision in pairs])[torch.argsort(order)]


def _start(rows: SlotRows, *, ridge: float) -> JointNormal:
    """Each slot's own mean and variance, no covariance."""
    count = rows.known.sum(0).clamp_min(1)
    value = torch.where(rows.known, rows.value, 0.0)
    mean = value.sum(0) / count
    variance = (torch.where(rows.known, value - mean, 0.0) ** 2).sum(0) / count
    return JointNormal(mean, torch.diag(torch.where(rows.known.any(0), variance, 1.0) + ridge))


def _step(
    normal: JointNormal, rows: SlotRows, *, ridge: float, seen: Bool[Tensor, "slots"]
) -> JointNormal:
    fills, doubt = [], torch.zeros_like(normal.covariance)
    for part in _parts(normal, rows.known):
        given = normal.mean + _weights(normal, rows, part) @ normal.covariance
        fills.append(torch.where(rows.known[part.row], rows.value[part.row], given))
        left = normal.covariance - normal.covariance @ part.precision @ normal.covariance
        hidden = ~part.kinds[:, :, None] & ~part.kinds[:, None, :]
        count = torch.bincount(part.kind, minlength=len(part.kinds)).to(left.dtype)
        doubt += torch.einsum("k,kst->st", count, torch.where(hidden, left, 0.0))
    filled = torch.cat(fills)
    mean = filled.mean(0)
    centered = filled - mean
    second = (centered.T @ centered + doubt) / len(filled)
    own = torch.where(seen, second.diagonal(), 1.0) + ridge
    return JointNormal(mean, second - torch.diag(second.diagonal()) + torch.diag(own))
