"""The run protocol: what every fit does around its steps, whatever computes them.

A `Run` owns the order of things, progress, Ctrl-C, early stopping, checkpoints and the history; an
`Engine` owns the numbers. Nothing here knows torch. Of several ranks each has a run of its own, and
all of them come to the same decisions, since the sums they decide by are those of all ranks.
"""

import math
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from types import FrameType
from typing import Any, NoReturn, Protocol, runtime_checkable

import numpy as np

from exfam.checks import ExfamError
from exfam.training.checkpoints import CheckpointFolder
from exfam.training.history import Epoch, History, best_of
from exfam.training.progress import EpochProgress
from exfam.training.ranks import ONE_PROCESS, Ranks

# Nats to minimize, summed, and the sum of the weights they were summed with.
Sums = tuple[float, float]


@runtime_checkable
class Engine(Protocol):
    """What a run needs of whatever computes: steps, validation, and state as named arrays.

    The steps of an epoch may depend on `state` and on the epoch's number only, so that a fit that
    is killed and resumed takes the very same ones.
    """

    @property
    def learning_rate(self) -> float: ...

    def begin_epoch(self, epoch: int) -> int:
        """Prepare the epoch (0 is the first); how many steps it has."""

    def step(self, index: int) -> Sums:
        """Take one step; if the nats are not finite, leave the parameters as they are.

        Returns its sums, or, where the engine does not wait for its device, those of the last one.
        """

    def outstanding(self) -> Sums:
        """Sums of steps that `step` has not returned."""

    def validation(self) -> Iterator[Sums] | None:
        """The validation groups part by part; None if there are none."""

    def is_over(self) -> bool:
        """Whether nothing is left to be gained after the last validation."""

    def keep_best(self) -> None:
        """Remember the parameters as the best so far."""

    def use_best(self) -> None:
        """Return to the parameters that were kept."""

    def sample_nats(self) -> float:
        """Nats per unit of weight of the same training data; NaN if a parameter is not finite."""

    def state(self) -> dict[str, np.ndarray]:
        """All that later steps depend on, the kept parameters included; may share memory."""

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Return to such a state."""


# By how many nats, or how many times the nats at the start, a result is worse that diverged.
_FAR = 10.0


class _StopRequested(Exception):
    """Raised between steps only."""


class _Interruption:
    """Within it, the first of the signals requests a stop after the step at hand, the next raises.

    Outside the main thread, where Python delivers no signals, it does nothing.
    """

    def __init__(self, *signals: signal.Signals) -> None:
        self.requested = False
        self._signals = signals
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in self._signals:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._previous[number] = signal.signal(number, self._pressed)

    def __exit__(self, *error: object) -> None:
        while self._previous:
            signal.signal(*self._previous.popitem())

    def _pressed(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt("second Ctrl-C")
        self.requested = True


@dataclass
class _RunState:
    """Where a run stands, between two steps."""

    epoch: int = 0
    step: int = 0
    steps: int = 0
    nats: float = 0.0
    weight: float = 0.0
    learning_rate: float = 0.0
    cpu_seconds: float = 0.0
    rows: list[Epoch] = field(default_factory=list)
    stopped: str | None = None
    start_nats: float | None = None


class Run:
    """One fit: epochs of steps, each followed by validation, until a reason to stop.

    With validation groups the best epoch's parameters are the result, and `patience` epochs without
    a better one end the fit, or fewer where the engine's schedule is over; without them the last
    parameters are. Ctrl-C keeps the best so far; a second one raises KeyboardInterrupt. With
    several `ranks` Ctrl-C or SIGTERM at any one stops all before the same step; progress and
    checkpoints are the main one's.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        max_epochs: int,
        patience: int,
        progress: EpochProgress,
        checkpoints: CheckpointFolder | None = None,
        ranks: Ranks = ONE_PROCESS,
    ) -> None:
        self._engine = engine
        self._max_epochs, self._patience = max_epochs, patience
        self._progress, self._checkpoints = progress, checkpoints
        self._ranks = ranks
        # torchrun ends its ranks by SIGTERM; a process of its own may be ended by it as ever.
        signals = (signal.SIGINT,) if ranks.size == 1 else (signal.SIGINT, signal.SIGTERM)
        self._interruption = _Interruption(*signals)
        self._state = _RunState()
        self._cpu_start = time.process_time()

    def train(self) -> History:
        """Train, or resume, or return what a finished fit left in its checkpoint.

        Raises ExfamError when the nats stop being finite, with the best parameters so far in place,
        or when the result is far worse than the parameters before the first step; CheckpointError
        if the checkpoint belongs to another fit.
        """
        self._resume()
        with self._interruption, self._progress:
            self._until_stopped()
        if best_of(self._state.rows) is not None:
            self._engine.use_best()
        return History(tuple(self._state.rows), self._state.stopped or "interrupted")

    def _resume(self) -> None:
        checkpoints = self._checkpoints
        saved = self._ranks.from_main(lambda: checkpoints.load() if checkpoints else None)
        if saved is not None:
            arrays, facts = saved
            self._engine.load_state(arrays)
            rows = [Epoch(**row) for row in facts.pop("rows")]
            self._state = _RunState(**facts, rows=rows)
        # The main rank's seconds stand for those that each of the others had spent.
        self._cpu_start = time.process_time() - self._state.cpu_seconds

    def _check_stop(self) -> None:
        if self._ranks.stops(self._interruption.requested):
            raise _StopRequested("Ctrl-C")

    def _until_stopped(self) -> None:
        try:
            if self._state.steps == 0:
                self._state.start_nats = self._engine.sample_nats()
            while self._state.stopped is None:
                self._epoch()
        except _StopRequested:
            self._progress.say("Stopped by Ctrl-C.")
            self._settle()
            self._save()
        except KeyboardInterrupt:
            # Not through our handler: a step may be half done, so no checkpoint is written.
            if self._interruption.requested:
                raise

    def _epoch(self) -> None:
        n_steps = self._engine.begin_epoch(self._state.epoch)
        for index in range(self._state.step, n_steps):
            self._check_stop()
            self._step(index)
            self._progress.draw(self._state.rows, fraction=self._state.step / n_steps)
        self._settle()
        if self._state.weight <= 0:
            self._fail("`train` must have a target of positive weight, got none.")
        self._close_epoch(self._validate())
        self._progress.draw(self._state.rows)

    def _step(self, index: int) -> None:
        state = self._state
        self._add(*self._engine.step(index), step=index + 1)
        state.learning_rate = self._engine.learning_rate
        state.step += 1
        state.steps += 1
        if self._checkpoints is not None and self._checkpoints.due():
            self._settle()
            self._save()

    def _settle(self) -> None:
        """Take in what the engine has not returned yet."""
        self._add(*self._engine.outstanding(), step=self._state.step)

    def _add(self, nats: float, weight: float, *, step: int) -> None:
        state = self._state
        if not (math.isfinite(nats) and math.isfinite(weight)):
            self._fail(
                f"Training nats must be finite, got {nats} at epoch {state.epoch + 1}, "
                f"step {step}. Use a lower `learning_rate`."
            )
        state.nats += nats
        state.weight += weight

    def _validate(self) -> float | None:
        parts = self._engine.validation()
        if parts is None:
            return None
        nats = weight = 0.0
        for part_nats, part_weight in parts:
            self._check_stop()
            nats += part_nats
            weight += part_weight
        if weight <= 0:
            self._fail(
                "`validation` must have a target of positive weight, got none. "
                "Leave it out, or check its weights."
            )
        if not math.isfinite(nats):
            state = self._state
            self._fail(
                f"Validation nats must be finite, got {nats} after epoch {state.epoch + 1}, "
                f"step {state.step}. Use a lower `learning_rate`, or look for a validation value "
                "that the model gives probability 0."
            )
        return nats / weight

    def _close_epoch(self, validation: float | None) -> None:
        state = self._state
        best = best_of(state.rows)
        is_best = validation is not None and (
            best is None or best.validation_nats is None or validation < best.validation_nats
        )
        if is_best:
            self._engine.keep_best()
        state.epoch += 1
        state.rows.append(
            Epoch(
                epoch=state.epoch,
                steps=state.steps,
                train_nats=state.nats / state.weight,
                validation_nats=validation,
                learning_rate=state.learning_rate,
                cpu_seconds=self._ranks.sum([time.process_time() - self._cpu_start])[0],
                best=is_best,
            )
        )
        state.step, state.nats, state.weight = 0, 0.0, 0.0
        best = best_of(state.rows)
        if state.epoch >= self._max_epochs:
            state.stopped = "max_epochs"
        elif self._engine.is_over() or (
            best is not None and state.epoch - best.epoch >= self._patience
        ):
            state.stopped = "patience"
        if state.stopped:
            if best is not None:
                self._engine.use_best()
            self._check_result()
        if state.stopped or (self._checkpoints and self._checkpoints.due(epoch_end=True)):
            self._save()

    def _check_result(self) -> None:
        """Neither a step nor validation follows that would show what the parameters became."""
        nats, start = self._engine.sample_nats(), self._state.start_nats
        if not math.isfinite(nats):
            self._fail(
                f"Training nats must be finite, got {nats} after the last step. Use a lower "
                "`learning_rate`."
            )
        # Training lowers the nats of training data, whose sample is the same before and after. So
        # neither overfitting nor outliers nor hard validation data raise them, only steps that were
        # too long. A few nats more in the sample may be the price of less elsewhere.
        if start is not None and nats - start > _FAR * max(1.0, abs(start)):
            self._fail(
                f"Training nats must not rise, got {nats:.4g} after the last step where there were "
                f"{start:.4g} before the first. Use a lower `learning_rate`."
            )

    def _save(self) -> None:
        if self._checkpoints is not None:
            self._state.cpu_seconds = time.process_time() - self._cpu_start
            self._checkpoints.save(self._engine.state(), asdict(self._state))

    def _fail(self, message: str) -> NoReturn:
        best = best_of(self._state.rows)
        if best is not None:
            self._engine.use_best()
            message += f" The model has its best weights so far, those of epoch {best.epoch}."
        raise ExfamError(message)
