"""How to score items without history: some are hidden from the base, and scored as new ones."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from exfam.efa.attributes.enlarge import biases_like
from exfam.efa.attributes.item_attributes import ItemAttributes, NewItemWeights
from exfam.efa.attributes.new_in_ridge import NewItems, with_new_items, without_items
from exfam.efa.base.ridge import RidgeItems
from exfam.efa.gate import ItemOutputs, item_outputs
from exfam.efa.networks.based import BasedItems, NoCorrection
from exfam.groups import Groups
from exfam.likelihoods.two_part import TwoPartModel

# Items are hidden in parts, of which so many are scored.
_PARTS, _SCORED = 5, 3
# The share of the targets that weigh a correction which each part is scored by.
_SHARE = 2
_WIDTHS, _STRENGTHS = (0.1, 0.2, 0.4, 100.0), (0.5, 0.75, 1.0)
_POPULARITIES, _TASTES = (0.0, 0.3, 0.6), (0.0, 0.25, 0.5, 0.75, 1.0)
_NETWORKS = (0.0, 0.5, 1.0, 1.5)
_SHIFTS = np.linspace(-4.0, 4.0, 81)


class _Part(NamedTuple):
    """Hidden items, the others, a base without those, and the groups by which they are scored."""

    hidden: Int64[np.ndarray, "hidden"]
    like: Bool[np.ndarray, "items"]
    base: RidgeItems
    groups: Groups
    seed: int


# Log-probabilities of all targets of a part, summed, by what is added to outputs of hidden items.
_Nats = Callable[[_Part, NewItemWeights], Float[np.ndarray, "shifts"]]


def weigh_new_items(
    member: TwoPartModel, validation: Groups, attributes: ItemAttributes, *, seed: int
) -> NewItemWeights:
    """The weights of the most nats of all targets, with a fifth of the items new at a time.

    First of the base alone, then of what attention adds to it. `validation`: groups that neither
    was fitted to; attention has seen the items in others.
    """
    part: Any = member.item_part
    if not isinstance(part, BasedItems):
        return attributes.weights
    base: Any = part.base
    parts = _parts(base, attributes, validation, seed=seed)
    if not parts:
        return attributes.weights

    def of_base(some: _Part, weights: NewItemWeights) -> Float[np.ndarray, "shifts"]:
        outputs = by_base(member, some, replace(attributes, weights=weights))
        eta = outputs.base + outputs.support
        return log_probs_by_shift(eta, outputs.item, some.hidden).sum(0)

    def of_both(some: _Part, weights: NewItemWeights) -> Float[np.ndarray, "shifts"]:
        return _nats_of_both(
            part, _by_both(member, some, replace(attributes, weights=weights)), some
        )

    weights = attributes.weights
    kinds = product(_WIDTHS, _STRENGTHS)
    trials = [replace(weights, width=width, strength=strength) for width, strength in kinds]
    weights, _ = _best(parts, trials, of_base)
    trials = [replace(weights, taste=number) for number in _TASTES]
    weights, _ = _best(parts, trials, of_base)
    trials = [replace(weights, popularity=number) for number in _POPULARITIES]
    weights, shift = _best(parts, trials, of_base)
    weights = replace(weights, shift=shift)
    if part.is_alone or not float(part.gate):
        return weights
    trials = [replace(weights, network=number) for number in _NETWORKS]
    weights, shift = _best(parts, trials, of_both)
    return replace(weights, network_shift=shift)


def _best(
    parts: Sequence[_Part], trials: Sequence[NewItemWeights], nats: _Nats
) -> tuple[NewItemWeights, float]:
    """The weights of the most nats of all parts, and the shift that goes with them."""
    sums = [np.sum([nats(part, trial) for part in parts], axis=0) for trial in trials]
    best = int(np.argmax([by_shift.max() for by_shift in sums]))
    return trials[best], float(_SHIFTS[int(np.argmax(sums[best]))])


def _parts(
    base: RidgeItems, attributes: ItemAttributes, validation: Groups, *, seed: int
) -> list[_Part]:
    """None of fewer than ten items."""
    items = np.flatnonzero(attributes.sources)
    order = np.random.default_rng([seed, 11]).permutation(items)
    parts = []
    some = np.array_split(order, _PARTS)[:_SCORED] if len(order) >= 2 * _PARTS else []
    for number, hidden in enumerate(some):
        like = attributes.sources
        like[hidden] = False
        without = without_items(base, hidden)
        parts.append(_Part(np.sort(hidden), like, without, validation, seed + number))
    return parts


def _new(attributes: ItemAttributes, part: _Part) -> NewItems:
    return attributes.new_items(
        attributes.features[part.hidden], part.hidden, like=part.like, n_items=len(part.like)
    )


def by_base(member: TwoPartModel, part: _Part, attributes: ItemAttributes) -> ItemOutputs:
    """Outputs of the base alone, with hidden items as new ones."""
    of_member: Any = member.item_part
    base = with_new_items(part.base, _new(attributes, part), n_items=len(part.like))
    alone = BasedItems(base, NoCorrection(len(part.like), of_member.direction))
    return _outputs_of(member, alone.to(of_member.gate.device), part)


def _outputs_of(member: TwoPartModel, items: BasedItems, part: _Part) -> ItemOutputs:
    model = TwoPartModel(direction=member.direction, item_part=items, support=member.support)
    return item_outputs(model, part.groups, seed=part.seed, share=_SHARE)


def log_probs_by_shift(
    eta: Float[Tensor, "rows items"],
    item: Int64[Tensor, "rows"],
    hidden: Int64[np.ndarray, "hidden"],
) -> Float[np.ndarray, "rows shifts"]:
    """Log-probabilities of all targets, with each shift of the hidden items' outputs."""
    is_new = torch.zeros(eta.shape[1], dtype=torch.bool)
    is_new[torch.from_numpy(hidden)] = True
    eta, item = eta.double().cpu(), item.cpu()
    old = eta[:, ~is_new].logsumexp(1).numpy()[:, None]
    new = eta[:, is_new].logsumexp(1).numpy()[:, None]
    own = eta.gather(1, item[:, None]).numpy()
    return own + is_new[item].numpy()[:, None] * _SHIFTS - np.logaddexp(old, new + _SHIFTS)


