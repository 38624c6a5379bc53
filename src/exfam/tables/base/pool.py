"""Predictions of several members pooled in log space, by the share of cells that are missing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from exfam.training.lbfgs import find_minimum

# Shares of missing cells at which weights are learned; between them they are interpolated.
SHARES = (0.0, 0.15, 0.35, 0.65, 1.0)
# Weights are shrunk to equal ones as if by so many rows, that of the first member, which knows
# nothing of a row, to this multiple (a logarithm) of the others'.
_ROWS_OF_SHRINKAGE = 1.0
_LOG_OF_FIRST = -2.0
_STEPS = 60
# Lighter tails gain .01 nats where new rows are like those of training, and lose several where
# they are not.
DEGREES = (3.0, 4.0)
# What members' disagreement adds to the scale of rows far outside of those of training, of which
# held rows say nothing.
_OUTSIDE = 3.0
# Of locations, in standard units: where members agree on all there is nothing to be sure of.
_LEAST_VARIANCE = 1e-12


@dataclass(frozen=True, eq=False)
class Pool:
    """Weights of members at each of SHARES; they sum to 1 times the temperature.

    `scale`: of numbers, an added log scale, the factor of the network's own, and how much members'
        disagreement widens it; `df`: of theirs
    """

    weights: Float64[np.ndarray, "shares members"]
    scale: Float64[np.ndarray, "shares 3"]
    df: float = 4.0

    def at(
        self, share: Float64[np.ndarray, "rows"]
    ) -> tuple[Float64[np.ndarray, "rows members"], Float64[np.ndarray, "rows 3"]]:
        """Weights and scales of rows with these shares of missing cells."""
        both = np.hstack([self.weights, self.scale])
        at = np.stack([np.interp(share, SHARES, column) for column in both.T], axis=1)
        return at[:, : self.weights.shape[1]], at[:, self.weights.shape[1] :]


def widened(
    scales: Float64[np.ndarray, "#rows 3"],
    log_scale: Float64[np.ndarray, "rows"],
    variance: Float64[np.ndarray, "rows"],
    outside: float | Float64[np.ndarray, "rows"] = 0.0,
) -> Float64[np.ndarray, "rows"]:
    """The log scale of a pool of numbers, with the variance of members' locations added.

    `outside`: of training rows, by `View.outside`; there members' disagreement counts more
    """
    added, factor, share = scales.T
    share = share**2 + (_OUTSIDE * outside / (1 + outside)) ** 2
    log_variance = np.log(np.maximum(share * variance, _LEAST_VARIANCE))
    wider: np.ndarray = 0.5 * np.logaddexp(2 * (added + factor * log_scale), log_variance)
    return wider


def disagreement(
    locations: Sequence[Float64[np.ndarray, "members rows"]],
) -> Float64[np.ndarray, "rows"]:
    """The variance of the locations of all members, of each fold, but the constant ones."""
    return np.concatenate([own[1:] for own in locations]).var(0)


def pool_labels(
    log_probs: Sequence[Float64[np.ndarray, "members rows labels"]],
    y: Float64[np.ndarray, "rows"],
    weight: Float64[np.ndarray, "rows"],
) -> Pool:
    """The pool of labels of least nats; `log_probs`: of rows held out, at each of SHARES."""
    own, share = torch.from_numpy(y.astype(np.int64)), torch.from_numpy(weight / weight.sum())
    shrinkage = _ROWS_OF_SHRINKAGE / len(y)
    weights = []
    for at_share in log_probs:
        outputs = torch.from_numpy(np.asarray(at_share))

        def nats(free: Tensor, outputs: Tensor = outputs) -> Tensor:
            mixed = torch.einsum("m,mrk->rk", _shares(free[:-1]) * free[-1].exp(), outputs)
            log_prob = mixed.log_softmax(-1).gather(-1, own[:, None])[:, 0]
            return -(share * log_prob).sum() + shrinkage * free.square().sum()

        free = _minimum(nats, len(outputs) + 1)
        weights.append((_shares(free[:-1]) * free[-1].exp()).numpy())
    return Pool(np.stack(weights), np.zeros((len(weights), 3)))


def pool_numbers(
    locations: Sequence[Float64[np.ndarray, "members rows"]],
    log_scales: Sequence[Float64[np.ndarray, "rows"]],
    y: Float64[np.ndarray, "rows"],
    weight: Float64[np.ndarray, "rows"],
    *,
    widens: bool = True,
) -> Pool:
    """The pool of numbers of least nats, its degrees of freedom by those of complete rows.

    `widens`: whether members' disagreement adds to the scale; not where later members, fitted to
        the rows given here as well, will disagree less than these
    """
    given = locations, log_scales, y, weight
    pools = [_of_numbers(*given, df=df, widens=widens) for df in DEGREES]
    return min(pools, key=lambda pair: pair[1])[0]


def _of_numbers(
    locations: Sequence[Float64[np.ndarray, "members rows"]],
    log_scales: Sequence[Float64[np.ndarray, "rows"]],
    y: Float64[np.ndarray, "rows"],
    weight: Float64[np.ndarray, "rows"],
    *,
    df: float,
    widens: bool,
) -> tuple[Pool, float]:
    value, share = torch.from_numpy(y), torch.from_numpy(weight / weight.sum())
    weights, scales, total = [], [], 0.0
    for k, at_share in enumerate(locations):
        location = torch.from_numpy(np.asarray(at_share))
        log_scale = torch.from_numpy(np.asarray(log_scales[k]))
        variance = torch.from_numpy(disagreement([at_share]) * widens)
        nats = _number_nats(location, log_scale, variance, value, share, df=df)
        free = _minimum(nats, len(location) + 3)
        weights.append(_shares(free[:-3]).numpy())
        scales.append([float(free[-3]), float(1 + free[-2]), widens * float(free[-1].exp())])
        total += float(nats(free)) if k == 0 else 0.0
    return Pool(np.stack(weights), np.array(scales), df), total


def _number_nats(
    location: Tensor,
    log_scale: Tensor,
    variance: Tensor,
    value: Tensor,
    share: Tensor,
    *,
    df: float,
) -> Callable[[Tensor], Tensor]:
    constant = (
        torch.lgamma(torch.tensor(df / 2))
        - torch.lgamma(torch.tensor((df + 1) / 2))
        + 0.5 * torch.log(torch.tensor(df * torch.pi))
    )

    log_variance = variance.clamp_min(_LEAST_VARIANCE).log()

    def nats(free: Tensor) -> Tensor:
        mixed = _shares(free[:-3]) @ location
        added, factor, spread = free[-3:]
        own_scale = added + (1 + factor) * log_scale
        scale = torch.logaddexp(2 * own_scale, 2 * spread + log_variance) / 2
        z = (value - mixed) * (-scale).exp()
        own = (df + 1) / 2 * torch.log1p(z.square() / df) + scale + constant
        shrinkage = _ROWS_OF_SHRINKAGE / len(value)
        return (share * own).sum() + shrinkage * (free.square().sum() - added.square())

    return nats


def _minimum(nats: Callable[[Tensor], Tensor], n_numbers: int) -> Float[Tensor, " numbers"]:
    start = torch.zeros(n_numbers, dtype=torch.float64)
    return find_minimum(nats, start, n_steps=_STEPS, tolerance=1e-9, least_slope=1e-7)


def _shares(free: Float[Tensor, " members"]) -> Float[Tensor, " members"]:
    """Weights that sum to 1."""
    first = torch.zeros_like(free)
    first[0] = _LOG_OF_FIRST
    return (free + first).softmax(0)
