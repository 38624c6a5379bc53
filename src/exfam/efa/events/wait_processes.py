"""Distributions of the wait for the next stamp of a stream, given its past.

A process gives, from a state of the past, the logs of its survival function and of its hazard,
after a wait w on the clock of `EventClock`. Two kinds:

    intensity:  h(w) = t0 + t1 (n + a) / (A + w + b) + sum_k t_k r_k E_k exp(-r_k w) + c(A + w),

where n stamps came in the time A that the stream has been observed, E_k is the sum over past
events of exp(weight - r_k age), and c has steps: a Poisson process, one whose rate is the stream's
own (gamma with shape a and rate b before anything is seen), a Hawkes process, and one whose rate
goes by how long a stream has been observed, in any mixture; and

    renewal:    f(w) = sum_m share_m(last item) LogNormal(w; mean_m + s, scale_m),

where s is 0, or linear in the logs of the stream's past waits and in its last value.

Integrals are closed forms: those of the terms above are t0 w, t1 (n + a) log((A + w + b) / (A + b))
and t_k E_k (1 - exp(-r_k w)); that of c is a sum over its steps.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int64
from scipy.special import log_ndtr, logsumexp

from exfam.efa.events.event_streams import EventStreams, Spells
from exfam.kernels.decays import decayed_sums

_HALF_LOG_TWO_PI = 0.5 * float(np.log(2 * np.pi))
# How fast older waits fade with each further one: the last alone, recent ones, and all of them.
_FADING = np.array([50.0, 0.36, 0.0])
MEMORIES = np.exp(-_FADING)
# Typical waits that are counted beside those of a stream.
_FIRMNESS = np.array([0.0, 1.0, 1.0])
N_INPUTS = len(MEMORIES) + 1
Waits = Float[np.ndarray, "..."]


@dataclass(frozen=True, eq=False)
class PastState:
    """What processes see of the past of some streams, right after an event or an opening.

    `excited`: sums of weights of past events by decay; `count`, `age`: stamps so far, and for how
    long there has been observation on the clock; `last`: the item of the last event, as a row of
    `RenewalProcess.log_share`; `waits`: sums of logs of past waits by `MEMORIES`; `value`: of the
    last event, NaN for none
    """

    excited: Float[np.ndarray, "n decays"]
    count: Float[np.ndarray, "n"]
    age: Float[np.ndarray, "n"]
    last: Int64[np.ndarray, "n"]
    waits: Float[np.ndarray, "n memories"]
    value: Float[np.ndarray, "n"]

    def __getitem__(self, chosen: Any) -> "PastState":
        return PastState(*(column[chosen] for column in vars(self).values()))

    def with_excited(self, excited: Float[np.ndarray, "n decays"]) -> "PastState":
        """The same with other sums."""
        return replace(self, excited=excited)


class WaitProcess(ABC):
    """One distribution of waits."""

    @abstractmethod
    def log_survival(self, state: PastState, wait: Waits) -> Waits:
        """Log of the chance that no event comes within a wait, which may be 0."""

    @abstractmethod
    def log_hazard(self, state: PastState, wait: Waits) -> Waits:
        """Log of the hazard after a wait above 0."""


@dataclass(frozen=True, eq=False)
class IntensityProcess(WaitProcess):
    """A sum of rates, each of them above 0.

    `theta`: t0, t1, t_k and the heights of the steps; `log_weight`: of events by item, the last of
    unknown ones; `slope`: what a value adds to that, then the center and the scale of values;
    `frailty`: a and b; `steps`: the ages at which they begin
    """

    theta: Float[np.ndarray, "terms"]
    rates: Float[np.ndarray, "decays"]
    log_weight: Float[np.ndarray, "items_and_unknown"]
    slope: Float[np.ndarray, "3"]
    frailty: Float[np.ndarray, "2"]
    steps: Float[np.ndarray, "steps"] = field(default_factory=lambda: np.zeros(0))

    def weights(
        self, item: Int64[np.ndarray, "n"], value: Float[np.ndarray, "n"] | None
    ) -> Float[np.ndarray, "n"]:
        """How strongly events excite."""
        log_weight = self.log_weight[item]
        if value is not None:
            log_weight = log_weight + self.slope[0] * standard_marks(value, self.slope)
        return np.exp(np.minimum(log_weight, 30.0))

    def integrals(self, state: PastState, wait: Waits) -> Float[np.ndarray, "n terms"]:
        """The integral of each term from 0 to a wait, before its coefficient."""
        shape, rate = self.frailty
        own = (state.count + shape) * np.log1p(wait / (state.age + rate))
        faded = state.excited * -np.expm1(-self.rates * wait[:, None])
        low, high = state.age[:, None], (state.age + wait)[:, None]
        stops = np.append(self.steps[1:], np.inf)[: len(self.steps)]
        stepped = (np.minimum(high, stops) - np.maximum(low, self.steps)).clip(min=0.0)
        return np.column_stack([wait, own, faded, stepped])

    def terms(self, state: PastState, wait: Waits) -> Float[np.ndarray, "n terms"]:
        """Each term of the rate, before its coefficient."""
        shape, rate = self.frailty
        own = (state.count + shape) / (state.age + wait + rate)
        now = self.rates * state.excited * np.exp(-self.rates * wait[:, None])
        step = np.searchsorted(self.steps, state.age + wait, side="right")[:, None] - 1
        stepped = step == np.arange(len(self.steps))
        return np.column_stack([np.ones_like(wait), own, now, stepped])

    def log_survival(self, state: PastState, wait: Waits) -> Waits:
        survival: Waits = -(self.integrals(state, wait) @ self.theta)
        return survival

    def log_hazard(self, state: PastState, wait: Waits) -> Waits:
        hazard: Waits = np.log(self.terms(state, wait) @ self.theta)
        return hazard


@dataclass(frozen=True, eq=False)
class RenewalProcess(WaitProcess):
    """A mixture of log-normals, whose shares go by the last item.

    Rows of `log_share`: items, unknown ones, and the opening of a stream without an event; `slope`:
    what `inputs` add to logs of waits; `scales`: the center of these logs, and the center and the
    scale of values
    """

    mean: Float[np.ndarray, "parts"]
    log_scale: Float[np.ndarray, "parts"]
    log_share: Float[np.ndarray, "last parts"]
    slope: Float[np.ndarray, "inputs"] = field(default_factory=lambda: np.zeros(N_INPUTS))
    scales: Float[np.ndarray, "3"] = field(default_factory=lambda: np.array([0.0, 0.0, 1.0]))

    def inputs(self, state: PastState) -> Float[np.ndarray, "n inputs"]:
        """How far past waits were from typical ones: the last, recent ones, all; the last value."""
        number, fades = state.count[:, None], MEMORIES[:-1]
        size = np.column_stack([(1 - fades**number) / (1 - fades), number])
        apart = (state.waits - self.scales[0] * size) / np.maximum(size + _FIRMNESS, 1.0)
        return np.column_stack([apart, standard_marks(state.value, self.scales)])

    def _standard(self, state: PastState, wait: Waits) -> Float[np.ndarray, "n parts"]:
        with np.errstate(divide="ignore"):
            log_wait = np.log(wait)
        if self.slope.any():
            log_wait = log_wait - self.inputs(state) @ self.slope
        return (log_wait[:, None] - self.mean) / np.exp(self.log_scale)

    def log_survival(self, state: PastState, wait: Waits) -> Waits:
        alive = log_ndtr(-self._standard(state, wait))
        survival: Waits = logsumexp(self.log_share[state.last] + alive, axis=1)
        return survival

    def log_density(self, state: PastState, wait: Waits) -> Waits:
        """Log-density of a wait above 0."""
        z = self._standard(state, wait)
        normal = -0.5 * z**2 - _HALF_LOG_TWO_PI - self.log_scale
        density: Waits = logsumexp(self.log_share[state.last] + normal, axis=1) - np.log(wait)
        return density

    def log_hazard(self, state: PastState, wait: Waits) -> Waits:
        return self.log_density(state, wait) - self.log_survival(state, wait)


def standard_marks(
    value: Float[np.ndarray, "n"], slope: Float[np.ndarray, "3"]
) -> Float[np.ndarray, "n"]:
    """Values in units of their spread, missing ones 0."""
    return np.nan_to_num((value - slope[1]) / slope[2])


@dataclass(frozen=True, eq=False)
class ClockedSpells:
    """Spells on a clock: how long they are, to the beginning and to the end of their last cell.

    `reading`: of events; `age`: of the stream where a spell begins; `log_speed`: of the clock where
    it ends; `log_wait`: of the wait that each event ended, 0 for none, and how many those are
    """

    streams: EventStreams
    spells: Spells
    reading: Float[np.ndarray, "events"]
    low: Float[np.ndarray, "spells"]
    high: Float[np.ndarray, "spells"]
    age: Float[np.ndarray, "spells"]
    log_speed: Float[np.ndarray, "spells"]
    log_wait: tuple[Float[np.ndarray, "events"], Float[np.ndarray, "events"]]
    marks: Float[np.ndarray, "events"] | None = None

    def state(self, process: WaitProcess) -> PastState:
        """What a process sees at the beginning of each spell."""
        streams, before = self.streams, self.spells.before
        none = len(streams.time) == 0
        excited, bounds = np.zeros((len(before), 0)), (streams.start, streams.stop)
        log_wait, number = self.log_wait
        sums = decayed_sums(number, *bounds, log_wait, _FADING)
        waits = np.vstack([sums, np.zeros((1, len(_FADING)))])[before]
        if isinstance(process, IntensityProcess):
            weight = process.weights(streams.item, self.marks)
            sums = decayed_sums(self.reading, *bounds, weight, process.rates)
            excited = np.vstack([sums, np.zeros((1, len(process.rates)))])[before]
        marks = np.full(len(streams.time), np.nan) if self.marks is None else self.marks
        value = np.append(marks, np.nan)[before]
        item = np.full(len(before), -1) if none else streams.item[before.clip(0)]
        number, last = self.spells.number.astype(float), last_row(item, before)
        return PastState(excited, number, self.age, last, waits, value)

    def log_probs(self, process: WaitProcess) -> Float[np.ndarray, "spells"]:
        """Nats of each spell: of its cell, of its density, or of no event until observation ends.

        Densities are those of elapsed time.
        """
        state, is_event = self.state(process), self.spells.event >= 0
        late = process.log_survival(state, self.high)
        if self.streams.resolution:
            early = process.log_survival(state, self.low)
            return np.where(is_event, early + log_of_rest(late - early), late)
        nats = late.copy()
        nats[is_event] += process.log_hazard(state[is_event], self.high[is_event])
        nats[is_event] += self.log_speed[is_event]
        return nats


def last_row(
    item: Int64[np.ndarray, "n"], before: Int64[np.ndarray, "n"]
) -> Int64[np.ndarray, "n"]:
    """Rows of `RenewalProcess.log_share`, counted from its end where no known item was last."""
    return np.where(before < 0, -1, np.where(item < 0, -2, item))


def log_of_rest(log_share: Waits) -> Waits:
    """log(1 - exp(x)) of x <= 0, without loss."""
    x = np.minimum(log_share, -1e-300)
    near = np.log(-np.expm1(x))
    return np.where(x > -0.7, near, np.log1p(-np.exp(np.minimum(x, -0.7))))
