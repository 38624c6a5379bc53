"""How much of a correction to keep: validation weighs it against its base."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional

from exfam.efa.base.scoring import Tile, fit_numbers, rows_of_tiles
from exfam.estimator.evaluate import log_probs
from exfam.estimator.gain import Gain, gain_of_sums
from exfam.groups import Groups
from exfam.groups.arrange import group_of_elements, sampled_groups, sequential_batches
from exfam.likelihoods.two_part import TwoPartModel
from exfam.scores.metrics import gain_at, ranks
from exfam.training.lbfgs import LBFGS

# Targets that the two numbers are fitted to, and outputs of theirs at most.
MOST_TARGETS, MOST_OUTPUTS = 4_000, 20_000_000
# How firmly the base is held as it is and the correction at 0, in nats of all targets together; a
# correction that gains less than this in all of them is switched off.
_HOLD = 2.0
# A ranking is judged by its first so many items, and kept from being behind that of the base by
# mixing in so much of the base alone at most: a half costs about a quarter of the gain in nats.
_FIRST, _SHARES = 10, (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)

Sums = Float[np.ndarray, "groups"]
Nats = Float[np.ndarray, "elements"]
# Members and the groups that none of them was trained on.
HeldOut = tuple[Sequence[TwoPartModel], Groups]


class Weights(NamedTuple):
    """Of a base and its correction in outputs, and the share of the base alone."""

    scale: float
    gate: float
    mix: float = 0.0


ALONE = Weights(1.0, 0.0)


class ItemOutputs(NamedTuple):
    """Of all items at some targets, and their own items."""

    base: Float[Tensor, "rows items"]
    correction: Float[Tensor, "rows items"]
    support: Float[Tensor, "rows items"]
    item: Int64[Tensor, "rows"]

    def rows(self, rows: slice) -> "ItemOutputs":
        """Of some targets."""
        return ItemOutputs(*(part[rows] for part in self))


def set_gates(held_out: Sequence[HeldOut], *, seed: int) -> Gain:
    """Weigh the members' corrections against their bases.

    Members that held out groups of their own are weighed by all of these together. Corrections
    whose gain may be chance, since its interval reaches 0, are switched off.
    """
    parts: list[Any] = [member.item_part for members, _ in held_out for member in members]
    weights = _weights(held_out, seed=seed)
    _weigh(parts, weights)
    gain = _gain(held_out, weights)
    if gain.low > 0 or not weights.gate:
        return gain
    _weigh(parts, ALONE)
    return Gain(gain.base_nats, 0.0, 0.0, 0.0, gain.n_groups, *ALONE)


def _weigh(parts: Sequence[Any], weights: Weights) -> None:
    for part in parts:
        part.weigh(*weights)


def _weights(held_out: Sequence[HeldOut], *, seed: int) -> Weights:
    """Of the least nats of single members."""
    pairs = [(member, groups) for members, groups in held_out for member in members]
    if not any(parameter.requires_grad for member, _ in pairs for parameter in member.parameters()):
        return ALONE
    some = [item_outputs(*pair, seed=seed, share=len(pairs)) for pair in pairs]
    outputs = ItemOutputs(*(torch.cat(part) for part in zip(*some, strict=True)))
    pooled, nats = _pooled(outputs)
    mixed, nats_mixed = _mixed(outputs, pooled)
    # The third number must be worth it.
    return _ranked(outputs, mixed if (nats - nats_mixed) * len(outputs.item) > _HOLD else pooled)


def _ranked(outputs: ItemOutputs, weights: Weights) -> Weights:
    """With as little more of the base alone as keeps the ranking from being behind the base's.

    By more than a standard error of the difference in NDCG.
    """
    if not weights.gate:
        return weights
    of_base = _gains(outputs, Weights(1.0, 0.0, 1.0))
    for share in _SHARES:
        mixed = weights._replace(mix=weights.mix + share * (1 - weights.mix))
        more = _gains(outputs, mixed) - of_base
        if more.mean() >= -more.std() / math.sqrt(max(1, len(more) - 1)):
            break
    return mixed


def _gains(outputs: ItemOutputs, weights: Weights) -> Float[np.ndarray, "rows"]:
    """What each target adds to NDCG."""
    scale, gate, mix = weights
    found = [np.zeros(0)]
    for rows in rows_of_tiles(*outputs.base.shape):
        base, correction, support, item = outputs.rows(rows)
        probability = (base * scale + correction * gate + support).softmax(1)
        if mix:
            probability = torch.lerp(probability, (base + support).softmax(1), mix)
        found.append(gain_at(ranks(probability.cpu().numpy(), item.cpu().numpy()), k=_FIRST))
    return np.concatenate(found)


def _pooled(outputs: ItemOutputs) -> tuple[Weights, float]:
    """Weights of outputs, and their nats a target; those of the base where a correction is vain."""
    base, correction, support, item = outputs
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
        return ALONE, without
    return Weights(*weights.tolist()), with_it


def _mixed(outputs: ItemOutputs, pooled: Weights) -> tuple[Weights, float]:
    """Weights and a share of the base alone, and their nats a target.

    From two starts: the pool with little of the base alone, the correction with much of it.
    """
    n = max(1, len(outputs.item))
    alone = [_own_nats(outputs.rows(rows)) for rows in rows_of_tiles(*outputs.base.shape)]

    def nats(numbers: Tensor) -> float:
        """Those of all rows, held as those of the pool and at an even share; sets gradients."""
        start, softness = numbers.new_tensor([1.0, 0.0, 0.0]), numbers.new_tensor([1.0, 1.0, 0.01])
        change = numbers.detach() - start
        total = float((softness * change.square()).sum()) * _HOLD
        gradient = 2 * _HOLD * softness * change
        for rows, own in zip(rows_of_tiles(*outputs.base.shape), alone, strict=True):
            of_tile, slopes = _mixed_nats(outputs.rows(rows), own, numbers.detach())
            total, gradient = total + of_tile, gradient + slopes
        numbers.grad = gradient / n
        return total / n

    found = []
    for start in ((pooled.scale, pooled.gate, -2.0), (0.0, 1.0, 1.0)):
        numbers = torch.tensor(start, requires_grad=True)
        lbfgs = LBFGS([numbers], max_iter=30, line_search_fn="strong_wolfe", tolerance_change=1e-6)
        lbfgs.step(lambda numbers=numbers: nats(numbers))
        found.append((nats(numbers), *numbers.tolist()))
    least, scale, gate, logit = min(found)
    return Weights(scale, gate, 1 / (1 + math.exp(-logit))), least if gate > 0 else math.inf


def _own_nats(outputs: ItemOutputs) -> Float[Tensor, "rows"]:
    """Log-probabilities of the targets' own items by the base alone."""
    eta = outputs.base + outputs.support
    return eta.gather(1, outputs.item[:, None])[:, 0] - eta.logsumexp(1)


