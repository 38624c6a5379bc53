"""Results of single fits, kept in a folder so that an interrupted experiment goes on."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from exfam.checks import DataError
from exfam.files import write_atomically

__all__ = ["Key", "Result", "Store"]


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


class Store:
    """One JSON file a result in a folder; without a folder results are kept while it lives.

    >>> store = Store()
    >>> store.put(Result(Key("autompg", "pooled", 0, "ridge"), {"nats": 1.0}, 0.1))
    >>> store.get(Key("autompg", "pooled", 0, "ridge")).figures["nats"]
    1.0
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._kept: dict[Key, Result] = {}

    def get(self, key: Key) -> Result | None:
        """The result of a fit; None if there is none yet.

        Raises DataError if its file cannot be read.
        """
        if key in self._kept or self.folder is None:
            return self._kept.get(key)
        path = self.folder / key.path
        if not path.is_file():
            return None
        try:
            read = json.loads(path.read_text(encoding="utf-8"))
            result = Result(
                Key(**read["key"]), read["figures"], read["cpu_seconds"], read["chosen"]
            )
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"`folder` must hold results as they were written, got another file at {path} "
                f"({error!r}). Remove that file to fit the model again."
            ) from error
        self._kept[key] = result
        return result

    def put(self, result: Result) -> None:
        """Keep a result; its file is either whole or not there."""
        self._kept[result.key] = result
        if self.folder is not None:
            text = json.dumps(asdict(result), allow_nan=False, indent=1)
            write_atomically(self.folder / result.key.path, text + "\n")
