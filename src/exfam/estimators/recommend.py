"""What comes next, and which items go together or replace each other."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int64

from exfam.analysis.evaluate import item_probabilities, log_probs, top_items
from exfam.checks import ExfamError, UnknownItemError, check_whole
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
# Items up to which all are compared with all, and those of a larger catalog that are looked at.
MANY_ITEMS, N_CANDIDATES = 10_000, 1_000


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
    check_whole("k", k)
    labels = vocabulary.get("item", np.arange(0))
    k = min(int(k), len(labels))
    blank = append_blank(groups, schema)
    top = np.zeros((len(groups), k), dtype=np.int64)
    chance = np.zeros((len(groups), k))
    place = {int(row): g for g, row in enumerate(blank.stop - 1)}
    for rows, items, probability in top_items(members, blank, k=k):
        which = [place[int(row)] for row in rows]
        top[which], chance[which] = items, probability
    names = np.arange(len(groups)) if groups.group_names is None else groups.group_names
    return Recommendations(names, labels[top], chance)


def item_lifts(
    members: Sequence[TwoPartModel], schema: Schema, *, given: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, Float[np.ndarray, "rows items"]]]:
    """lift[j, i] = log p(i | j alone in the group) - log p(i | nothing), in nats, rows by rows.

    Values are unobserved, attributes unknown or average. An item's own lift reads 0. `given`: the
    items j, all unless given.
    """
    items = np.arange(schema.n_items or 0) if given is None else given
    alone = append_blank(_alone(schema, items), schema)
    # The last group is empty, and batches come by length: its probabilities are needed first.
    ((_, nothing),) = item_probabilities(members, alone[len(items) :])
    for rows, probability in item_probabilities(members, alone[: len(items)]):
        lift = np.log(np.maximum(probability, TINY)) - np.log(np.maximum(nothing, TINY))
        own = items[rows // 2]  # a group of an item and a blank has two rows
        lift[np.arange(len(own)), own] = 0.0
        yield own, lift


def _alone(schema: Schema, items: np.ndarray) -> Groups:
    """A group for each of the items, with nothing else in it, and an empty one."""
    attributes, n = schema.attributes, len(items)
    return Groups(
        start=np.append(np.arange(n), n),
        stop=np.append(np.arange(1, n + 1), n),
        item=items,
        values={column: np.zeros(n) for column in schema.families},
        attributes={a.name: _typical(a, n) for a in attributes if not a.of_group},
        group_attributes={a.name: _typical(a, n + 1) for a in attributes if a.of_group},
        observed=np.zeros(n, dtype=bool),
        vocabulary={"item": np.arange(schema.n_items or 0)},
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

    Of more than 10,000 items those are looked at from both sides that come first from one: the
    1,000 that `item` lifts most, or that the 1,000 most frequent items lift as they do `item`.
    Raises ExfamError without an item part, UnknownItemError for an item not seen in training.
    """
    check_whole("k", k)
    if members[0].item_part is None:
        raise ExfamError("`item` relations must come from a model with an item part, got none.")
    names = labels.tolist()
    if item not in names:
        raise UnknownItemError(f"`item` must be one seen in training, got {item!r}.")
    code = names.index(item)
    look = _strengths if len(names) <= MANY_ITEMS else _strengths_of_candidates
    strength = look(members, schema, code, kind=kind)
    strength[code] = -np.inf
    best = np.argsort(-strength, kind="stable")[: int(k)]
    best = best[np.isfinite(strength[best])]
    return Relations(item, labels[best], strength[best])


def _strengths(
    members: Sequence[TwoPartModel], schema: Schema, code: int, *, kind: str
) -> Float[np.ndarray, "items"]:
    """How strongly every item is related to item `code`; minus infinity if not at all."""
    of, by, alike = _lifts_of_and_by(members, schema, code, given=np.arange(schema.n_items or 0))
    mutual = (of + by) / 2
    if kind == "complements":
        return mutual
    return np.where(mutual <= _little(np.delete(mutual, code)), alike, -np.inf)


def _strengths_of_candidates(
    members: Sequence[TwoPartModel], schema: Schema, code: int, *, kind: str
) -> Float[np.ndarray, "items"]:
    """As `_strengths`, of the items alone that come first from one side."""
    given = np.array([code])
    if kind == "substitutes":
        empty = append_blank(_alone(schema, given[:0]), schema)
        ((_, frequent, _),) = top_items(members, empty, k=N_CANDIDATES)
        given = np.union1d(frequent, given)
    _, by, alike = _lifts_of_and_by(members, schema, code, given=given)
    first = by.copy() if kind == "complements" else alike.copy()
    first[code] = -np.inf
    candidates = np.argsort(-first, kind="stable")[: min(N_CANDIDATES, len(by) - 1)]
    mutual = (_lifts_of(members, schema, code, given=candidates) + by[candidates]) / 2
    strength = np.full(len(by), -np.inf)
    if kind == "complements":
        strength[candidates] = mutual
    else:
        apart = mutual <= _little(np.delete(by, code))
        strength[candidates] = np.where(apart, alike[candidates], -np.inf)
    return strength


def _little(mutual: np.ndarray) -> float:
    """What a lift may be at most between items that are no complements."""
    return max(0.0, float(np.median(mutual))) if len(mutual) else 0.0


def _lifts_of(
    members: Sequence[TwoPartModel], schema: Schema, code: int, *, given: np.ndarray
) -> Float[np.ndarray, "given"]:
    """Lift of item `code` by each of the given ones, with no other item's."""
    alone = append_blank(_alone(schema, given), schema)
    assert alone.item is not None and alone.role is not None
    asked = alone.with_(item=np.where(alone.role == TARGET, code, alone.item))
    nats = log_probs(members, asked).item
    assert nats is not None
    nats = np.maximum(nats[asked.stop - 1], np.log(TINY))
    return nats[:-1] - nats[-1]


def _lifts_of_and_by(
    members: Sequence[TwoPartModel], schema: Schema, code: int, *, given: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lifts of item `code` by the given items, its lifts of all items, and how alike lifts are.

    Alike: the correlation over all third given items of their lifts of an item and of `code`. One
    pass over rows of the table of lifts, which is never held whole. `code` must be among `given`.
    """
    n = schema.n_items or 0
    of, by = np.zeros(n), np.zeros(n)
    total, square, product = np.zeros(n), np.zeros(n), np.zeros(n)
    for some, lift in item_lifts(members, schema, given=given):
        of[some] = lift[:, code]
        by += lift[some == code].sum(0)
        lift = lift[some != code]
        total += lift.sum(0)
        square += (lift**2).sum(0)
        product += lift[:, code] @ lift
    # An item's lift by itself reads 0, so only its lift of `code` is still to be taken out.
    own_total, own_square = total[code] - of, square[code] - of**2
    third = np.full(n, len(given) - 1)
    third[given] -= 1
    third = np.maximum(third, 1)
    spread = np.maximum(square - total**2 / third, 0.0)
    own_spread = np.maximum(own_square - own_total**2 / third, 0.0)
    covariance = product - total * own_total / third
    return of, by, covariance / np.maximum(np.sqrt(spread * own_spread), 1e-12)