def _mixed_nats(
    outputs: ItemOutputs, alone: Float[Tensor, "rows"], numbers: Float[Tensor, "three"]
) -> tuple[float, Float[Tensor, "three"]]:
    """Sum over targets and its gradient; the third number is the logit of the base's share."""
    base, correction, support, item = outputs
    scale, gate, logit = numbers.tolist()
    eta = torch.add(support, base, alpha=scale).add_(correction, alpha=gate)
    own, most = item[:, None], eta.amax(1, keepdim=True)
    with_it = (eta.gather(1, own) - most)[:, 0]
    odds = eta.sub_(most).exp_()
    total = odds.sum(1)
    with_it = with_it - total.log() + functional.logsigmoid(-numbers[2])
    alone = alone + functional.logsigmoid(numbers[2])
    mixed = torch.logaddexp(alone, with_it)
    weight = (with_it - mixed).exp()
    slopes = [
        (weight * (torch.linalg.vecdot(odds, part) / total - part.gather(1, own)[:, 0])).sum()
        for part in (base, correction)
    ]
    slopes.append(len(item) * numbers[2].sigmoid() - (alone - mixed).exp().sum())
    return -float(mixed.sum()), torch.stack(slopes).to(numbers)


def item_outputs(member: TwoPartModel, validation: Groups, *, seed: int, share: int) -> ItemOutputs:
    """Base, correction and what the support adds, of all items at some targets; their own items.

    `share`: how many members share the targets.
    """
    member.eval()
    part: Any = member.item_part
    most = max(100, min(MOST_TARGETS, MOST_OUTPUTS // part.n_items) // share)
    some = sampled_groups(validation, most, np.random.default_rng([seed, 9]))
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
            base = (part.kept or part.base).outputs(batch, where, codes)
            parts.append((base, correction[where], added[where], batch.item[where].long()))
    base, correction, added, item = (torch.cat(part)[:most] for part in zip(*parts, strict=True))
    return ItemOutputs(base, correction, added, item)


def _gain(held_out: Sequence[HeldOut], weights: Weights) -> Gain:
    """Nats with the correction less those without."""
    return _of_groups([_added(*part) for part in held_out], weights)


def gain_by_groups(
    with_it: Sequence[Nats], without: Sequence[Nats], validation: Sequence[Groups], *, gate: float
) -> Gain:
    """What a correction of weight `gate` added to the nats of own elements; NaN are not counted."""
    parts = [_sums(*part) for part in zip(with_it, without, validation, strict=True)]
    return _of_groups(parts, Weights(1.0, gate))


def _of_groups(parts: Sequence[tuple[Sums, Sums, float]], weights: Weights) -> Gain:
    """The gain of parts of the validation groups together."""
    added, size, base_nats = zip(*parts, strict=True)
    sums = np.concatenate(added), np.concatenate(size)
    return gain_of_sums(*sums, sum(base_nats), weights=weights)


def _added(members: Sequence[TwoPartModel], validation: Groups) -> tuple[Sums, Sums, float]:
    """What the correction adds to each group's nats, how many targets it has, and all base nats."""
    with_it = log_probs(members, validation)["item"]
    without = log_probs([members[0].alone()], validation)["item"]
    own = validation.elements()
    return _sums(with_it[own], without[own], validation)


def _sums(with_it: np.ndarray, without: np.ndarray, groups: Groups) -> tuple[Sums, Sums, float]:
    """Differences of nats by group, numbers of targets, and all nats without."""
    group = group_of_elements(groups)
    added = with_it - without
    counts = ~np.isnan(added)
    total = np.bincount(group[counts], weights=added[counts], minlength=len(groups))
    size = np.bincount(group[counts], minlength=len(groups))
    return total, size.astype(float), float(without[counts].sum())
