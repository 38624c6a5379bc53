"""What is asked of fitted models of events: what comes next, how often, why, and calibration."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

from exfam.checks import DataError
from exfam.efa.events.event_bins import corrected_hazard_ratio, corrected_survival
from exfam.efa.events.event_forward import (
    SHORTEST_WAIT,
    DrawnEvents,
    LiveStreams,
    go_on,
    live_at,
    live_streams,
)
from exfam.efa.events.event_model import EventModel
from exfam.efa.events.event_results import (
    EventCalibration,
    EventCountCalibration,
    EventCounts,
    EventExplanation,
    EventPrediction,
)
from exfam.efa.events.event_streams import EventStreams, spells_of
from exfam.efa.events.time_part import MixtureState
from exfam.efa.events.wait_processes import ClockedSpells, IntensityProcess

# Levels of time over which the next item is averaged.
_N_LEVELS = 8
# The window of counts, unless one is given.
_TYPICAL_WAITS = 5
# Intervals of a distance: samples, and stretches of one stream that are drawn as a whole.
_N_SAMPLES, _N_STRETCHES = 200, 50
_OWN_RATE, _BASE_RATE = "rate of the stream", "base rate"
_RENEWAL, _EVENT, _ATTENTION = "wait since the last event", "event", "attention"


def names_of(streams: EventStreams) -> np.ndarray:
    """The labels of streams."""
    given = streams.groups.group_names
    return np.arange(len(streams.groups)) if given is None else given


def predict_next(
    model: EventModel, streams: EventStreams, labels: np.ndarray | None, *, interval: float
) -> EventPrediction:
    """The distribution of the next event of each stream, in figures."""
    live = live_streams(model, streams)
    rows = np.arange(len(live))
    tie = live.chance_of_tie()
    tail = (1 - interval) / 2
    median, low, high = (_quantile(live, tie, level) for level in (0.5, tail, 1 - tail))
    item = probability = proba = None
    values: dict[str, np.ndarray] = {}
    code = np.zeros(len(live), dtype=np.int64)
    if model.item is not None:
        levels = (np.arange(_N_LEVELS) + 0.5) / _N_LEVELS
        times = [_late(live, _quantile(live, tie, level)) for level in levels]
        parts = [live.item_probabilities(rows, time) for time in times]
        proba = np.mean(parts, axis=0)
        code = proba.argmax(1)
        probability = proba[rows, code]
        item = code if labels is None else labels[code]
    for part in model.values:
        eta = live.eta(part, rows, code, _late(live, median))
        z = part.family.mean(eta) if part.family.has_mean else part.family.quantile(0.5, eta)
        expected = part.restored_values(z.double().numpy(), code)
        values[part.column] = np.where(part.observed_share[code] >= 0.5, expected, np.nan)
    stamps = [time - streams.resolution for time in (median, low, high)]
    return EventPrediction(
        group=names_of(streams),
        tie=tie,
        time=stamps[0],
        low=stamps[1],
        high=stamps[2],
        item=item,
        probability=probability,
        item_proba=proba,
        values=values,
    )


def _quantile(live: LiveStreams, tie: np.ndarray, level: float) -> Float[np.ndarray, "n"]:
    """The time that the next event does not exceed with a probability."""
    rows = np.arange(len(live))
    left = np.minimum((1 - level) / np.maximum(1 - tie, 1e-300), 1.0)
    time = live.time_after(live.wait_after(np.log(left), rows), rows)
    return np.where(level <= tie, live.time, time)


def _late(live: LiveStreams, time: np.ndarray) -> np.ndarray:
    """Times, far ones where an event never comes."""
    return np.where(np.isfinite(time), time, live.time + 1e6 * live.model.time.mixture.unit)


def draw_streams(
    model: EventModel,
    streams: EventStreams,
    *,
    n: int,
    steps: int | None,
    window: float | None,
    seed: int,
) -> DrawnEvents:
    """Each stream `n` times, from the end of observation on."""
    live = live_streams(model, streams).repeated(n)
    until = np.full(len(live), np.inf)
    if window is not None:
        until = np.repeat(streams.end, n) + window
    return go_on(live, until=until, steps=steps, random=np.random.default_rng(seed))


def count_events(
    model: EventModel,
    streams: EventStreams,
    *,
    window: float,
    n: int,
    interval: float,
    seed: int,
) -> EventCounts:
    """Counts of drawn events within a window."""
    drawn = draw_streams(model, streams, n=n, steps=None, window=window, seed=seed)
    return _counts(drawn, names_of(streams), n=n, interval=interval)


def _counts(drawn: DrawnEvents, names: np.ndarray, *, n: int, interval: float) -> EventCounts:
    counts = np.bincount(drawn.row, minlength=n * len(names)).reshape(-1, n)
    tail = (1 - interval) / 2
    low = np.quantile(counts, tail, axis=1, method="lower")
    high = np.quantile(counts, 1 - tail, axis=1, method="higher")
    return EventCounts(names, counts.mean(1), low, high, counts)


@dataclass(frozen=True)
class CountWindows:
    """Which windows counts are looked at in: how long, how many at most, from when on at least."""

    window: float | None
    most: int
    since: float


def levels_of_counts(
    model: EventModel, streams: EventStreams, windows: CountWindows, *, n: int, seed: int
) -> EventCountCalibration:
    """Counts in windows that are not chosen by what comes in them: see `EventCountCalibration`."""
    window = _typical_window(streams) if windows.window is None else windows.window
    stream, moment = _windows(streams, window, windows.since)
    if not len(moment):
        raise DataError(
            f"`X` must hold a stream that is observed for two windows of {window:g}, with an event "
            "in the first, got none. Choose a shorter `window`, or an earlier `since`."
        )
    random = np.random.default_rng(seed)
    kept = np.sort(random.permutation(len(moment))[: windows.most])
    stream, moment = stream[kept], moment[kept]
    last = _last_until(streams, stream, moment)
    count = _last_until(streams, stream, moment + window) - last
    live = live_at(model, streams, (stream, last), moment).repeated(n)
    drawn = go_on(live, until=np.repeat(moment + window, n), steps=None, random=random)
    counts = _counts(drawn, names_of(streams)[stream], n=n, interval=0.9)
    below, at_most = (counts.draws < count[:, None]), (counts.draws <= count[:, None])
    shares = (below.mean(1), at_most.mean(1))
    figures = (counts.mean, counts.low, counts.high, *shares)
    return EventCountCalibration(counts.group, moment, count, *figures, window=window)


def _typical_window(streams: EventStreams) -> float:
    spells = spells_of(streams)
    wait = (spells.stop - spells.start)[spells.event >= 0]
    return _TYPICAL_WAITS * float(np.median(wait[wait > 0])) if (wait > 0).any() else 1.0


def _windows(
    streams: EventStreams, window: float, since: float
) -> tuple[Int64[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    """Streams, and moments at which a window with an event ends and one observed begins."""
    stream = streams.stream
    number = np.ceil((streams.time - streams.opening[stream]) / window).clip(1)
    stream, number = np.unique(np.stack([stream, number]), axis=1)
    stream = stream.astype(np.int64)
    moment = streams.opening[stream] + number * window
    kept = (moment + window <= streams.end[stream]) & (moment >= since)
    return stream[kept], moment[kept]


def _last_until(
    streams: EventStreams, stream: Int64[np.ndarray, "n"], moment: Float[np.ndarray, "n"]
) -> Int64[np.ndarray, "n"]:
    """The last events of streams that came by some moments, of which each has one."""
    bounds = zip(streams.start[stream], streams.stop[stream], moment, strict=True)
    last = [a + np.searchsorted(streams.time[a:b], when, "right") - 1 for a, b, when in bounds]
    return np.array(last, dtype=np.int64)


def explain_rates(
    model: EventModel,
    streams: EventStreams,
    labels: np.ndarray | None,
    *,
    rows: Sequence[int] | None,
    top: int,
) -> EventExplanation:
    """What adds to the rate at events of these rows, or at the end of observation."""
    clocked = model.time.clocked(streams)
    spells = clocked.spells
    source_row = streams.groups.source_row
    row_of = np.arange(len(streams.time)) if source_row is None else source_row
    chosen = _chosen_spells(streams, row_of, rows, spells.event)
    live, columns = live_streams(model, streams), []
    shares = model.time.shares(spells, model.time.logits(streams))
    for number, spell, ended_by in chosen:
        if spell < 0:
            moment, parts = streams.end[number], _at_end(live, clocked, number)
        else:
            moment, parts = spells.stop[spell], _at_spell(model, clocked, spell, shares)
        columns.append(_sorted_parts(parts, top, (number, ended_by, float(moment)), streams))
    stacked = [np.concatenate(column) for column in zip(*columns, strict=True)]
    stream, event, kind, source, age, rate = stacked
    item = np.where(source >= 0, streams.item[source.clip(0)], -1)
    named = np.full(len(item), None, dtype=object)
    if streams.groups.item is not None:
        known = item >= 0
        named[known] = item[known] if labels is None else labels[item[known]]
    return EventExplanation(
        names_of(streams)[stream],
        np.where(event >= 0, row_of[event.clip(0)], -1),
        kind,
        np.where(source >= 0, row_of[source.clip(0)], -1),
        named,
        age,
        rate,
    )


def _chosen_spells(
    streams: EventStreams, row_of: np.ndarray, rows: Sequence[int] | None, ended_by: np.ndarray
) -> list[tuple[int, int, int]]:
    """Streams, spells and events; -1 for the end of observation."""
    if rows is None:
        return [(stream, -1, -1) for stream in range(len(streams.groups))]
    spell_of = np.full(len(streams.time), -1)
    ended = np.flatnonzero(ended_by >= 0)
    spell_of[ended_by[ended]] = ended
    chosen = []
    for row in rows:
        event = np.flatnonzero(row_of == row)
        if not len(event) or spell_of[event[0]] < 0:
            raise DataError(
                f"`rows` must be rows of events whose time is predicted, and that do not tie with "
                f"the one before them, got {row!r}."
            )
        index = int(event[0])
        chosen.append((int(streams.stream[index]), int(spell_of[index]), index))
    return chosen


_Parts = tuple[np.ndarray, np.ndarray, np.ndarray]


def _at_spell(
    model: EventModel, clocked: ClockedSpells, spell: int, shares: np.ndarray | None
) -> _Parts:
    """Kinds, events and rates at the end of a spell."""
    only = np.array([spell])
    before = int(clocked.spells.before[spell])
    stream = int(clocked.spells.stream[spell])
    states = model.time.mixture.states(clocked)[only]
    speed = float(np.exp(clocked.log_speed[spell]))
    past = np.arange(clocked.streams.start[stream], before + 1)
    parts = _parts(model, clocked, states, clocked.high[only], past=past, speed=speed)
    own = None if shares is None else shares[only]
    return _with_attention(parts, model, states, clocked.high[only], own)


def _at_end(live: LiveStreams, clocked: ClockedSpells, stream: int) -> _Parts:
    model, streams = live.model, clocked.streams
    only = np.array([stream])
    states = live.states[only]
    speed = float(np.exp(model.time.clock.log_speed(streams.end[only]))[0])
    past = np.arange(streams.start[stream], streams.stop[stream])
    wait = np.maximum(live.since[only], SHORTEST_WAIT * model.time.mixture.unit)
    parts = _parts(model, clocked, states, wait, past=past, speed=speed)
    return _with_attention(parts, model, states, wait, live.bin_shares(only))


def _with_attention(
    parts: _Parts,
    model: EventModel,
    states: MixtureState,
    wait: Float[np.ndarray, "1"],
    shares: Float[np.ndarray, "1 bins"] | None,
) -> _Parts:
    """And by how much attention changes the rate."""
    if shares is None:
        return parts
    kinds, sources, rates = parts
    survival = np.exp(model.time.mixture.log_survival(states, wait))
    times = corrected_hazard_ratio(survival, shares)[0] - 1
    return (
        np.append(kinds, _ATTENTION),
        np.append(sources, -1),
        np.append(rates, rates.sum() * times),
    )


def _parts(
    model: EventModel,
    clocked: ClockedSpells,
    states: MixtureState,
    wait: Float[np.ndarray, "1"],
    *,
    past: Int64[np.ndarray, "past"],
    speed: float,
) -> _Parts:
    """The mixture's rate: each process's by its share of what has not come yet."""
    mixture = model.time.mixture
    alive = [
        process.log_survival(s, wait)[0]
        for process, s in zip(mixture.processes, states.processes, strict=True)
    ]
    weight = mixture.shares * np.exp(np.array(alive) - max(alive))
    factor = mixture.pace.log_factor(states.seen, mixture.without_pace(states, wait))
    weight = speed * float(np.exp(factor[0])) * weight / weight.sum()
    kinds, sources, rates = [_BASE_RATE, _OWN_RATE, _RENEWAL], [-1, -1, -1], np.zeros(3)
    by_event = np.zeros(len(past))
    for process, state, share in zip(mixture.processes, states.processes, weight, strict=True):
        if not isinstance(process, IntensityProcess):
            rates[2] += share * float(np.exp(process.log_hazard(state, wait))[0])
            continue
        terms = process.terms(state, wait)[0] * process.theta
        rates[0] += share * (terms[0] + terms[2 + len(process.rates) :].sum())
        rates[1] += share * terms[1]
        by_event += share * _by_event(process, clocked, past, wait)
    every = np.concatenate([rates, by_event])
    names = np.array(kinds + [_EVENT] * len(past), dtype=object)
    return names, np.concatenate([sources, past]).astype(np.int64), every


def _by_event(
    process: IntensityProcess, clocked: ClockedSpells, past: np.ndarray, wait: np.ndarray
) -> Float[np.ndarray, "past"]:
    if not len(past):
        return np.zeros(0)
    marks = None if clocked.marks is None else clocked.marks[past]
    weight = process.weights(clocked.streams.item[past], marks)
    age = clocked.reading[past[-1]] - clocked.reading[past] + wait[0]
    faded = np.exp(-process.rates * age[:, None]) * process.rates
    raised: np.ndarray = weight * (faded @ process.theta[2 : 2 + len(process.rates)])
    return raised


def _sorted_parts(
    parts: _Parts, top: int, of: tuple[int, int, float], streams: EventStreams
) -> list[np.ndarray]:
    """The largest first; parts of 0, and events beyond the `top` ones, are left out."""
    kind, source, rate = parts
    stream, event, moment = of
    order = np.argsort(-rate, kind="stable")
    is_event = source[order] >= 0
    kept = order[(rate[order] != 0) & (~is_event | (np.cumsum(is_event) <= top))]
    n = len(kept)
    age = np.where(source[kept] >= 0, moment - streams.time[source[kept].clip(0)], np.nan)
    return [np.full(n, stream), np.full(n, event), kind[kept], source[kept], age, rate[kept]]


def calibration_of(model: EventModel, streams: EventStreams, *, seed: int) -> EventCalibration:
    """Levels of waits that ended in an event, and how far they are from even ones."""
    clocked = model.time.clocked(streams)
    ended = clocked.spells.event >= 0
    if not ended.any():
        raise DataError("`X` must hold a wait that ended in an event, got none.")
    mixture, random = model.time.mixture, np.random.default_rng(seed)
    states = mixture.states(clocked)[ended]
    shares = model.time.shares(clocked.spells[ended], model.time.logits(streams))

    def survival(wait: np.ndarray) -> np.ndarray:
        base = np.exp(mixture.log_survival(states, wait))
        return base if shares is None else corrected_survival(base, shares)

    late = survival(clocked.high[ended])
    if streams.resolution:
        early = survival(clocked.low[ended])
        late = early + (late - early) * random.random(len(late))
    level = 1 - late
    block = clocked.spells.stream[ended]
    if len(np.unique(block)) < _N_STRETCHES:
        block = np.arange(len(level)) * _N_STRETCHES // len(level)
    distance, around = _distance(level), _uncertainty(level, block, random)
    even = float(1.358 / np.sqrt(len(level)))
    return EventCalibration(level, distance, max(0.0, distance - around), distance + around, even)


def _distance(level: Float[np.ndarray, "n"]) -> float:
    ordered, n = np.sort(level), len(level)
    steps = np.arange(n + 1) / n
    return float(max((steps[1:] - ordered).max(), (ordered - steps[:-1]).max()))


def _uncertainty(level: np.ndarray, block: np.ndarray, random: np.random.Generator) -> float:
    """How far, at most, the distribution of levels in samples of blocks is from that of all.

    In 95 of 100 samples: the distance is then as uncertain, by the triangle inequality.
    """
    _, code = np.unique(block, return_inverse=True)
    order = np.argsort(level, kind="stable")
    level, code = level[order], code[order]
    n_blocks = int(code.max()) + 1
    distances, own = [], (np.arange(len(level)) + 1) / len(level)
    for _ in range(_N_SAMPLES):
        times = np.bincount(random.integers(n_blocks, size=n_blocks), minlength=n_blocks)
        weight = times[code].astype(float)
        reached = weight.cumsum() / max(weight.sum(), 1e-300)
        distances.append(float(np.abs(reached - own).max()))
    return float(np.quantile(distances, 0.95))
