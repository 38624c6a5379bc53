"""Fits to tables with a natural shift, each measured row by row, kept so that a break costs one."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from exfam.checks import DataError
from exfam.files import write_atomically

__all__ = ["ShiftKey", "ShiftResult", "ShiftStore"]

# A place (how many cells are dropped, and how) and a loss -> the loss of each row.
Losses = Mapping[tuple[str, str], Float[np.ndarray, "rows"]]


@dataclass(frozen=True)
class ShiftKey:
    """Which fit: to a task, of a model, with a seed; `part` is what it is measured on.

    >>> ShiftKey("wine", "test", 0, "ridge").path.as_posix()
    'wine/test/00/ridge.npz'
    """

    task: str
    part: str
    number: int
    model: str

    @property
    def path(self) -> Path:
        """Where a store keeps the result, below its folder."""
        return Path(self.task, self.part, f"{self.number:02}", f"{self.model}.npz")


@dataclass(frozen=True, eq=False)
class ShiftResult:
    """What came of a fit: losses of all rows, CPU seconds of the fit, what was chosen.

    `losses`: by place (how many cells are dropped, and how) and name

    >>> key = ShiftKey("wine", "test", 0, "ridge")
    >>> float(ShiftResult(key, {("0", "nats"): np.array([1.0, 2.0])}, 0.1).mean("0", "nats"))
    1.5
    """

    key: ShiftKey
    losses: Losses
    cpu_seconds: float
    chosen: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)

    def mean(self, place: str, name: str) -> float:
        """The mean of a loss over the rows."""
        return float(self.losses[place, name].mean())


class ShiftStore:
    """One file of arrays a result in a folder; without a folder they are kept while it lives.

    >>> store = ShiftStore()
    >>> key = ShiftKey("wine", "test", 0, "ridge")
    >>> store.put(ShiftResult(key, {}, 0.1))
    >>> store.get(key).cpu_seconds
    0.1
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._kept: dict[ShiftKey, ShiftResult] = {}

    def get(self, key: ShiftKey) -> ShiftResult | None:
        """The result of a fit; None if there is none yet.

        Raises DataError if its file cannot be read.
        """
        if key in self._kept or self.folder is None:
            return self._kept.get(key)
        path = self.folder / key.path
        if not path.is_file():
            return None
        try:
            result = _read(path)
        # A damaged archive has many ways to fail.
        except Exception as error:
            raise DataError(
                f"`folder` must hold results as they were written, got another file at {path} "
                f"({error!r}). Remove that file to fit the model again."
            ) from error
        self._kept[key] = result
        return result

    def put(self, result: ShiftResult) -> None:
        """Keep a result; its file is either whole or not there."""
        self._kept[result.key] = result
        if self.folder is None:
            return
        names = [list(name) for name in result.losses]
        told = {
            "key": asdict(result.key),
            "names": names,
            "cpu_seconds": result.cpu_seconds,
            "chosen": dict(result.chosen),
        }
        arrays: dict[str, Any] = {
            f"losses{place}": rows for place, rows in enumerate(result.losses.values())
        }
        buffer = BytesIO()
        np.savez_compressed(buffer, told=np.array(json.dumps(told)), **arrays)
        write_atomically(self.folder / result.key.path, buffer.getvalue())


def _read(path: Path) -> ShiftResult:
    with np.load(path, allow_pickle=False) as read:
        told = json.loads(str(read["told"]))
        losses = {
            (name[0], name[1]): read[f"losses{place}"] for place, name in enumerate(told["names"])
        }
    key = ShiftKey(**told["key"])
    return ShiftResult(key, losses, told["cpu_seconds"], told["chosen"])
