"""Files that are either whole or not there."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["atomic_path", "write_atomically"]


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
