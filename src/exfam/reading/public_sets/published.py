"""Files of public data sets: found in EXFAM_DATA or the user's cache, else downloaded; checked."""

import gzip
import hashlib
import os
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from exfam.checks import DataError
from exfam.files import scratch_folder, write_atomically

# Seconds without a byte before a download is given up.
TIMEOUT = 30


@dataclass(frozen=True)
class Archive:
    """A zip archive at an official address; `members`: our name of a file -> its name inside."""

    url: str
    members: Mapping[str, str]


@dataclass(frozen=True)
class PublicFiles:
    """Where the files of a public data set come from.

    `md5`: name of a file below the folder of data, such as "movielens/u.data" -> md5 of its content
    `how_to_get`: what to do to have the files, in words
    `archive`: where to download them; None where there is no official address
    """

    name: str
    how_to_get: str
    md5: Mapping[str, str] = field(default_factory=dict)
    archive: Archive | None = None


def cache_folder() -> Path:
    """The folder of downloaded data sets, in the user's cache."""
    return Path(_pooch().os_cache("exfam"))


def _pooch() -> ModuleType:
    """The package pooch, without what its progress bars warn of in a notebook without widgets."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="IProgress not found")
        import pooch
    return pooch


def find_file(name: str) -> Path | None:
    """The file, gzip-packed (NAME.gz) or not, in EXFAM_DATA's folder or the user's cache.

    Raises DataError if EXFAM_DATA names something else than a folder.
    """
    folders = [cache_folder()]
    named = os.environ.get("EXFAM_DATA", "")
    if named:
        if not Path(named).is_dir():
            raise DataError(
                f"`EXFAM_DATA` must name the folder of public data sets, got {named!r}. "
                "Make that folder, or unset EXFAM_DATA to use the cache."
            )
        folders.insert(0, Path(named))
    paths = [folder / f"{name}{end}" for folder in folders for end in (".gz", "")]
    return next((path for path in paths if path.is_file()), None)


def read_file(source: PublicFiles, name: str) -> bytes:
    """Content of a file of a public data set; what is not found is downloaded into the cache.

    Raises DataError, saying what to do, where it cannot be had, or is not the published one.
    """
    path = find_file(name)
    if path is None:
        return _download(source, name)[name]
    content = path.read_bytes()
    try:
        content = gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"`{path.name}` must be a whole gzip file, got a damaged one ({error}) at {path}. "
            "Get it anew."
        ) from error
    if name in source.md5:
        _check_md5(source, name, content, where=str(path))
    return content


def _check_md5(source: PublicFiles, name: str, content: bytes, *, where: str) -> None:
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if md5 != source.md5[name]:
        raise DataError(
            f"`{name}` must have md5 {source.md5[name]} when unpacked, got {md5} in {where}. "
            f"Remove it and get it anew. {source.how_to_get}"
        )


def _download(source: PublicFiles, wanted: str) -> dict[str, bytes]:
    """All files of the source's archive, checked and put into the cache."""
    if source.archive is None:
        listed = ", ".join(f"{name} of md5 {md5}" for name, md5 in source.md5.items())
        raise DataError(
            f"`{source.name}` must have its files ({listed}) in the folder that EXFAM_DATA names "
            f"or in {cache_folder()}, got no {wanted} there. {source.how_to_get}"
        )
    with scratch_folder() as folder:
        path, archive = folder / "archive.zip", source.archive
        _fetch(source, archive.url, path)
        try:
            with zipfile.ZipFile(path) as packed:
                contents = {name: packed.read(own) for name, own in archive.members.items()}
        except (zipfile.BadZipFile, KeyError, EOFError, zlib.error) as error:
            raise DataError(
                f"`{source.name}` must come as a zip archive of "
                f"{', '.join(archive.members.values())}, got another or a damaged file from "
                f"{archive.url} ({error}). Try again, or get it by hand: {source.how_to_get}"
            ) from error
    for name, content in contents.items():
        _check_md5(source, name, content, where=source.archive.url)
    for name, content in contents.items():
        write_atomically(cache_folder() / name, content)
    return contents


def _fetch(source: PublicFiles, url: str, path: Path) -> None:
    pooch = _pooch()
    try:
        pooch.HTTPDownloader(timeout=TIMEOUT)(url, str(path), None)
    except OSError as error:  # as are all of requests' errors
        status = getattr(getattr(error, "response", None), "status_code", None)
        reason = type(error).__name__ if status is None else f"status {status}"
        # Without a cause: what requests says fills a screen and helps nobody.
        raise DataError(
            f"`{source.name}` must be downloaded once from {url}, got no file ({reason}). "
            f"Try again when you are online, or get it by hand: {source.how_to_get}"
        ) from None
