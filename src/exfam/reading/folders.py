"""Folders that are there whole or not at all, and say what they hold in a file with a checksum.

A folder is written beside its path and renamed in; the one that it replaces is first moved aside,
to `.NAME.old`. What a killed run left is removed or put right by the next one; until then a
prepared folder is found where it was moved to.
"""

import hashlib
import json
import os
import secrets
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exfam.checks import DataError, ExfamError, check_path
from exfam.files import is_inside, lock_folder, release, sync, write_atomically


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
    """

    name: str
    manifest: str
    format: str
    version: int
    again: str

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

        Raises DataError if it is missing, damaged, of something else or of a newer version.
        """
        file = folder / self.manifest
        if not os.path.isfile(file):  # a name may be too long for `Path.is_file`
            is_there = os.path.exists(folder)
            got = "no" if not is_there else "a folder without" if folder.is_dir() else "a file"
            raise DataError(
                f"`folder` must be a {self.name}, got {got} {self.manifest} at {folder}."
            )
        try:
            document = json.loads(file.read_bytes())
        except (ValueError, RecursionError):
            raise self._damaged(file) from None
        if not isinstance(document, dict) or document.get("format") != self.format:
            raise DataError(
                f"`folder` must be a {self.name}, got the {self.manifest} of something else: "
                f"{file}."
            )
        version = document.get("format_version")
        if isinstance(version, int) and version > self.version:
            raise DataError(
                f"{file} must have format version {self.version} at most, got {version}, written "
                f"by exfam {document.get('exfam_version')}. Install that version or a newer one."
            )
        if document.pop("checksum", None) != _checksum(document):
            raise self._damaged(file)
        return document

    def check(self, file: Path, contents: Contents, *, verify: bool) -> None:
        """Raise DataError unless the file is there, of its size, and if `verify`, unchanged."""
        if not file.is_file():
            raise DataError(
                f"{file} must be there, got no such file in this {self.name}. {self.again}"
            )
        if not is_inside(file):
            raise DataError(
                f"{file} must be in its folder, got a link to a file elsewhere. {self.again}"
            )
        size = file.stat().st_size
        if size != contents.size:
            raise DataError(
                f"{file} must have {contents.size} bytes, got {size}: it is cut or changed. "
                f"{self.again}"
            )
        if verify and contents_of(file) != contents:
            raise self._damaged(file)

    def is_at(self, folder: Path) -> bool:
        """Whether a folder has a manifest of this format, whole or cut off at the end."""
        try:
            with (folder / self.manifest).open("rb") as file:
                start = file.read(200)
        except (OSError, ValueError):  # a text with a NUL is no name
            return False
        return b'"format"' in start and f'"{self.format}"'.encode() in start

    def _damaged(self, file: Path) -> DataError:
        return DataError(
            f"{file} must be as it was written, got a damaged or changed file. {self.again}"
        )

    def foreign(self, file: Path, rule: str, error: Exception) -> DataError:
        """The error of a file whose checksum is right and whose content cannot be."""
        return DataError(
            f"{file} must {rule}, got {error}. It was not written by exfam. {self.again}"
        )

    def check_free(self, folder: Path, there: Path, *, overwrite: bool, got: str) -> None:
        """Raise DataError for something at `there`, but for a folder of the kind to `overwrite`.

        `got`: in words, the one that is there, and what to do
        """
        if not there.exists() or (there.is_dir() and not any(there.iterdir())):
            return
        if not self.is_at(there):
            raise DataError(
                f"`folder` must be free or a {self.name}, got something else at {folder}. Choose "
                "another one, or remove what is there."
            )
        if not overwrite:
            raise DataError(f"`folder` must be free, got {got.format(folder)}")


_AGAIN = "Prepare the folder again, or copy it anew from where it is whole."
PREPARED = FolderKind("prepared folder", "manifest.json", "exfam-prepared", 1, again=_AGAIN)


