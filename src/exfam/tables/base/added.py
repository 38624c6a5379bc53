"""What network and trees added to the linear predictors, on rows that were held out."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float64
from scipy.special import log_softmax

from exfam.estimator.gain import Gain, gain_of_sums
from exfam.tables.base.pool import Pool, disagreement, pool_labels, pool_numbers, widened
from exfam.tables.base.response import n_apart
from exfam.tables.base.unit import Unit

_LINEAR = ("constant", "ridge", "linear", "products", "ordered")


@dataclass(frozen=True, eq=False)
class NumberOutputs:
    """What members say of complete rows, in their unit.

    `log_scale`: with the network's; `alone`: of the linear predictor by itself
    """

    unit: Unit
    location: Float64[np.ndarray, "members rows"]
    log_scale: Float64[np.ndarray, "rows"]
    alone: Float64[np.ndarray, "rows"]


def added_to_labels(
    pool: Pool,
    log_probs: Float64[np.ndarray, "members rows labels"],
    y: Float64[np.ndarray, "rows"],
    weight: Float64[np.ndarray, "rows"],
    *,
    members: Sequence[str],
) -> Gain | None:
    """The nats a row that the pool is better by than its linear members, pooled by themselves.

    `log_probs`: what each of the `members` says of every label, of complete rows that none of them
        was fitted to

    None if all are linear.
    """
    linear = _linear(members)
    if len(linear) == len(members):
        return None
    alone = pool_labels([log_probs[linear]], y, weight)
    base = _label_nats(alone, log_probs[linear], y)
    return _gain(pool, members, base, _label_nats(pool, log_probs, y), weight)


def added_to_numbers(
    pool: Pool,
    outputs: NumberOutputs,
    y: Float64[np.ndarray, "rows"],
    weight: Float64[np.ndarray, "rows"],
    *,
    members: Sequence[str],
) -> Gain | None:
    """The same of numbers, `y` as they were given."""
    linear, unit = _linear(members), outputs.unit
    if len(linear) == len(members):
        return None
    location, scale = outputs.location[linear], outputs.alone
    given, apart = ([location], [scale], unit.to_unit(y), weight), n_apart(members)
    bins = unit.bins_of(y) if unit.of_counts else None
    alone = pool_numbers(*given, least=unit.least, n_apart=apart, bins=bins)
    nats = partial(_number_nats, unit=unit, apart=apart)
    base = nats(alone, location, scale, y)
    pooled = nats(pool, outputs.location, outputs.log_scale, y)
    return _gain(pool, members, base, pooled, weight)


def _label_nats(
    pool: Pool,
    log_probs: Float64[np.ndarray, "members rows labels"],
    y: Float64[np.ndarray, "rows"],
) -> Float64[np.ndarray, "rows"]:
    mixed = log_softmax(np.einsum("m,mrk->rk", pool.weights[0], log_probs), axis=1)
    return -mixed[np.arange(len(y)), y.astype(np.int64)]


def _number_nats(
    pool: Pool,
    location: Float64[np.ndarray, "members rows"],
    log_scale: Float64[np.ndarray, "rows"],
    y: Float64[np.ndarray, "rows"],
    *,
    unit: Unit,
    apart: int,
) -> Float64[np.ndarray, "rows"]:
    scale = widened(pool.scale[:1], log_scale, disagreement([location], n_apart=apart))
    eta = unit.eta(pool.weights[0] @ location, scale, pool.df)
    return -unit.family.log_prob(torch.from_numpy(y), torch.from_numpy(eta)).numpy()


def _linear(members: Sequence[str]) -> list[int]:
    return [k for k, name in enumerate(members) if name in _LINEAR]


def _gain(
    pool: Pool,
    members: Sequence[str],
    base: Float64[np.ndarray, "rows"],
    pooled: Float64[np.ndarray, "rows"],
    weight: Float64[np.ndarray, "rows"],
) -> Gain:
    share = weight / weight.mean()
    linear = float(pool.weights[0, _linear(members)].sum())
    return gain_of_sums(
        share * (base - pooled),
        np.ones(len(base)),
        float((share * base).sum()),
        weights=(linear, float(pool.weights[0].sum()) - linear),
        part="Network and trees" if "network" in members else "Trees",
        groups="held-out rows",
    )
