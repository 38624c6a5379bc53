"""What comes next, and which items go together or replace each other."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int64

from exfam.analysis.evaluate import item_probabilities
from exfam.checks import ExfamError, UnknownItemError
from exfam.estimators.parameters import check_count
from exfam.groups import CONTEXT, TARGET, Groups
from exfam.models.schema import AttributeSpec, Schema
from exfam.models.two_part import TwoPartModel

__all__ = [
    "Recommendations",
    "Relations",
    "append_blank",
    "item_lifts",
    "recommend",
    "relations",
]

# Items that hard support excludes have probability 0; their lift is finite all the same.
TINY = 1e-30


@dataclass(frozen=True, eq=False)
class Recommendations:
    """The most probable items of each group, best first.

    With hard support, items that the group has come last, with probability 0, if `k` asks for more
    than are left.
    """

    groups: np.ndarray
    items: np.ndarray
    probabilities: Float[np.ndarray, "groups k"]

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


@dataclass(frozen=True, eq=False)
class Relations:
    """Items related to one, the strongest first; `strength` is in nats or a correlation."""

    item: Any
    items: np.ndarray
    strength: Float[np.ndarray, "k"]


def append_blank(groups: Groups, schema: Schema) -> Groups:
    """Groups with one blank element at the end of each: its item unknown, its values unobserved.

    The blank is the only target. Attributes that are `known` repeat the group's last ones; others
    belong to an item not yet known, and are unknown or average. The position goes on by the
    group's last step (a typical one after a single element); without positions it is the next.
    """
    flat = groups.compact()
    lengths = flat.stop - flat.start
    stop = np.cumsum(lengths + 1)
    blank = stop - 1
    source, given = _sources(flat, blank)
    return flat.with_(
        start=stop - lengths - 1,
        stop=stop,
        item=None if flat.item is None else np.where(given, _take(flat.item, source), -1),
        values={name: _take(column, source) for name, column in flat.values.items()},
        attributes=_next_attributes(flat, source, blank, schema),
        observed=given if flat.observed is None else given & _take(flat.observed, source),
        position=_next_positions(flat, source, blank, schema),
        role=np.where(given, CONTEXT, TARGET).astype(np.int8),
        source_row=None,
        context_start=None if flat.context_start is None else flat.context_start + len(flat),
        context_stop=None if flat.context_stop is None else flat.context_stop + len(flat),
    )


def _sources(
    flat: Groups, blank: Int64[np.ndarray, "groups"]
) -> tuple[Int64[np.ndarray, "rows"], Bool[np.ndarray, "rows"]]:
    """The row that each row repeats, a blank its group's last; and which are no blanks."""
    lengths = flat.stop - flat.start
    n_own = int(lengths.sum())
    own = np.ones(n_own + len(flat), dtype=bool)
    own[blank] = False
    source = np.zeros(len(own), dtype=np.int64)
    source[own] = np.arange(n_own)
    source[blank] = np.where(lengths > 0, flat.stop - 1, 0)
    # Rows of context ranges follow the groups' own, blanks among them, as before.
    further = np.arange(n_own, flat.n_rows)
    return np.append(source, further), np.append(own, np.ones(len(further), dtype=bool))


def _next_attributes(
    flat: Groups, source: np.ndarray, blank: np.ndarray, schema: Schema
) -> dict[str, np.ndarray]:
    attributes = {name: _take(column, source) for name, column in flat.attributes.items()}
    empty = blank[flat.stop == flat.start]
    for spec in schema.attributes:
        if not spec.of_group:
            rows = empty if spec.known else blank
            attributes[spec.name] = _with_typical(attributes[spec.name], rows, spec)
    return attributes


def _take(column: np.ndarray, rows: np.ndarray) -> np.ndarray:
    if not len(column):
        return np.zeros((len(rows), *column.shape[1:]), dtype=column.dtype)
    return column[rows]


def _typical(spec: AttributeSpec, n: int) -> np.ndarray:
    """Rows of an unknown category, or of average numbers."""
    return np.full(n, -1) if spec.n is not None else np.tile(np.array(spec.center), (n, 1))


def _with_typical(column: np.ndarray, rows: np.ndarray, spec: AttributeSpec) -> np.ndarray:
    column = column.astype(np.int64 if spec.n is not None else np.float64)
    typical = _typical(spec, len(rows))
    column[rows] = typical[:, 0] if typical.ndim > column.ndim else typical
    return column


def _next_positions(
    flat: Groups, source: np.ndarray, blank: np.ndarray, schema: Schema
) -> np.ndarray | None:
    if flat.position is None:
        return None
    position = _take(flat.position, source)
    lengths, last = flat.stop - flat.start, source[blank]
    step = _take(flat.position, last) - _take(flat.position, np.maximum(last - 1, 0))
    if step.ndim == 1:
        step = np.where(lengths > 1, step, schema.position_scale).astype(step.dtype)
        step[lengths == 0] = 0
    else:
        step[lengths < 2] = 0
    position[blank] = np.where(_like(lengths, step) > 0, position[blank], 0) + step
    return position