def is_prepared(path: Any) -> bool:
    """Whether there is a prepared folder at `path`, be it whole or damaged."""
    try:
        return isinstance(path, str | os.PathLike) and PREPARED.is_at(find_prepared(path))
    except (OSError, DataError):  # queries are no names of files
        return False


def find_prepared(path: str | os.PathLike[str]) -> Path:
    """Where the folder is: at `path`, or moved aside by a run that was killed right then."""
    folder = _resolved(path)
    aside = _aside_of(folder)
    return aside if not os.path.exists(folder) and PREPARED.is_at(aside) else folder


@contextmanager
def new_folder(path: str | os.PathLike[str], *, overwrite: bool) -> Iterator[Path]:
    """An empty folder that is at `path` in the end, or is gone if anything was raised."""
    folder = _resolved(path)
    _check_free(folder, overwrite=overwrite)
    new = folder.with_name(f".{folder.name}.new-{secrets.token_hex(4)}")
    make_folder(new, folder)
    handle = _lock(new)
    try:
        _remove_abandoned(folder)
        yield new
        _check_free(folder, overwrite=overwrite)
        if (there := find_prepared(folder)).exists():
            _carry_over(there, new)
        put(new, folder)
    except OSError as error:
        raise unwritable(error, folder, "columns") from error
    finally:
        shutil.rmtree(new, ignore_errors=True)  # not there any more if all went well
        release(handle)


def make_folder(new: Path, folder: Path) -> None:
    """Make the folder in which `folder` is written; DataError where none can be."""
    try:
        new.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"`folder` must be where a folder can be made, got {folder}: {error.strerror}."
        ) from error


def unwritable(error: OSError, folder: Path, what: str) -> DataError:
    """The error where the operating system refuses to write."""
    return DataError(
        f"`folder` must be where {what} can be written, got {folder}: "
        f"{error.strerror or error}. Free some space, or choose another folder."
    )


def _aside_of(folder: Path) -> Path:
    return folder.parent / f".{folder.name}.old"


def _resolved(path: str | os.PathLike[str]) -> Path:
    try:
        check_path("folder", path)
    except ExfamError as error:
        raise DataError(str(error)) from error
    return Path(os.path.realpath(path))


def _check_free(folder: Path, *, overwrite: bool) -> None:
    got = "a prepared folder at {}. Pass overwrite=True to replace it."
    PREPARED.check_free(folder, find_prepared(folder), overwrite=overwrite, got=got)


def put(new: Path, folder: Path) -> None:
    """Rename a whole folder to its path; one that is there makes room only then."""
    for path in (*filter(Path.is_file, new.iterdir()), new):
        sync(path)
    aside = _aside_of(folder)
    if folder.exists():
        shutil.rmtree(aside, ignore_errors=True)
        os.rename(folder, aside)
    try:
        os.rename(new, folder)
    except BaseException:
        if aside.exists():
            os.rename(aside, folder)
        raise
    shutil.rmtree(aside, ignore_errors=True)
    sync(folder.parent)


def _carry_over(old: Path, new: Path) -> None:
    """Copy what somebody added to the folder that is replaced."""
    for entry in old.iterdir():
        if entry.name == PREPARED.manifest or entry.suffix in (".npy", ".parquet"):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.copytree(entry, new / entry.name, symlinks=True)
        else:
            shutil.copy2(entry, new / entry.name, follow_symlinks=False)


def _remove_abandoned(folder: Path) -> None:
    """Remove what killed runs left unfinished: nobody holds their locks any more."""
    for left in folder.parent.iterdir():
        if left.name.startswith(f".{folder.name}.new-"):
            handle = _lock(left)
            if handle is not None:
                shutil.rmtree(left, ignore_errors=True)
            release(handle)


def _lock(folder: Path) -> int | None:
    """A handle that locks the folder until it is closed; None if another has it."""
    try:
        return lock_folder(folder)
    except OSError:
        return None


def _checksum(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document).encode()).hexdigest()
