"""Files and folders to write to, checked before the work that fills them."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from exfam.checks import ExfamError, check_path
from exfam.cli.errors import reworded
from exfam.files import as_path

# What the smallest model takes, its description and a checksum of its data included.
_LEAST = 1 << 18


def check_may_write(name: str, path: str | Path) -> None:
    """Raise ExfamError if no file or folder could be made at `path`."""
    check_path(name, path)
    folder = _first_above(path, os.path.lexists)
    if not folder.is_dir():
        raise ExfamError(f"`{name}` must lie in a folder, got {path}, but {folder} is a file.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ExfamError(f"`{name}` must lie where you may write, got {path} in {folder}.")


def _first_above(path: str | Path, is_one: Callable[[Path], bool]) -> Path:
    """The nearest of the folders above a path that is one."""
    folder = Path(os.path.abspath(as_path(path))).parent
    return next(above for above in (folder, *folder.parents) if is_one(above))


def check_output_file(path: str | Path) -> None:
    """Raise ExfamError if no file could be written at the `path` that `--output` names."""
    check_may_write("--output", path)
    if Path(path).is_dir():
        raise ExfamError(f"`--output` must be a file, got a folder at {path}.")


def check_output_model(path: str, *, overwrite: bool) -> None:
    """Raise ExfamError if no model could be saved at `path`, before any work is done."""
    from exfam.estimator.storage import check_replaceable

    check_may_write("--output", path)
    with reworded({"`path`": "`output`"}):
        check_replaceable(Path(path), overwrite=overwrite)


def check_room(path: Path, n_numbers: int = 0) -> None:
    """Raise ExfamError if the disk at `path` has no room for a model of so many numbers."""
    folder = _first_above(path, os.path.isdir)
    needed, free = _LEAST + 4 * n_numbers, shutil.disk_usage(folder).free
    if free < needed:
        raise ExfamError(
            "`--output` must be on a disk with room for the model, about "
            f"{needed / 2**20:,.1f} MiB, got {free / 2**20:,.1f} MiB at {folder}. Free some space, "
            "or choose another disk."
        )


def save_or_keep(estimator: Any, output: str, *, overwrite: bool) -> None:
    """Save a fitted model; where that fails, keep it in the first other folder that takes it.

    Those are the temporary directory, the home and the working directory.
    Raises ExfamError that says why it could not be saved, and where it is kept.
    """
    try:
        estimator.save(output, overwrite=overwrite)
    except (OSError, ValueError) as error:  # also errors of names, which are no ExfamError
        kept = _kept(estimator)
        where = f"The fit is kept in {kept}." if kept else "No other folder has room for it either."
        message = str(error).replace("`path`", "`--output`", 1)
        raise ExfamError(f"{message} {where}") from error


def _kept(estimator: Any) -> Path | None:
    """A new folder that holds the model now, None if there is no room for one."""
    for parent in (Path(tempfile.gettempdir()), Path(os.path.expanduser("~")), Path.cwd()):
        try:
            folder = Path(tempfile.mkdtemp(prefix="exfam-fit-", dir=parent))
        except OSError:
            continue
        try:
            estimator.save(folder)
        except (OSError, ValueError):
            shutil.rmtree(folder, ignore_errors=True)
            continue
        return folder
    return None
