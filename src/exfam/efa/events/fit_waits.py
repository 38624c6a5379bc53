"""Fits processes of waits by exact likelihood."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Bool, Float

from exfam.efa.events.wait_processes import (
    ClockedSpells,
    IntensityProcess,
    PastState,
    log_of_rest,
    standard_marks,
)
from exfam.kernels.decays import decayed_gradients, decayed_sums

# Of the logs of weights by item, and of a value's slope.
_WEIGHT_SPREAD, _SLOPE_SPREAD = 0.7, 2.0
_LOWEST = 1e-12
_MOST_DECAYS = 10
# Events of each step of a rate at least, and steps at most.
_STEP_EVENTS, _MOST_STEPS = 20, 12

Chosen = Bool[np.ndarray, "spells"]


def _total(wait: Float[np.ndarray, "spells"]) -> float:
    return max(float(wait.sum()), 1e-200)


def usual_decays(clocked: ClockedSpells, chosen: Chosen) -> Float[np.ndarray, "decays"]:
    """Rates from short waits to long parts of the streams, evenly on a log scale."""
    wait = clocked.high[chosen & (clocked.spells.event >= 0)]
    wait = wait[wait > 0]
    if not len(wait):
        return np.ones(1)
    short = max(float(np.quantile(wait, 0.02)), clocked.streams.resolution, _LOWEST * wait.mean())
    long = max(float((clocked.age + clocked.high)[chosen].max()) / 4, 4 * short)
    n = int(np.clip(round(1.5 * np.log10(long / short)), 2, _MOST_DECAYS))
    return 1.0 / np.geomspace(short, long, n)


def usual_steps(clocked: ClockedSpells, chosen: Chosen) -> Float[np.ndarray, "steps"]:
    """Ages of streams between which events are about equally many, from 0 on."""
    own = chosen & (clocked.spells.event >= 0)
    n = int(np.clip(own.sum() // _STEP_EVENTS, 1, _MOST_STEPS))
    age = (clocked.age + clocked.high)[own]
    inner = np.quantile(age, np.arange(1, n) / n) if n > 1 else np.zeros(0)
    return np.unique(np.append(0.0, inner))


def fit_frailty(clocked: ClockedSpells, chosen: Chosen) -> Float[np.ndarray, "2"]:
    """Shape and rate of the streams' own rates, by the likelihood of counts in time."""
    rate = max(int((clocked.spells.event[chosen] >= 0).sum()), 1) / _total(clocked.high[chosen])
    weights = np.zeros(int(clocked.streams.item.max(initial=0)) + 2)
    process = IntensityProcess(
        np.array([0.0, 1.0]), np.zeros(0), weights, np.array([0.0, 0.0, 1.0]), np.ones(2)
    )
    spells, state = clocked.spells, clocked.state(process)[chosen]
    design = [column[chosen] for column in (clocked.low, clocked.high, spells.event >= 0)]

    def nats(numbers: Float[np.ndarray, "2"]) -> float:
        shape, mean = np.exp(numbers.clip(-12, 12)) * (1.0, rate)
        tried = replace(process, frailty=np.array([shape, shape / mean]))
        matrices = _matrices(tried, state, *design, cells=bool(clocked.streams.resolution))
        return -_log_likelihood(matrices, tried.theta, design[2])[0]

    start = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    options = {"maxiter": 60, "xatol": 0.02, "initial_simplex": start}
    found = scipy.optimize.minimize(nats, start[0], method="Nelder-Mead", options=options)
    shape, mean = np.exp(found.x.clip(-12, 12)) * (1.0, rate)
    return np.array([shape, shape / mean])


class _Matrices(NamedTuple):
    """Terms at events, or in their cells, and integrals before."""

    gained: Float[np.ndarray, "spells terms"]
    spent: Float[np.ndarray, "spells terms"]
    cells: bool


