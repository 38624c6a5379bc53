"""How much of a correction to keep: validation weighs it against its base."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from scipy.special import stdtrit
from torch import Tensor

from exfam.efa.base.scoring import Tile, fit_numbers, rows_of_tiles
from exfam.estimator.evaluate import log_probs
from exfam.groups import Groups
from exfam.groups.arrange import sequential_batches
from exfam.likelihoods.two_part import TwoPartModel

# Targets that the two numbers are fitted to, and outputs of theirs at most.
MOST_TARGETS, MOST_OUTPUTS = 4_000, 20_000_000
# How firmly the base is held as it is and the correction at 0, in nats of all targets together; a
# correction that gains less than this in all of them is switched off.
_HOLD = 2.0

Sums = Float[np.ndarray, "groups"]
# Members and the groups that none of them was trained on.
HeldOut = tuple[Sequence[TwoPartModel], Groups]


@dataclass(frozen=True)
class Gain:
    """What the correction added to its base on the validation groups, in nats a target.

    `low`, `high`: a 95 % interval by groups. The same groups chose the epoch and the weights, so
    that new data gain a little less. `base_nats`: of the base alone, there. `scale`, `gate`: the
    weights of the base and of the correction.
    """

    base_nats: float
    nats: float
    low: float
    high: float
    n_groups: int
    scale: float
    gate: float

    def __str__(self) -> str:
        if not self.gate:
            return (
                "Attention added nothing that validation could see, and is switched off: "
                "predictions are those of the base."
            )
        return (
            f"Attention added {self.nats:.3f} nats an element to its base (95 % interval "
            f"{self.low:.3f} to {self.high:.3f}, {self.n_groups:,} validation groups)."
        )


def set_gates(held_out: Sequence[HeldOut], *, seed: int) -> Gain:
    """Weigh the members' corrections against their bases.

    Members that held out groups of their own are weighed by all of these together. Corrections
    whose gain may be chance, since its interval reaches 0, are switched off.
    """
    parts: list[Any] = [member.item_part for members, _ in held_out for member in members]
    scale, gate = _weights(held_out, seed=seed)
    _weigh(parts, scale, gate)
    gain = _gain(held_out, scale, gate)
    if gain.low > 0 or not gate:
        return gain
    _weigh(parts, 1.0, 0.0)
    return Gain(gain.base_nats, 0.0, 0.0, 0.0, gain.n_groups, 1.0, 0.0)


def _weigh(parts: Sequence[Any], scale: float, gate: float) -> None:
    for part in parts:
        part.weigh(scale, gate)


def _weights(held_out: Sequence[HeldOut], *, seed: int) -> tuple[float, float]:
    """Of the base and of the correction, of the least nats of single members."""
    pairs = [(member, groups) for members, groups in held_out for member in members]
    if not any(parameter.requires_grad for member, _ in pairs for parameter in member.parameters()):
        return 1.0, 0.0
    some = [_outputs(*pair, seed=seed, share=len(pairs)) for pair in pairs]
    base, correction, support, item = (torch.cat(part) for part in zip(*some, strict=True))
    n = max(1, len(item))

    def tiles(weights: Tensor) -> Iterator[Tile]:
        for rows in rows_of_tiles(*base.shape):
            slopes = [base[rows], correction[rows]]
            eta = weights[0] * slopes[0] + weights[1] * slopes[1] + support[rows]
            yield eta, slopes, item[rows], torch.ones_like(eta[:, :1])

    alone, hold = torch.tensor([1.0, 0.0]), _HOLD / n
    weights, with_it = fit_numbers(tiles, start=torch.ones(2), center=alone, hold=hold)
    _, without = fit_numbers(tiles, start=alone, center=alone, hold=hold, n_steps=0)
    if weights[1] <= 0 or (without - with_it) * n < _HOLD:
        weights = alone
    return float(weights[0]), float(weights[1])


def _outputs(
    member: TwoPartModel, validation: Groups, *, seed: int, share: int
) -> tuple[Tensor, Tensor, Tensor, Int64[Tensor, "rows"]]:
    """Base, correction and what the support adds, of all items at some targets; their own items.

    `share`: how many members share the targets.
    """
    member.eval()
    part: Any = member.item_part
    most = max(100, min(MOST_TARGETS, MOST_OUTPUTS // part.n_items) // share)
    order = np.random.default_rng([seed, 9]).permutation(len(validation))
    sizes = (validation.stop - validation.start)[order]
    some = validation[np.sort(order[: int(np.searchsorted(np.cumsum(sizes), most)) + 1])]
    codes = torch.arange(part.n_items, device=part.gate.device)
    support: Any = member.support
    parts: list[tuple[Tensor, ...]] = []
    with torch.no_grad():
        # Of a large catalog the outputs of a few elements are many.
        for index in sequential_batches(some, max_tokens=max(1, MOST_OUTPUTS // part.n_items)):
            batch = some.pad(index).to(codes.device)
            assert batch.item is not None
            where = (batch.target & (batch.item >= 0)).nonzero(as_tuple=True)
            correction = part.correction.eta(batch)
            added = support(torch.zeros_like(correction), batch, member.direction)
            base = part.base.outputs(batch, where, codes)
            parts.append((base, correction[where], added[where], batch.item[where].long()))
    base, correction, added, item = (torch.cat(part)[:most] for part in zip(*parts, strict=True))
    return base, correction, added, item


def _gain(held_out: Sequence[HeldOut], scale: float, gate: float) -> Gain:
    """Nats with the correction less those without, by groups."""
    added, size, base_nats = zip(*(_added(*part, scale, gate) for part in held_out), strict=True)
    total, sizes = np.concatenate(added), np.concatenate(size)
    n, n_groups = max(1, int(sizes.sum())), int((sizes > 0).sum())
    mean = float(total.sum() / n)
    # The error of a ratio of sums over groups; of a single group nothing is known of it.
    rest = np.square(total - mean * sizes).sum() * n_groups / max(1, n_groups - 1)
    times = float(stdtrit(max(1, n_groups - 1), 0.975))
    half = times * math.sqrt(rest) / n if n_groups > 1 else math.inf
    half = half if gate else 0.0
    nats = sum(base_nats) / n
    return Gain(nats, mean, mean - half, mean + half, n_groups, scale, gate)


def _added(
    members: Sequence[TwoPartModel], validation: Groups, scale: float, gate: float
) -> tuple[Sums, Sums, float]:
    """What the correction adds to each group's nats, how many targets it has, and all base nats."""
    parts = [member.item_part for member in members]
    with_it = log_probs(members, validation)["item"]
    _weigh(parts, 1.0, 0.0)
    without = log_probs(members[:1], validation)["item"]
    _weigh(parts, scale, gate)
    own = validation.elements()
    group = np.repeat(np.arange(len(validation)), validation.stop - validation.start)
    added = (with_it - without)[own]
    counts = ~np.isnan(added)
    total = np.bincount(group[counts], weights=added[counts], minlength=len(validation))
    size = np.bincount(group[counts], minlength=len(validation))
    return total, size.astype(float), float(without[own][counts].sum())
