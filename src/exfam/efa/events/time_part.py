"""When the next event comes: ties, a clock, and a mixture of processes of waits.

log p(time) = log p(tie or not | item, length of the tie) + log sum_m share_m p_m(wait | past)
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int64
from scipy.special import logsumexp

from exfam.checks import DataError
from exfam.efa.events.event_attention import (
    AttentionCorrection,
    PastAttention,
    PastTokens,
    correction_arrays,
    correction_config,
    last_events,
    query_numbers,
    restored_correction,
    token_numbers,
    value_units,
)
from exfam.efa.events.event_bins import bin_shares, shares_of_bins
from exfam.efa.events.event_clock import EventClock
from exfam.efa.events.event_pace import StreamPace, SurvivedSpells
from exfam.efa.events.event_streams import EventStreams, Spells, spells_after, spells_of
from exfam.efa.events.wait_processes import (
    ClockedSpells,
    IntensityProcess,
    PastState,
    RenewalProcess,
    WaitProcess,
)

# Events of one stamp so far, less one, from which on lengths of ties count as alike.
_LENGTHS = np.array([1, 2, 3, 5, 9, 17])
_TIE_FIRMNESS = 10.0
_CLOCK = ("speed", "changes", "offsets")
_FIELDS = {
    IntensityProcess: ("theta", "rates", "log_weight", "slope", "frailty", "steps"),
    RenewalProcess: ("mean", "log_scale", "log_share", "slope", "scales"),
}


@dataclass(frozen=True, eq=False)
class TieModel:
    """The chance that the next event has the stamp of the last one.

    `log_odds`: by the last item, the last row for unknown ones, and by how many the stamp has so
    far; minus infinity where training had no ties
    """

    chance: Float[np.ndarray, "items_and_unknown lengths"]

    @classmethod
    def fit(cls, streams: EventStreams, chosen: Bool[np.ndarray, "events"], n: int) -> "TieModel":
        """Shares of ties among the chosen events that have another before them, shrunk."""
        follows = np.flatnonzero(chosen & ~streams.is_first)
        tie = streams.is_tie[follows].astype(float)
        item = streams.item[follows - 1] % (n + 1)
        length = np.searchsorted(_LENGTHS, streams.run[follows - 1], side="right")
        n_lengths = len(_LENGTHS) + 1
        if not tie.any() and not streams.resolution:
            return cls(np.zeros((n + 1, n_lengths)))
        mean = (tie.sum() + 0.5) / (len(tie) + 1)
        ties = np.bincount(length, weights=tie, minlength=n_lengths)
        by_length = ties + _TIE_FIRMNESS * mean
        by_length /= np.bincount(length, minlength=n_lengths) + _TIE_FIRMNESS
        shape, cell = (n + 1, n_lengths), item * n_lengths + length
        both = np.bincount(cell, weights=tie, minlength=shape[0] * shape[1]).reshape(shape)
        size = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)
        return cls((both + _TIE_FIRMNESS * by_length) / (size + _TIE_FIRMNESS))

    def of(self, item: Int64[np.ndarray, "n"], run: Int64[np.ndarray, "n"]) -> np.ndarray:
        """The chance after an item, the stamp of which `run` events had before."""
        chances: np.ndarray = self.chance[item, np.searchsorted(_LENGTHS, run, side="right")]
        return chances


@dataclass(frozen=True, eq=False)
class MixtureState:
    """What each process sees of the past, and what is known of the pace: see `StreamPace.after`."""

    processes: tuple[PastState, ...]
    seen: Float[np.ndarray, "n 2"]

    def __getitem__(self, chosen: Any) -> "MixtureState":
        return MixtureState(tuple(state[chosen] for state in self.processes), self.seen[chosen])


@dataclass(frozen=True, eq=False)
class WaitMixture:
    """Processes mixed with fixed shares, by name, at the pace of each stream.

    `unit`: the mean time between events, by which what is short and what is long is judged
    """

    names: tuple[str, ...]
    processes: tuple[WaitProcess, ...]
    shares: Float[np.ndarray, "processes"]
    pace: StreamPace = StreamPace()
    unit: float = 1.0

    def without_idle(self) -> "WaitMixture":
        """The processes that have a share."""
        kept = np.flatnonzero(self.shares).tolist()
        names = tuple(self.names[k] for k in kept)
        processes = tuple(self.processes[k] for k in kept)
        return replace(self, names=names, processes=processes, shares=self.shares[kept])

    def states(self, clocked: ClockedSpells) -> MixtureState:
        """What is known where each spell begins."""
        own = tuple(clocked.state(process) for process in self.processes)
        state = MixtureState(own, np.zeros((len(clocked.spells), 2)))
        if not self.pace.is_on:
            return state
        survived = self.without_pace(state, clocked.high)
        return replace(state, seen=self.pace.seen(clocked.spells.stream, survived))

    def without_pace(self, state: MixtureState, wait: np.ndarray) -> np.ndarray:
        """Log of the chance of no event within waits, at the pace of all."""
        parts = [
            process.log_survival(own, wait)
            for process, own in zip(self.processes, state.processes, strict=True)
        ]
        mixed: np.ndarray = logsumexp(np.stack(parts), b=self.shares[:, None], axis=0)
        return np.minimum(mixed, 0.0)

    def log_survival(self, state: MixtureState, wait: np.ndarray) -> np.ndarray:
        """Log of the chance of no event within waits."""
        return self.pace.log_survival(state.seen, self.without_pace(state, wait))

    def log_probs(self, clocked: ClockedSpells) -> Float[np.ndarray, "spells"]:
        """Nats of spells."""
        return self.pace.nats(self.survived(clocked))

    def survived(self, clocked: ClockedSpells) -> SurvivedSpells:
        """What spells have at the pace of all."""
        nats = np.stack([clocked.log_probs(process) for process in self.processes])
        mixed: np.ndarray = logsumexp(nats, b=self.shares[:, None], axis=0)
        state = replace(self, pace=StreamPace()).states(clocked)
        late, early = self.without_pace(state, clocked.high), None
        if clocked.streams.resolution:
            early = self.without_pace(state, clocked.low)
        spells = clocked.spells
        return SurvivedSpells(spells.stream, spells.event >= 0, mixed, late, early)


@dataclass(frozen=True, eq=False)
class TimePart:
    """p(time to the next event | past)."""

    clock: EventClock
    ties: TieModel
    mixture: WaitMixture
    uses_values: bool = False
    correction: AttentionCorrection | None = None

    def logits(self, streams: EventStreams) -> Float[np.ndarray, "events outputs"] | None:
        """What attention makes of the past after each event; None without it."""
        if self.correction is None:
            return None
        past = past_tokens(self, streams, self.correction.network)
        return self.correction.logits_at(past, np.arange(len(streams.time)))

    def log_probs(self, streams: EventStreams) -> tuple[np.ndarray, np.ndarray]:
        """Nats of each event's time, NaN where its stream opens with it, and of each open end."""
        spells = spells_of(streams)
        clocked, logits = self.clocked(streams, spells), self.logits(streams)
        nats = self.mixture.log_probs(clocked)
        if logits is not None:
            nats = nats + self._added(clocked, logits)
        events = self._tie_nats(streams, logits)
        ended = spells.event >= 0
        events[spells.event[ended]] += nats[ended]
        opens = streams.is_first & np.isnan(streams.begin[streams.stream])
        events[opens] = np.nan
        ends = np.zeros(len(streams.groups))
        last = spells.before[~ended]
        not_tied = np.zeros(len(last))
        follows = last >= 0
        not_tied[follows] = np.log1p(-self._tie_chance(streams, last[follows], logits))
        ends[spells.stream[~ended]] = nats[~ended] + not_tied
        return events, ends

    def shares(
        self, spells: Spells, logits: Float[np.ndarray, "events outputs"] | None
    ) -> Float[np.ndarray, "spells bins"] | None:
        """The share of each bin of each spell, None without attention; the mass where none came."""
        if logits is None:
            return None
        own = np.zeros((len(spells), logits.shape[1] - 1))
        after = spells.before >= 0
        own[after] = logits[spells.before[after], :-1]
        return bin_shares(own)

    def _added(
        self, clocked: ClockedSpells, logits: Float[np.ndarray, "events outputs"]
    ) -> Float[np.ndarray, "spells"]:
        """What attention adds to the nats of each spell."""
        shares = self.shares(clocked.spells, logits)
        added: np.ndarray = np.log((shares * bins_of_spells(self.mixture, clocked)).sum(1))
        return added

    def clocked(self, streams: EventStreams, spells: Spells | None = None) -> ClockedSpells:
        """The spells of streams on this clock."""
        marks = next(iter(streams.groups.values.values()), None) if self.uses_values else None
        return clocked_spells(streams, self.clock, marks=marks, spells=spells)

    def query(
        self,
        states: MixtureState,
        network: PastAttention,
        local: Float[np.ndarray, "n"],
        others: tuple[np.ndarray, ...],
    ) -> Float[np.ndarray, "n queries"]:
        """Further numbers of a moment that attention sees: see `query_numbers`."""
        n, probes = len(local), network.probes.numpy()
        expected = [self.mixture.log_survival(states, np.full(n, probe)) for probe in probes]
        count, age, run, tie = others
        typical = float(probes[1])
        return query_numbers(np.column_stack(expected), local, (count, age / typical, run, tie))

    def _tie_nats(
        self, streams: EventStreams, logits: Float[np.ndarray, "events outputs"] | None
    ) -> Float[np.ndarray, "events"]:
        nats = np.zeros(len(streams.time))
        follows, is_tie = np.flatnonzero(~streams.is_first), streams.is_tie
        chance = self._tie_chance(streams, follows - 1, logits)
        tie = is_tie[follows]
        if (chance[tie] == 0).any():
            row = int(follows[tie][0])
            raise DataError(
                "`time` must not have ties, which training had none of and `resolution` was not "
                f"given for, got one at element {row}. Fit with resolution=…, such as one second."
            )
        nats[follows] = np.log(np.where(tie, chance, 1 - chance))
        return nats

    def _tie_chance(
        self,
        streams: EventStreams,
        last: Int64[np.ndarray, "n"],
        logits: Float[np.ndarray, "events outputs"] | None,
    ) -> Float[np.ndarray, "n"]:
        """That the event after each of these has its stamp."""
        chance = self.ties.of(streams.item[last], streams.run[last])
        return chance if logits is None else moved_chance(chance, logits[last, -1])

    def arrays(self) -> dict[str, np.ndarray]:
        """All numbers, by name."""
        held = {f"clock.{name}": getattr(self.clock, name) for name in _CLOCK}
        held |= {"ties.chance": self.ties.chance, "mixture.shares": self.mixture.shares}
        held["mixture.pace"] = np.array([self.mixture.pace.shape, self.mixture.pace.memory])
        held["mixture.unit"] = np.array([self.mixture.unit])
        for number, process in enumerate(self.mixture.processes):
            for name in _FIELDS[type(process)]:
                held[f"process{number}.{name}"] = getattr(process, name)
        return held | correction_arrays(self.correction)

    def config(self) -> dict[str, Any]:
        """What else a saved model needs."""
        processes = [
            "renewal" if isinstance(process, RenewalProcess) else "rate"
            for process in self.mixture.processes
        ]
        names = list(self.mixture.names)
        return {
            "processes": processes,
            "names": names,
            "marks": self.uses_values,
            "attention": correction_config(self.correction),
        }

    @classmethod
    def restored(cls, config: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> "TimePart":
        """What `config` and `arrays` say."""
        processes: list[WaitProcess] = []
        for number, name in enumerate(config["processes"]):
            kind = RenewalProcess if name == "renewal" else IntensityProcess
            named = {name: arrays.get(f"process{number}.{name}") for name in _FIELDS[kind]}
            # Processes of older folders do not go by the past or have no steps.
            processes.append(kind(**{n: own for n, own in named.items() if own is not None}))
        clock = EventClock(*(arrays[f"clock.{name}"] for name in _CLOCK))
        shares, pace = arrays["mixture.shares"], StreamPace()
        if "mixture.pace" in arrays:
            pace = StreamPace(*(float(number) for number in arrays["mixture.pace"]))
        unit = float(arrays.get("mixture.unit", np.ones(1))[0])
        mixture = WaitMixture(tuple(config["names"]), tuple(processes), shares, pace, unit)
        correction = restored_correction(config, arrays)
        ties = TieModel(arrays["ties.chance"])
        return cls(clock, ties, mixture, bool(config["marks"]), correction)


def moved_chance(
    chance: Float[np.ndarray, "n"], by: Float[np.ndarray, "n"]
) -> Float[np.ndarray, "n"]:
    """Chances whose log-odds are moved; those of 0 stay."""
    return chance / (chance + (1 - chance) * np.exp(-by))


def bins_of_spells(
    mixture: WaitMixture, clocked: ClockedSpells
) -> Float[np.ndarray, "spells bins"]:
    """By how much the share of each bin multiplies the probability of a spell."""
    is_event, cells = clocked.spells.event >= 0, bool(clocked.streams.resolution)
    states = mixture.states(clocked)
    late = np.exp(mixture.log_survival(states, clocked.high))
    early = np.exp(mixture.log_survival(states, clocked.low)) if cells else late
    # That nothing came: between the end and never.
    low, high = np.where(is_event, early, late), np.where(is_event, late, 0.0)
    return shares_of_bins(low, high, is_event & np.bool_(not cells))


def states_after(part: TimePart, after: ClockedSpells) -> MixtureState:
    """What is known where spells of `spells_after` begin."""
    mixture, streams = part.mixture, after.streams
    own = tuple(after.state(process) for process in mixture.processes)
    state = MixtureState(own, np.zeros((len(after.spells), 2)))
    if not mixture.pace.is_on or not len(streams.time):
        return state
    clocked = part.clocked(streams)
    before = mixture.states(clocked)
    survived = mixture.without_pace(before, clocked.high)
    # The waits of a stream up to an event are those that ended by it.
    ended = np.flatnonzero(clocked.spells.event >= 0)
    seen = mixture.pace.after(before.seen, survived)[ended]
    spell = np.searchsorted(clocked.spells.event[ended], after.spells.before, "right") - 1
    has = after.spells.number > 0
    state.seen[has] = seen[spell[has]]
    return state


def past_tokens(part: TimePart, streams: EventStreams, network: PastAttention) -> PastTokens:
    """What attention sees after each event."""
    every = spells_after(streams, streams.stream, np.arange(len(streams.time)))
    clocked = part.clocked(streams, every)
    states = states_after(part, clocked)
    local = part.clock.local(streams.time)
    tie = part.ties.of(streams.item, streams.run)
    number = clocked.spells.number.astype(float)
    query = part.query(states, network, local, (number, clocked.age, streams.run, tie))
    tokens = token_numbers(streams, network.units.numpy())
    index = last_events(streams)
    return PastTokens(streams.item, tokens, clocked.reading, streams.item, query, index)


def scales_of(part: TimePart, streams: EventStreams) -> tuple[float, float, np.ndarray, np.ndarray]:
    """What the numbers of `PastAttention.set_scales` are in these streams."""
    clocked = part.clocked(streams)
    wait = clocked.high[(clocked.spells.event >= 0) & (clocked.high > 0)]
    wait = wait if len(wait) else np.ones(1)
    log_wait = np.log(wait)
    spread = max(float(log_wait.std()), 0.1)
    probes = np.quantile(wait, [0.25, 0.5, 0.75])
    return float(log_wait.mean()), spread, probes, value_units(streams)


def clocked_spells(
    streams: EventStreams,
    clock: EventClock,
    *,
    marks: np.ndarray | None = None,
    spells: Spells | None = None,
) -> ClockedSpells:
    """Spells measured by a clock."""
    spells = spells_of(streams) if spells is None else spells
    reading = clock.reading(streams.time)
    begun = clock.reading(spells.start)
    high = np.maximum(clock.reading(spells.stop) - begun, 0.0)
    low = high
    if streams.resolution:
        low = np.maximum(clock.reading(spells.stop - streams.resolution) - begun, 0.0)
    age = np.maximum(begun - clock.reading(spells.opening), 0.0)
    log_speed = clock.log_speed(spells.stop)
    waits = _log_waits(streams, clock, reading)
    return ClockedSpells(streams, spells, reading, low, high, age, log_speed, waits, marks)


def _log_waits(
    streams: EventStreams, clock: EventClock, reading: Float[np.ndarray, "events"]
) -> tuple[np.ndarray, np.ndarray]:
    """Of each event the log of the wait, to the middle of its cell, and how many there were."""
    time, opening = streams.time, streams.opening[streams.stream]
    start = np.where(streams.is_first, opening, np.append(np.nan, time[:-1])[: len(time)])
    ended = time > start
    log_wait = np.zeros(len(time))
    middle = clock.reading(time[ended] - streams.resolution / 2) - clock.reading(start[ended])
    log_wait[ended] = np.log(np.maximum(middle, np.finfo(float).tiny))
    return log_wait, ended.cumsum().astype(float)
