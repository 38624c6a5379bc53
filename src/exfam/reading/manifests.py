"""Folders that say of themselves, in a JSON file with a checksum, what they hold."""

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exfam.checks import DataError
from exfam.files import is_inside, write_atomically


@dataclass(frozen=True)
class Contents:
    """The size in bytes and the SHA-256 of a file."""

    size: int
    sha256: str


def contents_of(file: Path) -> Contents:
    """The size and the checksum of a file, which is read in pieces.

    >>> len(contents_of(Path(__file__)).sha256)
    64
    """
    with file.open("rb") as content:
        sha256 = hashlib.file_digest(content, "sha256").hexdigest()
    return Contents(file.stat().st_size, sha256)


@dataclass(frozen=True)
class FolderKind:
    """A kind of folder: `name` in errors, its `manifest`, and the format that this says.

    `again`: what to do where a folder is damaged

    >>> FolderKind("text", "text.json", "exfam-text", 1, again="").is_at(Path("somewhere"))
    False
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
            raise self.damaged(file) from None
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
            raise self.damaged(file)
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
            raise self.damaged(file)

    def is_at(self, folder: Path) -> bool:
        """Whether a folder has a manifest of this format, whole or cut off at the end."""
        try:
            with (folder / self.manifest).open("rb") as file:
                start = file.read(200)
        except (OSError, ValueError):  # a text with a NUL is no name
            return False
        return b'"format"' in start and f'"{self.format}"'.encode() in start

    def damaged(self, file: Path) -> DataError:
        """The error of a file that is not what was written."""
        return DataError(
            f"{file} must be as it was written, got a damaged or changed file. {self.again}"
        )

    def foreign(self, file: Path, rule: str, error: Exception) -> DataError:
        """The error of a file whose checksum is right and whose content cannot be."""
        return DataError(
            f"{file} must {rule}, got {error}. It was not written by exfam. {self.again}"
        )


def _checksum(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document).encode()).hexdigest()
