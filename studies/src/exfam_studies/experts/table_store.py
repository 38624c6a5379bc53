"""Results of single fits to coded tables: figures of the test rows."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from exfam_studies.common.result_store import ResultStore

__all__ = ["Key", "Result", "table_store"]


@dataclass(frozen=True)
class Key:
    """Which fit: of a task, its bins, its data set or seed, and a model.

    >>> Key("autompg", "pooled", 0, "ridge").path.as_posix()
    'autompg/pooled/00/ridge.json'
    """

    task: str
    bins: str
    number: int
    model: str

    @property
    def path(self) -> Path:
        """Where a store keeps the result, below its folder."""
        return Path(self.task, self.bins, f"{self.number:02}", f"{self.model}.json")


@dataclass(frozen=True)
class Result:
    """What came of a fit: test figures by name (None: not finite), CPU seconds, what was chosen.

    >>> Result(Key("autompg", "pooled", 0, "ridge"), {"nats": 1.0}, 0.1).figures
    {'nats': 1.0}
    """

    key: Key
    figures: Mapping[str, float | None]
    cpu_seconds: float
    chosen: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)


def table_store(folder: Path | None = None) -> ResultStore[Key, Result]:
    """A store of these results, as JSON.

    >>> store = table_store()
    >>> store.put(Result(Key("autompg", "pooled", 0, "ridge"), {"nats": 1.0}, 0.1))
    >>> store.get(Key("autompg", "pooled", 0, "ridge")).figures["nats"]
    1.0
    """
    return ResultStore(folder, read=_read, dump=_dump)


def _read(content: bytes) -> Result:
    read = json.loads(content)
    return Result(Key(**read["key"]), read["figures"], read["cpu_seconds"], read["chosen"])


def _dump(result: Result) -> bytes:
    return (json.dumps(asdict(result), allow_nan=False, indent=1) + "\n").encode()
