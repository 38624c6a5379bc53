"""Folders that replace others whole, however many processes write and read them.

A folder is written beside the old one under a name of its own, `.NAME.new-…`, locked by its writer,
and renamed in; the old one is first moved aside to `.NAME.old`. Whoever renames holds a lock on the
folder above. What killed writers left is put right or removed by the next one; until then the old
folder is found where it was moved to.
"""

import os
import re
import secrets
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from exfam.files import hold_folder, lock_folder, sync

Result = TypeVar("Result")


@contextmanager
def replacing_folder(
    path: Path, *, check: Callable[[Path], None], ours: Collection[str]
) -> Iterator[Path]:
    """An empty folder that takes the place of `path` at the end, or is gone if anything is raised.

    `check` raises if `path` may not be replaced. Files of the old folder that are not `ours` are
    carried over. Raises OSError where the operating system refuses; `path` is then as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with hold_folder(path.parent):
        _roll_back(path)
        check(path)
        _remove_abandoned(path)
        new = _unused(path)
        new.mkdir()
        handle = lock_folder(new)
    try:
        yield new
        sync(new)
        with hold_folder(path.parent):
            _roll_back(path)
            check(path)
            outdated = _put(new, path, ours=ours)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    finally:
        if handle is not None:
            os.close(handle)
    shutil.rmtree(outdated, ignore_errors=True)
    sync(path.parent)


def read_whole(path: Path, read: Callable[[Path], Result]) -> Result:
    """What `read` gives for the folder that is at `path`, read again if another took its place.

    Raises what `read` raises.
    """
    # The folder at `path` may be another one by the time that its second file is read. While a
    # handle is open, no new folder can have the same inode.
    with _opened(path) as handle:
        try:
            result = read(path)
        except Exception:
            if _is_at(path, handle):
                raise
        else:
            if _is_at(path, handle):
                return result
    with hold_folder(path.parent):
        # A writer that was killed right then may have moved the folder aside.
        return read(_old(path) if not path.exists() and _old(path).exists() else path)


@contextmanager
def _opened(path: Path) -> Iterator[int | None]:
    """A handle on the folder; None if there is none that may be listed."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except OSError:
        yield None
        return
    try:
        yield handle
    finally:
        os.close(handle)


def _is_at(path: Path, handle: int | None) -> bool:
    """Whether the folder that was opened is the one at `path`."""
    try:
        return handle is not None and os.path.samestat(os.fstat(handle), os.stat(path))
    except OSError:
        return False


def _old(path: Path) -> Path:
    return path.with_name(f".{path.name}.old")


def _unused(path: Path) -> Path:
    return path.with_name(f".{path.name}.new-{secrets.token_hex(4)}")


def _roll_back(path: Path) -> None:
    """Put a folder that was moved aside back, unless another took its place: it is outdated."""
    old = _old(path)
    if not old.exists():
        return
    if path.exists():
        # Under another name, so that a half removed folder is never taken for a whole one.
        outdated = _unused(path)
        os.rename(old, outdated)
        shutil.rmtree(outdated, ignore_errors=True)
    else:
        os.rename(old, path)


def _remove_abandoned(path: Path) -> None:
    """Remove what killed writers left unfinished: nobody holds their locks any more."""
    # Older versions had no number after the name.
    pattern = re.compile(re.escape(f".{path.name}.new") + "(-[0-9a-f]{8})?")
    for left in path.parent.iterdir():
        if not pattern.fullmatch(left.name):
            continue
        try:
            handle = lock_folder(left)
        except OSError:  # somebody writes there
            continue
        if handle is not None:
            shutil.rmtree(left, ignore_errors=True)
            os.close(handle)


def _put(new: Path, path: Path, *, ours: Collection[str]) -> Path:
    """Rename the new folder in; returns where the outdated one is, if there was one."""
    outdated = _unused(path)
    if path.exists():
        _carry_over(path, new, ours=ours)
        os.rename(path, _old(path))
    try:
        os.rename(new, path)
    except BaseException:
        _roll_back(path)
        raise
    with suppress(FileNotFoundError):
        os.rename(_old(path), outdated)
    return outdated


def _carry_over(old: Path, new: Path, *, ours: Collection[str]) -> None:
    """Copy what somebody added to the folder that is replaced."""
    for entry in old.iterdir():
        if entry.name in ours:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.copytree(entry, new / entry.name, symlinks=True)
        else:
            shutil.copy2(entry, new / entry.name, follow_symlinks=False)
