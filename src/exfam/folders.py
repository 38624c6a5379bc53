"""Folders that are there whole or not at all, and say what they hold in a file with a checksum.

A folder is written beside the old one under a name of its own, `.NAME.new-…`, locked by its writer,
and renamed in, however many processes write and read it; the old one is first moved aside to
`.NAME.old`. Whoever renames holds a lock on the folder above. What killed writers left is put right
or removed by the next one; until then the old folder is found where it was moved to.
"""

import hashlib
import json
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from exfam.checks import DataError, ExfamError
from exfam.files import (
    hold_folder,
    is_inside,
    lock_folder,
    lock_if_possible,
    release,
    sync,
    write_atomically,
)

Result = TypeVar("Result")
Check = Callable[[Path], None]


@dataclass(frozen=True)
class Contents:
    """The size in bytes and the SHA-256 of a file."""

    size: int
    sha256: str


def contents_of(file: Path) -> Contents:
    """The size and the checksum of a file, which is read in pieces."""
    with file.open("rb") as content:
        sha256 = hashlib.file_digest(content, "sha256").hexdigest()
    return Contents(file.stat().st_size, sha256)


@dataclass(frozen=True)
class FolderKind:
    """A kind of folder: `name` in errors, its `manifest`, and the format that this says.

    `again`: what to do where a folder is damaged
    `argument`, `error`: what errors call the folder, and what they are
    """

    name: str
    manifest: str
    format: str
    version: int
    again: str
    argument: str = "folder"
    error: type[ExfamError] = DataError

    def write(self, folder: Path, document: Mapping[str, Any]) -> None:
        """Write the manifest, the last file of a folder."""
        whole = {
            "format": self.format,
            "format_version": self.version,
            "exfam_version": sys.modules["exfam"].__version__,
            **document,
        }
        whole["checksum"] = _checksum(whole)
        text = json.dumps(whole, indent=1, allow_nan=False)
        write_atomically(folder / self.manifest, text + "\n")

    def read(self, folder: Path) -> dict[str, Any]:
        """What the manifest of a folder says.

        Raises an error if it is missing, damaged, of something else or of a newer version.
        """
        file = folder / self.manifest
        if not os.path.isfile(file):  # a name may be too long for `Path.is_file`
            got = "a file" if os.path.exists(folder) else "nothing"
            if os.path.isdir(folder):
                got = f"a folder without {self.manifest}"
            raise self.error(f"`{self.argument}` must be a {self.name}, got {got} at {folder}.")
        try:
            document = json.loads(file.read_bytes(), parse_constant=_refuse)
        except (ValueError, RecursionError):
            raise self.damaged(file) from None
        if not isinstance(document, dict) or document.get("format") != self.format:
            raise self.error(
                f"`{self.argument}` must be a {self.name}, got the {self.manifest} of something "
                f"else: {file}."
            )
        version = document.get("format_version")
        if isinstance(version, int) and version > self.version:
            raise self.error(
                f"{file} must have format version {self.version} at most, got {version}, written "
                f"by exfam {document.get('exfam_version')}. Install that version or a newer one."
            )
        if document.pop("checksum", None) != _checksum(document):
            raise self.damaged(file)
        return document

    def check(self, file: Path, contents: Contents, *, verify: bool) -> None:
        """Raise an error unless the file is there, of its size, and if `verify`, unchanged."""
        if not file.is_file():
            raise self.error(
                f"{file} must be there, got no such file in this {self.name}. {self.again}"
            )
        if not is_inside(file):
            raise self.error(
                f"{file} must be in its folder, got a link to a file elsewhere. {self.again}"
            )
        size = file.stat().st_size
        if size != contents.size:
            raise self.error(
                f"{file} must have {contents.size} bytes, got {size}: it is cut or changed. "
                f"{self.again}"
            )
        if verify and contents_of(file) != contents:
            raise self.damaged(file)

    def is_at(self, folder: Path) -> bool:
        """Whether a folder has a manifest of this format, whole or cut off at the end."""
        try:
            with (folder / self.manifest).open("rb") as file:
                start = file.read(200)
        except (OSError, ValueError):  # a text with a NUL is no name
            return False
        return b'"format"' in start and f'"{self.format}"'.encode() in start

    def damaged(self, file: Path) -> ExfamError:
        """The error of a file that is not what it was."""
        return self.error(
            f"{file} must be as it was written, got a damaged or changed file. {self.again}"
        )

    def foreign(self, file: Path, rule: str, error: Exception) -> ExfamError:
        """The error of a file whose checksum is right and whose content cannot be."""
        return self.error(
            f"{file} must {rule}, got {error}. It was not written by exfam. {self.again}"
        )

    def check_free(self, folder: Path, *, overwrite: bool, got: str) -> None:
        """Raise an error for something there, but for a folder of the kind to `overwrite`.

        `got`: in words, the one that is there, and what to do
        """
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return
        if not self.is_at(folder):
            raise self.error(
                f"`{self.argument}` must be free or a {self.name}, got something else at {folder}. "
                "Choose another one, or remove what is there."
            )
        if not overwrite:
            raise self.error(f"`{self.argument}` must be free, got {got.format(folder)}")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _checksum(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document).encode()).hexdigest()