def _nats_of_both(
    part: BasedItems, outputs: ItemOutputs, some: _Part
) -> Float[np.ndarray, "shifts"]:
    """Those of base and correction, with the base alone mixed in as the member has it."""
    scale, gate, mix = float(part.scale), float(part.gate), float(part.mix)
    base, correction, support, item = outputs
    both = log_probs_by_shift(base * scale + correction * gate + support, item, some.hidden)
    if mix:
        alone = (base + support).double().log_softmax(1).gather(1, item[:, None]).cpu().numpy()
        both = np.logaddexp(both + np.log1p(-mix), alone + np.log(mix))
    return both.sum(0)


def _by_both(member: TwoPartModel, part: _Part, attributes: ItemAttributes) -> ItemOutputs:
    """Outputs of base and correction, with hidden items as new ones in both."""
    of_member: Any = member.item_part
    new = _new(attributes, part)
    base = with_new_items(part.base, new, n_items=len(part.like))
    network = copy.deepcopy(of_member.correction)
    head, hidden = network.head, torch.from_numpy(part.hidden)
    for module in network.modules():
        if hasattr(module, "own_share"):
            module.own_share[hidden] = 0.0
    centers = getattr(head.centers, "items", head.centers)
    if centers is not network.embedding.fields[0].field:
        centers.attribute_share[hidden] = attributes.weights.network
    bias = biases_like(head.bias, attributes, new, has_base=True)
    with torch.no_grad():
        head.bias[hidden] = torch.from_numpy(bias).to(head.bias)
    return _outputs_of(member, BasedItems(base, network).to(of_member.gate.device), part)
