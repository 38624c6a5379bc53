"""What happened in a fit, epoch by epoch, and the line that shows it in a terminal."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


@dataclass(frozen=True)
class Epoch:
    """One completed epoch.

    `steps` and `cpu_seconds` count from the start of the fit. `train_nats` is the mean loss over
    the epoch's batches while they were trained on, `validation_nats` that of the epoch's end (None
    without validation groups), both in nats a unit of weight. `best`: lowest validation so far.
    """

    epoch: int
    steps: int
    train_nats: float
    validation_nats: float | None
    learning_rate: float
    cpu_seconds: float
    best: bool


@dataclass(frozen=True)
class History:
    """The completed epochs of a fit and why it ended: "max_epochs", "patience" or "interrupted"."""

    rows: tuple[Epoch, ...]
    stopped: str

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the fit."""
        return self.stopped == "interrupted"

    @property
    def best(self) -> Epoch | None:
        """The epoch whose weights were kept; None without validation, where the last are."""
        return best_of(self.rows)

    @property
    def steps(self) -> int:
        """Optimizer steps of the completed epochs."""
        return self.rows[-1].steps if self.rows else 0

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of the completed epochs, all threads together."""
        return self.rows[-1].cpu_seconds if self.rows else 0.0

    def to_dict(self) -> dict[str, list[Any]]:
        """One list a column."""
        return {
            field.name: [getattr(row, field.name) for row in self.rows] for field in fields(Epoch)
        }

    def to_config(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"rows": [asdict(row) for row in self.rows], "stopped": self.stopped}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "History":
        """The history that `to_config` wrote."""
        return cls(tuple(Epoch(**row) for row in config["rows"]), config["stopped"])


def best_of(rows: Sequence[Epoch]) -> Epoch | None:
    """The last row that was the best so far."""
    return next((row for row in reversed(rows) if row.best), None)


_SECONDS_BETWEEN_DRAWINGS = 0.1


class EpochProgress:
    """A line with epochs, current and best validation and time left.

    Drawn only where `console` is a terminal or a notebook, and only with `shown`. Early stopping
    shortens the time left. `extra`: what else to show, such as words a second.
    """

    def __init__(
        self,
        *,
        shown: bool,
        max_epochs: int,
        console: Console | None = None,
        extra: Callable[[], str] | None = None,
    ) -> None:
        console = Console(stderr=True) if console is None else console
        self.shown = shown and (console.is_terminal or console.is_jupyter)
        self.max_epochs = max_epochs
        self._console, self._extra = console, extra
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._drawn = 0.0
        self._latest: tuple[list[Epoch], float] = ([], 0.0)

    def __enter__(self) -> "EpochProgress":
        if self.shown:
            columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
            # No thread of its own: drawing between steps is enough and leaves the CPU to the fit.
            self._bar = Progress(*columns, console=self._console, auto_refresh=False)
            self._bar.start()
            self._task = self._bar.add_task("fit", total=self.max_epochs)
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._draw_latest(self._bar)
            self._bar.stop()

    def draw(self, rows: list[Epoch], *, fraction: float = 0.0) -> None:
        """Show the completed epochs and the `fraction` of the next one that is done."""
        if self._bar is None:
            return
        self._latest = rows, fraction
        if time.monotonic() - self._drawn >= _SECONDS_BETWEEN_DRAWINGS:
            self._draw_latest(self._bar)

    def _draw_latest(self, bar: Progress) -> None:
        self._drawn = time.monotonic()
        rows, fraction = self._latest
        completed = min(len(rows) + fraction, self.max_epochs)
        text = describe(rows, max_epochs=self.max_epochs)
        if self._extra is not None:
            text += f"  {self._extra()}"
        bar.update(self._task, completed=completed, description=text)
        bar.refresh()

    def say(self, text: str) -> None:
        """Print one line, above the bar if there is one."""
        if self.shown:
            self._console.print(text)


def describe(rows: list[Epoch], *, max_epochs: int) -> str:
    """The text beside the bar."""
    if not rows:
        return f"epoch 0/{max_epochs}"
    text = f"epoch {rows[-1].epoch}/{max_epochs}  "
    best = best_of(rows)
    if best is None:
        return text + f"train {rows[-1].train_nats:.4f} nats"
    return text + (
        f"validation {rows[-1].validation_nats:.4f} nats (best {best.validation_nats:.4f})"
    )
