"""Results of single fits, kept in a folder so that an interrupted experiment goes on."""

from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, TypeVar, runtime_checkable

from exfam.checks import DataError
from exfam.files import write_atomically

__all__ = ["Key", "Result", "ResultStore"]


@runtime_checkable
class Key(Protocol):
    """Which fit; hashable."""

    @property
    def path(self) -> Path:
        """Where a store keeps the result, below its folder."""
        ...


@runtime_checkable
class Result(Protocol):
    """What came of a fit."""

    @property
    def key(self) -> Key:
        """Which fit it was."""
        ...


KeyT = TypeVar("KeyT", bound=Key)
ResultT = TypeVar("ResultT", bound=Result)


class ResultStore(Generic[KeyT, ResultT]):
    """One file a result in a folder; without a folder results are kept while it lives.

    `read` makes a result of what `dump` wrote, and may fail in any way on anything else.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        read: Callable[[bytes], ResultT],
        dump: Callable[[ResultT], bytes],
    ) -> None:
        self.folder = folder
        self._read, self._dump = read, dump
        self._kept: dict[Key, ResultT] = {}

    def get(self, key: KeyT) -> ResultT | None:
        """The result of a fit; None if there is none yet.

        Raises DataError if its file cannot be read.
        """
        if key in self._kept or self.folder is None:
            return self._kept.get(key)
        path = self.folder / key.path
        if not path.is_file():
            return None
        try:
            result = self._read(path.read_bytes())
        # A damaged file has many ways to fail.
        except Exception as error:
            raise DataError(
                f"`folder` must hold results as they were written, got another file at {path} "
                f"({error!r}). Remove that file to fit the model again."
            ) from error
        self._kept[key] = result
        return result

    def put(self, result: ResultT) -> None:
        """Keep a result; its file is either whole or not there."""
        self._kept[result.key] = result
        if self.folder is not None:
            write_atomically(self.folder / result.key.path, self._dump(result))
