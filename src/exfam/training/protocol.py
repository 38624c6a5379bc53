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
from types import FrameType, TracebackType
from typing import Any, NoReturn, Protocol, runtime_checkable

import numpy as np

from exfam.checks import ExfamError
from exfam.training.checkpoints import CheckpointFolder
from exfam.training.history import Epoch, EpochProgress, History, best_of
from exfam.training.ranks import ONE_PROCESS, Ranks, State

# Nats to minimize, summed, and the sum of the weights they were summed with.
Sums = tuple[float, float]


@runtime_checkable
class Engine(Protocol):
    """What a run asks of whatever computes: steps, validation, and state as named arrays.

    The steps of an epoch may depend on `state` and on the epoch's number only, so that a fit that
    is killed and resumed takes the very same ones.
    """

    @property
    def learning_rate(self) -> float:
        """Of the last step taken."""

    def begin_epoch(self, epoch: int) -> int:
        """Prepare the epoch (0 is the first); how many steps it has."""

    def step(self, index: int) -> Sums:
        """Take one step; if the nats are not finite, leave the parameters as they are."""

    def validation(self) -> Iterator[Sums] | None:
        """The validation groups part by part; None if there are none."""

    def keep_best(self) -> None:
        """Remember the parameters as the best so far."""

    def use_best(self) -> None:
        """Return to the parameters that were kept."""

    def sample_nats(self) -> float:
        """Nats per unit of weight of some training data, always the same, as parameters are now.

        NaN if a parameter is not finite.
        """

    def state(self) -> dict[str, np.ndarray]:
        """All that later steps depend on, the kept parameters included; may share memory."""

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Return to such a state."""


# By how many nats, or how many times the nats at the start, a result is worse that diverged.
_FAR = 10.0


class _StopRequested(Exception):
    """Ctrl-C was pressed; raised between steps only."""


class Interruption:
    """Within it, the first Ctrl-C asks to stop after the step at hand, the second raises.

    `signals`: what counts as Ctrl-C. Outside the main thread, where Python delivers no signals, it
    does nothing.

    >>> with Interruption() as interruption:
    ...     interruption.requested
    False
    """

    def __init__(self, *signals: signal.Signals) -> None:
        self.count = 0
        self._signals = signals or (signal.SIGINT,)
        self._previous: dict[signal.Signals, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self.count > 0

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            for each in self._signals:
                if signal.getsignal(each) not in (signal.SIG_IGN, None):
                    self._previous[each] = signal.signal(each, self._pressed)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        while self._previous:
            signal.signal(*self._previous.popitem())

    def _pressed(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 1:
            raise KeyboardInterrupt("second Ctrl-C")


@dataclass
class _Place:
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
    a better one end the fit; without them the last parameters are. Ctrl-C keeps the best so far and
    returns; a second one raises KeyboardInterrupt. With several `ranks` Ctrl-C or SIGTERM at any
    one stops all before the same step; progress and checkpoints are the main one's.
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
        self._interruption = Interruption(*signals)
        self._place = _Place()
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
        if best_of(self._place.rows) is not None:
            self._engine.use_best()
        return History(tuple(self._place.rows), self._place.stopped or "interrupted")

    def _resume(self) -> None:
        saved = self._ranks.from_main(self._saved)
        if saved is not None:
            arrays, facts = saved
            self._engine.load_state(arrays)
            rows = [Epoch(**row) for row in facts.pop("rows")]
            self._place = _Place(**facts, rows=rows)
        # The main rank's seconds stand for those that each of the others had spent.
        self._cpu_start = time.process_time() - self._place.cpu_seconds

    def _saved(self) -> State | None:
        return None if self._checkpoints is None else self._checkpoints.load()

    def _check_stop(self) -> None:
        if self._ranks.stops(self._interruption.requested):
            raise _StopRequested("Ctrl-C")

    def _until_stopped(self) -> None:
        try:
            if self._place.steps == 0:
                self._place.start_nats = self._engine.sample_nats()
            while self._place.stopped is None:
                self._epoch()
        except _StopRequested:
            self._progress.say("Stopped by Ctrl-C.")
            self._save()
        except KeyboardInterrupt:
            # Not through our handler: a step may be half done, so no checkpoint is written.
            if self._interruption.requested:
                raise

    def _epoch(self) -> None:
        n_steps = self._engine.begin_epoch(self._place.epoch)
        for index in range(self._place.step, n_steps):
            self._check_stop()
            self._step(index)
            self._progress.draw(self._place.rows, fraction=self._place.step / n_steps)
        if self._place.weight <= 0:
            self._fail("`train` must have a target of positive weight, got none.")
        self._close_epoch(self._validate())
        self._progress.draw(self._place.rows)

    def _step(self, index: int) -> None:
        place = self._place
        nats, weight = self._engine.step(index)
        if not (math.isfinite(nats) and math.isfinite(weight)):
            self._fail(
                f"Training nats must be finite, got {nats} at epoch {place.epoch + 1}, "
                f"step {index + 1}. Use a lower `learning_rate`."
            )
        place.nats += nats
        place.weight += weight
        place.learning_rate = self._engine.learning_rate
        place.step += 1
        place.steps += 1
        if self._checkpoints is not None and self._checkpoints.due():
            self._save()

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
            place = self._place
            self._fail(
                f"Validation nats must be finite, got {nats} after epoch {place.epoch + 1}, "
                f"step {place.step}. Use a lower `learning_rate`, or look for a validation value "
                "that the model gives probability 0."
            )
        return nats / weight

    def _close_epoch(self, validation: float | None) -> None:
        place = self._place
        best = best_of(place.rows)
        is_best = validation is not None and (
            best is None or best.validation_nats is None or validation < best.validation_nats
        )
        if is_best:
            self._engine.keep_best()
        place.epoch += 1
        place.rows.append(
            Epoch(
                epoch=place.epoch,
                steps=place.steps,
                train_nats=place.nats / place.weight,
                validation_nats=validation,
                learning_rate=place.learning_rate,
                cpu_seconds=self._ranks.sum([time.process_time() - self._cpu_start])[0],
                best=is_best,
            )
        )
        place.step, place.nats, place.weight = 0, 0.0, 0.0
        place.stopped = self._reason_to_stop()
        if place.stopped:
            if best_of(place.rows) is not None:
                self._engine.use_best()
            self._check_result()
        if place.stopped or (self._checkpoints and self._checkpoints.due(epoch_end=True)):
            self._save()

    def _reason_to_stop(self) -> str | None:
        best = best_of(self._place.rows)
        if self._place.epoch >= self._max_epochs:
            return "max_epochs"
        if best is not None and self._place.epoch - best.epoch >= self._patience:
            return "patience"
        return None

    def _check_result(self) -> None:
        """Neither a step nor validation follows that would show what the parameters became."""
        nats, start = self._engine.sample_nats(), self._place.start_nats
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
            self._place.cpu_seconds = time.process_time() - self._cpu_start
            self._checkpoints.save(self._engine.state(), asdict(self._place))

    def _fail(self, message: str) -> NoReturn:
        best = best_of(self._place.rows)
        if best is not None:
            self._engine.use_best()
            message += f" The model has its best weights so far, those of epoch {best.epoch}."
        raise ExfamError(message)
