"""Members of a model with further items: theirs by attributes, the others' as they were."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from exfam.efa.attributes.item_attributes import ItemAttributes
from exfam.efa.attributes.new_in_ridge import NewItems, with_new_items
from exfam.efa.base.known import KnownItems
from exfam.efa.base.like_items import LikeItems
from exfam.efa.networks.based import BasedItems, network_of
from exfam.efa.networks.new_items import WithNewItems
from exfam.likelihoods.two_part import TwoPartModel


def enlarged_member(
    member: TwoPartModel, build: Callable[[Any], TwoPartModel], new: NewItems
) -> TwoPartModel:
    """A member with new items after its own; `build`: of the new shape, by its base.

    Biases of new items are those of similar ones.
    """
    part: Any = member.item_part
    base = enlarged_base(part.base, new) if isinstance(part, BasedItems) else None
    larger = build(base)
    old, state = _inner_state(member), _inner_state(larger)
    for name, numbers in state.items():
        if base is None or not name.startswith("item_part.base."):
            state[name] = _longer(old[name], numbers, part.n_items)
    larger.load_state_dict(state, strict=False)
    network = network_of(larger.item_part)
    if network is not None:
        bias: Any = network.head.bias
        with torch.no_grad():
            bias[part.n_items :] = biases_like(bias[: part.n_items], new)
    return larger.to(next(member.buffers()).device).eval()


def enlarged_base(base: Any, new: NewItems) -> Any:
    """A base of items with new ones after its own; nothing known beforehand says more of them."""
    if isinstance(base, KnownItems):
        return base.with_base(enlarged_base(base.base, new))
    n_items = base.n_items + len(new.codes)
    if hasattr(base, "precision"):
        return with_new_items(base, new, n_items=n_items)
    old, earlier = (base.old, base.share) if isinstance(base, LikeItems) else (base, None)
    share = torch.from_numpy(new.share[:, : old.n_items]).to(old.count)
    return LikeItems(old, share if earlier is None else torch.cat([earlier, share]))


def biases_like(bias: Float[Tensor, "items"], new: NewItems) -> Float[Tensor, "new"]:
    """Biases of new items: those of the items that they are like."""
    return torch.from_numpy(new.share[:, : len(bias)]).to(bias) @ bias


def set_new_items(member: TwoPartModel, attributes: ItemAttributes | None) -> None:
    """Let a member's last items be new ones, if some of them are."""
    terms = None if attributes is None else attributes.terms(member.item_part)
    if attributes is None or terms is None:
        return
    part: Any = member.item_part
    if isinstance(part, BasedItems):
        weights, history = attributes.weights, torch.from_numpy(attributes.history()).float()
        part.of_new = weights.base + (1 - weights.base) * history, (1 - history) * weights.network
    inner: Any = member.support
    inner = inner.inner if isinstance(inner, WithNewItems) else inner
    member.support = WithNewItems(inner, terms).to(next(member.buffers()).device)


def _inner_state(member: TwoPartModel) -> dict[str, Tensor]:
    """Tensors by name, those of a support by its name without new items."""
    state = member.state_dict()
    return {name.replace("support.inner.", "support."): state[name] for name in state}


def _longer(old: Tensor, new: Tensor, n_items: int) -> Tensor:
    """Numbers of the old model; of an array with a row an item, the other rows of the new one."""
    return old if old.shape == new.shape else torch.cat([old[:n_items], new[n_items:]])
