"""Files that are either whole or not there, and folders that one process writes at a time."""

import errno
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # such a system has no locks of this kind
    fcntl = None  # type: ignore[assignment]

__all__ = ["atomic_path", "hold_folder", "lock_folder", "sync", "write_atomically"]


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A file beside `path` to be written to: renamed in when the block ends, removed if it raises.

    A reader never sees half a file. Missing folders above `path` are made.
    Raises OSError where the operating system refuses; `path` is then as it was.

    >>> folder = tempfile.mkdtemp()
    >>> with atomic_path(Path(folder, "rows.json")) as beside:
    ...     _ = beside.write_text("[]")
    >>> os.listdir(folder)
    ['rows.json']
    """
    path = Path(path)
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


def write_atomically(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write `content` beside `path`, then rename it in: a reader never sees half a file.

    Text is written as UTF-8. Missing folders above `path` are made.
    Raises OSError where the operating system refuses; `path` is then as it was.

    >>> folder = tempfile.mkdtemp()
    >>> write_atomically(Path(folder, "rows.json"), "[]").read_text()
    '[]'
    """
    with atomic_path(path) as beside:
        beside.write_bytes(content.encode() if isinstance(content, str) else content)
    return Path(path)


def lock_folder(folder: str | os.PathLike[str]) -> int | None:
    """A handle that locks the folder until it is closed; None where the system has no locks.

    The lock ends with the process. Raises OSError if another handle has it.

    >>> folder = tempfile.mkdtemp()
    >>> handle = lock_folder(folder)
    >>> if handle is not None:
    ...     os.close(handle)
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

    >>> with hold_folder(tempfile.mkdtemp()):
    ...     pass
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

    >>> sync(tempfile.mkdtemp())
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
