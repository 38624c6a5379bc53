"""Members of a model with further items: theirs by attributes, the others' as they were."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from exfam.efa.attributes.item_attributes import ItemAttributes
from exfam.efa.attributes.new_in_ridge import NewItems, with_new_items
from exfam.efa.networks.based import TRAINED_SCALE, BasedItems, network_of
from exfam.likelihoods.two_part import TwoPartModel


def biases_like(
    bias: Float[Tensor, "items"], attributes: ItemAttributes, new: NewItems, *, has_base: bool
) -> Float[np.ndarray, "new"]:
    """Biases of new items: those of similar ones, and what their popularity adds.

    That is all of its logarithm, or beside a base the share that a correction starts with.
    """
    of_count = (1 - TRAINED_SCALE) if has_base else 1.0
    old = bias.detach().double().cpu().numpy()
    rest = old - of_count * np.log(attributes.count[: len(old)] + 1)
    return new.share[:, : len(old)] @ rest + of_count * np.log(new.count + 1)


def enlarged_member(
    member: TwoPartModel,
    build: Callable[[Any], TwoPartModel],
    attributes: ItemAttributes,
    new: NewItems,
) -> TwoPartModel:
    """A member with new items after its own; `build`: of the new shape, by its base."""
    part: Any = member.item_part
    has_base = isinstance(part, BasedItems)
    n_items = part.n_items + len(new.codes)
    base = with_new_items(part.base, new, n_items=n_items) if has_base else None
    larger = build(base)
    old, state = member.state_dict(), larger.state_dict()
    for name, numbers in state.items():
        if base is None or not name.startswith("item_part.base."):
            state[name] = _longer(old[name], numbers, part.n_items)
    larger.load_state_dict(state)
    network = network_of(larger.item_part)
    if network is not None:
        head: Any = network.head
        bias = biases_like(head.bias[: part.n_items], attributes, new, has_base=has_base)
        gate = float(part.gate) if has_base else 1.0
        # A bias counts as much as the gate lets it.
        bias += attributes.weights.network_shift / gate if gate else 0.0
        with torch.no_grad():
            head.bias[part.n_items :] = torch.from_numpy(bias).to(head.bias)
        centers = getattr(head.centers, "items", head.centers)
        if centers is not network.embedding.fields[0].field:
            centers.attribute_share[new.codes] = attributes.weights.network
    return larger.to(next(member.buffers()).device).eval()


def _longer(old: Tensor, new: Tensor, n_items: int) -> Tensor:
    """Numbers of the old model; of an array with a row an item, the other rows of the new one."""
    return old if old.shape == new.shape else torch.cat([old[:n_items], new[n_items:]])
