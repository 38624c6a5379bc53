"""When the next event comes: ties, a clock, and a mixture of laws of waits.

log p(time) = log p(tie or not | item, length of the tie) + log sum_m share_m p_m(wait | past)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int64
from scipy.special import logsumexp

from exfam.checks import DataError
from exfam.efa.events.event_clock import EventClock
from exfam.efa.events.event_streams import EventStreams, Spells, spells_of
from exfam.efa.events.wait_laws import (
    ClockedSpells,
    IntensityLaw,
    PastState,
    RenewalLaw,
    WaitLaw,
)

# Events of one stamp so far, less one, from which on lengths of ties count as alike.
_LENGTHS = np.array([1, 2, 3, 5, 9, 17])
_TIE_FIRMNESS = 10.0
_FIELDS = {
    IntensityLaw: ("theta", "rates", "log_weight", "slope", "frailty"),
    RenewalLaw: ("mean", "log_scale", "log_share"),
}


@dataclass(frozen=True, eq=False)
class TieLaw:
    """The chance that the next event has the stamp of the last one.

    `log_odds`: by the last item, the last row for unknown ones, and by how many the stamp has so
    far; minus infinity where training had no ties
    """

    chance: Float[np.ndarray, "items_and_unknown lengths"]

    @classmethod
    def fit(cls, streams: EventStreams, chosen: Bool[np.ndarray, "events"], n: int) -> "TieLaw":
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
class WaitMixture:
    """Laws mixed with fixed shares, by name."""

    names: tuple[str, ...]
    laws: tuple[WaitLaw, ...]
    shares: Float[np.ndarray, "laws"]

    def log_survival(self, states: list[PastState], wait: np.ndarray) -> np.ndarray:
        """Log of the chance of no event within waits."""
        parts = [law.log_survival(s, wait) for law, s in zip(self.laws, states, strict=True)]
        mixed: np.ndarray = logsumexp(np.stack(parts), b=self.shares[:, None], axis=0)
        return mixed

    def log_probs(self, clocked: ClockedSpells) -> Float[np.ndarray, "spells"]:
        """Nats of spells."""
        nats = np.stack([clocked.log_probs(law) for law in self.laws])
        mixed: np.ndarray = logsumexp(nats, b=self.shares[:, None], axis=0)
        return mixed


@dataclass(frozen=True, eq=False)
class TimePart:
    """p(time to the next event | past)."""

    clock: EventClock
    ties: TieLaw
    mixture: WaitMixture
    uses_values: bool = False

    def log_probs(self, streams: EventStreams) -> tuple[np.ndarray, np.ndarray]:
        """Nats of each event's time, NaN where its stream opens with it, and of each open end."""
        spells = spells_of(streams)
        nats = self.mixture.log_probs(self.clocked(streams, spells))
        events = self._tie_nats(streams)
        ended = spells.event >= 0
        events[spells.event[ended]] += nats[ended]
        opens = streams.is_first & np.isnan(streams.begin[streams.stream])
        events[opens] = np.nan
        ends = np.zeros(len(streams.groups))
        last = spells.before[~ended]
        not_tied = np.where(
            last >= 0, self._log_of_no_tie(streams, last.clip(0)) if len(last) else 0.0, 0.0
        )
        ends[spells.stream[~ended]] = nats[~ended] + not_tied
        return events, ends

    def clocked(self, streams: EventStreams, spells: Spells | None = None) -> ClockedSpells:
        """The spells of streams on this clock."""
        marks = next(iter(streams.groups.values.values()), None) if self.uses_values else None
        return clocked_spells(streams, self.clock, marks=marks, spells=spells)

    def _tie_nats(self, streams: EventStreams) -> Float[np.ndarray, "events"]:
        nats = np.zeros(len(streams.time))
        follows, is_tie = np.flatnonzero(~streams.is_first), streams.is_tie
        chance = self.ties.of(streams.item[follows - 1], streams.run[follows - 1])
        tie = is_tie[follows]
        if (chance[tie] == 0).any():
            row = int(follows[tie][0])
            raise DataError(
                "`time` must not have ties, which training had none of and `resolution` was not "
                f"given for, got one at element {row}. Fit with resolution=…, such as one second."
            )
        nats[follows] = np.log(np.where(tie, chance, 1 - chance))
        return nats

    def _log_of_no_tie(self, streams: EventStreams, last: np.ndarray) -> np.ndarray:
        return np.log1p(-self.ties.of(streams.item[last], streams.run[last]))

    def arrays(self) -> dict[str, np.ndarray]:
        """All numbers, by name."""
        held = {f"clock.{name}": getattr(self.clock, name) for name in vars_of_clock()}
        held |= {"ties.chance": self.ties.chance, "mixture.shares": self.mixture.shares}
        for number, law in enumerate(self.mixture.laws):
            for name in _FIELDS[type(law)]:
                held[f"law{number}.{name}"] = getattr(law, name)
        return held

    def config(self) -> dict[str, Any]:
        """What else a saved model needs."""
        laws = ["renewal" if isinstance(law, RenewalLaw) else "rate" for law in self.mixture.laws]
        return {"laws": laws, "names": list(self.mixture.names), "marks": self.uses_values}

    @classmethod
    def restored(cls, config: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> "TimePart":
        """What `config` and `arrays` say."""
        laws: list[WaitLaw] = []
        for number, name in enumerate(config["laws"]):
            kind = RenewalLaw if name == "renewal" else IntensityLaw
            laws.append(kind(*(arrays[f"law{number}.{field}"] for field in _FIELDS[kind])))
        clock = EventClock(*(arrays[f"clock.{name}"] for name in vars_of_clock()))
        shares = arrays["mixture.shares"]
        mixture = WaitMixture(tuple(config["names"]), tuple(laws), shares)
        return cls(clock, TieLaw(arrays["ties.chance"]), mixture, bool(config["marks"]))


def vars_of_clock() -> tuple[str, ...]:
    """The arrays that a clock is made of."""
    return ("speed", "changes", "offsets")


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
    return ClockedSpells(streams, spells, reading, low, high, age, log_speed, marks)
