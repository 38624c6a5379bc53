"""Fits the time part: clocks and processes on training spells, chosen and mixed by validation."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int64
from scipy.special import logsumexp

from exfam.efa.events.event_clock import (
    HOURS,
    EventClock,
    hourly_speed,
    hours_between,
    offset_changes,
)
from exfam.efa.events.event_pace import StreamPace, best_pace
from exfam.efa.events.event_streams import EventStreams, blocks_of, paired_lead, spells_of
from exfam.efa.events.fit_renewals import fit_renewal
from exfam.efa.events.fit_waits import (
    IntensityPlan,
    fit_frailty,
    fit_intensity,
    usual_decays,
    usual_steps,
)
from exfam.efa.events.time_part import TieModel, TimePart, WaitMixture, clocked_spells
from exfam.efa.events.wait_processes import ClockedSpells, WaitProcess

TIME_BASES = ("auto", "poisson", "renewal", "hawkes")
# Shares of a mixture below this are dropped.
_LEAST_SHARE = 0.02
# Streams from which on each may have a rate of its own.
_LEAST_STREAMS = 5
# Nats a spell that validation must gain, beside one standard error.
_LEAST_GAIN = 1e-4
_FOLDS = 5

Chosen = Bool[np.ndarray, "spells"]
Fit = Callable[[ClockedSpells, Chosen], WaitProcess]


@dataclass(frozen=True)
class TimeOptions:
    """What a user chose of the time part.

    `decays`: rates of fading, or None for usual ones; `zone`: of the calendar, None for none
    """

    base: str = "auto"
    decays: tuple[float, ...] | None = None
    zone: str | None = None
    n_items: int = 1
    has_items: bool = False
    has_values: bool = False


@dataclass(frozen=True, eq=False)
class FittedTime:
    """The part, and nats of validation spells under each process alone, by name, and mixed.

    `of_training`: the part as it was fitted to the training spells alone
    """

    part: TimePart
    of_training: TimePart
    nats: dict[str, float]


def fit_time_part(
    streams: EventStreams, is_training: Bool[np.ndarray, "spells"], options: TimeOptions
) -> FittedTime:
    """Processes are fitted to training spells, mixed by the others, and then fitted to all.

    Where all spells are of training, the mixture is chosen by these.
    """
    spells, every = spells_of(streams), np.ones(len(is_training), dtype=bool)
    judged = ~is_training if not is_training.all() else every
    fits = _processes(options, n_streams=len(streams.groups))
    marks = None
    if options.has_values and not options.has_items:
        marks = next(iter(streams.groups.values.values()))
    best, nats_of = None, dict[str, float]()
    for zone in (None, options.zone) if options.zone else (None,):
        clock = _clock(streams, spells, is_training, zone)
        clocked = clocked_spells(streams, clock, marks=marks, spells=spells)
        processes = {name: fit(clocked, is_training) for name, fit in fits.items()}
        tried, alone = _tried(processes, clocked, clock, judged, paced=options.base == "auto")
        nats_of |= {_named(name, zone): nats for name, nats in alone.items()}
        if best is None or is_ahead(tried.nats, best.nats, spells.stream[judged]):
            best = tried
    assert best is not None
    nats_of["chosen"] = float(best.nats.mean())
    mixture = best.mixture
    tied = np.ones(len(streams.time), dtype=bool)
    tied[spells.event[(spells.event >= 0) & ~is_training]] = False
    n_items, uses_marks = options.n_items, marks is not None
    own = TimePart(best.clock, TieModel.fit(streams, tied, n_items), mixture, uses_marks)
    clock = best.clock if best.clock.is_plain else _clock(streams, spells, every, options.zone)
    clocked = clocked_spells(streams, clock, marks=marks, spells=spells)
    mixture = replace(
        mixture, processes=tuple(fits[name](clocked, every) for name in mixture.names)
    )
    ties = TieModel.fit(streams, np.ones_like(tied), n_items)
    return FittedTime(TimePart(clock, ties, mixture, uses_marks), own, nats_of)


@dataclass(frozen=True, eq=False)
class _Tried:
    """A mixture on a clock, and its nats of the spells judged by."""

    nats: Float[np.ndarray, "judged"]
    clocked: ClockedSpells
    clock: EventClock
    mixture: WaitMixture


def _tried(
    processes: dict[str, WaitProcess],
    clocked: ClockedSpells,
    clock: EventClock,
    judged: Chosen,
    *,
    paced: bool,
) -> tuple[_Tried, dict[str, float]]:
    """The best process at its pace unless their mixture is ahead, and the nats of each alone.

    The best is the first, simplest one that is not behind by more than one standard error.
    """
    stream = clocked.spells.stream[judged]
    unit = float(clocked.high.sum()) / max(1, int((clocked.spells.event >= 0).sum()))

    def at_pace(mixture: WaitMixture) -> tuple[_Tried, Float[np.ndarray, "judged"]]:
        survived = mixture.survived(clocked)
        alone, pace = survived.nats[judged], StreamPace()
        if paced:
            best = best_pace(survived, judged)
            pace = best if is_ahead(best.nats(survived)[judged], alone, stream) else pace
        own = _Tried(pace.nats(survived)[judged], clocked, clock, replace(mixture, pace=pace))
        return own, alone

    singles = [
        at_pace(WaitMixture((name,), (process,), np.ones(1), unit=unit))
        for name, process in processes.items()
    ]
    highest = max((own.nats for own, _ in singles), key=lambda nats: nats.mean())
    best = next(own for own, _ in singles if not is_ahead(highest, own.nats, stream))
    nats = np.stack([alone for _, alone in singles])
    if len(singles) > 1:
        shares, own = mixing_shares(nats), tuple(processes.values())
        mixture = WaitMixture(tuple(processes), own, shares, unit=unit)
        mixed, alone = at_pace(mixture.without_idle())
        mixed = replace(mixed, nats=held_out_mixture(nats, stream) + mixed.nats - alone)
        best = mixed if is_ahead(mixed.nats, best.nats, stream) else best
    return best, {name: float(n.mean()) for name, n in zip(processes, nats, strict=True)}


def _named(name: str, zone: str | None) -> str:
    return name if zone is None else f"{name} by the hour"


def _clock(streams: EventStreams, spells: object, chosen: Chosen, zone: str | None) -> EventClock:
    """A clock of the zone whose hours run by how many of the chosen events they have."""
    if zone is None:
        return EventClock.plain()
    held = streams.stop > streams.start
    opening = np.where(np.isnan(streams.begin), np.inf, streams.begin)
    opening[held] = np.minimum(opening[held], streams.time[streams.start[held]])
    opening = np.minimum(opening, streams.end)
    # A week more: what is predicted lies beyond.
    changes, offsets = offset_changes(
        zone, float(opening.min()) - 8, float(streams.end.max()) + 10 * 366
    )
    clock = EventClock(np.ones(HOURS), changes, offsets)
    own: np.ndarray = spells.event[chosen & (spells.event >= 0)]  # type: ignore[attr-defined]
    stop = streams.time[own]
    start = stop - max(streams.resolution, 1e-6)
    count = hours_between(clock.local(start), clock.local(start) + (stop - start))
    count *= len(own) / max(count.sum(), 1e-300)
    exposure = hours_between(clock.local(opening), clock.local(streams.end))
    return replace(clock, speed=hourly_speed(count, exposure))


def _processes(options: TimeOptions, *, n_streams: int) -> dict[str, Fit]:
    """How each process that may be mixed is fitted."""
    several = n_streams >= _LEAST_STREAMS
    frail = several and options.base == "auto"

    def poisson(clocked: ClockedSpells, chosen: Chosen) -> WaitProcess:
        frailty = fit_frailty(clocked, chosen) if frail else None
        plan = IntensityPlan(np.zeros(0), frailty, options.n_items)
        return fit_intensity(clocked, chosen, plan)

    def hawkes(clocked: ClockedSpells, chosen: Chosen, *, by_item: bool = False) -> WaitProcess:
        own = options.decays
        rates = usual_decays(clocked, chosen) if own is None else np.array(own, dtype=float)
        frailty = fit_frailty(clocked, chosen) if frail else None
        return fit_intensity(
            clocked, chosen, IntensityPlan(rates, frailty, options.n_items, by_item)
        )

    def renewal(clocked: ClockedSpells, chosen: Chosen) -> WaitProcess:
        return fit_renewal(clocked, chosen, n_items=options.n_items)

    def renewal_by_past(clocked: ClockedSpells, chosen: Chosen) -> WaitProcess:
        return fit_renewal(clocked, chosen, n_items=options.n_items, by_past=True)

    def by_age(clocked: ClockedSpells, chosen: Chosen) -> WaitProcess:
        plan = IntensityPlan(
            np.zeros(0), n_items=options.n_items, steps=usual_steps(clocked, chosen)
        )
        return fit_intensity(clocked, chosen, plan)

    fits: dict[str, Fit] = {"poisson": poisson}
    # Of one stream, what comes next is at an age that it did not have before.
    fits |= {"poisson by age": by_age} if several else {}
    fits |= {"hawkes": hawkes, "renewal": renewal}
    fits["renewal by past waits"] = renewal_by_past
    if options.has_items and options.n_items > 1:
        fits["hawkes by item"] = lambda clocked, chosen: hawkes(clocked, chosen, by_item=True)
    if options.base == "auto":
        return fits
    return {options.base: fits[options.base]}


def is_ahead(
    nats: Float[np.ndarray, "n"], other: Float[np.ndarray, "n"], stream: Int64[np.ndarray, "n"]
) -> bool:
    """Whether nats are higher than others by more than one standard error of the difference."""
    lead, error = paired_lead(nats - other, stream)
    return lead > max(error, _LEAST_GAIN)


def held_out_mixture(
    nats: Float[np.ndarray, "processes spells"], stream: Int64[np.ndarray, "spells"]
) -> Float[np.ndarray, "spells"]:
    """Nats of a mixture, each fold of blocks by the shares that the other folds have best."""
    fold, mixed = blocks_of(stream) % _FOLDS, np.zeros(nats.shape[1])
    for k in np.unique(fold):
        own = fold == k
        shares = mixing_shares(nats[:, ~own])
        mixed[own] = logsumexp(nats[:, own], b=shares[:, None], axis=0)
    return mixed


def mixing_shares(nats: Float[np.ndarray, "processes spells"]) -> Float[np.ndarray, "processes"]:
    """The shares of the highest likelihood, by expectation and maximization; small ones are 0."""
    shares = np.full(len(nats), 1 / len(nats))
    if not nats.shape[1]:
        return shares
    part = np.exp(nats - nats.max(0))
    for _ in range(300):
        weighted = shares[:, None] * part
        new = (weighted / np.maximum(weighted.sum(0), 1e-300)).mean(1)
        if np.abs(new - shares).max() < 1e-6:
            break
        shares = new
    shares = np.where(shares < _LEAST_SHARE, 0.0, shares)
    mixed: np.ndarray = shares / shares.sum()
    return mixed
