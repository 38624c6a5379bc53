"""What groups hold, in numbers."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from exfam.groups import Groups


@dataclass(frozen=True, eq=False)
class Summary:
    """Counts of groups and elements, and shares in [0, 1].

    `lengths`: own elements of each group. `items_present`: different items that occur.
    `unknown`: share of elements whose item is not in the vocabulary. `unobserved`: share of
    elements without a value. `repeating`: share of groups that hold an item twice.
    """

    n_groups: int
    n_elements: int
    n_targets: int
    lengths: Int64[np.ndarray, "groups"]
    n_items: int
    items_present: int
    unknown: float
    unobserved: float
    repeating: float


def summarize(groups: Groups) -> Summary:
    """The summary of the groups' own elements.

    >>> summary = summarize(Groups(start=[0, 2], stop=[2, 5], item=[0, 1, 2, 0, 2]))
    >>> summary.n_groups, summary.items_present, summary.repeating
    (2, 3, 0.5)
    """
    own = groups.elements()
    length = groups.stop - groups.start
    item = np.zeros(0, dtype=np.int64) if groups.item is None else groups.item[own]
    observed = np.ones(0, dtype=bool) if groups.observed is None else groups.observed[own]
    return Summary(
        n_groups=len(groups),
        n_elements=len(own),
        n_targets=groups.n_targets,
        lengths=length,
        n_items=groups.n_items,
        items_present=int((item_counts(groups) > 0).sum()),
        unknown=_share(item < 0),
        unobserved=_share(~observed),
        repeating=_repeating(groups, item, np.repeat(np.arange(len(groups)), length)),
    )


def item_counts(groups: Groups) -> Int64[np.ndarray, "items"]:
    """How many own elements have each item.

    >>> item_counts(Groups(start=[0, 2], stop=[2, 3], item=[1, 1, -1]))
    array([0, 2])
    """
    if groups.item is None:
        return np.zeros(0, dtype=np.int64)
    item = groups.item[groups.elements()]
    return np.bincount(item[item >= 0], minlength=groups.n_items)


def _share(which: np.ndarray) -> float:
    return float(which.mean()) if len(which) else 0.0


def _repeating(groups: Groups, item: np.ndarray, group: np.ndarray) -> float:
    """Share of groups in which some known item occurs twice."""
    if not len(item) or not len(groups):
        return 0.0
    known = item >= 0
    key = np.sort(group[known] * np.int64(groups.n_items) + item[known])
    twice = key[1:][key[1:] == key[:-1]] // max(groups.n_items, 1)
    return len(np.unique(twice)) / len(groups)
