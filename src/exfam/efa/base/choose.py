"""The base of items that fits a model's direction, fitted or as an empty shape to be loaded."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from exfam.efa.base.classes import ItemClasses
from exfam.efa.base.fit_known import fit_known_items
from exfam.efa.base.fit_neighbors import fit_neighbor_items
from exfam.efa.base.fit_ridge import RidgeSearch, add_groups, fit_ridge_items
from exfam.efa.base.fit_transitions import fit_transition_items
from exfam.efa.base.known import AFTER, BEFORE, KnownItems
from exfam.efa.base.like_items import LikeItems
from exfam.efa.base.neighbors import NeighborItems
from exfam.efa.base.ridge import RidgeItems
from exfam.efa.base.transitions import TransitionItems
from exfam.efa.values.given import GivenColumn
from exfam.groups import CONTEXT, TARGET, Groups

ItemBases = RidgeItems | TransitionItems | NeighborItems | LikeItems | KnownItems


def fit_item_base(
    groups: Groups,
    n_items: int,
    *,
    direction: str,
    support: str,
    seed: int,
    weight: Float[np.ndarray, "elements"] | None = None,
    search: RidgeSearch | None = None,
    ordered: bool = False,
    known: Sequence[GivenColumn] = (),
) -> ItemBases:
    """Ridge scores where all others are seen, transitions where earlier ones are; or all of them.

    An element of weight 0 is context only; all others count alike, whatever their weight.
    `search`: of ridge scores, taken further: see `fit_ridge_items`; `ordered`: whether the order of
    elements says something where all others are seen. `known`: what is known beforehand.
    """
    if weight is not None:
        role = TARGET if groups.role is None else groups.role
        groups = groups.with_(role=np.where(weight > 0, role, CONTEXT).astype(np.int8))
    options: dict[str, Any] = {"support": support, "seed": seed}
    base: RidgeItems | TransitionItems | NeighborItems
    if direction == "causal":
        base = fit_transition_items(groups, n_items, **options)
        known = [*known, BEFORE]
    else:
        base = fit_ridge_items(groups, n_items, **options, search=search)
        if ordered:
            base = fit_neighbor_items(base, groups, **options)
            known = [*known, BEFORE, AFTER]
    return fit_known_items(base, groups, known, **options) if known else base


def add_to_base(base: ItemBases, groups: Groups, *, support: str, seed: int) -> None:
    """Take in further groups after a fit."""
    if isinstance(base, KnownItems):
        add_to_base(base.base, groups, support=support, seed=seed)
        base.take_in(groups)
    elif isinstance(base, RidgeItems):
        add_groups(base, groups, support=support, seed=seed)
    else:
        base.add(groups)


def base_shape(base: ItemBases) -> dict[str, Any]:
    """What an empty base of the same shape is built by, as plain numbers."""
    if isinstance(base, KnownItems):
        return {"known": base.shape(), "base": base_shape(base.base)}
    if isinstance(base, LikeItems):
        return {"n_new": len(base.share), **base_shape(base.old)}
    if isinstance(base, NeighborItems):
        parts: Any = {"ridge": base.ridge, "before": base.before, "after": base.after}
        return {name: base_shape(part) for name, part in parts.items()}
    if isinstance(base, TransitionItems):
        return {"n_items": base.n_items, **base.shape()}
    shape = {"n_items": base.n_items, "n_covered": len(base.precision)}
    classes = {} if base.classes is None else {"classes": list(base.classes.size.shape)}
    return shape | {"n_counted": base.n_counted, "least_size": base.least_size} | classes


def empty_base(shape: dict[str, Any]) -> ItemBases:
    """A base whose numbers are to be loaded."""
    base: Any
    if "known" in shape:
        known: Any = shape["known"]
        columns = [GivenColumn(*column) for column in known["columns"]]
        base = empty_base(shape["base"])
        return KnownItems(base, **known | {"columns": columns})
    n_new = int(shape.get("n_new", 0))
    if "before" in shape:
        parts: Any = {name: empty_base(shape[name]) for name in ("ridge", "before", "after")}
        base = NeighborItems(**parts)
        return LikeItems(base, torch.zeros(n_new, base.n_items)) if n_new else base
    n_items, count = int(shape["n_items"]), torch.zeros(int(shape["n_items"]))
    if "pairs" in shape:
        base = TransitionItems(n_items)
        base.allocate(shape["pairs"], shape["contexts"])
        return LikeItems(base, torch.zeros(n_new, n_items)) if n_new else base
    n_covered = int(shape["n_covered"])
    ridge = RidgeItems(
        torch.zeros(n_covered, n_covered),
        row=torch.zeros(n_items, dtype=torch.int64),
        count=count,
        numbers=torch.zeros(2, 6),
    )
    # Older versions had neither.
    ridge.n_counted = int(shape.get("n_counted", n_items))
    ridge.least_size = float(shape.get("least_size", 1.0))
    if size := shape.get("classes"):
        zeros = torch.zeros(*size)
        ridge.classes = ItemClasses(torch.zeros(n_items, *size), length=zeros, size=zeros.clone())
    return ridge
