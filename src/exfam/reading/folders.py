"""Prepared folders: where they are, and new ones."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from exfam.checks import DataError, ExfamError, check_path
from exfam.files import as_path
from exfam.folders import FolderKind, aside_of, replacing_folder

_AGAIN = "Prepare the folder again, or copy it anew from where it is whole."
PREPARED = FolderKind("prepared folder", "manifest.json", "exfam-prepared", 1, again=_AGAIN)


def is_prepared(path: Any) -> bool:
    """Whether there is a prepared folder at `path`, be it whole or damaged."""
    try:
        return isinstance(path, str | os.PathLike) and PREPARED.is_at(find_prepared(path))
    except (OSError, DataError):  # queries are no names of files
        return False


def find_prepared(path: str | os.PathLike[str]) -> Path:
    """Where the folder is: at `path`, or moved aside by a run that was killed right then."""
    folder = _resolved(path)
    aside = aside_of(folder)
    return aside if not os.path.exists(folder) and PREPARED.is_at(aside) else folder


@contextmanager
def new_folder(path: str | os.PathLike[str], *, overwrite: bool) -> Iterator[Path]:
    """An empty folder that is at `path` in the end, or is gone if anything was raised."""
    folder = _resolved(path)

    def check(there: Path) -> None:
        got = "a prepared folder at {}. Pass overwrite=True to replace it."
        PREPARED.check_free(there, overwrite=overwrite, got=got)

    try:
        with replacing_folder(folder, check=check, ours=_is_ours) as new:
            yield new
    except OSError as error:
        raise unwritable(error, folder, "columns") from error


def _is_ours(name: str) -> bool:
    return name == PREPARED.manifest or name.endswith((".npy", ".parquet"))


def unwritable(error: OSError, folder: Path, what: str) -> DataError:
    """The error where the operating system refuses to write."""
    return DataError(
        f"`folder` must be where {what} can be written, got {folder}: "
        f"{error.strerror or error}. Free some space, or choose another folder."
    )


def _resolved(path: str | os.PathLike[str]) -> Path:
    try:
        check_path("folder", path)
    except ExfamError as error:
        raise DataError(str(error)) from error
    return Path(os.path.realpath(as_path(path)))
