"""Where a text is prepared: beside its folder, in one that a later run finds and goes on with.

NAME is prepared in `.NAME.part` and renamed at the end; a folder that it replaces is first moved
aside, to `.NAME.old`.
"""

import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from exfam.checks import DataError
from exfam.files import lock_folder, sync, write_atomically

RECIPE, STATE = "recipe.json", "state.npz"


@contextmanager
def part_folder(folder: Path, *, recipe: str, resume: bool) -> Iterator[Path]:
    """Where `folder` is prepared; with what a run of the same recipe left there, if `resume`.

    Stays as it is if a run is interrupted, and is gone after a DataError.
    Raises DataError if another process is at it, or if no folder can be made there.
    """
    part = folder.with_name(f".{folder.name}.part")
    try:
        part.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"`folder` must be where a folder can be made, got {folder}: {error.strerror}."
        ) from error
    handle = _lock(part)
    try:
        file = part / RECIPE
        if not resume or not file.is_file() or file.read_text(encoding="utf-8") != recipe:
            clear(part, keep=())
            write_atomically(file, recipe)
        yield part
    except DataError:  # a run that goes on would meet the same: nothing is worth keeping
        shutil.rmtree(part, ignore_errors=True)
        raise
    except OSError as error:  # what is there is kept, to go on from
        raise DataError(
            f"`folder` must be where a text can be written, got {folder}: "
            f"{error.strerror or error}. Free some space, or choose another folder."
        ) from error
    finally:
        if handle is not None:
            os.close(handle)


def clear(folder: Path, *, keep: Collection[str]) -> None:
    """Remove all files of a folder but some; the state first, which speaks of the others."""
    for path in sorted(folder.iterdir(), key=lambda path: path.name != STATE):
        if path.name not in keep:
            path.unlink()


def put(part: Path, folder: Path) -> None:
    """Rename a prepared folder to its place; one that is there makes room only then."""
    for path in (*part.iterdir(), part):
        sync(path)
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        os.rename(folder, old)
    os.rename(part, folder)
    shutil.rmtree(old, ignore_errors=True)
    sync(folder.parent)


def _lock(part: Path) -> int | None:
    try:
        return lock_folder(part)
    except BlockingIOError:
        raise DataError(
            f"`folder` must not be prepared by two processes at once, got one at work in {part}."
        ) from None
