"""Which files a path, a folder or a glob means; packed ones are unpacked and checked whole."""

import csv
import glob
import gzip
import os
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from exfam.checks import DataError, is_utf8
from exfam.reading.streams import unpacking

KINDS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".xlsx": "excel",
    ".xlsm": "excel",
}
ENDINGS = (
    ".csv, .tsv, .txt, .json, .jsonl, .ndjson (all of them also with .gz or in .zip), .xlsx, "
    ".parquet or .pq"
)
# In letters; DuckDB reads no longer lines of CSV files, nor objects of JSON lines files.
LONGEST_LINE = 1 << 24


def find_files(source: str | os.PathLike[str]) -> tuple[str, list[Path]]:
    """The files that a path, a folder (sorted by name) or a pattern (sorted) means, and their kind.

    It is "csv", "json", "excel" or "parquet". Hidden files and those that begin with an underscore
    do not count.
    """
    paths = named_files(source)
    kinds = []
    for path in paths:
        name = path.name.lower()
        is_packed = name.endswith((".gz", ".zip"))
        inside = _member(path).lower() if name.endswith(".zip") else name.removesuffix(".gz")
        kind = KINDS.get(os.path.splitext(inside)[1])
        if kind is None or (kind in ("parquet", "excel") and is_packed):
            raise DataError(
                f"`source` must be of files that end in {ENDINGS}, got {str(path)!r}. Rename or "
                "convert it, or pass a glob such as 'folder/*.csv'."
            )
        kinds.append(kind)
        if kind != kinds[0]:
            raise DataError(
                f"`source` must be of files of one kind, got {paths[0].name!r} and {path.name!r} "
                f"in {os.fspath(source)!r}. Pass a glob such as 'folder/*.csv'."
            )
    return kinds[0], paths


def named_files(
    source: str | os.PathLike[str], *, below: bool = False, advice: str = ""
) -> list[Path]:
    """The files of any kind that a path, a folder or a pattern means; see `find_files`.

    `below`: whether the folders in a folder count too; `advice`: what to do where there is none
    """
    name = os.path.expanduser(source)
    path = Path(name)
    if not name:
        raise DataError(
            "`source` must name a file, a folder or a pattern, got an empty name. The working "
            'directory is ".".'
        )
    if not is_utf8(name):
        raise DataError(f"`source` must be a name in UTF-8, got {name!r}. Rename the file.")
    if "://" in name:
        raise DataError(f"`source` must be on this machine, got {name!r}. Download it first.")
    if os.path.isdir(path):
        paths = list(_in_folder(path, below=below))
    elif os.path.isfile(path):
        paths = [path]
    elif os.path.lexists(path) and not path.is_symlink():
        raise DataError(f"`source` must be a file or a folder, got neither at {name!r}.")
    else:
        paths = [Path(match) for match in sorted(glob.glob(name, recursive=True))]
        paths = [match for match in paths if os.path.isfile(match)]
    if not paths:
        what = "a folder without files" if os.path.isdir(path) else "which is not there"
        raise DataError(
            f"`source` must name a file, a folder or a pattern, got {name!r}, {what}. "
            f"{advice}".rstrip()
        )
    for path in paths:
        if not is_utf8(str(path)):
            raise DataError(
                f"`source` must have names in UTF-8, got {str(path)!r}. Rename the file."
            )
        if not os.access(path, os.R_OK):
            raise DataError(f"`source` must be readable, got {str(path)!r} without the permission.")
    return paths


def _in_folder(folder: Path, *, below: bool) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith((".", "_")):
            continue
        if entry.is_file():
            yield entry
        elif below and entry.is_dir():
            yield from _in_folder(entry, below=True)


def _member(path: Path) -> str:
    """The name of the one file in a zip file; those of macOS and hidden ones do not count."""
    with _whole(path), zipfile.ZipFile(path) as packed:
        names = [
            name
            for name in packed.namelist()
            if not name.endswith("/") and not Path(name).name.startswith(".")
            if not name.startswith("__MACOSX/")
        ]
    if len(names) != 1:
        raise DataError(
            f"`source` must hold one file in a zip file, got {len(names)} in {path}. Unpack it, "
            "and pass the folder or one of its files."
        )
    return names[0]


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Within it, an error of unpacking is a DataError."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError) as error:
        # RuntimeError: a password; NotImplementedError: a way to pack that Python has not.
        kind = "zip" if path.suffix.lower() == ".zip" else "gzip"
        raise DataError(
            f"`source` must be a whole {kind} file, got {path}: {error}. Download or pack it again."
        ) from error


def plain_file(path: Path, folder: Path) -> Path:
    """The file itself, or what gzip or zip packed in it, written into `folder`.

    DuckDB would read packed files too, but it does not compare their checksums.
    """
    if path.suffix.lower() not in (".gz", ".zip"):
        return path
    opener = None
    if path.suffix.lower() == ".zip":
        name = _member(path)

        def opener(stored: Any) -> Any:
            return zipfile.ZipFile(stored).open(name)

    target = folder / f"{len(list(folder.iterdir()))}-{path.stem}"
    try:
        with (
            _whole(path),
            open(path, "rb") as stored,
            unpacking(path, stored, opener=opener) as packed,
            open(target, "wb") as plain,
        ):
            shutil.copyfileobj(packed, plain, 1 << 20)
    except OSError as error:
        raise DataError(
            f"`TMPDIR` must name a folder with room for what is packed in {path}, got {error}."
        ) from error
    return target


def check_same_columns(first: Any, names: Sequence[str], path: Any, others: Sequence[str]) -> None:
    """Raise DataError unless a file has the columns of the first one."""
    if list(others) != list(names):
        raise DataError(
            f"`source` must be of files with the same columns, got {list(others)} in {path}, where "
            f"{first} has {list(names)}."
        )


def scanned(paths: Sequence[Path]) -> str:
    """The argument of DuckDB's readers for just these files: no name is a pattern or a column."""
    # Not before: models of words find their texts here, and train without DuckDB and Arrow.
    from exfam.reading.database import literal

    listed = ", ".join(literal(glob.escape(str(path))) for path in paths)
    return f"[{listed}], hive_partitioning = false"


def short_lines(file: TextIO) -> Iterator[str]:
    """The lines of a file. Raises csv.Error naming the first of more than 16 million letters."""
    number = 1
    while line := file.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise csv.Error(f"a line of more than {LONGEST_LINE:,} letters, line {number},")
        yield line
        number += 1
