"""What models of events return."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped

from exfam.columns.results import TabularResult

Column = Shaped[np.ndarray, "rows"]


@dataclass(frozen=True, eq=False, repr=False)
class EventPrediction(TabularResult):
    """The next event of each stream.

    `tie`: the chance that it has the stamp of the last one; `time`, `low`, `high`: its median and
    the ends of an interval, infinite where that may never come; `item`, `probability`: the most
    probable item, with the probabilities of all, averaged over the time; `values`: the expected
    value of it by column (the median without a mean), NaN where most such events have none
    """

    group: Column
    tie: Float[np.ndarray, "rows"]
    time: Column
    low: Column
    high: Column
    item: Column | None
    probability: Float[np.ndarray, "rows"] | None
    item_proba: Float[np.ndarray, "rows items"] | None
    values: dict[str, Float[np.ndarray, "rows"]]

    def to_dict(self) -> Mapping[str, Any]:
        """The columns by name."""
        columns: dict[str, Any] = {
            name: getattr(self, name) for name in ("group", "tie", "time", "low", "high")
        }
        if self.item is not None:
            columns |= {"item": self.item, "probability": self.probability}
        return columns | self.values


@dataclass(frozen=True, eq=False, repr=False)
class EventCounts(TabularResult):
    """How many events each stream has in a window after observation, by draws.

    `low`, `high`: an interval of at least the chosen probability; `draws`: the counts drawn
    """

    group: Column
    mean: Float[np.ndarray, "rows"]
    low: Column
    high: Column
    draws: Shaped[np.ndarray, "rows draws"]

    def to_dict(self) -> Mapping[str, Any]:
        """The columns by name."""
        return {name: getattr(self, name) for name in ("group", "mean", "low", "high")}


@dataclass(frozen=True, eq=False, repr=False)
class EventCountCalibration(TabularResult):
    """How many events came in windows of streams, beside what was predicted, by draws.

    `low`, `high`: an interval of at least 90 % of whole numbers, which holds more where counts are
    small; `below`, `at_most`: the chances of a smaller count, and of one as small: a level drawn
    evenly between them is even over 0 to 1 if predictions are right. `moment`: when a window
    begins, which follows one with an event; `window`: how long it is
    """

    group: Column
    moment: Column
    count: Column
    mean: Float[np.ndarray, "rows"]
    low: Column
    high: Column
    below: Float[np.ndarray, "rows"]
    at_most: Float[np.ndarray, "rows"]
    window: float

    @property
    def inside(self) -> Bool[np.ndarray, "rows"]:
        """Which counts are within their interval."""
        return (self.low <= self.count) & (self.count <= self.high)

    def to_dict(self) -> Mapping[str, Any]:
        """The columns by name."""
        names = ("group", "moment", "count", "mean", "low", "high", "below", "at_most")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, eq=False, repr=False)
class EventDraws(TabularResult):
    """Events that streams go on with: one row each, by stream, draw and time."""

    group: Column
    draw: Column
    time: Column
    item: Column | None
    values: dict[str, Float[np.ndarray, "rows"]]

    def to_dict(self) -> Mapping[str, Any]:
        """The columns by name."""
        items = {} if self.item is None else {"item": self.item}
        return {"group": self.group, "draw": self.draw, "time": self.time, **items, **self.values}


@dataclass(frozen=True, eq=False, repr=False)
class EventExplanation(TabularResult):
    """What the rate of events at some moments is made of; parts of a moment add up to it.

    `row`: the event whose moment it is, -1 for the end of observation; `source`: "base rate", "rate
    of the stream", "wait since the last event", "event", or "attention", which may lower the rate;
    `source_row`: the row of that event, -1 for other sources; `rate`: what it adds, per day or unit
    of time
    """

    group: Column
    row: Column
    source: Column
    source_row: Column
    source_item: Column
    age: Float[np.ndarray, "rows"]
    rate: Float[np.ndarray, "rows"]

    def to_dict(self) -> Mapping[str, Any]:
        """The columns by name."""
        names = ("group", "row", "source", "source_row", "source_item", "age", "rate")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, eq=False, repr=False)
class EventCalibration(TabularResult):
    """Whether waits are distributed as they are said to be.

    `level`: P(a wait as short as this | past) of each spell that ended in an event, from 0 to 1 and
    even over it if the model is right (drawn within its cell where times have a resolution); minus
    log(1 - level) are the residuals of time rescaling. `distance`: the Kolmogorov-Smirnov distance
    from evenness, `low` and `high` its 95 % interval over streams (or stretches of one). `even`:
    the distance that even levels exceed once in 20 times
    """

    level: Float[np.ndarray, "spells"]
    distance: float
    low: float
    high: float
    even: float

    def to_dict(self) -> Mapping[str, Any]:
        """Sorted levels beside those of even ones."""
        n = len(self.level)
        return {"level": np.sort(self.level), "even_level": (np.arange(n) + 0.5) / max(1, n)}

    def headline(self) -> str:
        """The distance in words."""
        return (
            f"EventCalibration: Kolmogorov-Smirnov distance {self.distance:.3f} (95 % interval "
            f"{self.low:.3f} to {self.high:.3f}; even levels exceed {self.even:.3f} "
            f"once in 20 times), {len(self.level):,} waits"
        )
