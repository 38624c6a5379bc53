"""Which items go together, and which replace each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64
from scipy.special import logsumexp
from torch import Tensor

from exfam.catalog.normalizer import ItemChoice, log_normalizer
from exfam.checks import ExfamError, check_whole
from exfam.columns.results import PlottedResult
from exfam.efa.blanks import append_blank
from exfam.efa.recommend import TINY, item_codes, item_lifts, lone_items, without_context
from exfam.efa.requests import requests_of
from exfam.estimator.evaluate import item_components, of_choices, top_items
from exfam.estimator.schema import Schema
from exfam.likelihoods.two_part import TwoPartModel

# Items up to which all are compared with all, whose lifts are kept in 32 MB, and how many of a
# larger catalog are looked at.
FEW_ITEMS, N_CANDIDATES = 2_000, 1_000
# Bytes up to which the lifts that frequent items give are kept.
MOST_LIFT_BYTES = 2**26


@dataclass(frozen=True, eq=False, repr=False)
class Relations(PlottedResult):
    """Items related to one, the strongest first; `strength` is in nats or a correlation."""

    item: Any
    items: np.ndarray
    strength: Float[np.ndarray, "k"]

    picture = "relation_bars"

    def to_dict(self) -> dict[str, np.ndarray]:
        """Columns `item`, `strength`."""
        return {"item": self.items, "strength": self.strength}

    def headline(self) -> str:
        """Of which item, and how many."""
        return f"Relations of {self.item!r}: {len(self.items)} items, the strongest first"


class Strongest(NamedTuple):
    """Codes of items, the strongest relation first."""

    code: Int64[np.ndarray, "related"]
    strength: Float[np.ndarray, "related"]

    @classmethod
    def of(cls, strength: Float[np.ndarray, "items"], code: int) -> "Strongest":
        """All but the item itself, and but those that are not related."""
        strength[code] = -np.inf
        best = np.argsort(-strength, kind="stable")
        best = best[: int(np.isfinite(strength).sum())]
        return cls(best, strength[best])

    def size(self) -> int:
        """In bytes."""
        return self.code.nbytes + self.strength.nbytes


def relations(
    model: Any, item: Any, *, k: int, alike: bool, n_candidates: int | None = None
) -> Relations:
    """Complements (mutual lift), or substitutes, that are `alike`: same lifts, little mutual lift.

    Of more than 2,000 items those are looked at from both sides that come first from one: the
    1,000 that `item` lifts most, or that the 1,000 most frequent items lift as they do `item`;
    `n_candidates`: another number than 1,000.
    The model keeps the lifts of few items, and of more items what came out for those given before.
    Raises ExfamError without an item part, UnknownItemError for an item not seen in training.
    """
    check_whole("k", k)
    members, schema, kept = model.members_, model.schema_, requests_of(model)
    if members[0].item_part is None:
        raise ExfamError("`item` relations must come from a model with an item part, got none.")
    labels, code = model._vocabulary["item"], int(item_codes(model._vocabulary, [item])[0])
    if len(labels) <= FEW_ITEMS:
        of_all = partial(LiftTable.of, members, schema)
        table = kept.result("lifts", members, of_all, size=LiftTable.size)
        found = Strongest.of(table.strength(code, alike=alike), code)
    else:
        n = min(n_candidates or N_CANDIDATES, len(labels))
        of_one = partial(_strongest, model, code, alike=alike, n=n)
        key = ("related", code, alike, n)
        found = kept.result(key, members, of_one, size=Strongest.size)
    best = found.code[: int(k)]
    return Relations(item, labels[best], found.strength[: int(k)].copy())


@dataclass(frozen=True, eq=False)
class LiftTable:
    """lift[j, i] of all items by some of them, `given`; its sums and sums of squares over j."""

    given: Int64[np.ndarray, "given"]
    lift: Float[np.ndarray, "given items"]
    total: Float[np.ndarray, "items"]
    square: Float[np.ndarray, "items"]

    @classmethod
    def of(
        cls, members: Sequence[TwoPartModel], schema: Schema, given: np.ndarray | None = None
    ) -> "LiftTable":
        """Of a model's items by those `given`, which are in order, all of them unless given.

        Lifts by some items are of single precision.
        """
        n_items = schema.n_items or 0
        precision = np.float64 if given is None else np.float32
        given = np.arange(n_items) if given is None else given
        table = np.zeros((len(given), n_items), dtype=precision)
        for rows, lift in item_lifts(members, schema, given=given):
            table[np.searchsorted(given, rows)] = lift
        square = np.einsum("ji,ji->i", table, table, dtype=np.float64)
        return cls(given, table, table.sum(0, dtype=np.float64), square)

    def size(self) -> int:
        """In bytes."""
        return self.lift.nbytes

    def strength(self, code: int, *, alike: bool) -> Float[np.ndarray, "items"]:
        """How strongly all items are related to one, where all items are given."""
        of, likeness = self.of_and_likeness(code)
        mutual = (of + self.lift[code]) / 2
        if not alike:
            return mutual
        # Those that lift each other little.
        return np.where(mutual <= _little(np.delete(mutual, code)), likeness, -np.inf)

    def of_and_likeness(self, code: int) -> tuple[np.ndarray, np.ndarray]:
        """Lifts of an item by all items, 0 by those not given, and how alike lifts are."""
        by = self.lift[self.given == code].sum(0, dtype=np.float64)
        of = np.zeros(len(self.total))
        of[self.given] = self.lift[:, code]
        # An item's own row adds nothing to the products: its lift by itself reads 0.
        sums = _Sums(self.total - by, self.square - by**2, self.lift[:, code] @ self.lift)
        third = np.full(len(of), len(self.given) - int(np.isin(code, self.given)))
        third[self.given] -= 1
        return of, sums.likeness(code, of, third=third)


@dataclass(frozen=True, eq=False)
class _Sums:
    """Over some items, without one: of their lifts of all items, of squares and of products."""

    total: Float[np.ndarray, "items"]
    square: Float[np.ndarray, "items"]
    product: Float[np.ndarray, "items"]

    def likeness(
        self, code: int, of: Float[np.ndarray, "items"], *, third: Int64[np.ndarray, "items"]
    ) -> Float[np.ndarray, "items"]:
        """Correlations of the lifts of an item and of item `code`, over so many `third` items."""
        # An item's lift by itself reads 0, so only its lift of `code` is still to be taken out.
        own_total, own_square = self.total[code] - of, self.square[code] - of**2
        third = np.maximum(third, 1)
        spread = np.maximum(self.square - self.total**2 / third, 0.0)
        own_spread = np.maximum(own_square - own_total**2 / third, 0.0)
        covariance = self.product - self.total * own_total / third
        return covariance / np.maximum(np.sqrt(spread * own_spread), 1e-12)


def _strongest(model: Any, code: int, *, alike: bool, n: int) -> Strongest:
    """Of the `n` items that come first from one side."""
    if alike:
        by, first = _by_and_likeness(model, code, n=n)
    else:
        by = first = _lifts_by(model, code)
    likeness, first = first, first.copy()
    first[code] = -np.inf
    candidates = np.argsort(-first, kind="stable")[: min(n, len(by) - 1)]
    mutual = (_lifts_of(model, code, given=candidates) + by[candidates]) / 2
    strength = np.full(len(by), -np.inf)
    strength[candidates] = mutual
    if alike:
        apart = mutual <= _little(np.delete(by, code))
        strength[candidates] = np.where(apart, likeness[candidates], -np.inf)
    return Strongest.of(strength, code)


def _by_and_likeness(model: Any, code: int, *, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Lifts by one item, and how alike to its lifts by the `n` most frequent those of others are.

    Lifts by frequent items are kept where they are not too many.
    """
    members, schema = model.members_, model.schema_

    def frequent() -> np.ndarray:
        empty = append_blank(lone_items(schema, np.zeros(0, dtype=np.int64)), schema)
        ((_, first, _),) = top_items(members, empty, k=n)
        return np.unique(first)

    if 4 * n * (schema.n_items or 0) > MOST_LIFT_BYTES:
        given = np.union1d(frequent(), code)
        return _lifts_by_and_likeness(members, schema, code, given=given)
    table = requests_of(model).result(
        ("lifts", n), members, lambda: LiftTable.of(members, schema, frequent()),
        size=LiftTable.size,
    )  # fmt: skip
    _, likeness = table.of_and_likeness(code)
    return _lifts_by(model, code), likeness


