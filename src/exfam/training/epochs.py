"""The engine of compiled loops: passes over a text in pieces, by one thread or several.

Nothing here imports torch.
"""

import hashlib
import math
import mmap
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int32

from exfam.checks import DataError, check_choice, check_positive, check_whole
from exfam.training.checkpoints import Checkpoint, CheckpointFolder
from exfam.training.history import History
from exfam.training.progress import EpochProgress
from exfam.training.protocol import Run, Sums

# Windows end at the ends of pieces: of so many tokens few windows are cut.
_PIECE = 10_000
# A short text has as many pieces an epoch, so that the learning rate falls smoothly, but none so
# short that most windows are cut.
_LEAST_PIECES, _SHORTEST_PIECE = 50, 200
# Threads wait for each other at the end of a step.
_PIECES_PER_THREAD_AND_STEP = 32


@runtime_checkable
class Piece(Protocol):
    """Train on a piece of text, in place; releases the interpreter's lock while it does."""

    def __call__(self, tokens: np.ndarray, *, rate: float, seed: int) -> Sums:
        """Nats and how many yes and no they are of, at the rate and with the draws given."""


@dataclass(frozen=True)
class EpochSettings:
    """How a text is gone through.

    `learning_rate`: of the first piece; falls linearly to `last_share` of it
    `epochs`: passes over the text
    `threads`: "auto" for all processors that the process may use, or a number. Several write to the
        same vectors without locks, so that results are not the same bits twice (Hogwild)
    `seed`: of all that is drawn; draws are the same for any number of threads
    """

    learning_rate: float
    epochs: int
    threads: int | str
    seed: int
    last_share: float = 4e-3

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)
        for name, least in (("epochs", 1), ("seed", 0)):
            check_whole(name, getattr(self, name), least=least)
        if isinstance(self.threads, str):
            check_choice("threads", self.threads, ["auto"])
        else:
            check_whole("threads", self.threads)


