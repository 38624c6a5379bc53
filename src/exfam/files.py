"""Files that are either whole or not there."""

import os
import tempfile
from pathlib import Path

__all__ = ["write_atomically"]


def write_atomically(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write `content` beside `path`, then rename it in: a reader never sees half a file.

    Text is written as UTF-8. Missing folders above `path` are made.
    Raises OSError where the operating system refuses; `path` is then as it was.

    >>> folder = tempfile.mkdtemp()
    >>> write_atomically(Path(folder, "rows.json"), "[]").read_text()
    '[]'
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    handle, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(beside, 0o644)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
    return path
