"""Places to write to, checked before the work that fills them."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from exfam.checks import ExfamError, check_path

# What the smallest model takes, its description and a checksum of its data included.
_LEAST = 1 << 18


def check_may_write(name: str, path: str | Path) -> None:
    """Raise ExfamError if no file or folder could be made at `path`."""
    check_path(name, path)
    folder = Path(os.path.abspath(path)).parent
    while not os.path.lexists(folder):
        folder = folder.parent
    if not folder.is_dir():
        raise ExfamError(f"`{name}` must lie in a folder, got {path}, but {folder} is a file.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ExfamError(f"`{name}` must lie where you may write, got {path} in {folder}.")


def check_model_place(path: str | Path, *, overwrite: bool) -> None:
    """Raise ExfamError if no model could be saved at `path`, before any work is done."""
    from exfam.estimator.storage import check_replaceable

    check_may_write("--output", path)
    try:
        check_replaceable(Path(path), overwrite=overwrite)
    except ExfamError as error:
        raise ExfamError(str(error).replace("`path`", "`output`", 1)) from error


def check_checkpoint(folder: str | None) -> None:
    """Raise ExfamError if no checkpoints could be written to the folder that was chosen."""
    if folder is not None:
        check_may_write("--checkpoint", folder)


def check_room(path: Path, n_numbers: int = 0) -> None:
    """Raise ExfamError if the disk at `path` has no room for a model of so many numbers."""
    folder = Path(os.path.abspath(path)).parent
    while not folder.is_dir():
        folder = folder.parent
    needed, free = _LEAST + 4 * n_numbers, shutil.disk_usage(folder).free
    if free < needed:
        raise ExfamError(
            f"`--output` must be on a disk with room for the model, about {_size(needed)}, got "
            f"{_size(free)} at {folder}. Free some space, or choose another disk."
        )


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 2**20:,.1f} MiB"


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