def _little(mutual: np.ndarray) -> float:
    """What a lift may be at most between items that are no complements."""
    return max(0.0, float(np.median(mutual))) if len(mutual) else 0.0


def _lifts_by(model: Any, code: int) -> Float[np.ndarray, "items"]:
    """Lifts of all items by item `code`."""
    members, schema = model.members_, model.schema_
    nothing = requests_of(model).result(
        "nothing", members, lambda: without_context(members, schema), size=lambda own: own.nbytes
    )
    ((_, lift),) = item_lifts(members, schema, given=np.array([code]), nothing=nothing)
    return lift[0]


def _lifts_of(model: Any, code: int, *, given: np.ndarray) -> Float[np.ndarray, "given"]:
    """Lift of item `code` by each of the given ones, with no other item's.

    Log-normalizers of groups of one item are kept: the next item needs many of them again.
    """
    members, schema = model.members_, model.schema_
    shares = item_components(members)[1]
    n = schema.n_items or 0
    kept = requests_of(model).result(
        "lone normalizers", members, lambda: np.full((len(shares), n + 1), np.nan),
        size=lambda nats: nats.nbytes,
    )  # fmt: skip
    new = given[np.isnan(kept[:, given]).any(0)]
    if len(new) or np.isnan(kept[:, n]).any():
        alone = append_blank(lone_items(schema, new), schema)
        kept[:, np.append(new, n)] = of_choices(members, alone, log_normalizer)[:, alone.stop - 1]
    alone = append_blank(lone_items(schema, given), schema)
    own = of_choices(members, alone, lambda choice: choice.eta.own(_all(code, choice)))
    nats = own[:, alone.stop - 1] - kept[:, np.append(given, n)]
    nats = np.maximum(logsumexp(nats, axis=0, b=np.array(shares)[:, None]), np.log(TINY))
    return nats[:-1] - nats[-1]


def _all(code: int, choice: ItemChoice) -> Tensor:
    return torch.full((len(choice.eta.state),), code, device=choice.eta.state.device)


def _lifts_by_and_likeness(
    members: Sequence[TwoPartModel], schema: Schema, code: int, *, given: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Lifts of all items by item `code`, which is among the given ones, and how alike lifts are.

    Alike: the correlation over all third given items of their lifts of an item and of `code`. One
    pass over rows of the table of lifts, which is never held whole.
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
    third = np.full(n, len(given) - 1)
    third[given] -= 1
    return by, _Sums(total, square, product).likeness(code, of, third=third)
