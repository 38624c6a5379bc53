"""Draws from fitted models: continuations of causal ones, fill-in of bidirectional ones."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Bool

from exfam.checks import ExfamError
from exfam.efa.blanks import append_blank
from exfam.estimator.evaluate import item_probabilities, value_parameters
from exfam.estimator.schema import Schema
from exfam.families.mixtures import Mixture
from exfam.groups import CONTEXT, TARGET, Groups
from exfam.groups.arrange import group_of_elements
from exfam.likelihoods.two_part import TwoPartModel

# Which rows lack a value, by column.
Lacking = Mapping[str, Bool[np.ndarray, "rows"]]


def continue_groups(
    members: Sequence[TwoPartModel], schema: Schema, groups: Groups, *, steps: int, seed: int
) -> Groups:
    """Each group followed by `steps` drawn elements: an item, then its values, in turn.

    Each draw is from the mixture of the members given all that came before. New elements are
    targets; given ones keep their role. Raises ExfamError where groups have items that the model
    does not predict.
    """
    if members[0].item_part is None and groups.item is not None:
        raise ExfamError(
            "`parts` must include items to go on with groups that have items, got 'values'."
        )
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    current = groups.compact()
    role, given = current.role, current.stop - current.start
    for _ in range(int(steps)):
        current = append_blank(current, schema)
        last = current.stop - 1
        lacks = _lacking(current, members[0].families)
        current = _draw(members, current, (last, last), rng, generator, lacks)
    if role is None:
        return current.with_(role=None)
    n_own = int(current.stop[-1]) if len(current) else 0
    position = np.arange(n_own) - np.repeat(current.start, current.stop - current.start)
    is_given = position < np.repeat(given, current.stop - current.start)
    roles = np.full(current.n_rows, TARGET, dtype=np.int8)
    roles[:n_own][is_given] = role[: given.sum()]
    return current.with_(role=roles)


def fill_in(
    members: Sequence[TwoPartModel],
    groups: Groups,
    *,
    blank: Bool[np.ndarray, "elements"] | None,
    sweeps: int,
    seed: int,
) -> Groups:
    """The `blank` elements' items and all missing values, drawn given the rest.

    First in order of position, given what is there; then by Gibbs sweeps, in turn given all
    others. At a time one element of every group is drawn. An item is drawn given the other
    elements; the value beside it, if observed, has no say.
    """
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    own, current = groups.elements(), groups.compact()
    no_item, no_value = np.zeros((2, current.n_rows), dtype=bool)
    if blank is not None and members[0].item_part is not None:
        no_item[: len(own)] = blank[own]
    lacks = _lacking(current, members[0].families)
    for column in lacks.values():
        no_value |= column
    no_value[len(own) :] = False
    # Rounds, each with at most one row of a group, in order of position.
    rows = np.flatnonzero(no_item | no_value)
    group = group_of_elements(current)[rows]
    turn = np.arange(len(rows)) - np.searchsorted(group, group, side="left")
    rounds = [rows[turn == number] for number in range(int(turn.max(initial=-1)) + 1)]
    for _ in range(int(sweeps) + 1):
        for some in rounds:
            both = some[no_item[some]], some[no_value[some]]
            current = _draw(members, current, both, rng, generator, lacks)
    return current


def _lacking(groups: Groups, columns: Iterable[str]) -> Lacking:
    """Which rows lack a value, by column."""
    every = np.arange(groups.n_rows)
    return {name: ~groups.has_value(name, every) for name in columns}


def _draw(
    members: Sequence[TwoPartModel],
    groups: Groups,
    rows: tuple[np.ndarray, np.ndarray],
    rng: np.random.Generator,
    generator: torch.Generator,
    lacks: Lacking,
) -> Groups:
    """Groups with the items of the first `rows`, then what the second lack, drawn anew."""
    role = groups.role
    item_rows, value_rows = rows
    if members[0].item_part is not None and len(item_rows):
        groups = _draw_items(members, _only(groups, item_rows), rng)
    if members[0].value_part is not None and len(value_rows):
        groups = _draw_values(members, _only(groups, value_rows), value_rows, generator, lacks)
    return groups.with_(role=role)


def _only(groups: Groups, rows: np.ndarray) -> Groups:
    """Groups with these rows as their only targets."""
    role = np.full(groups.n_rows, CONTEXT, dtype=np.int8)
    role[rows] = TARGET
    return groups.with_(role=role)


def _draw_items(
    members: Sequence[TwoPartModel], groups: Groups, rng: np.random.Generator
) -> Groups:
    assert groups.item is not None and groups.role is not None
    drawn, hidden = groups.item.copy(), groups.item.copy()
    targets = np.flatnonzero(groups.role == TARGET)
    hidden[targets] = -1
    # One number for each target, in order: draws do not depend on how batches are cut.
    uniform = np.zeros(groups.n_rows)
    uniform[targets] = rng.random(len(targets))
    for rows, probability in item_probabilities(members, groups.with_(item=hidden)):
        cumulative = probability.cumsum(1)
        below = cumulative <= (uniform[rows] * cumulative[:, -1])[:, None]
        drawn[rows] = below.sum(1)
    return groups.with_(item=drawn)


def _draw_values(
    members: Sequence[TwoPartModel],
    groups: Groups,
    rows: np.ndarray,
    generator: torch.Generator,
    lacks: Lacking,
) -> Groups:
    """All columns, then in turn each that is given those before it."""
    families, at = members[0].families, torch.as_tensor(rows)
    item = None if groups.item is None else torch.as_tensor(groups.item[rows]).long()
    given = members[0].earlier
    values = {name: column.astype(np.float64) for name, column in groups.values.items()}
    if groups.observed is not None:
        for column in values.values():
            column[~groups.observed] = np.nan
    for name in families:
        values[name][rows[lacks[name][rows]]] = np.nan
    for columns in [list(families), *([name] for name in (given.names if given else []))]:
        etas = value_parameters(members, groups.with_(values=values, observed=None))
        values = {name: column.copy() for name, column in values.items()}
        for name in columns:
            mixture = Mixture(families[name], etas[name][:, at].double(), item)
            drawn, own = mixture.sample(generator).double().numpy(), lacks[name][rows]
            values[name][rows[own]] = drawn[own]
    observed = ~np.all([np.isnan(column) for column in values.values()], axis=0)
    return groups.with_(values=values, observed=observed)
