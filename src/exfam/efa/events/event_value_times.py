"""What the time of an event says about its value, as inputs of a linear predictor.

With w the wait since the last event of the stream, a that since the last value of the item, and f
broken lines, the inputs are

    1{w is unknown}, 1{w = 0}, f(log w), z_last f(log a), mean z f(log a),

and, of dates, waves of the day and of the week. So values may rise with the wait, and what is
remembered of older ones may fade.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int64

from exfam.efa.events.event_clock import EventClock
from exfam.efa.events.event_streams import EventStreams

_LEVELS = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
# Waves a day, and a week.
_WAVES = (1.0, 2.0, 1 / 7, 2 / 7)


@dataclass(frozen=True, eq=False)
class ValueTimes:
    """Breaks of the lines, in logs of days, and whether events have dates.

    `breaks`: of waits, and of what values are old; lines are level outside of them
    """

    breaks: Float[np.ndarray, "2 breaks"]
    has_dates: bool

    @classmethod
    def fit(
        cls, wait: Float[np.ndarray, "n"], age: Float[np.ndarray, "n"], *, has_dates: bool
    ) -> "ValueTimes":
        """Breaks at quantiles; NaN and 0 are left out."""
        breaks = np.zeros((2, len(_LEVELS)))
        for row, days in zip(breaks, (wait, age), strict=True):
            if (days > 0).any():
                row[:] = np.quantile(np.log(days[days > 0]), _LEVELS)
        return cls(breaks, has_dates)

    def inputs(
        self,
        past: Float[np.ndarray, "n inputs"],
        wait: Float[np.ndarray, "n"],
        age: Float[np.ndarray, "n"],
        local: Float[np.ndarray, "n"],
    ) -> Float[np.ndarray, "n more"]:
        """Beside what `past_inputs` has; `local`: days of the local clock."""
        since, old = _lines(wait, self.breaks[0]), _lines(age, self.breaks[1])
        columns = [past, np.isnan(wait)[:, None], (wait == 0)[:, None], since]
        columns += [past[:, 1:2] * old, past[:, 2:3] * old]
        if self.has_dates:
            turn = 2 * np.pi * local[:, None] * np.array(_WAVES)
            columns += [np.sin(turn), np.cos(turn)]
        return np.concatenate(columns, axis=1, dtype=np.float64)


def _lines(days: Float[np.ndarray, "n"], breaks: Float[np.ndarray, "breaks"]) -> np.ndarray:
    """The log of days less its middle, and by how much it is above inner breaks; 0 of no days."""
    has, spread = days > 0, (breaks[-2] - breaks[1]) / 3
    if not spread:
        return np.zeros((len(days), len(breaks) - 1))
    log = np.log(np.where(has, days, 1.0)).clip(breaks[0], breaks[-1])[:, None]
    unit = np.concatenate(
        [log - breaks[len(breaks) // 2], (log - breaks[1:-1]).clip(min=0.0)], axis=1
    )
    lines: np.ndarray = np.where(has[:, None], unit / spread, 0.0)
    return lines


def waits_before(streams: EventStreams) -> Float[np.ndarray, "events"]:
    """Time since the last event of the stream, or since its opening, NaN where there is neither."""
    first, time = streams.is_first, streams.time
    wait = np.diff(time, prepend=np.nan)
    return np.where(first, time - streams.begin[streams.stream], wait)


def ages_of(
    streams: EventStreams, observed: Bool[np.ndarray, "events"]
) -> Float[np.ndarray, "events"]:
    """Time since the last value of an event's item in its stream, NaN where there is none."""
    item, n = streams.item, len(streams.time)
    order = np.lexsort((np.arange(n), item, streams.stream))
    key = np.stack([streams.stream[order], item[order]])
    new = np.append(True, (key[:, 1:] != key[:, :-1]).any(0))[:n]
    index: Int64[np.ndarray, "n"] = np.arange(n)
    opened = np.maximum.accumulate(np.where(new, index, 0))
    held = np.maximum.accumulate(np.where(observed[order], index, -1))
    last = np.append(-1, held[:-1])[:n]
    time = streams.time[order]
    age = np.empty(n)
    age[order] = np.where(last >= opened, time - time[last.clip(0)], np.nan)
    return age


def moments_of(
    streams: EventStreams, observed: Bool[np.ndarray, "events"], clock: EventClock
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Waits, ages and local days of events."""
    return waits_before(streams), ages_of(streams, observed), clock.local(streams.time)