def _matrices(
    process: IntensityProcess,
    state: PastState,
    low: np.ndarray,
    high: np.ndarray,
    is_event: np.ndarray,
    *,
    cells: bool,
) -> _Matrices:
    late = process.integrals(state, high)
    if not cells:
        return _Matrices(process.terms(state, high), late, cells)
    early = process.integrals(state, low)
    return _Matrices(late - early, np.where(is_event[:, None], early, late), cells)


def _log_likelihood(
    matrices: _Matrices, theta: Float[np.ndarray, "terms"], is_event: Bool[np.ndarray, "spells"]
) -> tuple[float, Float[np.ndarray, "spells"]]:
    """Nats, and the derivative of each event's by its sum of terms."""
    gained = np.maximum(matrices.gained @ theta, 1e-300)
    if matrices.cells:
        nats, slope = log_of_rest(-gained), 1 / np.expm1(gained.clip(max=700))
    else:
        nats, slope = np.log(gained), 1 / gained
    total = float(nats[is_event].sum() - (matrices.spent @ theta).sum())
    return total, np.where(is_event, slope, 0.0)


@dataclass(frozen=True, eq=False)
class IntensityPlan:
    """Which terms an intensity has: its decays, what weighs the events that excite, and steps.

    With steps, their heights replace the constant rate.
    """

    rates: Float[np.ndarray, "decays"]
    frailty: Float[np.ndarray, "2"] | None = None
    n_items: int = 0
    by_item: bool = False
    steps: Float[np.ndarray, "steps"] | None = None


