"""Maps that forecasts start from: what is known up to each of them, and what comes after."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from benchmarks.arena.fields.data import FieldData
from benchmarks.arena.fields.tasks import Field, one_lag
from benchmarks.arena.read import PARTS
from jaxtyping import Bool, Float, Int64


@dataclass(frozen=True, eq=False, kw_only=True)
class Starts:
    """Rows of a field that forecasts start from, each the last that its forecast knows.

    Targets are the values of the `n_steps` rows after a start, in the order of starts, steps and
    sites.
    """

    time: Float[np.ndarray, "times"]
    value: Float[np.ndarray, "times sites"]
    row: Int64[np.ndarray, "starts"]
    n_steps: int

    @property
    def future(self) -> Int64[np.ndarray, "starts steps"]:
        return self.row[:, None] + np.arange(1, self.n_steps + 1)

    @property
    def target(self) -> Bool[np.ndarray, "starts steps sites"]:
        return ~np.isnan(self.value[self.future])

    @property
    def truth(self) -> Float[np.ndarray, "targets"]:
        return self.value[self.future][self.target]

    def known(
        self, start: int, *, back: float
    ) -> tuple[Float[np.ndarray, "maps"], Float[np.ndarray, "maps sites"]]:
        """Times and values of the maps up to a start and less than `back` before it."""
        row = self.row[start]
        first = np.searchsorted(self.time, self.time[row] - back, side="right")
        return self.time[first : row + 1], self.value[first : row + 1]


@dataclass(frozen=True, eq=False, kw_only=True)
class ForecastData:
    """A field split by time, whose test part holds maps to forecast.

    `fields`: its maps with those one step before; contenders learn from `fields.both`
    """

    fields: FieldData
    starts: Starts

    @property
    def n_items(self) -> int:
        return self.fields.n_items

    def sizes(self) -> dict[str, Any]:
        """What a table says of the data: test groups are starts."""
        fields = self.fields
        parts = dict(zip(PARTS, (fields.train, fields.validation), strict=False))
        test = PARTS[-1]
        return {
            "n_items": self.n_items,
            "groups": {name: len(part) for name, part in parts.items()}
            | {test: len(self.starts.row)},
            "elements": {name: int(part.target.sum()) for name, part in parts.items()}
            | {test: int(self.starts.target.sum())},
            "left_out": {},
            "steps": self.starts.n_steps,
            "block": f"{fields.block:g} {fields.unit}{'s' * (fields.block != 1)}",
        }


def ahead(field: Field, *, n_steps: int, spacing: int) -> ForecastData:
    """Forecasts of `n_steps` test maps in a row, from one of `spacing` maps that have as many."""
    steps = np.arange(1, n_steps + 1)
    row = np.arange(len(field.time) - n_steps)
    future = row[:, None] + steps
    follows = field.time[future] == field.time[row, None] + steps
    is_start = (follows & (field.part[future] == 2)).all(1)
    starts = Starts(
        time=field.time, value=field.value, row=row[is_start][::spacing], n_steps=n_steps
    )
    return ForecastData(fields=one_lag(field), starts=starts)
