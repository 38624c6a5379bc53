"""Streams: events of groups in time, from when on they are observed, and until when.

Times are known to a resolution. With one, an event of the stamp t happened within t and t +
resolution, and counts from the end of that cell on: what is scored is the probability of the cell.
Without, what is scored is a density. Events of one stamp are ties: after each event there is first
the question whether the next one has the same stamp, then, if not, when it comes. So a spell, from
one stamp to the next, is opened by the last event of its stamp.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int64

from exfam.checks import DataError
from exfam.efa.inputs import Inputs
from exfam.groups import Groups

N_STRETCHES = 50
Events = Float[np.ndarray, "events"]
Rows = Int64[np.ndarray, "events"]


@dataclass(frozen=True, eq=False)
class EventStreams:
    """Events of streams one after the other.

    `groups`: the same events, `stamps` being their positions
    `time`: stamps in days (or the unit of the column), or the ends of their cells
    `begin`: from when a stream is observed, NaN where its first event opens it
    `end`: until when, its last event's time where nothing more is known
    `item`: codes, -1 for unknown ones, all 0 where there are no items
    """

    groups: Groups
    time: Events
    begin: Float[np.ndarray, "streams"]
    end: Float[np.ndarray, "streams"]
    item: Rows
    resolution: float

    @property
    def start(self) -> Int64[np.ndarray, "streams"]:
        """The first event of each stream."""
        return self.groups.start

    @property
    def stop(self) -> Int64[np.ndarray, "streams"]:
        """What follows the last event of each stream."""
        return self.groups.stop

    @property
    def stream(self) -> Rows:
        """The stream of each event."""
        return np.repeat(np.arange(len(self.groups)), self.stop - self.start)

    @property
    def opening(self) -> Float[np.ndarray, "streams"]:
        """When observation or the first event opens each stream, NaN where there is neither."""
        opening, held = self.begin.copy(), self.stop > self.start
        first = held & np.isnan(opening)
        opening[first] = self.time[self.start[first]]
        return opening

    @property
    def is_first(self) -> Bool[np.ndarray, "events"]:
        """Whether an event is the first of its stream."""
        first = np.zeros(len(self.time), dtype=bool)
        first[self.start[self.stop > self.start]] = True
        return first

    @property
    def is_tie(self) -> Bool[np.ndarray, "events"]:
        """Whether an event has the stamp of the one before it in its stream."""
        tie = np.zeros(len(self.time), dtype=bool)
        tie[1:] = self.time[1:] == self.time[:-1]
        return tie & ~self.is_first

    @property
    def run(self) -> Rows:
        """How many events of the same stamp came before, in the stream."""
        number = np.arange(len(self.time))
        opened = np.maximum.accumulate(np.where(self.is_tie, 0, number))
        return number - opened


@dataclass(frozen=True, eq=False)
class Spells:
    """Intervals without events between the stamps of streams.

    `before`: the event after which it begins, -1 where observation begins
    `event`: the event that ends it, -1 where observation ends
    """

    stream: Int64[np.ndarray, "spells"]
    before: Int64[np.ndarray, "spells"]
    event: Int64[np.ndarray, "spells"]
    start: Float[np.ndarray, "spells"]
    stop: Float[np.ndarray, "spells"]
    number: Int64[np.ndarray, "spells"]
    opening: Float[np.ndarray, "spells"]

    def __len__(self) -> int:
        return len(self.event)

    def __getitem__(self, chosen: Bool[np.ndarray, "spells"]) -> "Spells":
        return Spells(*(column[chosen] for column in vars(self).values()))


def spells_of(streams: EventStreams) -> Spells:
    """All spells, stream after stream; `number`: how many of its stream came before."""
    first, tie, stream = streams.is_first, streams.is_tie, streams.stream
    has_begin = ~np.isnan(streams.begin)
    own = np.flatnonzero(~tie & (~first | has_begin[stream]))
    before = np.where(first[own], -1, own - 1)
    last = streams.stop - 1
    held = streams.stop > streams.start
    open_ended = np.flatnonzero(held & (streams.end > streams.time[last.clip(0)]))
    empty = np.flatnonzero(~held & (streams.end > streams.begin))
    ends = np.concatenate([open_ended, empty])
    whose = np.concatenate([stream[own], ends])
    before = np.concatenate([before, last[open_ended], np.full(len(empty), -1)])
    event = np.concatenate([own, np.full(len(ends), -1)])
    order = np.lexsort((event == -1, whose))
    whose, before, event = whose[order], before[order], event[order]
    opening = streams.opening
    start = opening[whose]
    start = np.where(before >= 0, streams.time[before.clip(0)] if len(streams.time) else 0, start)
    stop = np.where(event >= 0, streams.time[event.clip(0)] if len(streams.time) else 0, 0.0)
    stop = np.where(event >= 0, stop, streams.end[whose])
    number = np.arange(len(whose)) - np.searchsorted(whose, whose)
    return Spells(whose, before, event, start, stop, number, opening[whose])


def spells_after(
    streams: EventStreams, stream: Int64[np.ndarray, "n"], last: Int64[np.ndarray, "n"]
) -> Spells:
    """Spells of no length after some events; -1 where none came since a stream's opening."""
    opens = streams.is_first & np.isnan(streams.begin[streams.stream])
    stamps = np.append(0, (~streams.is_tie & ~opens).cumsum())
    follows, opening = last >= 0, streams.opening[stream]
    time = np.where(follows, np.append(streams.time, np.nan)[last], opening)
    number = np.where(follows, stamps[last + 1] - stamps[streams.start[stream]], 0)
    return Spells(stream, last, np.full(len(last), -1), time, time, number, opening)


