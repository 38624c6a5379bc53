"""Progress of a fit on a terminal; silence everywhere else."""

import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from exfam.training.history import Epoch, best_of

__all__ = ["EpochProgress", "describe"]

_SECONDS_BETWEEN_DRAWINGS = 0.1


class EpochProgress:
    """A line with epochs, current and best validation and time left.

    Drawn only where `console` is a terminal or a notebook, and only with `shown`. Without patience
    running out the time left is exact; early stopping only shortens it. `told`: what else to tell,
    such as words a second.
    """

    def __init__(
        self,
        *,
        shown: bool,
        max_epochs: int,
        console: Console | None = None,
        told: Callable[[], str] | None = None,
    ) -> None:
        console = Console(stderr=True) if console is None else console
        self.shown = shown and (console.is_terminal or console.is_jupyter)
        self.max_epochs = max_epochs
        self._console, self._told = console, told
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
        if self._told is not None:
            text += f"  {self._told()}"
        bar.update(self._task, completed=completed, description=text)
        bar.refresh()

    def say(self, text: str) -> None:
        """Print one line above the bar."""
        if self._bar is not None:
            self._bar.console.print(text)


def describe(rows: list[Epoch], *, max_epochs: int) -> str:
    """The text beside the bar.

    >>> describe([Epoch(1, 8, 3.9, 3.8, 3e-3, 0.2, True)], max_epochs=60)
    'epoch 1/60  validation 3.8000 nats (best 3.8000)'
    """
    if not rows:
        return f"epoch 0/{max_epochs}"
    text = f"epoch {rows[-1].epoch}/{max_epochs}  "
    best = best_of(rows)
    if best is None:
        return text + f"train {rows[-1].train_nats:.4f} nats"
    return text + (
        f"validation {rows[-1].validation_nats:.4f} nats (best {best.validation_nats:.4f})"
    )