def fit_intensity(clocked: ClockedSpells, chosen: Chosen, plan: IntensityPlan) -> IntensityProcess:
    """The process of the highest likelihood of chosen spells; weights are held near each other."""
    fit = _IntensityFit(clocked, chosen, plan)
    start = fit.start()
    bounds = [(number - 30.0, number + 30.0) for number in start]
    options = {"maxiter": 300, "maxcor": 20}
    found = scipy.optimize.minimize(
        fit.loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    return fit.process(found.x)


class _IntensityFit:
    """Loss and gradient by the logs of coefficients, then by the weights of events."""

    def __init__(self, clocked: ClockedSpells, chosen: Chosen, plan: IntensityPlan) -> None:
        self.clocked, self.chosen, self.plan = clocked, chosen, plan
        spells = clocked.spells[chosen]
        self.before, self.is_event = spells.before, spells.event >= 0
        self.low, self.high = clocked.low[chosen], clocked.high[chosen]
        self.steps = np.zeros(0) if plan.steps is None else plan.steps
        n_rates, n_steps = len(plan.rates), len(self.steps)
        self.decays = slice(2, 2 + n_rates)
        free = [not n_steps, plan.frailty is not None] + [True] * (n_rates + n_steps)
        self.free = np.array(free)
        self.n_theta = int(self.free.sum())
        marks = clocked.marks if len(plan.rates) else None
        stats = np.array([0.0, 0.0, 1.0])
        if marks is not None and np.isfinite(marks).any():
            stats[1:] = np.nanmean(marks), max(float(np.nanstd(marks)), _LOWEST)
        self.stats, self.marks = stats, None if marks is None else standard_marks(marks, stats)
        by_item = plan.by_item and len(plan.rates) > 0
        self.n_weights = plan.n_items + 1 if by_item else 0
        self.is_moving = by_item or self.marks is not None
        cells = bool(clocked.streams.resolution)
        process = self.process(self.start())
        state = clocked.state(process)[chosen]
        unit = state.with_excited(np.ones((len(spells), len(plan.rates))))
        self.unit = _matrices(process, unit, self.low, self.high, self.is_event, cells=cells)
        self._fixed: _Matrices | None = None

    def start(self) -> Float[np.ndarray, "numbers"]:
        """Half of the mean rate without excitation, half of the events excited."""
        rate = max(int(self.is_event.sum()), 1) / _total(self.high)
        theta = np.full(len(self.free), 0.5 / max(1, len(self.plan.rates)))
        theta[0] = rate * (0.5 if len(self.plan.rates) else 1.0)
        theta[1] = 0.5
        theta[self.decays.stop :] = rate
        return np.concatenate(
            [np.log(theta[self.free]), np.zeros(self.n_weights + (self.marks is not None))]
        )

    def process(self, numbers: Float[np.ndarray, "numbers"]) -> IntensityProcess:
        """The process of these numbers."""
        theta = np.zeros(len(self.free))
        theta[self.free] = np.exp(numbers[: self.n_theta])
        log_weight, slope = np.zeros(self.plan.n_items + 1), self.stats.copy()
        if self.n_weights:
            log_weight = numbers[self.n_theta : self.n_theta + self.n_weights].copy()
        if self.marks is not None:
            slope[0] = numbers[-1]
        frailty = np.ones(2) if self.plan.frailty is None else self.plan.frailty
        rates = self.plan.rates
        return IntensityProcess(theta, rates, log_weight, slope, frailty, self.steps)

    def _excited(self, process: IntensityProcess) -> tuple[np.ndarray, np.ndarray]:
        clocked, streams = self.clocked, self.clocked.streams
        weight = process.weights(streams.item, clocked.marks if self.marks is not None else None)
        parts = (clocked.reading, streams.start, streams.stop, weight, process.rates)
        sums = np.vstack([decayed_sums(*parts), np.zeros((1, len(process.rates)))])
        return weight, sums[self.before]

    def loss(self, numbers: Float[np.ndarray, "numbers"]) -> tuple[float, np.ndarray]:
        """Nats of the chosen spells less what holds the weights, negative, and their gradient."""
        process, unit = self.process(numbers), self.unit
        weight, excited = np.zeros(0), np.zeros(0)
        matrices = self._fixed
        if matrices is None:
            weight, excited = self._excited(process)
            gained, spent = unit.gained.copy(), unit.spent.copy()
            gained[:, self.decays] *= excited
            spent[:, self.decays] *= excited
            matrices = _Matrices(gained, spent, unit.cells)
            self._fixed = None if self.is_moving else matrices
        nats, slope = _log_likelihood(matrices, process.theta, self.is_event)
        by_theta = matrices.gained.T @ slope - matrices.spent.sum(0)
        gradient = [(by_theta * process.theta)[self.free]]
        penalty = 0.0
        if self.is_moving:
            by_weight = self._by_weight(process, slope) * weight
            penalty = self._add_weights(numbers, by_weight, gradient)
        return penalty - nats, -np.concatenate(gradient)

    def _by_weight(
        self, process: IntensityProcess, slope: np.ndarray
    ) -> Float[np.ndarray, "events"]:
        """The gradient of the weight of each event."""
        streams, decays = self.clocked.streams, self.decays
        terms = slope[:, None] * self.unit.gained[:, decays] - self.unit.spent[:, decays]
        upstream = np.zeros((len(streams.time), len(process.rates)))
        after = self.before >= 0
        upstream[self.before[after]] = (terms * process.theta[decays])[after]
        parts = (self.clocked.reading, streams.start, streams.stop, upstream, process.rates)
        return np.asarray(decayed_gradients(*parts))

    def _add_weights(
        self, numbers: np.ndarray, by_weight: np.ndarray, gradient: list[np.ndarray]
    ) -> float:
        penalty = 0.0
        if self.n_weights:
            own = numbers[self.n_theta : self.n_theta + self.n_weights]
            item = self.clocked.streams.item
            code = np.where(item < 0, self.n_weights - 1, item)
            added = np.bincount(code, weights=by_weight, minlength=self.n_weights)
            penalty += 0.5 * float((own**2).sum()) / _WEIGHT_SPREAD**2
            gradient.append(added - own / _WEIGHT_SPREAD**2)
        if self.marks is not None:
            penalty += 0.5 * numbers[-1] ** 2 / _SLOPE_SPREAD**2
            steepness = (by_weight * self.marks).sum() - numbers[-1] / _SLOPE_SPREAD**2
            gradient.append(np.array([steepness]))
        return penalty
