"""What comes next, and how much each item lifts others."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from exfam.checks import ExfamError, UnknownItemError, check_whole, shown
from exfam.columns.label_index import index_of
from exfam.columns.results import PlottedResult
from exfam.efa.blanks import append_blank, gaps_of, insert_blank, typical_rows
from exfam.estimator.evaluate import item_probabilities, top_items, top_of_means
from exfam.estimator.schema import Schema
from exfam.groups import Groups
from exfam.likelihoods.two_part import TwoPartModel

# Items that hard support excludes have probability 0; their lift is finite all the same.
TINY = 1e-30
# Gaps of a group that a further item may be in, and numbers that are held at a time for them.
N_GAPS, MAX_NUMBERS = 32, 4_000_000


@dataclass(frozen=True, eq=False, repr=False)
class Recommendations(PlottedResult):
    """The most probable items of each group, best first.

    With hard support, items that the group has come last, with probability 0, if `k` asks for more
    than are left.
    """

    groups: np.ndarray
    items: np.ndarray
    probabilities: Float[np.ndarray, "groups k"]

    picture = "recommendation_bars"

    def to_dict(self) -> dict[str, np.ndarray]:
        """Columns `group`, `rank` (from 1), `item`, `probability`; items of probability > 0."""
        n_groups, k = self.probabilities.shape
        possible = self.probabilities.ravel() > 0
        columns = {
            "group": np.repeat(self.groups, k),
            "rank": np.tile(np.arange(1, k + 1), n_groups),
            "item": self.items.ravel(),
            "probability": self.probabilities.ravel(),
        }
        return {name: column[possible] for name, column in columns.items()}


def recommend(
    members: Sequence[TwoPartModel],
    schema: Schema,
    groups: Groups,
    vocabulary: Mapping[str, np.ndarray],
    *,
    k: int,
    in_gaps: bool = False,
) -> Recommendations:
    """The `k` most probable further items of each group; all items if there are fewer.

    `in_gaps`: whether the further item may stand anywhere in its group, at the end otherwise: its
    probabilities are means over the gaps, 32 of them at most
    """
    check_whole("k", k)
    labels = vocabulary.get("item", np.arange(0))
    k = min(int(k), len(labels))
    top = np.zeros((len(groups), k), dtype=np.int64)
    chance = np.zeros((len(groups), k))
    if in_gaps:
        n_at_once = max(1, MAX_NUMBERS // (N_GAPS * max(1, schema.n_items or 0)))
        for first in range(0, len(groups), n_at_once):
            some = groups[first : first + n_at_once]
            group, at = gaps_of(some, most=N_GAPS)
            blank = insert_blank(some[group], schema, at=at)
            which = slice(first, first + len(some))
            top[which], chance[which] = top_of_means(members, blank, of=group, k=k)
    else:
        blank = append_blank(groups, schema)
        group_of = np.full(blank.n_rows, -1)
        group_of[blank.stop - 1] = np.arange(len(groups))
        for rows, items, probability in top_items(members, blank, k=k):
            top[group_of[rows]], chance[group_of[rows]] = items, probability
    names = np.arange(len(groups)) if groups.group_names is None else groups.group_names
    return Recommendations(names, labels[top], chance)


def chosen_groups(groups: Groups, labels: Sequence[Any]) -> Groups:
    """The groups of these labels, in this order. Raises ExfamError for one that there is not."""
    names = np.arange(len(groups)) if groups.group_names is None else groups.group_names
    index = {label: number for number, label in enumerate(names.tolist())}
    if isinstance(labels, str) or not isinstance(labels, Sequence | np.ndarray):
        raise ExfamError(f"`groups` must be a list of groups of `X`, got {shown(labels)}.")
    for label in labels:
        if not isinstance(label, Hashable) or label not in index:
            some = ", ".join(repr(name) for name in list(index)[:3])
            raise ExfamError(
                f"`groups` must name groups of `X`, got {shown(label)}. It has {some}"
                f"{' …' if len(index) > 3 else ''}."
            )
    return groups[np.array([index[label] for label in labels], dtype=np.int64)]


def item_lifts(
    members: Sequence[TwoPartModel],
    schema: Schema,
    *,
    given: np.ndarray | None = None,
    nothing: np.ndarray | None = None,
) -> Iterator[tuple[np.ndarray, Float[np.ndarray, "rows items"]]]:
    """lift[j, i] = log p(i | j alone in the group) - log p(i | nothing), in nats, rows by rows.

    Values are unobserved, attributes unknown or average. An item's own lift reads 0. `given`: the
    items j, all unless given; `nothing`: probabilities without context, if they are there.
    """
    items = np.arange(schema.n_items or 0) if given is None else given
    alone = append_blank(lone_items(schema, items), schema)
    nothing = without_context(members, schema) if nothing is None else nothing
    for rows, probability in item_probabilities(members, alone[: len(items)]):
        lift = np.log(np.maximum(probability, TINY)) - np.log(np.maximum(nothing, TINY))
        own = items[rows // 2]  # a group of an item and a blank has two rows
        lift[np.arange(len(own)), own] = 0.0
        yield own, lift


def without_context(
    members: Sequence[TwoPartModel], schema: Schema
) -> Float[np.ndarray, "one items"]:
    """Probabilities of all items in a group without any other."""
    empty = append_blank(lone_items(schema, np.zeros(0, dtype=np.int64)), schema)
    ((_, nothing),) = item_probabilities(members, empty)
    return nothing


def lone_items(schema: Schema, items: np.ndarray) -> Groups:
    """A group for each of the items, with nothing else in it, and an empty one."""
    return groups_of_items(schema, items, np.append(np.ones(len(items), dtype=np.int64), 0))


def groups_of_items(
    schema: Schema, items: np.ndarray, lengths: Int64[np.ndarray, "groups"]
) -> Groups:
    """Groups of which the items alone are known: attributes are unknown or average.

    `items`: codes, group after group; `lengths`: how many each group has
    """
    attributes, n, stop = schema.attributes, len(items), np.cumsum(lengths)
    n_groups = len(lengths)
    return Groups(
        start=stop - lengths,
        stop=stop,
        item=items,
        values={column: np.zeros(n) for column in schema.families},
        attributes={a.name: typical_rows(a, n) for a in attributes if not a.of_group},
        group_attributes={a.name: typical_rows(a, n_groups) for a in attributes if a.of_group},
        observed=np.zeros(n, dtype=bool),
        vocabulary={"item": np.arange(schema.n_items or 0)},
    )


def item_codes(
    vocabulary: Mapping[str, np.ndarray], items: Sequence[Any]
) -> Int64[np.ndarray, "items"]:
    """Codes of items by their labels. Raises UnknownItemError for one not seen in training."""
    codes = index_of(vocabulary, "item").codes
    for item in items:
        # Lists and frames are no keys.
        if not isinstance(item, Hashable) or item not in codes:
            raise UnknownItemError(f"`item` must be one seen in training, got {shown(item)}.")
    return np.array([codes[item] for item in items], dtype=np.int64)