@contextmanager
def replacing_folder(path: Path, *, check: Check, ours: Callable[[str], bool]) -> Iterator[Path]:
    """An empty folder that takes the place of `path` at the end, or is gone if anything is raised.

    See `put_folder`. Raises OSError where the operating system refuses; `path` is then as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with hold_folder(path.parent):
        _roll_back(path)
        check(path)
        _remove_abandoned(path)
        new = _unused(path)
        new.mkdir()
        handle = lock_if_possible(new)
    try:
        yield new
        put_folder(new, path, check=check, ours=ours)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    finally:
        release(handle)


def put_folder(new: Path, path: Path, *, check: Check, ours: Callable[[str], bool]) -> None:
    """Rename a whole folder to its path; one that is there makes room only then.

    `check` raises if `path` may not be replaced. Files of the old folder that are not `ours`, by
    their names, are carried over.
    """
    for written in (*filter(Path.is_file, new.iterdir()), new):
        sync(written)
    with hold_folder(path.parent):
        _roll_back(path)
        check(path)
        outdated = _put(new, path, ours=ours)
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
        return read(aside_of(path) if not path.exists() and aside_of(path).exists() else path)


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
        release(handle)


def _is_at(path: Path, handle: int | None) -> bool:
    """Whether the folder that was opened is the one at `path`."""
    try:
        return handle is not None and os.path.samestat(os.fstat(handle), os.stat(path))
    except OSError:
        return False


def aside_of(path: Path) -> Path:
    """Where a folder is while another one takes its place."""
    return path.parent / f".{path.name}.old"


def _unused(path: Path) -> Path:
    return path.with_name(f".{path.name}.new-{secrets.token_hex(4)}")


def _roll_back(path: Path) -> None:
    """Put a folder that was moved aside back, unless another took its place: it is outdated."""
    old = aside_of(path)
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
            release(handle)


def _put(new: Path, path: Path, *, ours: Callable[[str], bool]) -> Path:
    """Rename the new folder in; returns where the outdated one is, if there was one."""
    outdated = _unused(path)
    if path.exists():
        _carry_over(path, new, ours=ours)
        os.rename(path, aside_of(path))
    try:
        os.rename(new, path)
    except BaseException:
        _roll_back(path)
        raise
    with suppress(FileNotFoundError):
        os.rename(aside_of(path), outdated)
    return outdated


def _carry_over(old: Path, new: Path, *, ours: Callable[[str], bool]) -> None:
    """Copy what somebody added to the folder that is replaced."""
    for entry in old.iterdir():
        if ours(entry.name):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.copytree(entry, new / entry.name, symlinks=True)
        else:
            shutil.copy2(entry, new / entry.name, follow_symlinks=False)
