"""Files that are either whole or not there, and folders that one process writes at a time."""

import errno
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from exfam.checks import ExfamError, check_path

try:
    import fcntl
except ImportError:  # such a system has no locks of this kind
    fcntl = None  # type: ignore[assignment]

_SCRATCH = "exfam-scratch-"


def as_path(path: str | os.PathLike[str]) -> Path:
    """The path, with the user's folder for a ~ that it begins with, as in a shell."""
    return Path(os.path.expanduser(path))


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A file beside `path` to be written to: renamed in when the block ends, removed if it raises.

    A reader never sees half a file. Missing folders above `path` are made.
    Raises OSError where the operating system refuses, ExfamError for a `path` that no system takes;
    what was there is then as it was.
    """
    check_path("path", path)
    path = as_path(path)
    if path.is_dir():
        raise ExfamError(f"`path` must be a file, got the folder {path}. Add the file's name.")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    try:
        yield Path(beside)
        with open(beside, "rb+") as file:
            os.fsync(file.fileno())
        os.chmod(beside, 0o644)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def check_page_path(name: str, path: str | os.PathLike[str]) -> None:
    """Raise ExfamError for a page's path that ends as files of another kind do."""
    check_path(name, path)
    suffix = Path(path).suffix
    if suffix.lower() not in ("", ".html", ".htm"):
        page = Path(path).with_suffix(".html").name
        raise ExfamError(
            f"`{name}` must end in .html, since a page is written in HTML alone, got {suffix!r} in "
            f"{path}. Name it {page}; browsers print pages as PDF."
        )


def write_atomically(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write `content` beside `path`, then rename it in: a reader never sees half a file.

    Text is written as UTF-8. Missing folders above `path` are made.
    Raises OSError where the operating system refuses; `path` is then as it was.
    """
    with atomic_path(path) as beside:
        beside.write_bytes(content.encode() if isinstance(content, str) else content)
    return as_path(path)


def is_inside(file: Path) -> bool:
    """Whether a file is in its folder, and no link to one elsewhere."""
    return file.resolve().is_relative_to(file.parent.resolve())


def lock_folder(folder: str | os.PathLike[str]) -> int | None:
    """A handle that locks the folder until it is closed; None where the system has no locks.

    The lock ends with the process. Raises OSError if another handle has it.
    """
    if fcntl is None:
        return None
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle


@contextmanager
def hold_folder(folder: str | os.PathLike[str], *, seconds: float = 60.0) -> Iterator[None]:
    """Lock the folder for the length of the block, after all others that hold it.

    Where the system, or the disk, has no locks, the block runs without one.
    Raises TimeoutError if others hold the folder for so many `seconds`.
    """
    handle = _waited_for(folder, until=time.monotonic() + seconds)
    try:
        yield
    finally:
        if handle is not None:
            # A child that was forked meanwhile has the handle too: closing alone is not enough.
            fcntl.flock(handle, fcntl.LOCK_UN)
            os.close(handle)


def _waited_for(folder: str | os.PathLike[str], *, until: float) -> int | None:
    while True:
        try:
            return lock_folder(folder)
        except BlockingIOError as error:
            if time.monotonic() > until:
                raise TimeoutError(
                    errno.ETIMEDOUT, f"Another process is at work in {folder}"
                ) from error
        except OSError:  # network disks may have no locks for folders
            return None
        time.sleep(0.005)


def sync(path: str | os.PathLike[str]) -> None:
    """Force a file, or the names in a folder, to the disk.

    Raises OSError where the operating system refuses.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder in the temporary directory that is gone when the block ends.

    What processes that were killed left there is removed first.
    """
    folder, remove = new_scratch_folder()
    try:
        yield folder
    finally:
        remove()


def new_scratch_folder() -> tuple[Path, Callable[[], None]]:
    """A folder as `scratch_folder` makes it, and the function that removes it.

    The folder is locked as long as it is there, so that others know it is in use.
    Raises OSError where the operating system refuses.
    """
    _remove_abandoned_scratch()
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_SCRATCH))
        # Another process may take it for abandoned before it is locked.
        with suppress(BlockingIOError, FileNotFoundError):
            handle = lock_if_possible(folder)
            if folder.is_dir():
                break
            release(handle)

    def remove() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        release(handle)

    return folder, remove


def _remove_abandoned_scratch() -> None:
    """Remove the scratch folders of this user that no process holds."""
    if fcntl is None:
        return
    for left in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*"):
        with suppress(OSError):
            if left.is_symlink() or left.stat().st_uid != os.getuid():
                continue
            handle = lock_folder(left)
            shutil.rmtree(left, ignore_errors=True)
            release(handle)


def lock_if_possible(folder: Path) -> int | None:
    """The lock of a folder; None where system or disk have none. As `lock_folder` if it is held."""
    try:
        return lock_folder(folder)
    except (BlockingIOError, FileNotFoundError):
        raise
    except OSError:  # network disks may have no locks for folders
        return None


def release(handle: int | None) -> None:
    """End the lock of a folder, if there is one."""
    if handle is not None:
        os.close(handle)
