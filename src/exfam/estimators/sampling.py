"""Draws from fitted models: continuations of causal ones, fill-in of bidirectional ones."""

from collections.abc import Sequence

import numpy as np
import torch

from exfam.analysis.evaluate import item_probabilities, value_parameters
from exfam.analysis.mixtures import Mixture
from exfam.checks import check_positive
from exfam.estimators.recommend import append_blank
from exfam.groups import CONTEXT, TARGET, Groups
from exfam.models.two_part import TwoPartModel

__all__ = ["continue_groups", "fill_in"]


def continue_groups(
    members: Sequence[TwoPartModel], groups: Groups, *, steps: int, seed: int
) -> Groups:
    """Each group followed by `steps` drawn elements: an item, then its values, in turn.

    Each draw is from the mixture of the members given all that came before. New elements are
    targets; given ones keep their role.
    """
    check_positive("steps", steps, zero=True)
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    role = groups.compact().role
    current = groups.compact()
    given = current.stop - current.start
    for _ in range(int(steps)):
        current = append_blank(current)
        last = current.stop - 1
        current = _draw(members, current, (last, last), rng, generator)
    place = np.arange(current.n_rows) - np.repeat(current.start, current.stop - current.start)
    old = place < np.repeat(given, current.stop - current.start)
    roles = np.full(current.n_rows, TARGET, dtype=np.int8)
    if role is not None:
        roles[old] = role
    return current.with_(role=roles)


def fill_in(members: Sequence[TwoPartModel], groups: Groups, *, sweeps: int, seed: int) -> Groups:
    """Unknown items and unobserved values drawn given the rest.

    First in order of place, each from what is there; then by Gibbs sweeps, each in turn given all
    others. At a time one element of every group is drawn. An item is drawn given the other
    elements; the value beside it, if observed, has no say.
    """
    check_positive("sweeps", sweeps, zero=True)
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    current = groups.compact()
    nothing = np.zeros(current.n_rows, dtype=bool)
    no_item = nothing if current.item is None else current.item < 0
    no_value = nothing if current.observed is None else ~current.observed
    rounds = _one_of_each_group(current, np.flatnonzero(no_item | no_value))
    for _ in range(int(sweeps) + 1):
        for rows in rounds:
            both = rows[no_item[rows]], rows[no_value[rows]]
            current = _draw(members, current, both, rng, generator)
    return current


def _one_of_each_group(groups: Groups, rows: np.ndarray) -> list[np.ndarray]:
    """Rows split into rounds, each with at most one row of a group, in order of place."""
    group = np.repeat(np.arange(len(groups)), groups.stop - groups.start)[rows]
    first = np.searchsorted(group, group, side="left")
    turn = np.arange(len(rows)) - first
    return [rows[turn == t] for t in range(int(turn.max(initial=-1)) + 1)]


def _draw(
    members: Sequence[TwoPartModel],
    groups: Groups,
    rows: tuple[np.ndarray, np.ndarray],
    rng: np.random.Generator,
    generator: torch.Generator,
) -> Groups:
    """Groups with the items of the first `rows`, then the values of the second, drawn anew."""
    role = groups.role
    item_rows, value_rows = rows
    if members[0].item_part is not None and len(item_rows):
        groups = _draw_items(members, _only(groups, item_rows), rng)
    if members[0].value_part is not None and len(value_rows):
        groups = _draw_values(members, _only(groups, value_rows), value_rows, generator)
    return groups.with_(role=role)


def _only(groups: Groups, rows: np.ndarray) -> Groups:
    """Groups with these rows as their only targets."""
    role = np.full(groups.n_rows, CONTEXT, dtype=np.int8)
    role[rows] = TARGET
    return groups.with_(role=role)


def _draw_items(
    members: Sequence[TwoPartModel], groups: Groups, rng: np.random.Generator
) -> Groups:
    assert groups.item is not None
    item = groups.item.copy()
    chances = {}
    hidden = item.copy()
    hidden[np.flatnonzero(groups.role == TARGET)] = -1
    for rows, probability in item_probabilities(members, groups.with_(item=hidden)):
        chances.update(zip(rows.tolist(), probability, strict=True))
    for row in sorted(chances):
        cumulative = chances[row].cumsum()
        item[row] = np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")
    return groups.with_(item=item)


def _draw_values(
    members: Sequence[TwoPartModel], groups: Groups, rows: np.ndarray, generator: torch.Generator
) -> Groups:
    values = {name: column.astype(np.float64) for name, column in groups.values.items()}
    at = torch.as_tensor(rows)
    item = None if groups.item is None else torch.as_tensor(groups.item[rows]).long()
    for column, eta in value_parameters(members, groups).items():
        mixture = Mixture(members[0].families[column], eta[:, at], item)
        values[column][rows] = mixture.sample(generator).double().numpy()
    observed = np.ones(groups.n_rows, dtype=bool) if groups.observed is None else groups.observed
    observed = observed.copy()
    observed[rows] = True
    return groups.with_(values=values, observed=observed)
