"""What live streams remember of their past: values by item, and the last events."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64

from exfam.efa.events.event_attention import (
    LENGTH,
    AttentionCorrection,
    TokenBatch,
    last_events,
    token_numbers,
)
from exfam.efa.events.event_streams import EventStreams, observed_values
from exfam.efa.events.event_values import N_INPUTS, ValuePart


@dataclass(frozen=True, eq=False)
class PastValues:
    """Of each stream and item, what `past_inputs` has of the next event: counts, sums, the last.

    `time`: of the last value, NaN where there is none
    """

    count: Float[np.ndarray, "streams items_and_unknown"]
    total: Float[np.ndarray, "streams items_and_unknown"]
    last: Float[np.ndarray, "streams items_and_unknown"]
    time: Float[np.ndarray, "streams items_and_unknown"]

    @classmethod
    def of(
        cls, streams: EventStreams, part: ValuePart, past: tuple[np.ndarray, np.ndarray]
    ) -> "PastValues":
        """Of streams, after their events up to these ones, -1 for none, which are in order."""
        observed = observed_values(streams, part.column)
        value = streams.groups.values[part.column].astype(np.float64)
        z = part.input_of(part.standard(value, streams.item))
        shape = (len(past[0]), len(part.units))
        count, total, latest = (np.zeros(shape) for _ in range(3))
        own, before = cls(count, total, latest, np.full(shape, np.nan)), -1
        for row, (stream, last) in enumerate(zip(*past, strict=True)):
            first = streams.start[stream]
            if row and stream == past[0][row - 1]:
                for column in vars(own).values():
                    column[row] = column[row - 1]
                first = before + 1
            use = first + np.flatnonzero(observed[first : last + 1])
            item, before = streams.item[use], max(before, last)
            np.add.at(own.count[row], item, 1.0)
            np.add.at(own.total[row], item, z[use])
            own.last[row, item] = z[use]
            own.time[row, item] = streams.time[use]
        return own

    def __getitem__(self, chosen: Int64[np.ndarray, "n"]) -> "PastValues":
        return PastValues(*(column[chosen] for column in vars(self).values()))

    def inputs(self, rows: np.ndarray, item: np.ndarray) -> Float[np.ndarray, "n inputs"]:
        """What the value of an item is given."""
        count = self.count[rows, item]
        inputs = np.ones((len(rows), N_INPUTS))
        inputs[:, 1] = self.last[rows, item]
        inputs[:, 2] = self.total[rows, item] / np.maximum(count, 1)
        inputs[:, 3] = count > 0
        return inputs

    def add(self, rows: np.ndarray, item: np.ndarray, z: np.ndarray, time: np.ndarray) -> None:
        """Take in a value of each of these streams."""
        self.count[rows, item] += 1
        self.total[rows, item] += z
        self.last[rows, item] = z
        self.time[rows, item] = time


@dataclass(frozen=True, eq=False)
class RecentTokens:
    """The last events of each stream as attention sees them, the latest first."""

    item: Int64[np.ndarray, "streams length"]
    token: Float[np.ndarray, "streams length numbers"]
    reading: Float[np.ndarray, "streams length"]
    present: Bool[np.ndarray, "streams length"]

    def __getitem__(self, chosen: Int64[np.ndarray, "n"]) -> "RecentTokens":
        return RecentTokens(*(column[chosen] for column in vars(self).values()))

    def add(
        self, rows: np.ndarray, item: np.ndarray, token: np.ndarray, reading: np.ndarray
    ) -> None:
        """Events of these streams come."""
        for column, latest in (
            (self.item, item),
            (self.token, token),
            (self.reading, reading),
            (self.present, True),
        ):
            column[rows, 1:] = column[rows, :-1]
            column[rows, 0] = latest

    def batch(
        self,
        rows: np.ndarray,
        query: Float[np.ndarray, "n queries"],
        *,
        now: Float[np.ndarray, "n"] | None = None,
        shown: Int64[np.ndarray, "n"] | None = None,
    ) -> TokenBatch:
        """What attention looks at; `now`, `shown`: the reading and the item of the next event."""
        present, reading = self.present[rows], self.reading[rows]
        now = reading[:, 0] if now is None else now
        age = np.where(present, now[:, None] - reading, 0.0).clip(0.0)
        item = torch.from_numpy(self.item[rows])
        numbers = (self.token[rows], age, query)
        token, ages, queries = (torch.from_numpy(array).float() for array in numbers)
        last = item[:, 0] if shown is None else torch.from_numpy(shown)
        return TokenBatch(item, token, ages, last, queries, torch.from_numpy(present))


def recent_tokens(
    correction: AttentionCorrection,
    reading: Float[np.ndarray, "events"],
    streams: EventStreams,
    last: Int64[np.ndarray, "streams"],
) -> RecentTokens:
    """Of each stream, the events up to its last one, -1 for none."""
    index = np.full((len(last), LENGTH), -1)
    held = last >= 0
    index[held] = last_events(streams)[last[held]]
    token = token_numbers(streams, correction.network.units.numpy())
    present, index = index >= 0, index.clip(0)
    return RecentTokens(streams.item[index], token[index], reading[index], present)
