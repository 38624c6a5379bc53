"""How far a fit is: a bar in terminals, a line of text in notebooks, both drawn over themselves.

Notebooks with ipywidgets show the bar too. Elsewhere, such as in logs, nothing is shown.
"""

import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from exfam.training.history import Epoch, best_of

_SECONDS_BETWEEN_DRAWINGS = 0.1
_BAR_LETTERS = 20


class _TerminalBar:
    """A bar of rich, in a terminal or, by ipywidgets, in a notebook."""

    def __init__(self, console: Console, *, transient: bool) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
        # No thread of its own: drawing between steps is enough and leaves the CPU to the fit.
        self._bar = Progress(*columns, console=console, auto_refresh=False, transient=transient)
        self._bar.start()
        self._task = self._bar.add_task("fit", total=1.0)

    def draw(self, text: str, share: float) -> None:
        self._bar.update(self._task, completed=share, description=text)
        self._bar.refresh()

    def say(self, text: str) -> None:
        self._bar.console.print(text)

    def stop(self) -> None:
        self._bar.stop()


class NotebookLine:
    """A line of text below a notebook's cell that is updated: a bar, what is done, seconds.

    `display`: that of IPython
    """

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._handle: Any = None
        self._start = time.monotonic()

    def draw(self, text: str, share: float) -> None:
        """Write the line, or write it anew."""
        filled = round(_BAR_LETTERS * min(max(share, 0.0), 1.0))
        bar = "━" * filled + "┄" * (_BAR_LETTERS - filled)
        seconds = time.monotonic() - self._start
        shown = {"text/plain": f"{bar} {share:4.0%}  {text}  {seconds:.1f} s"}
        if self._handle is None:
            self._handle = self._display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def say(self, text: str) -> None:
        """One line that stays, below."""
        self._display({"text/plain": text}, raw=True)

    def stop(self) -> None:
        """The last line stays as it is."""


_Bar = _TerminalBar | NotebookLine


def _open_bar(console: Console, *, transient: bool = False) -> _Bar:
    if console.is_jupyter and find_spec("ipywidgets") is None:
        from IPython.display import display

        return NotebookLine(display)
    return _TerminalBar(console, transient=transient)


def _is_seen(console: Console) -> bool:
    return console.is_terminal or console.is_jupyter


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
        self._console = Console(stderr=True) if console is None else console
        self.shown = shown and _is_seen(self._console)
        self.max_epochs = max_epochs
        self._extra = extra
        self._bar: _Bar | None = None
        self._drawn = 0.0
        self._latest: tuple[list[Epoch], float] = ([], 0.0)

    def __enter__(self) -> "EpochProgress":
        if self.shown:
            self._bar = _open_bar(self._console)
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

    def _draw_latest(self, bar: _Bar) -> None:
        self._drawn = time.monotonic()
        rows, fraction = self._latest
        completed = min(len(rows) + fraction, self.max_epochs)
        text = describe(rows, max_epochs=self.max_epochs)
        if self._extra is not None:
            text += f"  {self._extra()}"
        bar.draw(text, completed / max(1, self.max_epochs))

    def say(self, text: str) -> None:
        """Print one line, above the bar if there is one."""
        if self.shown:
            if self._bar is not None:
                self._bar.say(text)
            elif self._console.is_jupyter:
                print(text)
            else:
                self._console.print(text)


class StepProgress:
    """A line with what is done of `total` steps, which leaves a terminal when all are."""

    def __init__(
        self, text: str, *, total: int, shown: bool, console: Console | None = None
    ) -> None:
        self._console = Console(stderr=True) if console is None else console
        self._text, self._total, self._shown = text, total, shown and _is_seen(self._console)
        self._bar: _Bar | None = None
        self._done = 0
        self._drawn = 0.0

    def __enter__(self) -> "StepProgress":
        if self._shown:
            self._bar = _open_bar(self._console, transient=True)
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._draw(self._bar)
            self._bar.stop()

    def advance(self) -> None:
        """One step more is done."""
        self._done += 1
        if self._bar is not None and time.monotonic() - self._drawn >= _SECONDS_BETWEEN_DRAWINGS:
            self._draw(self._bar)

    def _draw(self, bar: _Bar) -> None:
        self._drawn = time.monotonic()
        done = f"{self._text} {self._done}/{self._total}"
        bar.draw(done, self._done / max(1, self._total))


def describe(rows: Sequence[Epoch], *, max_epochs: int) -> str:
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
