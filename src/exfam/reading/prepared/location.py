"""Where a prepared folder is written, so that nobody ever sees half of one.

A folder is written beside its place under a name of its own, `.NAME.new-…`, and renamed in; the one
it replaces is first moved aside to `.NAME.old`. What a killed run left is removed or put right by
the next one; until then the old folder is found where it was moved to.
"""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from exfam.checks import DataError, ExfamError, check_path
from exfam.files import lock_folder, sync
from exfam.reading.prepared.manifest import PREPARED


def found(path: str | os.PathLike[str]) -> Path:
    """Where the folder is: at `path`, or moved aside by a run that was killed right then."""
    place = _resolved(path)
    return _old(place) if not os.path.exists(place) and PREPARED.is_at(_old(place)) else place


@contextmanager
def new_folder(path: str | os.PathLike[str], *, overwrite: bool) -> Iterator[Path]:
    """An empty folder that takes its place at the end, or is gone if anything was raised.

    Raises DataError if something is there already, unless it is a prepared folder and `overwrite`.
    """
    place = _resolved(path)
    _check_free(place, overwrite=overwrite)
    new = place.with_name(f".{place.name}.new-{secrets.token_hex(4)}")
    try:
        new.mkdir(parents=True)
    except OSError as error:
        raise DataError(
            f"`folder` must be where a folder can be made, got {place}: {error.strerror}."
        ) from error
    handle = _lock(new)
    try:
        _remove_abandoned(place)
        yield new
        for file in new.iterdir():
            sync(file)
        sync(new)
        _check_free(place, overwrite=overwrite)
        _put(new, place)
    except OSError as error:
        raise DataError(
            f"`folder` must be where columns can be written, got {place}: "
            f"{error.strerror or error}. Free some space, or choose another folder."
        ) from error
    finally:
        shutil.rmtree(new, ignore_errors=True)  # not there any more if all went well
        _unlock(handle)
    sync(place.parent)


def _resolved(path: str | os.PathLike[str]) -> Path:
    try:
        check_path("folder", path)
    except ExfamError as error:
        raise DataError(str(error)) from error
    return Path(os.path.realpath(path))


def _old(place: Path) -> Path:
    return place.parent / f".{place.name}.old"


def _check_free(place: Path, *, overwrite: bool) -> None:
    there = found(place)
    if not there.exists() or (there.is_dir() and not any(there.iterdir())):
        return
    if not PREPARED.is_at(there):
        raise DataError(
            f"`folder` must be free or a prepared folder, got something else at {place}. Choose "
            "another place, or remove what is there."
        )
    if not overwrite:
        raise DataError(
            f"`folder` must be free, got a prepared folder at {place}. Pass overwrite=True to "
            "replace it."
        )


def _put(new: Path, place: Path) -> None:
    there, old = found(place), _old(place)
    if there.exists():
        _carry_over(there, new)
    if there == place and place.exists():
        shutil.rmtree(old, ignore_errors=True)
        os.rename(place, old)
    try:
        os.rename(new, place)
    except BaseException:
        if old.exists():
            os.rename(old, place)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _carry_over(old: Path, new: Path) -> None:
    """Copy what somebody added to the folder that is replaced."""
    for entry in old.iterdir():
        if entry.name == PREPARED.manifest or entry.suffix in (".npy", ".parquet"):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.copytree(entry, new / entry.name, symlinks=True)
        else:
            shutil.copy2(entry, new / entry.name, follow_symlinks=False)


def _remove_abandoned(place: Path) -> None:
    """Remove what killed runs left unfinished: nobody holds their locks any more."""
    for left in place.parent.iterdir():
        if left.name.startswith(f".{place.name}.new-"):
            handle = _lock(left)
            if handle is not None:
                shutil.rmtree(left, ignore_errors=True)
            _unlock(handle)


def _lock(folder: Path) -> int | None:
    """A handle that locks the folder until it is closed; None if another has it."""
    try:
        return lock_folder(folder)
    except OSError:
        return None


def _unlock(handle: int | None) -> None:
    if handle is not None:
        os.close(handle)