def _like(column: np.ndarray, other: np.ndarray) -> np.ndarray:
    return column.reshape(-1, *[1] * (other.ndim - 1))


def recommend(
    members: Sequence[TwoPartModel],
    groups: Groups,
    schema: Schema,
    vocabulary: Mapping[str, np.ndarray],
    *,
    k: int,
) -> Recommendations:
    """The `k` most probable further items of each group; all items if there are fewer."""
    check_count("k", k)
    labels = vocabulary.get("item", np.arange(0))
    k = min(int(k), len(labels))
    blank = append_blank(groups, schema)
    top = np.zeros((len(groups), k), dtype=np.int64)
    chance = np.zeros((len(groups), k))
    place = {int(row): g for g, row in enumerate(blank.stop - 1)}
    for rows, probability in item_probabilities(members, blank):
        best = np.argpartition(-probability, k - 1, axis=1)[:, :k]
        value = np.take_along_axis(probability, best, axis=1)
        order = np.lexsort((best, -value), axis=1)
        which = [place[int(row)] for row in rows]
        top[which] = np.take_along_axis(best, order, axis=1)
        chance[which] = np.take_along_axis(value, order, axis=1)
    names = np.arange(len(groups)) if groups.group_names is None else groups.group_names
    return Recommendations(names, labels[top], chance)


def item_lifts(
    members: Sequence[TwoPartModel], schema: Schema
) -> Iterator[tuple[np.ndarray, Float[np.ndarray, "rows items"]]]:
    """lift[j, i] = log p(i | j alone in the group) - log p(i | nothing), in nats, rows by rows.

    Values are unobserved, attributes unknown or average. An item's own lift reads 0.
    """
    n_items = schema.n_items or 0
    alone = append_blank(_alone(schema, n_items), schema)
    # The last group is empty, and batches come by length: its probabilities are needed first.
    ((_, nothing),) = item_probabilities(members, alone[n_items:])
    for rows, probability in item_probabilities(members, alone[:n_items]):
        lift = np.log(np.maximum(probability, TINY)) - np.log(np.maximum(nothing, TINY))
        given = rows // 2  # a group of an item and a blank has two rows
        lift[np.arange(len(given)), given] = 0.0
        yield given, lift


def _alone(schema: Schema, n_items: int) -> Groups:
    """A group for each item, with nothing else in it, and an empty one."""
    attributes = schema.attributes
    return Groups(
        start=np.append(np.arange(n_items), n_items),
        stop=np.append(np.arange(1, n_items + 1), n_items),
        item=np.arange(n_items),
        values={column: np.zeros(n_items) for column in schema.families},
        attributes={a.name: _typical(a, n_items) for a in attributes if not a.of_group},
        group_attributes={a.name: _typical(a, n_items + 1) for a in attributes if a.of_group},
        observed=np.zeros(n_items, dtype=bool),
    )


def relations(
    members: Sequence[TwoPartModel],
    schema: Schema,
    labels: np.ndarray,
    item: Any,
    *,
    k: int,
    kind: str,
) -> Relations:
    """Complements (mutual lift) or substitutes (same lifts by others, little mutual lift).

    Raises ExfamError without an item part, UnknownItemError for an item not seen in training.
    """
    check_count("k", k)
    if members[0].item_part is None:
        raise ExfamError("`item` relations must come from a model with an item part, got none.")
    names = labels.tolist()
    if item not in names:
        raise UnknownItemError(f"`item` must be one seen in training, got {item!r}.")
    code = names.index(item)
    mutual, alike = _mutual_and_alike(members, schema, code)
    strength = mutual
    if kind == "substitutes":
        others = np.delete(mutual, code)
        little = max(0.0, float(np.median(others))) if len(others) else 0.0
        strength = np.where(mutual <= little, alike, -np.inf)
    strength[code] = -np.inf
    best = np.argsort(-strength, kind="stable")[: int(k)]
    best = best[np.isfinite(strength[best])]
    return Relations(item, labels[best], strength[best])


def _mutual_and_alike(
    members: Sequence[TwoPartModel], schema: Schema, code: int
) -> tuple[Float[np.ndarray, "items"], Float[np.ndarray, "items"]]:
    """Mutual lifts with item `code`, and correlations of lifts by all third items with its own.

    One pass over the rows of the table of lifts, which is never held whole.
    """
    n = schema.n_items or 0
    of, by = np.zeros(n), np.zeros(n)
    total, square, product = np.zeros(n), np.zeros(n), np.zeros(n)
    for given, lift in item_lifts(members, schema):
        of[given] = lift[:, code]
        by += lift[given == code].sum(0)
        lift = lift[given != code]
        total += lift.sum(0)
        square += (lift**2).sum(0)
        product += lift[:, code] @ lift
    # An item's lift by itself reads 0, so only its lift of `code` is still to be taken out.
    own_total, own_square = total[code] - of, square[code] - of**2
    third = max(n - 2, 1)
    spread = np.maximum(square - total**2 / third, 0.0)
    own_spread = np.maximum(own_square - own_total**2 / third, 0.0)
    covariance = product - total * own_total / third
    return (of + by) / 2, covariance / np.maximum(np.sqrt(spread * own_spread), 1e-12)
