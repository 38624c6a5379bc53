"""Fits to tables with a natural shift, each measured row by row, kept so that a break costs one."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from exfam_studies.common.result_store import ResultStore

__all__ = ["ShiftKey", "ShiftResult", "shift_store"]

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


def shift_store(folder: Path | None = None) -> ResultStore[ShiftKey, ShiftResult]:
    """A store of these results, as archives of arrays.

    >>> store = shift_store()
    >>> key = ShiftKey("wine", "test", 0, "ridge")
    >>> store.put(ShiftResult(key, {}, 0.1))
    >>> store.get(key).cpu_seconds
    0.1
    """
    return ResultStore(folder, read=_read, dump=_dump)


def _dump(result: ShiftResult) -> bytes:
    told = {
        "key": asdict(result.key),
        "names": [list(name) for name in result.losses],
        "cpu_seconds": result.cpu_seconds,
        "chosen": dict(result.chosen),
    }
    arrays: dict[str, Any] = {
        f"losses{place}": rows for place, rows in enumerate(result.losses.values())
    }
    buffer = BytesIO()
    np.savez_compressed(buffer, told=np.array(json.dumps(told)), **arrays)
    return buffer.getvalue()


def _read(content: bytes) -> ShiftResult:
    with np.load(BytesIO(content), allow_pickle=False) as read:
        told = json.loads(str(read["told"]))
        losses = {
            (name[0], name[1]): read[f"losses{place}"] for place, name in enumerate(told["names"])
        }
    key = ShiftKey(**told["key"])
    return ShiftResult(key, losses, told["cpu_seconds"], told["chosen"])
