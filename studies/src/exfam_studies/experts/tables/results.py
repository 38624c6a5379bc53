"""Fits to tables, each measured on its test rows and kept, so that a break costs one."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from exfam_studies.common.result_store import ResultStore

__all__ = ["TableKey", "TableResult", "TableStore", "table_store"]


@dataclass(frozen=True)
class TableKey:
    """Which fit: to a task, of a model, with a seed or to a data set of that number.

    `part`: what it is measured on, or how columns are binned

    >>> TableKey("wine", "test", 0, "ridge").path.as_posix()
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
class TableResult:
    """What came of a fit: losses of the test rows, CPU seconds of the fit, what was chosen.

    `losses`: of all rows, or their mean alone, by (what is dropped, such as "0" or "0.1 cell";
        name of the loss)
    """

    key: TableKey
    losses: Mapping[tuple[str, str], Float[np.ndarray, "_"]]
    cpu_seconds: float
    chosen: Mapping[str, Any] = field(default_factory=dict)

    def mean(self, dropped: str, name: str) -> float:
        """The mean of a loss over the rows."""
        return float(self.losses[dropped, name].mean())


TableStore = ResultStore[TableKey, TableResult]


def table_store(folder: Path | None = None) -> TableStore:
    """A store of these results, as archives of arrays."""
    return ResultStore(folder, read=_read, dump=_dump)


def _dump(result: TableResult) -> bytes:
    head = {
        "key": asdict(result.key),
        "names": [list(name) for name in result.losses],
        "cpu_seconds": result.cpu_seconds,
        "chosen": dict(result.chosen),
    }
    arrays: dict[str, Any] = {f"losses{i}": rows for i, rows in enumerate(result.losses.values())}
    buffer = BytesIO()
    np.savez_compressed(buffer, head=np.array(json.dumps(head)), **arrays)
    return buffer.getvalue()


def _read(content: bytes) -> TableResult:
    with np.load(BytesIO(content), allow_pickle=False) as read:
        head = json.loads(str(read["head"]))
        losses = {(name[0], name[1]): read[f"losses{i}"] for i, name in enumerate(head["names"])}
    return TableResult(TableKey(**head["key"]), losses, head["cpu_seconds"], head["chosen"])
