"""How to score items without history: some are hidden from the base, and scored as new ones."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from exfam.efa.attributes.enlarge import biases_like
from exfam.efa.attributes.item_attributes import ItemAttributes, NewItemWeights
from exfam.efa.attributes.new_in_ridge import NewItems, with_new_items, without_items
from exfam.efa.gate import ItemOutputs, item_outputs
from exfam.efa.networks.based import BasedItems, NoCorrection
from exfam.groups import Groups
from exfam.likelihoods.two_part import TwoPartModel

# Items are hidden in parts, of which so many are scored.
_PARTS, _SCORED = 5, 3
# Members' targets are shared by as many parts.
_SHARE = 4
_WIDTHS, _STRENGTHS, _NETWORKS = (0.1, 0.2, 0.4, 100.0), (0.5, 0.75, 1.0), (0.0, 0.5, 1.0)
_SHIFTS = np.linspace(-4.0, 4.0, 81)


class _Part(NamedTuple):
    """Hidden items, and the groups by which they are scored."""

    hidden: Int64[np.ndarray, "hidden"]
    like: Bool[np.ndarray, "items"]
    groups: Groups


def weigh_new_items(
    member: TwoPartModel, validation: Groups, attributes: ItemAttributes, *, seed: int
) -> NewItemWeights:
    """The weights of the most nats of all targets, with a fifth of the items new at a time.

    First of the base alone, then of what attention adds to it. `validation`: groups that neither
    was fitted to; attention has seen the items in others.
    """
    part: Any = member.item_part
    parts = _parts(attributes, validation, seed=seed)
    if not isinstance(part, BasedItems) or not parts:
        return attributes.weights
    found = (-np.inf, attributes.weights)
    for width in _WIDTHS:
        for strength in _STRENGTHS:
            trial = replace(attributes.weights, width=width, strength=strength)
            nats = np.zeros(len(_SHIFTS))
            for some in parts:
                base, _, support, item = _by_base(
                    member, some, replace(attributes, weights=trial), seed=seed
                )
                nats += _log_probs(base + support, item, some.hidden).sum(0)
            best = int(np.argmax(nats))
            if nats[best] > found[0]:
                found = (float(nats[best]), replace(trial, shift=float(_SHIFTS[best])))
    weights = found[1]
    if part.is_alone or not float(part.gate):
        return weights
    return _network_weights(member, parts, replace(attributes, weights=weights), seed=seed)


def _parts(attributes: ItemAttributes, validation: Groups, *, seed: int) -> list[_Part]:
    items = np.flatnonzero(attributes.sources)
    order = np.random.default_rng([seed, 11]).permutation(items)
    parts = []
    for hidden in np.array_split(order, _PARTS)[:_SCORED] if len(order) >= 2 * _PARTS else []:
        like = attributes.sources
        like[hidden] = False
        parts.append(_Part(np.sort(hidden), like, validation))
    return parts


def _new(attributes: ItemAttributes, part: _Part) -> NewItems:
    return attributes.new_items(
        attributes.features[part.hidden], part.hidden, like=part.like, n_items=len(part.like)
    )


def _by_base(
    member: TwoPartModel, part: _Part, attributes: ItemAttributes, *, seed: int
) -> ItemOutputs:
    """Outputs of the base alone, with hidden items as new ones."""
    of_member: Any = member.item_part
    base = without_items(of_member.base, part.hidden)
    base = with_new_items(base, _new(attributes, part), n_items=len(part.like))
    alone = BasedItems(base, NoCorrection(len(part.like), of_member.direction))
    return _outputs_of(member, alone.to(of_member.gate.device), part, seed=seed)


def _outputs_of(member: TwoPartModel, part: BasedItems, some: _Part, *, seed: int) -> ItemOutputs:
    model = TwoPartModel(direction=member.direction, item_part=part, support=member.support)
    return item_outputs(model, some.groups, seed=seed, share=_SHARE)


def _log_probs(
    eta: Float[Tensor, "rows items"], item: Int64[Tensor, "rows"], hidden: np.ndarray
) -> Float[np.ndarray, "rows shifts"]:
    """Log-probabilities of all targets, with each shift of the hidden items' outputs."""
    is_new = torch.zeros(eta.shape[1], dtype=torch.bool)
    is_new[torch.from_numpy(hidden)] = True
    eta = eta.double().cpu()
    old = eta[:, ~is_new].logsumexp(1).numpy()[:, None]
    new = eta[:, is_new].logsumexp(1).numpy()[:, None]
    own = eta.gather(1, item.cpu()[:, None]).numpy()
    shifted = is_new[item.cpu()].numpy()[:, None] * _SHIFTS
    return own + shifted - np.logaddexp(old, new + _SHIFTS)


def _network_weights(
    member: TwoPartModel, parts: Sequence[_Part], attributes: ItemAttributes, *, seed: int
) -> NewItemWeights:
    """With the share of attention in the outputs of new items, and a shift beside it."""
    part: Any = member.item_part
    scale, gate, mix = float(part.scale), float(part.gate), float(part.mix)
    found = (-np.inf, attributes.weights)
    for network in _NETWORKS:
        trial = replace(attributes, weights=replace(attributes.weights, network=network))
        nats = np.zeros(len(_SHIFTS))
        for some in parts:
            base, correction, support, item = _by_both(member, some, trial, seed=seed)
            both = _log_probs(base * scale + correction * gate + support, item, some.hidden)
            alone = (base + support).double().log_softmax(1).gather(1, item[:, None]).numpy()
            if mix:
                both = np.logaddexp(both + np.log1p(-mix), alone + np.log(mix))
            nats += both.sum(0)
        best = int(np.argmax(nats))
        if nats[best] > found[0]:
            shift = float(_SHIFTS[best])
            found = (float(nats[best]), replace(trial.weights, network_shift=shift))
    return found[1]


def _by_both(
    member: TwoPartModel, part: _Part, attributes: ItemAttributes, *, seed: int
) -> ItemOutputs:
    """Outputs of base and correction, with hidden items as new ones in both."""
    of_member: Any = member.item_part
    new = _new(attributes, part)
    base = with_new_items(without_items(of_member.base, part.hidden), new, n_items=len(part.like))
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
    return _outputs_of(member, BasedItems(base, network).to(of_member.gate.device), part, seed=seed)
