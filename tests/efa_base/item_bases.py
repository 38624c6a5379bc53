"""Bases of items fitted in closed form to small groups, and what they say of a batch."""

import numpy as np
import torch

from exfam.efa.base.fit_ridge import ridge_items
from exfam.efa.base.histories import N_FILTERS
from exfam.efa.base.known import AFTER, BEFORE, KnownItems
from exfam.efa.base.neighbors import NeighborItems, backwards, lined_up
from exfam.efa.base.ridge import RidgeItems
from exfam.efa.base.sets import held_items
from exfam.efa.base.transitions import TransitionItems
from exfam.efa.networks.based import present_elements
from exfam.efa.values.given import GivenColumn
from exfam.groups import CONTEXT, TARGET
from model_cases import make_groups

N_ITEMS = 9
NUMBERS = ((0.6, 0.3, 0.8, 0.3, 0.05, -1.0), (0.1, -0.2, 0.2, 0.1, -0.02, 0.3))
PENALTY = np.linspace(1.0, 3.0, N_ITEMS)
KINDS = ("ridge", "ridge of some", "transitions", "neighbors", "known")
COLUMNS = (GivenColumn("kind", False, 3), GivenColumn("size", True), BEFORE, AFTER)
WEIGHTS = (0.6, 0.7, 0.5, -0.4)


def rich_groups(*, repeats=True, ranges=False, seed=1):
    """Groups with unknown items, context-only elements and an empty group; some see more."""
    lengths = (4, 1, 6, 0, 5, 3, 8, 7, 9, 2)
    groups = make_groups(lengths=lengths, repeats=repeats, seed=seed, n_items=N_ITEMS, ordered=True)
    item = groups.item.copy()
    item[[3, 6, 9]] = -1
    role = np.where(np.arange(len(item)) % 5 == 0, CONTEXT, TARGET).astype(np.int8)
    kind, size = np.arange(len(item)) % 4 - 1, np.arange(len(lengths)) % 3 / 2
    groups = groups.with_(
        item=item, role=role, attributes={"kind": kind}, group_attributes={"size": size}
    )
    if not ranges:
        return groups
    start = np.array([0, 0, 1, 5, 0, 11, 3, 16, 0, 20])[:, None]
    length = np.array([0, 2, 3, 3, 4, 5, 0, 6, 1, 9])[:, None]
    return groups.with_(context_start=start, context_stop=start + length)


def fit(kind, groups):
    """A base of these groups, its numbers not searched."""
    if kind == "transitions":
        base = TransitionItems(N_ITEMS)
        base.add(groups)
        base.mixture.copy_(torch.linspace(0.0, 1.4, 1 + N_FILTERS).softmax(0))
        base.exponents.copy_(torch.tensor([-0.3, 1.4]))
        base.repeats.copy_(torch.tensor([-0.4, 0.3]))
        return base.eval()
    if kind == "neighbors":
        line = lined_up(groups)
        before, after = (fit("transitions", own) for own in (line, backwards(line)))
        base = NeighborItems(fit("ridge of some", groups), before, after)
        base.weights.copy_(torch.tensor(WEIGHTS))
        return base.eval()
    if kind == "known":
        base = KnownItems(fit("neighbors", groups), COLUMNS, [(0, 2), (1, 3)])
        base.edges[1:, :2] = torch.tensor([0.25, 2.5])
        base.take_in(groups)
        base.weights.copy_(torch.tensor([0.9, 0.5, 0.4, 0.3, 0.2, 0.6, -0.3]))
        return base.eval()
    held = held_items(groups, N_ITEMS)
    base = ridge_items(held, PENALTY, most=N_ITEMS)
    if kind == "ridge of some":
        row = torch.arange(N_ITEMS).masked_fill(torch.arange(N_ITEMS) >= 6, -1)
        precision = ridge_items(held[:, :6], PENALTY, most=6).precision
        base = RidgeItems(precision, row=row, count=base.count, numbers=base.numbers)
    base.numbers.copy_(torch.tensor(NUMBERS))
    return base.eval()


def outputs(base, batch, *, chosen=None):
    """Outputs at all elements that are no padding, in order."""
    chosen = torch.arange(N_ITEMS) if chosen is None else chosen
    return base.outputs(batch, present_elements(batch), chosen)
