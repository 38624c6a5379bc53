"""What comes next, and which items go together or replace each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from exfam.analysis.evaluate import item_probabilities
from exfam.checks import ExfamError, UnknownItemError, check_positive
from exfam.groups import CONTEXT, Groups
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


@dataclass(frozen=True, eq=False)
class Recommendations:
    """The most probable items of each group, best first."""

    groups: np.ndarray
    items: np.ndarray
    probabilities: Float[np.ndarray, "groups k"]

    def to_dict(self) -> dict[str, np.ndarray]:
        """Columns `group`, `rank` (from 1), `item`, `probability`, one row a recommendation."""
        n_groups, k = self.probabilities.shape
        return {
            "group": np.repeat(self.groups, k),
            "rank": np.tile(np.arange(1, k + 1), n_groups),
            "item": self.items.ravel(),
            "probability": self.probabilities.ravel(),
        }


@dataclass(frozen=True, eq=False)
class Relations:
    """Items related to one, the strongest first; `strength` is in nats or a correlation."""

    item: Any
    items: np.ndarray
    strength: Float[np.ndarray, "k"]


def append_blank(groups: Groups) -> Groups:
    """Groups with one blank element at the end of each: its item unknown, its values unobserved.

    The blank is the only target. Its attributes repeat the group's last ones and its position goes
    on by the group's last step; without positions it is simply the next one.
    """
    flat = groups.compact()
    n = len(flat)
    lengths = flat.stop - flat.start
    stop = np.cumsum(lengths + 1)
    blank = stop - 1
    source = np.zeros(int(stop[-1]) if n else 0, dtype=np.int64)
    own = np.ones(len(source), dtype=bool)
    own[blank] = False
    source[own] = flat.elements()
    source[blank] = np.where(lengths > 0, flat.stop - 1, 0)
    empty = flat.n_rows == 0
    item = None if flat.item is None else np.where(own, _take(flat.item, source, empty), -1)
    observed = own if flat.observed is None else own & _take(flat.observed, source, empty)
    position = None if flat.position is None else _take(flat.position, source, empty)
    if position is not None:
        before = np.where(lengths > 1, source[blank] - 1, source[blank])
        position[blank] += _take(flat.position, source[blank], empty) - _take(
            flat.position, before, empty
        )
    return flat.with_(
        start=stop - lengths - 1,
        stop=stop,
        item=item,
        values={name: _take(c, source, empty) for name, c in flat.values.items()},
        attributes={name: _take(c, source, empty) for name, c in flat.attributes.items()},
        observed=observed,
        position=position,
        role=np.where(own, CONTEXT, 0).astype(np.int8),
        source_row=None,
    )


def _take(column: np.ndarray, rows: np.ndarray, empty: bool) -> np.ndarray:
    if empty:
        return np.zeros((len(rows), *column.shape[1:]), dtype=column.dtype)
    return column[rows]


def recommend(
    members: Sequence[TwoPartModel], groups: Groups, vocabulary: Mapping[str, np.ndarray], *, k: int
) -> Recommendations:
    """The `k` most probable further items of each group."""
    check_positive("k", k)
    labels = vocabulary.get("item", np.arange(groups.n_items))
    k = min(int(k), len(labels))
    blank = append_blank(groups)
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


def item_lifts(members: Sequence[TwoPartModel], schema: Schema) -> Float[np.ndarray, "items items"]:
    """lift[j, i] = log p(i | j alone in the group) - log p(i | nothing), in nats.

    Values are unobserved, attributes unknown or average. An item's probability given itself is
    left out (NaN).
    """
    n_items = schema.n_items or 0
    alone = _alone(schema, n_items)
    out = np.zeros((n_items + 1, n_items))
    blank = append_blank(alone)
    place = {int(row): g for g, row in enumerate(blank.stop - 1)}
    for rows, probability in item_probabilities(members, blank):
        out[[place[int(row)] for row in rows]] = np.log(np.maximum(probability, 1e-300))
    lift = out[:-1] - out[-1]
    np.fill_diagonal(lift, np.nan)
    return lift


def _alone(schema: Schema, n_items: int) -> Groups:
    """A group for each item, with nothing else in it, and an empty one."""

    def typical(spec: AttributeSpec, n: int) -> np.ndarray:
        return np.full(n, -1) if spec.n is not None else np.tile(np.array(spec.center), (n, 1))

    return Groups(
        start=np.append(np.arange(n_items), n_items),
        stop=np.append(np.arange(1, n_items + 1), n_items),
        item=np.arange(n_items),
        values={column: np.zeros(n_items) for column in schema.families},
        attributes={a.name: typical(a, n_items) for a in schema.attributes if not a.of_group},
        group_attributes={a.name: typical(a, n_items + 1) for a in schema.attributes if a.of_group},
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
    check_positive("k", k)
    if members[0].item_part is None:
        raise ExfamError("`item` relations must come from a model with an item part.")
    names = labels.tolist()
    if item not in names:
        raise UnknownItemError(f"`item` must be one seen in training, got {item!r}.")
    code = names.index(item)
    lift = item_lifts(members, schema)
    mutual = (lift + lift.T) / 2
    strength = mutual[code] if kind == "complements" else _alike(lift, mutual, code)
    strength = np.nan_to_num(strength, nan=-np.inf)
    best = np.argsort(-strength, kind="stable")[: min(int(k), len(names) - 1)]
    best = best[np.isfinite(strength[best])]
    return Relations(item, labels[best], strength[best])


def _alike(lift: np.ndarray, mutual: np.ndarray, code: int) -> Float[np.ndarray, "items"]:
    """Correlation of items' lifts by all third items, where the two do not call for each other."""
    others = np.where(np.isnan(lift), 0.0, lift)
    centered = others - others.mean(0)
    size = np.linalg.norm(centered, axis=0)
    cosine = centered.T @ centered[:, code] / np.maximum(size * size[code], 1e-12)
    typical = np.nanmedian(mutual[code])
    alike = np.where(mutual[code] <= typical, cosine, -np.inf)
    alike[code] = -np.inf
    return alike
