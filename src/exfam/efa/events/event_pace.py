"""The pace of a stream: a factor of its rate of events, gamma around 1, known from its past.

Let L(w) be the integral of a rate over a wait, as a base has it, and z the stream's own factor of
it. Before anything is seen z is gamma with shape and rate a. After n waits that ended in an event,
with integrals L_1 ... L_n, it is gamma again, past waits counting the less the older they are,

    shape a + sum_k m^(n - k),    rate a + sum_k m^(n - k) L_k,

and the next wait has, z integrated out, the survival function (1 + L(w) / rate)^(-shape): in closed
form whatever the base is. With memory m = 1 the factor stays as it is; below, it drifts back to 1.
An infinite a is the base itself.

Source: Vaupel, Manton & Stallard (1979), The impact of heterogeneity in individual frailty; Smith &
Miller (1986), A non-Gaussian state space model (the discounting by m).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int64

from exfam.efa.events.wait_processes import log_of_rest
from exfam.kernels.decays import decayed_sums

_SHAPES = tuple(2.0**power for power in range(-1, 10))
_MEMORIES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 1.0)
Logs = Float[np.ndarray, "n"]
Seen = Float[np.ndarray, "n 2"]


class SurvivedSpells(NamedTuple):
    """What a base has of spells: nats, and logs of survival until their ends.

    `early`: until their last cells begin, None of densities
    """

    stream: Int64[np.ndarray, "n"]
    is_event: Bool[np.ndarray, "n"]
    nats: Logs
    late: Logs
    early: Logs | None


@dataclass(frozen=True)
class StreamPace:
    """A gamma factor of the rates of each stream: shape before anything is seen, and memory."""

    shape: float = np.inf
    memory: float = 1.0

    @property
    def is_on(self) -> bool:
        """Whether streams differ in pace."""
        return bool(np.isfinite(self.shape))

    def log_survival(self, seen: Seen, base: Logs) -> Logs:
        """That no event came, where the base has this of it; `seen`: see `after`."""
        if not self.is_on:
            return base
        logs: Logs = -(self.shape + seen[:, 0]) * np.log1p(-base / (self.shape + seen[:, 1]))
        return logs

    def log_factor(self, seen: Seen, base: Logs) -> Logs:
        """Log of the factor of the rate that is expected after a wait without an event."""
        if not self.is_on:
            return np.zeros_like(base)
        logs: Logs = np.log((self.shape + seen[:, 0]) / (self.shape + seen[:, 1] - base))
        return logs

    def after(self, seen: Seen, base: Logs) -> Seen:
        """What is added to shape and rate once a wait has ended in an event."""
        return self.memory * seen + np.column_stack([np.ones_like(base), -base])

    def nats(self, spells: "SurvivedSpells") -> Logs:
        """Of each spell: of its density or cell, or of no event until observation ends."""
        if not self.is_on:
            return spells.nats
        seen = self.seen(spells.stream, spells.late)
        late = self.log_survival(seen, spells.late)
        if spells.early is not None:
            early = self.log_survival(seen, spells.early)
            return np.where(spells.is_event, early + log_of_rest(late - early), late)
        factor = self.log_factor(seen, spells.late)
        return np.where(spells.is_event, spells.nats - spells.late + late + factor, late)

    def seen(self, stream: Int64[np.ndarray, "n"], base: Logs) -> Seen:
        """Of waits one after the other, by stream, what is added before each of them."""
        total = np.zeros((len(base), 2))
        if not self.is_on or not len(base):
            return total
        start = np.flatnonzero(np.append(True, stream[1:] != stream[:-1]))
        stop = np.append(start[1:], len(base))
        step, rate = np.arange(len(base), dtype=float), -np.log([self.memory])
        for column, weight in enumerate((np.ones(len(base)), -base)):
            sums = decayed_sums(step, start, stop, np.ascontiguousarray(weight), rate)[:, 0]
            total[1:, column] = sums[:-1]
        total[start] = 0.0
        return total


def best_pace(spells: SurvivedSpells, judged: Bool[np.ndarray, "n"]) -> StreamPace:
    """The pace of the highest likelihood of the spells judged by, out of a grid."""
    paces = [StreamPace(shape, memory) for shape in _SHAPES for memory in _MEMORIES]
    return max(paces, key=lambda pace: float(pace.nats(spells)[judged].sum()))