def observed_values(streams: EventStreams, column: str) -> Bool[np.ndarray, "events"]:
    """Which events have a value of a column."""
    observed = ~np.isnan(streams.groups.values[column].astype(np.float64))
    if streams.groups.observed is not None and len(streams.groups.values) == 1:
        observed &= streams.groups.observed
    return observed


def blocks_of(stream: Int64[np.ndarray, "n"]) -> Int64[np.ndarray, "n"]:
    """What counts as independent: streams, or, of fewer than 50, so many stretches of them."""
    distinct, code = np.unique(stream, return_inverse=True)
    if len(distinct) >= N_STRETCHES:
        return code
    return np.arange(len(stream)) * N_STRETCHES // max(1, len(stream))


def paired_lead(
    added: Float[np.ndarray, "n"], stream: Int64[np.ndarray, "n"]
) -> tuple[float, float]:
    """The mean of differences, and its standard error over blocks."""
    block = blocks_of(stream)
    sums, size = np.bincount(block, weights=added), np.bincount(block).astype(float)
    mean, n = float(added.mean()), int((size > 0).sum())
    rest = np.square(sums - mean * size).sum() * n / max(1, n - 1)
    return mean, float(np.sqrt(rest) / len(added)) if n > 1 else np.inf


def streams_of(
    inputs: Inputs, *, has_begin: bool, has_end: bool, end: float | None, resolution: float
) -> EventStreams:
    """Streams of groups that were read with times as positions, then begins, then ends.

    `end`: of all streams, in place of their own

    Raises DataError for times out of order, or outside observation.
    """
    groups = inputs.groups.compact()
    if groups.position is None:
        raise DataError("`X` must have times as `position` of its elements, got Groups without.")
    columns = np.asarray(groups.position, dtype=np.float64).reshape(groups.n_rows, -1)
    wanted = 1 + has_begin + has_end
    if columns.shape[1] != wanted:
        raise DataError(
            f"`position` of `X` must have {wanted} columns, time then begin and end where they are "
            f"named, got {columns.shape[1]}."
        )
    stamps = _floored(columns[:, 0], resolution)
    held = groups.stop > groups.start
    first, last = groups.start[held], groups.stop[held] - 1
    begin, close = np.full(len(groups), np.nan), np.full(len(groups), np.nan)
    close[held] = stamps[last] + resolution
    if has_begin:
        begin[held] = _floored(_constant(columns[:, 1], groups, "begin"), resolution)
    if end is not None:
        close = _floored(np.full(len(groups), end), resolution) + resolution
    elif has_end:
        close[held] = _floored(_constant(columns[:, -1], groups, "end"), resolution) + resolution
    item = np.zeros(groups.n_rows, dtype=np.int64)
    item = item if groups.item is None else groups.item.astype(np.int64)
    streams = EventStreams(groups, stamps + resolution, begin, close, item, resolution)
    _check_times(streams, first, last, held)
    return streams


def _floored(moments: np.ndarray, resolution: float) -> np.ndarray:
    """The beginnings of the cells that moments are in; as they are without a resolution."""
    if not resolution:
        return moments
    # A stamp that is a whole multiple but for rounding is that multiple.
    floored: np.ndarray = np.floor(moments / resolution + 1e-6) * resolution
    return floored


def _constant(column: Events, groups: Groups, name: str) -> Float[np.ndarray, "held"]:
    held = groups.stop > groups.start
    first = column[groups.start[held]]
    lengths = (groups.stop - groups.start)[held]
    wrong = np.flatnonzero(column != np.repeat(first, lengths))
    if len(wrong):
        row = wrong[0] if groups.source_row is None else groups.source_row[wrong[0]]
        raise DataError(
            f"`{name}` must be the same in all rows of a group, got {column[wrong[0]]:g} at row "
            f"{row}. It is from when, or until when, the whole group is observed."
        )
    return first


def _check_times(
    streams: EventStreams, first: np.ndarray, last: np.ndarray, held: np.ndarray
) -> None:
    later = np.append(False, streams.time[1:] < streams.time[:-1]) & ~streams.is_first
    if later.any():
        row = int(np.flatnonzero(later)[0])
        raise DataError(
            f"`time` must not go back within a group, got an earlier one at element {row}. Sort "
            "the elements of Groups, or pass a frame."
        )
    early = np.flatnonzero(streams.time[first] <= streams.begin[held])
    late = np.flatnonzero(streams.time[last] > streams.end[held] + 1e-9 * abs(streams.end[held]))
    for name, wrong, rule in (("begin", early, "before"), ("end", late, "at or after")):
        if len(wrong):
            group = np.flatnonzero(held)[wrong[0]]
            names = streams.groups.group_names
            label = int(group) if names is None else names.tolist()[group]
            raise DataError(
                f"`{name}` must be {rule} every time of its group, got {len(wrong)} groups with an "
                f"event outside, the first {label!r}. Events outside of observation are left out, "
                "or the moment is mended."
            )
