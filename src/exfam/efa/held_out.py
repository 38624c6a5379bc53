"""Which groups a fit holds out to choose by."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Int64

from exfam.groups import Groups

# Outputs of all held-out elements: 20,000 elements of 100,000 items.
MOST_HELD_OUT = 2_000_000_000
# Outputs that are computed after every epoch, if these are of so many elements at least.
MOST_VALIDATED, LEAST_VALIDATED = 250_000_000, 5_000
# Runs that groups are held out in, about.
_N_RUNS = 2


def held_out_order(
    n_groups: int, size: int, *, seed: int, in_runs: bool
) -> Int64[np.ndarray, "groups"]:
    """All groups, in the order that they are held out in, `size` at a time.

    Single ones at random, or runs of groups one after the other, which start at random.
    """
    rng = np.random.default_rng(seed)
    if not in_runs:
        return rng.permutation(n_groups)[::-1].astype(np.int64)
    length = max(1, size // _N_RUNS)
    runs = np.array_split(np.arange(n_groups, dtype=np.int64), max(1, n_groups // length))
    return np.concatenate([runs[number] for number in rng.permutation(len(runs))])


def runs_suit(estimator: Any, *, items: bool) -> bool:
    """Whether groups are to be held out in runs: of values alone, that have a base.

    Data often come in an order of time, in which groups that are near each other are alike in what
    new groups will not be. Without a base the split is that of the paper, at random.
    """
    return not items and getattr(estimator, "base", "none") != "none"


def hold_out_groups(
    groups: Groups,
    has_target: Bool[np.ndarray, "groups"],
    *,
    fraction: float,
    seed: int,
    items: bool,
    in_runs: bool = False,
) -> tuple[Groups, Groups | None]:
    """Groups to train on, and a random share of those with a target to choose the epoch by.

    `items`: whether items are modeled. Then fewer groups of large catalogs are held out: each
    held-out element has outputs of all items after every epoch. `in_runs`: see `runs_suit`.
    None are held out where the share is less than one group.
    """
    able = groups if has_target.all() else groups[has_target]
    share = min(fraction, 1 - 1 / len(able))  # one group at least stays to train on
    outputs = max(1, able.n_elements * (able.n_items if items else 1))
    share = min(share, max(MOST_HELD_OUT / outputs, 1.01 / len(able)))
    if len(able) * share < 1:
        return able, None
    if not in_runs:
        train, held_out = able.split([1 - share, share], seed=seed)
        return train, held_out
    size = int(len(able) * share)
    order = held_out_order(len(able), size, seed=seed, in_runs=True)
    return able[np.sort(order[size:])], able[np.sort(order[:size])]


def some_to_validate(held_out: Groups, n_items: int, *, seed: int) -> Groups:
    """The groups that choose the epoch: all that are held out, or some of a large catalog's."""
    most = max(LEAST_VALIDATED, MOST_VALIDATED // max(1, n_items))
    if held_out.n_elements <= most:
        return held_out
    order = np.random.default_rng([seed, 11]).permutation(len(held_out))
    reached = np.cumsum((held_out.stop - held_out.start)[order])
    n = max(1, int(np.searchsorted(reached, most, side="right")))
    return held_out[np.sort(order[:n])]
