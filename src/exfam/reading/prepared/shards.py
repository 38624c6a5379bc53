"""Columns of groups as files that are mapped into memory."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from exfam.checks import DataError
from exfam.groups import Groups
from exfam.groups.groups import unchecked
from exfam.reading.manifests import contents_of
from exfam.reading.prepared.labels import is_narrow_text, read_labels, write_labels
from exfam.reading.prepared.manifest import Shard
from exfam.reading.prepared.shapes import ELEMENT_FIELDS, GROUP_FIELDS, MAPPINGS

VOCABULARY, GROUP_NAMES = "vocabulary.parquet", "group_names.parquet"
ROWS_PER_PIECE = 1 << 20


class ShardWriter:
    """Writes the columns of groups into an empty folder, a piece at a time.

    Columns that `allocate` made, files already, stay where they are.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._allocated: dict[Path, np.ndarray] = {}
        self._shards: list[Shard] = []

    def allocate(self, name: str, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        """An array to be filled that is a file of the folder; DataError if the disk is full."""
        path = self.folder / f"allocated-{len(self._allocated)}.npy"
        self._allocated[path] = _new_file(path, np.dtype(dtype), shape)
        return self._allocated[path]

    def write(self, groups: Groups) -> tuple[Shard, ...]:
        """Write all columns: own elements in order, then those that only context ranges show."""
        ranged = groups.context_start is not None
        if ranged:
            groups = groups.compact()
        stop = np.cumsum(groups.stop - groups.start)
        start = stop - (groups.stop - groups.start)
        in_order = np.array_equal(start, groups.start) and groups.n_rows == groups.n_elements
        for field, name, column in _columns(groups, ELEMENT_FIELDS):
            if not (ranged or in_order):
                pieces = (column[chunk.elements()] for chunk in groups.chunks())
                self._write(field, name, pieces, like=column, n_rows=groups.n_elements)
            elif not self._keep(field, name, column):
                self._write(field, name, _cut(column), like=column, n_rows=len(column))
        tidy = unchecked(groups.__dict__ | {"start": start, "stop": stop})
        for field, name, column in _columns(tidy, GROUP_FIELDS):
            self._write(field, name, _cut(column), like=column, n_rows=len(column))
        self._write_names(groups.group_names)
        self._write_labels("vocabulary", VOCABULARY, groups.vocabulary)
        for path in self._allocated:
            path.unlink()
        return tuple(self._shards)

    def _keep(self, field: str, name: str | None, column: np.ndarray) -> bool:
        """Whether a column is a file that `allocate` made; if so, it gets its final name."""
        for path, array in self._allocated.items():
            if _is_same(column, array):
                file = self._file(field)
                os.rename(path, file)
                del self._allocated[path]
                self._note(field, name, file, column)
                return True
        return False

    def _write(
        self,
        field: str,
        name: str | None,
        pieces: Iterable[np.ndarray],
        *,
        like: np.ndarray,
        n_rows: int,
    ) -> None:
        file = self._file(field)
        array = _new_file(file, like.dtype, (n_rows, *like.shape[1:]))
        done = 0
        for piece in pieces:
            array[done : done + len(piece)] = piece
            done += len(piece)
        self._note(field, name, file, array)

    def _write_names(self, names: np.ndarray | None) -> None:
        if names is None:
            return
        if names.dtype.kind == "O" and not is_narrow_text(names):
            self._write_labels("group_names", GROUP_NAMES, {"group_names": names})
            return
        dtype = names.dtype
        if dtype.kind == "O":
            dtype = np.dtype(f"<U{max(map(len, names), default=1) or 1}")
        like = np.empty(0, dtype)
        self._write("group_names", None, _cut(names), like=like, n_rows=len(names))

    def _write_labels(self, field: str, file: str, labels: dict[str, np.ndarray]) -> None:
        write_labels(self.folder / file, labels)
        for name, column in labels.items():
            self._note(field, name, self.folder / file, column)

    def _file(self, field: str) -> Path:
        if field not in MAPPINGS:
            return self.folder / f"{field}.npy"
        number = sum(shard.field == field for shard in self._shards)
        return self.folder / f"{field}-{number}.npy"

    def _note(self, field: str, name: str | None, file: Path, column: np.ndarray) -> None:
        contents = contents_of(file)
        self._shards.append(
            Shard(
                field=field,
                name=name,
                file=file.name,
                dtype=column.dtype.str,
                shape=column.shape,
                offset=contents.size - column.nbytes if file.suffix == ".npy" else 0,
                size=contents.size,
                sha256=contents.sha256,
            )
        )


def mapped_groups(folder: Path, shards: Iterable[Shard], *, ordered: bool) -> Groups:
    """The groups whose columns are these files; nothing is read but labels."""
    fields: dict[str, Any] = {field: {} for field in MAPPINGS} | {"ordered": ordered}
    for field in (*ELEMENT_FIELDS, *GROUP_FIELDS, "group_names"):
        fields.setdefault(field, None)
    labels: dict[str, dict[str, str]] = {}
    for shard in shards:
        if shard.file.endswith(".npy"):
            _set(fields, shard.field, shard.name, _mapped(folder / shard.file, shard))
        else:
            labels.setdefault(shard.file, {})[shard.name or ""] = shard.dtype
    for file, dtypes in labels.items():
        for name, column in read_labels(folder / file, dtypes).items():
            _set(fields, "group_names" if file == GROUP_NAMES else "vocabulary", name, column)
    return unchecked(fields)


def _columns(
    groups: Groups, fields: tuple[str, ...]
) -> Iterator[tuple[str, str | None, np.ndarray]]:
    for field in fields:
        held = getattr(groups, field)
        if field in MAPPINGS:
            yield from ((field, name, column) for name, column in held.items())
        elif held is not None:
            yield field, None, held


def _cut(column: np.ndarray) -> Iterator[np.ndarray]:
    for first in range(0, len(column), ROWS_PER_PIECE):
        yield column[first : first + ROWS_PER_PIECE]


def _is_same(column: np.ndarray, array: np.ndarray) -> bool:
    """Whether they are the same numbers in the same place."""
    ours, theirs = column.__array_interface__, array.__array_interface__
    return all(ours[key] == theirs[key] for key in ("data", "typestr", "shape", "strides"))


def _new_file(path: Path, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    array = np.lib.format.open_memmap(path, "w+", dtype, shape)
    size = path.stat().st_size
    try:
        # A file without blocks of its own ends the process that maps it when the disk is full.
        with path.open("rb+") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        raise DataError(
            f"`folder` must be on a disk with room for its columns, got {error.strerror} at "
            f"{path.name} of {size} bytes. Choose another place."
        ) from error
    return np.asarray(array)


def _set(fields: dict[str, Any], field: str, name: str | None, column: np.ndarray) -> None:
    if field in MAPPINGS:
        fields[field][name] = column
    else:
        fields[field] = column


def _mapped(path: Path, shard: Shard) -> np.ndarray:
    # The manifest says where the numbers are: a header that was changed can do no harm.
    return np.asarray(np.memmap(path, shard.dtype, "r", offset=shard.offset, shape=shard.shape))