def usable_threads(threads: int | str) -> int:
    """How many threads "auto" means: one a processor that the process may use."""
    if threads != "auto":
        return int(threads)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class TextEngine:
    """Pieces of text in their order, a few to a step: the engine of a `Run`.

    `arrays`: all that `train` changes, by name. Of a step, pieces are shared among the threads.
    Raises DataError at the end of an epoch that had nothing to learn from.
    """

    def __init__(
        self,
        train: Piece,
        *,
        tokens: Int32[np.ndarray, "tokens"],
        arrays: Mapping[str, np.ndarray],
        settings: EpochSettings,
    ) -> None:
        self.train, self.tokens, self.settings = train, tokens, settings
        self._arrays = dict(arrays)
        self._best: dict[str, np.ndarray] = {}
        self._size = min(_PIECE, max(_SHORTEST_PIECE, -(-len(tokens) // _LEAST_PIECES)))
        self._n_pieces = -(-len(tokens) // self._size)
        self._threads = usable_threads(settings.threads)
        self._per_step = self._threads * _PIECES_PER_THREAD_AND_STEP
        self._epoch = 0
        self.learning_rate = 0.0  # of the last piece of the last step
        self._tokens_done, self._started = 0, time.monotonic()
        # Of the epoch; NaN where it was begun by another process.
        self._weight = math.nan

    def pace(self) -> str:
        """Codes of words a second since training began or went on."""
        seconds = max(time.monotonic() - self._started, 1e-9)
        return f"{self._tokens_done / seconds:,.0f} words/s"

    def begin_epoch(self, epoch: int) -> int:
        self._epoch = epoch
        if self._tokens_done == 0:
            self._started = time.monotonic()
        return -(-self._n_pieces // self._per_step)

    def step(self, index: int) -> Sums:
        first = index * self._per_step
        pieces = range(first, min(first + self._per_step, self._n_pieces))
        if self._threads == 1:
            results = [self._piece(piece) for piece in pieces]
        else:
            with ThreadPoolExecutor(self._threads) as threads:
                results = list(threads.map(self._piece, pieces))
        self.learning_rate = self._rate(pieces[-1])
        _forget(self.tokens)
        self._tokens_done += len(pieces) * self._size
        weight = sum(weight for _, weight in results)
        self._weight = weight + (self._weight if index else 0.0)
        if self._weight == 0 and pieces[-1] == self._n_pieces - 1:
            raise DataError(
                f"The text must have words beside each other, got none in epoch {self._epoch + 1} "
                "after frequent words were left out. Take more text, or `subsample=0`."
            )
        return sum(nats for nats, _ in results), weight

    def _piece(self, piece: int) -> Sums:
        # A copy: the text may be a file that cannot be written, another type to compiled code.
        tokens = np.array(self.tokens[piece * self._size : (piece + 1) * self._size])
        seeds = np.random.SeedSequence([self.settings.seed, self._epoch, piece])
        seed = int(seeds.generate_state(1, np.uint64)[0])
        return self.train(tokens, rate=self._rate(piece), seed=seed)

    def _rate(self, piece: int) -> float:
        done = (self._epoch + piece / self._n_pieces) / self.settings.epochs
        return self.settings.learning_rate * (1.0 - (1.0 - self.settings.last_share) * done)

    def outstanding(self) -> Sums:
        """None: every step returns its own."""
        return 0.0, 0.0

    def validation(self) -> Iterator[Sums] | None:
        """None: all epochs are trained."""
        return None

    def is_over(self) -> bool:
        """Never: all epochs are trained."""
        return False

    def keep_best(self) -> None:
        self._best = {name: array.copy() for name, array in self._arrays.items()}

    def use_best(self) -> None:
        self.load_state(self._best)

    def sample_nats(self) -> float:
        """0, since no text is scored; NaN if an array holds a number that is not finite."""
        arrays = [array for array in self._arrays.values() if array.dtype.kind == "f"]
        return 0.0 if all(math.isfinite(float(abs(a).max(initial=0))) for a in arrays) else math.nan

    def state(self) -> dict[str, np.ndarray]:
        return dict(self._arrays)

    def load_state(self, state: Mapping[str, np.ndarray]) -> None:
        for name, array in self._arrays.items():
            array[...] = state[name]


def fit_text(
    train: Piece,
    *,
    tokens: Int32[np.ndarray, "tokens"],
    arrays: Mapping[str, np.ndarray],
    settings: EpochSettings,
    progress: bool = True,
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
) -> History:
    """Train `arrays` in place by passes of `train` over the text.

    Ctrl-C stops after the step at hand and keeps what was learned. A fit that was killed or stopped
    and is called again with the same `checkpoint` and arguments goes on from there: with one thread
    to the same bits as one that was not. A finished one is returned.
    Raises ExfamError if the nats stop being finite, CheckpointError if the checkpoint belongs to
    another fit.
    """
    engine = TextEngine(train, tokens=tokens, arrays=arrays, settings=settings)
    checkpoints = None
    if checkpoint is not None:
        facts: dict[str, Any] = {f"shape of {name}": list(a.shape) for name, a in arrays.items()}
        facts |= {f"initial {name}": _digest(array) for name, array in arrays.items()}
        facts |= asdict(settings) | {"text": _digest(tokens)}
        checkpoints = CheckpointFolder.of(checkpoint, fingerprint=facts)
    bar = EpochProgress(shown=progress, max_epochs=settings.epochs, extra=engine.pace)
    return Run(
        engine,
        max_epochs=settings.epochs,
        patience=settings.epochs,
        progress=bar,
        checkpoints=checkpoints,
    ).train()


def _forget(tokens: np.ndarray) -> None:
    """Give back the memory of a file's pages that were read; they are read again when needed."""
    base: Any = tokens
    while isinstance(base, np.ndarray):
        base = base.base
    # What was written to a private copy would be lost.
    if isinstance(base, mmap.mmap) and not tokens.flags.writeable and hasattr(base, "madvise"):
        base.madvise(mmap.MADV_DONTNEED)


def _digest(array: np.ndarray) -> str:
    total = hashlib.sha256(array.dtype.str.encode())
    # In parts: a mapped file is never whole in memory.
    for first in range(0, len(array), 1 << 20):
        total.update(np.ascontiguousarray(array[first : first + (1 << 20)]).data)
    return total.hexdigest()[:16]
