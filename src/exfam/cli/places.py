"""Places to write to, checked before the work that fills them."""

import os
from pathlib import Path

from exfam.checks import ExfamError

__all__ = ["check_model_place", "check_writable"]


def check_writable(name: str, path: Path) -> None:
    """Raise ExfamError if no file or folder could be made at `path`.

    >>> check_writable("--output", Path("model"))
    """
    folder = Path(os.path.abspath(path)).parent
    while not os.path.lexists(folder):
        folder = folder.parent
    if not folder.is_dir():
        raise ExfamError(f"`{name}` must lie in a folder, got {path}, but {folder} is a file.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ExfamError(f"`{name}` must lie where you may write, got {path} in {folder}.")


def check_model_place(path: Path, *, overwrite: bool) -> None:
    """Raise ExfamError if no model could be saved at `path`, before any work is done.

    >>> check_model_place(Path("not-there"), overwrite=False)
    """
    from exfam.models.storage import check_replaceable

    try:
        check_replaceable(path, overwrite=overwrite)
    except ExfamError as error:
        raise ExfamError(str(error).replace("`path`", "`output`", 1)) from error
    check_writable("--output", path)
