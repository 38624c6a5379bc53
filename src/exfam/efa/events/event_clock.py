"""Two clocks: elapsed days, and a calendar that runs faster in the hours that have more events.

`EventClock.reading(t)` is C(t), the integral of a speed c over time: c depends on the local hour
and weekday, and is 1 on average over a week. A process that is simple in C(t) has the intensity
c(t) times the simple one, and every integral of it stays in closed form. Where the local clock is
put forward or back, an hour is left out or comes twice; elapsed time has neither.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo

import numpy as np
from jaxtyping import Float, Int64
from scipy.special import gammaln

HOURS = 168
_WEEK = 7.0
# Events that each hour and weekday may have at the mean rate beside those that came.
_FIRMNESS = tuple(2.0**power for power in range(10))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Monday; 1970 began on a Thursday.
_TO_MONDAY = 3.0
# Years that Python has dates of, in days since 1970, less a margin of some weeks.
_FIRST, _LAST = -719_000.0, 2_932_000.0

Days = Float[np.ndarray, "..."]


def offset_changes(zone: str, first: float, last: float) -> tuple[Days, Days]:
    """When a zone changes its offset from UTC between two moments, and all offsets, in days."""
    tz = ZoneInfo(zone)
    first, last = max(first, _FIRST), min(max(last, first), _LAST)

    def offset(minute: int) -> float:
        moment = _EPOCH + timedelta(minutes=minute)
        away = moment.astimezone(tz).utcoffset()
        return 0.0 if away is None else away / timedelta(days=1)

    changes, low = [], int(first * 1440) - 1440
    offsets, step = [offset(low)], 7 * 1440
    while low < last * 1440:
        high = low + step
        if offset(high) != offsets[-1]:
            early, late = low, high
            while late - early > 1:
                middle = (early + late) // 2
                early, late = (middle, late) if offset(middle) == offsets[-1] else (early, middle)
            changes.append(late / 1440)
            offsets.append(offset(late))
            high = late
        low = high
    return np.array(changes), np.array(offsets)


@dataclass(frozen=True, eq=False)
class EventClock:
    """How fast time runs in each hour of the week, from Monday at 0 local time.

    `changes`, `offsets`: moments at which the local clock changes, and its offsets between them
    """

    speed: Float[np.ndarray, "168"]
    changes: Float[np.ndarray, "changes"]
    offsets: Float[np.ndarray, "spans"]

    @classmethod
    def plain(cls) -> "EventClock":
        """Elapsed time alone."""
        return cls(np.ones(HOURS), np.zeros(0), np.zeros(1))

    @cached_property
    def is_plain(self) -> bool:
        """Whether all hours are alike."""
        return bool((self.speed == 1).all())

    @cached_property
    def _week(self) -> Float[np.ndarray, "169"]:
        return np.append(0.0, np.cumsum(self.speed)) * _WEEK / HOURS

    @cached_property
    def _edges(self) -> Float[np.ndarray, "169"]:
        return np.arange(HOURS + 1) * (_WEEK / HOURS)

    @cached_property
    def _lost(self) -> Float[np.ndarray, "spans"]:
        """What is to be subtracted after each change, so that the clock never jumps."""
        before = self._weekly(self.changes + self.offsets[:-1])
        after = self._weekly(self.changes + self.offsets[1:])
        return np.append(0.0, np.cumsum(after - before))

    def _weekly(self, local: Days) -> Days:
        day = local + _TO_MONDAY
        week = np.floor(day / _WEEK)
        return week * _WEEK + np.interp(day - week * _WEEK, self._edges, self._week)

    def local(self, time: Days) -> Days:
        """Days since 1970 on the local clock."""
        return time + self.offsets[np.searchsorted(self.changes, time, side="right")]

    def hour(self, time: Days) -> Int64[np.ndarray, "..."]:
        """The hour of the local week."""
        day = (self.local(time) + _TO_MONDAY) % _WEEK
        # The division may round up to the next hour's number.
        return np.minimum((day * (HOURS / _WEEK) + 1e-9).astype(np.int64), HOURS - 1)

    def reading(self, time: Days) -> Days:
        """C(t), in days."""
        if self.is_plain:
            return time
        span = np.searchsorted(self.changes, time, side="right")
        return self._weekly(time + self.offsets[span]) - self._lost[span]

    def moment(self, reading: Days) -> Days:
        """The time at which the clock shows a reading."""
        if self.is_plain:
            return reading
        span = np.searchsorted(self.reading(self.changes), reading, side="right")
        weekly = reading + self._lost[span]
        week = np.floor(weekly / _WEEK)
        day = week * _WEEK + np.interp(weekly - week * _WEEK, self._week, self._edges)
        return day - _TO_MONDAY - self.offsets[span]

    def log_speed(self, time: Days) -> Days:
        """Log of c(t)."""
        return np.log(self.speed[self.hour(time)])


def hours_between(start: Days, stop: Days) -> Float[np.ndarray, "168"]:
    """How many days of local time the intervals have in each hour of the week, all together."""
    edges = np.arange(HOURS) * (_WEEK / HOURS)
    total = np.zeros(HOURS)
    for sign, local in ((1, stop), (-1, start)):
        day = np.asarray(local, dtype=np.float64).ravel() + _TO_MONDAY
        week = np.floor(day / _WEEK)
        total += sign * week.sum() * (_WEEK / HOURS)
        for some in np.array_split(day - week * _WEEK, max(1, len(day) // 50_000)):
            total += sign * np.clip(some[:, None] - edges, 0.0, _WEEK / HOURS).sum(0)
    return total


def hourly_speed(
    count: Float[np.ndarray, "168"], exposure: Float[np.ndarray, "168"]
) -> Float[np.ndarray, "168"]:
    """Speeds of hours times those of weekdays, 1 on average over a week."""
    mean = max(float(count.sum()), 1.0) / max(float(exposure.sum()), 1e-12)
    expected = (exposure * mean).reshape(7, 24)
    seen = count.reshape(7, 24)
    hour, weekday = np.ones(24), np.ones(7)
    for _ in range(10):
        hour = _shrunk(seen.sum(0), (expected * weekday[:, None]).sum(0))
        weekday = _shrunk(seen.sum(1), (expected * hour).sum(1))
    speed = (weekday[:, None] * hour).ravel()
    return speed / speed.mean()


def _shrunk(
    count: Float[np.ndarray, "hours"], expected: Float[np.ndarray, "hours"]
) -> Float[np.ndarray, "hours"]:
    """Ratios of counts to what is expected, with a gamma prior around 1 of the best likelihood."""

    def nats(firmness: float) -> float:
        rare = np.log1p(expected / firmness)
        logs = gammaln(count + firmness) - gammaln(firmness) - (count + firmness) * rare
        return float((logs + count * np.log(np.maximum(expected, 1e-12) / firmness)).sum())

    firmness = max(_FIRMNESS, key=nats)
    ratios: np.ndarray = (count + firmness) / (expected + firmness)
    return ratios
