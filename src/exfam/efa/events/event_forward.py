"""Streams as they stand at the end of observation, and how they go on.

The next stamp comes by inversion of the mixture's survival function, from what is known to have
survived; then an item, then values, and the state of every process is brought up to date.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64

from exfam.checks import ExfamError
from exfam.efa.events.event_attention import AttentionCorrection, event_numbers, mark_numbers
from exfam.efa.events.event_bins import N_BINS, base_survival, bin_shares, corrected_survival
from exfam.efa.events.event_items import HISTORY
from exfam.efa.events.event_memory import PastValues, RecentTokens, recent_tokens
from exfam.efa.events.event_model import EventModel
from exfam.efa.events.event_streams import EventStreams, spells_after
from exfam.efa.events.event_values import ValuePart
from exfam.efa.events.time_part import MixtureState, WaitMixture, moved_chance, states_after
from exfam.efa.events.wait_processes import MEMORIES, IntensityProcess, last_row

# In units of the mixture; what has not come by then never comes.
_LONGEST_WAIT = 1e9
SHORTEST_WAIT = 1e-9
_BISECTIONS = 44
# Events that are drawn at once at most.
MOST_DRAWN = 2_000_000


def inverted(
    mixture: WaitMixture,
    states: MixtureState,
    log_survival: Float[np.ndarray, "n"],
    since: Float[np.ndarray, "n"],
) -> Float[np.ndarray, "n"]:
    """The waits, from `since` on, at which the survival function falls to given values."""
    longest = _LONGEST_WAIT * mixture.unit
    width = np.full(len(since), SHORTEST_WAIT * mixture.unit)
    high = since + width
    for _ in range(16):
        above = mixture.log_survival(states, high) > log_survival
        if not above.any():
            break
        width = np.where(above, 32 * width, width)
        high = np.minimum(since + width, longest)
    low = since
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        above = mixture.log_survival(states, middle) > log_survival
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.where(high >= 0.999 * longest, np.inf, high)


@dataclass(eq=False)
class LiveStreams:
    """Where streams stand; all is brought up to date by `add`.

    `time`: of the last stamp, or of the opening; `since`: for how long there was nothing, on the
    clock; `tie_open`: whether the next event may still have that stamp; `run`: how many events of
    it came before the last one; `opening`: a reading of the clock
    """

    model: EventModel
    resolution: float
    states: MixtureState
    time: Float[np.ndarray, "n"]
    since: Float[np.ndarray, "n"]
    tie_open: Bool[np.ndarray, "n"]
    item: Int64[np.ndarray, "n"]
    run: Int64[np.ndarray, "n"]
    opening: Float[np.ndarray, "n"]
    histories: list[Int64[np.ndarray, "_"]]
    values: dict[str, PastValues]
    recent: RecentTokens | None = None
    logits: Float[np.ndarray, "n outputs"] | None = None

    def __len__(self) -> int:
        return len(self.time)

    def repeated(self, n: int) -> "LiveStreams":
        """Each stream `n` times, one after the other."""
        index = np.repeat(np.arange(len(self)), n)
        arrays = {
            name: getattr(self, name)[index].copy()
            for name in ("time", "since", "tie_open", "item", "run", "opening")
        }
        return replace(
            self,
            states=self.states[index],
            histories=[self.histories[i] for i in index],
            values={name: past[index] for name, past in self.values.items()},
            recent=None if self.recent is None else self.recent[index],
            logits=None if self.logits is None else self.logits[index],
            **arrays,
        )

    def look_back(self, rows: Int64[np.ndarray, "n"]) -> None:
        """Take anew what attention makes of the past of these streams."""
        part = self.model.time
        if part.correction is None or self.recent is None or self.logits is None:
            return
        states = self.states[rows]
        tie = part.ties.of(self.item[rows], self.run[rows])
        first = states.processes[0]
        others = (first.count, first.age, self.run[rows], tie)
        local = part.clock.local(self.time[rows])
        query = part.query(states, part.correction.network, local, others)
        self.logits[rows] = part.correction.outputs(self.recent.batch(rows, query))

    def bin_shares(self, rows: Int64[np.ndarray, "n"]) -> Float[np.ndarray, "n bins"] | None:
        """Of each stream, the shares of bins; None without attention."""
        return None if self.logits is None else bin_shares(self.logits[rows, :-1])

    def chance_of_tie(self) -> Float[np.ndarray, "n"]:
        """That the next event has the last stamp."""
        chance = self.model.time.ties.of(self.item, self.run)
        if self.logits is not None:
            chance = moved_chance(chance, self.logits[:, -1])
        return np.where(self.tie_open, chance, 0.0)

    def wait_after(
        self, log_share: Float[np.ndarray, "n"], rows: Int64[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n"]:
        """Waits on the clock by which such a share of what may still come has not come."""
        states, since = self.states[rows], self.since[rows]
        mixture = self.model.time.mixture
        left, shares = mixture.log_survival(states, since), self.bin_shares(rows)
        if shares is None:
            return inverted(mixture, states, left + log_share, since)
        target = corrected_survival(np.exp(left), shares) * np.exp(log_share)
        wanted = np.log(np.maximum(base_survival(target, shares), 1e-300))
        return inverted(mixture, states, wanted, since)

    def time_after(
        self, wait: Float[np.ndarray, "n"], rows: Int64[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n"]:
        """The times that are so much later on the clock, or the ends of their cells."""
        clock, time = self.model.time.clock, self.time[rows]
        finite = np.isfinite(wait)
        later = clock.moment(clock.reading(time) + np.where(finite, wait, 0.0))
        later = np.where(finite, later, np.inf)
        if not self.resolution:
            return np.maximum(later, time)
        cells = np.ceil((later - time) / self.resolution - 1e-9)
        return time + np.maximum(cells, 1) * self.resolution

    def add(
        self,
        rows: Int64[np.ndarray, "n"],
        time: Float[np.ndarray, "n"],
        item: Int64[np.ndarray, "n"],
        values: dict[str, Float[np.ndarray, "n"]],
    ) -> None:
        """Events of these streams come."""
        clock = self.model.time.clock
        marks = next(iter(values.values())) if self.model.time.uses_values else None
        reading = clock.reading(time)
        passed = reading - clock.reading(self.time[rows])
        is_tie, elapsed = time == self.time[rows], time - self.time[rows]
        after = last_row(item, np.zeros(len(rows), dtype=np.int64))
        middle = clock.reading(time - self.resolution / 2) - clock.reading(self.time[rows])
        ended = np.log(np.maximum(middle, np.finfo(float).tiny))[:, None]
        mixture = self.model.time.mixture
        if mixture.pace.is_on:
            self._learn_pace(rows[~is_tie], passed[~is_tie])
        for state, process in zip(self.states.processes, mixture.processes, strict=True):
            if isinstance(process, IntensityProcess):
                faded = state.excited[rows] * np.exp(-process.rates * passed[:, None])
                state.excited[rows] = faded + process.weights(item, marks)[:, None]
            waits = MEMORIES * state.waits[rows] + ended
            state.waits[rows] = np.where(is_tie[:, None], state.waits[rows], waits)
            state.value[rows] = np.nan if marks is None else marks
            state.count[rows] += ~is_tie
            state.age[rows] = reading - self.opening[rows]
            state.last[rows] = after
        self.run[rows] = np.where(is_tie, self.run[rows] + 1, 0)
        self.time[rows], self.item[rows] = time, item
        self.since[rows], self.tie_open[rows] = 0.0, True
        for row, code in zip(rows.tolist(), item.tolist(), strict=True):
            self.histories[row] = np.append(self.histories[row][-HISTORY:], code)
        if self.recent is not None:
            units = self.model.corrections[0].network.units.numpy()
            token = event_numbers(elapsed, ~self.recent.present[rows, 0], values, units)
            self.recent.add(rows, item, token, reading)
            self.look_back(rows)

    def _learn_pace(self, rows: Int64[np.ndarray, "n"], wait: Float[np.ndarray, "n"]) -> None:
        """Waits of these streams ended in an event."""
        mixture, states = self.model.time.mixture, self.states[rows]
        survived = mixture.without_pace(states, wait)
        self.states.seen[rows] = mixture.pace.after(states.seen, survived)

    def item_probabilities(
        self, rows: Int64[np.ndarray, "n"], time: Float[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n items"]:
        """Of the items that come next, at given times."""
        part = self.model.item
        assert part is not None
        histories = [self.histories[row] for row in rows]

        def attend(correction: AttentionCorrection) -> Float[np.ndarray, "n outputs"]:
            return self._attend(correction, rows, time)

        return part.probabilities(histories, time - self.time[rows], attend)

    def eta(
        self,
        part: ValuePart,
        rows: Int64[np.ndarray, "n"],
        item: Int64[np.ndarray, "n"],
        time: Float[np.ndarray, "n"],
    ) -> torch.Tensor:
        """Parameters of the value of an item that comes next, at given times."""
        past = self.values[part.column]
        own = inputs = past.inputs(rows, item)
        if part.times is not None:
            wait, local = time - self.time[rows], self.model.time.clock.local(time)
            inputs = part.times.inputs(own, wait, time - past.time[rows, item], local)
        eta = part.eta(inputs, item)
        if part.correction is None:
            return eta
        moved = self._attend(part.correction, rows, time, (item, own[:, 1:]))
        return eta + torch.from_numpy(moved)

    def _attend(
        self,
        correction: AttentionCorrection,
        rows: Int64[np.ndarray, "n"],
        time: Float[np.ndarray, "n"],
        of: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> Float[np.ndarray, "n outputs"]:
        """What attention adds where the next event comes at a time; `of`: an item and numbers."""
        assert self.recent is not None
        clock, network = self.model.time.clock, correction.network
        wait = time - self.time[rows]
        run = np.where(wait > 0, 0, self.run[rows] + 1)
        past = (run, self.recent.present[rows].sum(1))
        query = mark_numbers(wait, past, clock.local(time), network)
        shown = self.item[rows]
        if of is not None:
            shown, query = of[0], np.column_stack([query, of[1]])
        batch = self.recent.batch(rows, query, now=clock.reading(time), shown=shown)
        return correction.outputs(batch)


def live_streams(model: EventModel, streams: EventStreams) -> LiveStreams:
    """Where observed streams stand when observation ends."""
    last = np.where(streams.stop > streams.start, streams.stop - 1, -1)
    if np.isnan(streams.opening).any():
        raise ExfamError("`X` must have an event in every group, got one without.")
    stream = np.arange(len(last))
    return live_at(model, streams, (stream, last), np.fmax(streams.end, streams.opening))


def live_at(
    model: EventModel,
    streams: EventStreams,
    past: tuple[Int64[np.ndarray, "n"], Int64[np.ndarray, "n"]],
    moment: Float[np.ndarray, "n"],
) -> LiveStreams:
    """Where streams stand at moments; `past`: which streams, and their last events, -1 for none."""
    clock, (stream, last) = model.time.clock, past
    clocked = model.time.clocked(streams, spells_after(streams, stream, last))
    time, held = clocked.spells.start, last >= 0
    start = streams.start[stream]
    live = LiveStreams(
        model=model,
        resolution=streams.resolution,
        states=states_after(model.time, clocked),
        time=time,
        since=np.maximum(clock.reading(moment) - clock.reading(time), 0.0),
        tie_open=held & (moment <= time),
        item=np.where(held, np.append(streams.item, -1)[last], -1),
        run=np.where(held, np.append(streams.run, 0)[last], 0),
        opening=clock.reading(clocked.spells.opening),
        histories=[
            streams.item[max(first, end - HISTORY) : end]
            for first, end in zip(start.tolist(), np.where(held, last + 1, start), strict=True)
        ],
        values={part.column: PastValues.of(streams, part, past) for part in model.values},
    )
    if model.corrections:
        reading = clock.reading(streams.time)
        live.recent = recent_tokens(model.corrections[0], reading, streams, last)
    if model.time.correction is not None:
        live.logits = np.zeros((len(last), N_BINS + 1))
        live.look_back(np.arange(len(last)))
    return live


@dataclass(frozen=True, eq=False)
class DrawnEvents:
    """Events that were drawn: of which live stream, when, which item, with what values."""

    row: Int64[np.ndarray, "events"]
    time: Float[np.ndarray, "events"]
    item: Int64[np.ndarray, "events"]
    values: dict[str, Float[np.ndarray, "events"]]


def go_on(
    live: LiveStreams,
    *,
    until: Float[np.ndarray, "n"],
    steps: int | None,
    random: np.random.Generator,
) -> DrawnEvents:
    """Events of all streams until the times given, `steps` of each at most; `live` is moved on."""
    rows, drawn = np.arange(len(live)), []
    n_drawn, step = 0, 0
    while len(rows) and (steps is None or step < steps):
        tie = random.random(len(rows)) < live.chance_of_tie()[rows]
        wait = live.wait_after(np.log1p(-random.random(len(rows))), rows)
        time = np.where(tie, live.time[rows], live.time_after(wait, rows))
        kept = time <= until[rows]
        rows, time = rows[kept], time[kept]
        if not len(rows):
            break
        item = _draw_items(live, rows, time, random)
        values = {
            part.column: _draw_values(live, part, (rows, item, time), random)
            for part in live.model.values
        }
        live.add(rows, time, item, values)
        drawn.append(DrawnEvents(rows, time, item, values))
        n_drawn, step = n_drawn + len(rows), step + 1
        if n_drawn > MOST_DRAWN:
            raise ExfamError(
                f"`X` must lead to at most {MOST_DRAWN:,} drawn events, got more after {step} of "
                "each stream. Draw fewer, of fewer streams, or for a shorter time."
            )
    return _joined(drawn, live.model)


def _joined(drawn: list[DrawnEvents], model: EventModel) -> DrawnEvents:
    if not drawn:
        none = np.zeros(0)
        values = {part.column: none for part in model.values}
        return DrawnEvents(none.astype(np.int64), none, none.astype(np.int64), values)
    values = {
        part.column: np.concatenate([some.values[part.column] for some in drawn])
        for part in model.values
    }
    row = np.concatenate([some.row for some in drawn])
    order = np.argsort(row, kind="stable")
    time = np.concatenate([some.time for some in drawn])
    item = np.concatenate([some.item for some in drawn])
    values = {name: column[order] for name, column in values.items()}
    return DrawnEvents(row[order], time[order], item[order], values)


def _draw_items(
    live: LiveStreams, rows: np.ndarray, time: np.ndarray, random: np.random.Generator
) -> Int64[np.ndarray, "n"]:
    if live.model.item is None:
        return np.zeros(len(rows), dtype=np.int64)
    summed = live.item_probabilities(rows, time).cumsum(1)
    level = random.random(len(rows)) * summed[:, -1]
    return np.minimum((summed < level[:, None]).sum(1), summed.shape[1] - 1).astype(np.int64)


def _draw_values(
    live: LiveStreams,
    part: ValuePart,
    events: tuple[np.ndarray, np.ndarray, np.ndarray],
    random: np.random.Generator,
) -> Float[np.ndarray, "n"]:
    """Values of items that have some; they are added to the past. `events`: rows, items, times."""
    rows, item, time = events
    generator = torch.Generator().manual_seed(int(random.integers(2**31)))
    z = part.family.sample(live.eta(part, rows, item, time), generator=generator).double().numpy()
    has = part.observed_share[item] > random.random(len(rows))
    past = live.values[part.column]
    past.add(rows[has], item[has], part.input_of(z[has]), time[has])
    return np.where(has, part.restored_values(z, item), np.nan)
