"""Fits how the parts of the base of sequences seen on both sides are weighed."""

from exfam.efa.base.fit_transitions import MOST_NUMBERS, fit_transition_items
from exfam.efa.base.neighbors import N_PARTS, NeighborItems, backwards, lined_up
from exfam.efa.base.ridge import RidgeItems
from exfam.efa.base.weigh_parts import part_inputs, weigh_parts
from exfam.groups import Groups


def fit_neighbor_items(
    ridge: RidgeItems, groups: Groups, *, support: str, seed: int
) -> NeighborItems:
    """The base of these groups, to which the ridge scores were fitted."""
    line = lined_up(groups)
    both = (line, backwards(line))
    transitions = (
        fit_transition_items(own, ridge.n_items, support=support, seed=seed) for own in both
    )
    base = NeighborItems(ridge, *transitions)
    inputs = part_inputs(
        base,
        base.parts,
        groups,
        n_parts=N_PARTS,
        most_numbers=MOST_NUMBERS,
        support=support,
        seed=seed,
    )
    if inputs is not None:
        base.weights.copy_(weigh_parts(inputs)[0])
    return base.eval()
