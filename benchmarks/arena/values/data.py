"""Values of items in groups, split by groups, and flat views of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from benchmarks.arena.read import PARTS
from jaxtyping import Float, Int64

from exfam.groups import Groups

FORMS = ("ordinal", "real", "count")


@dataclass(frozen=True, eq=False)
class Flat:
    """The own elements of groups, group after group."""

    group: Int64[np.ndarray, "elements"]
    item: Int64[np.ndarray, "elements"]
    value: Float[np.ndarray, "elements"]

    @cached_property
    def lengths(self) -> Int64[np.ndarray, "groups"]:
        return np.bincount(self.group)

    @cached_property
    def start(self) -> Int64[np.ndarray, "groups"]:
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def position(self) -> Int64[np.ndarray, "elements"]:
        """Of an element within its group, from 0."""
        return np.arange(len(self.group)) - self.start[self.group]

    def n_context(self, *, causal: bool) -> Int64[np.ndarray, "elements"]:
        """How many elements of the group a prediction sees: the earlier ones, or all others."""
        return self.position if causal else self.lengths[self.group] - 1


def flat(groups: Groups) -> Flat:
    """The columns of the groups' own elements."""
    rows = groups.elements()
    number = np.repeat(np.arange(len(groups)), groups.stop - groups.start)
    return Flat(number, groups.item[rows].astype(np.int64), groups.values["value"][rows])


@dataclass(frozen=True, eq=False, kw_only=True)
class ValueData:
    """Groups with items and the value column "value", split. Items have codes of training alone.

    `form`: "ordinal" (whole numbers between two limits), "real" or "count"
    `left_out`: elements of each part whose items training lacks
    """

    train: Groups
    validation: Groups
    test: Groups
    n_items: int
    direction: str
    form: str
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def causal(self) -> bool:
        return self.direction == "causal"

    @cached_property
    def learned(self) -> Flat:
        """The training elements."""
        return flat(self.train)

    @cached_property
    def limits(self) -> tuple[float, float]:
        """The least and the largest value there is."""
        parts = [flat(part).value for part in (self.train, self.validation, self.test)]
        return min(part.min() for part in parts), max(part.max() for part in parts)

    @property
    def offset(self) -> float:
        """What is added to counts before their logarithm: one half where there are zeros."""
        return 0.5 if self.limits[0] < 1 else 0.0

    def working(self, value: Float[np.ndarray, "elements"]) -> Float[np.ndarray, "elements"]:
        """Values on the scale of additive models: logarithms of counts."""
        return np.log(value + self.offset) if self.form == "count" else value

    def judged(self, value: Float[np.ndarray, "elements"]) -> Float[np.ndarray, "elements"]:
        """Values on the scale of squared errors: log(1 + y) of counts."""
        return np.log1p(value) if self.form == "count" else value

    def sizes(self) -> dict[str, Any]:
        """What a table says of the data."""
        parts = dict(zip(PARTS, (self.train, self.validation, self.test), strict=True))
        return {
            "n_items": self.n_items,
            "groups": {name: len(part) for name, part in parts.items()},
            "elements": {name: part.n_elements for name, part in parts.items()},
            "left_out": dict(self.left_out),
            "direction": self.direction,
            "form": self.form,
        }
