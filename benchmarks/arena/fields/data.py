"""Maps of values at sites: what of them is shown, and what is to be predicted from that."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from benchmarks.arena.read import PARTS
from jaxtyping import Bool, Float, Int64

from exfam.geometry import distances


@dataclass(frozen=True, eq=False, kw_only=True)
class Maps:
    """Values of sites on maps, NaN where there are none.

    A target that is shown is hidden from its own prediction alone.
    `before`: values one step earlier, NaN where there are none or the task does not show them
    `hidden_share`: which share of its values a map hides
    """

    time: Float[np.ndarray, "maps"]
    value: Float[np.ndarray, "maps sites"]
    shown: Bool[np.ndarray, "maps sites"]
    target: Bool[np.ndarray, "maps sites"]
    before: Float[np.ndarray, "maps sites"]
    hidden_share: Float[np.ndarray, "maps"]

    @cached_property
    def targets(self) -> tuple[Int64[np.ndarray, "targets"], Int64[np.ndarray, "targets"]]:
        """Map and site of each target: the order of all predictions."""
        of_map, site = self.target.nonzero()
        return of_map, site

    @property
    def truth(self) -> Float[np.ndarray, "targets"]:
        return self.value[self.target]

    @property
    def visible(self) -> Float[np.ndarray, "maps sites"]:
        """The values that are shown, NaN elsewhere."""
        return np.where(self.shown, self.value, np.nan)

    def with_targets(self, target: Bool[np.ndarray, "maps sites"]) -> "Maps":
        return replace(self, target=target)

    def __len__(self) -> int:
        return len(self.time)


@dataclass(frozen=True, eq=False, kw_only=True)
class FieldData:
    """A field, split by time, with a task. Coordinates are those of all sites, new ones too.

    `train`: maps without values of new sites; `validation`, `test`: maps as the task shows them
    `both`: maps of the training and validation times, without values of the new sites of `test`
    `unit`: of times, "day" or "month"; `period`: of a year, and `block` of standard errors, in it
    `new_sites`: whether targets are at sites that training lacks; `lags`: earlier maps shown
    `hide`: shares of the values that maps hide; `pattern`: how those of a panel are hidden
    `offset`: values are log(offset + y) of amounts y from 0 on, None if they are none
    `resolution`: amounts below it are zeros
    """

    train: Maps
    validation: Maps
    both: Maps
    test: Maps
    coordinates: Float[np.ndarray, "sites space"]
    metric: str
    unit: str
    period: float
    block: float
    lags: int = 0
    new_sites: bool = False
    hide: tuple[float, ...] = ()
    pattern: str = ""
    offset: float | None = None
    resolution: float = 0.0

    @property
    def n_items(self) -> int:
        return len(self.coordinates)

    @cached_property
    def distance(self) -> Float[np.ndarray, "sites sites"]:
        """Between all sites, infinite from a site to itself."""
        apart = distances(self.coordinates, self.coordinates, metric=self.metric)
        np.fill_diagonal(apart, np.inf)
        return apart

    def with_train(self, maps: Maps) -> "FieldData":
        return replace(self, train=maps)

    def sizes(self) -> dict[str, Any]:
        """What a table says of the data: groups are maps, items sites, elements targets."""
        parts = dict(zip(PARTS, (self.train, self.validation, self.test), strict=True))
        return {
            "n_items": self.n_items,
            "groups": {name: len(np.unique(part.time)) for name, part in parts.items()},
            "elements": {name: int(part.target.sum()) for name, part in parts.items()},
            "left_out": {},
            "task": self.task,
            "block": f"{self.block:g} {self.unit}{'s' * (self.block != 1)}",
        }

    @property
    def task(self) -> str:
        if self.new_sites:
            return "new sites"
        if self.hide:
            return "gaps"
        return "lag" if self.lags else "same map"


def plain(
    time: Float[np.ndarray, "maps"],
    value: Float[np.ndarray, "maps sites"],
    before: Float[np.ndarray, "maps sites"] | None = None,
) -> Maps:
    """Maps of which each value is a target given all others."""
    there = ~np.isnan(value)
    return Maps(
        time=time,
        value=value,
        shown=there,
        target=there,
        before=np.full_like(value, np.nan) if before is None else before,
        hidden_share=np.zeros(len(time)),
    )


def with_gaps(maps: Maps, shares: Sequence[float], chance: Float[np.ndarray, "maps sites"]) -> Maps:
    """The maps once for each share, with the values hidden whose chance is below it."""
    hidden = np.concatenate([chance < share for share in shares])
    many = {
        name: np.concatenate([getattr(maps, name)] * len(shares))
        for name in ("time", "value", "shown", "before")
    }
    shown = many.pop("shown")
    return Maps(
        **many,
        shown=shown & ~hidden,
        target=shown & hidden,
        hidden_share=np.repeat(np.asarray(shares, dtype=float), len(maps)),
    )
