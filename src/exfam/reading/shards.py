"""Columns of groups as files that are mapped into memory: NumPy arrays, and labels as Parquet."""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from exfam.checks import DataError, is_utf8
from exfam.folders import Contents, contents_of
from exfam.groups import Groups
from exfam.groups.flat import columns_of
from exfam.groups.groups import unchecked
from exfam.reading.folders import PREPARED

ELEMENT_FIELDS = (
    "item", "values", "attributes", "position", "observed", "role", "source_row", "tied",
)  # fmt: skip
GROUP_FIELDS = ("start", "stop", "context_start", "context_stop", "group_attributes", "ignored")
MAPPINGS = ("values", "attributes", "group_attributes", "vocabulary")
VOCABULARY, GROUP_NAMES = "vocabulary.parquet", "group_names.parquet"
ROWS_PER_PIECE = 1 << 20
# Wider names are stored as Parquet: one long name must not widen those of all groups.
WIDEST = 48
# Up to this size a file is read in full whenever the folder is opened; so opening stays cheap.
_SMALL = 1 << 20
# The types that a column of a field may have; never objects, which would be addresses in memory.
_INTEGERS = {"item", "role", "source_row", "start", "stop", "context_start", "context_stop"}
_KINDS = dict.fromkeys(_INTEGERS | {"ignored"}, "i") | {
    "observed": "b",
    "tied": "b",
    "group_names": "biufUMm",
}
# Bytes of the name of a file that any system takes.
_LONGEST_NAME = 240
_TWO_AXES = (*MAPPINGS[:3], "position", "context_start", "context_stop")


Pieces = Iterable[np.ndarray]


@dataclass(frozen=True)
class Shard:
    """A file: an array of a field of Groups (`name` is its key in a mapping), or labels.

    `offset`: where in the file the numbers start (0 for labels, which are Parquet).
    """

    field: str
    name: str | None
    file: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    size: int
    sha256: str

    def check(self, folder: Path, *, verify: bool) -> None:
        """Raise DataError unless the file is there, of its size, and if read in full, unchanged."""
        contents = Contents(self.size, self.sha256)
        PREPARED.check(folder / self.file, contents, verify=verify or self.size <= _SMALL)


def check_shards(shards: Sequence[Shard]) -> None:
    """Raise ValueError for a file that cannot be what it says, in the words of what is wrong.

    Files are in the folder itself; types, shapes, offsets and sizes fit each other; columns of
    elements have a row for each of them, those of groups for each group.
    """
    for shard in shards:
        _check_shard(shard)
    named = [(shard.field, shard.name) for shard in shards]
    if len(set(named)) < len(named):
        raise ValueError("a column twice")
    for field in ("start", "stop"):
        if (field, None) not in named:
            raise ValueError(f"no column {field}")
    for fields in (ELEMENT_FIELDS, (*GROUP_FIELDS, "group_names")):
        rows = {shard.shape[0] for shard in shards if shard.field in fields}
        if len(rows) > 1:
            raise ValueError(f"columns of {' and '.join(map(str, sorted(rows)))} rows")


def _check_shard(shard: Shard) -> None:
    field, file = shard.field, shard.file
    if field not in (*ELEMENT_FIELDS, *GROUP_FIELDS, "vocabulary", "group_names"):
        raise ValueError(f"the column {field!r}")
    is_labels = file.endswith(".parquet")
    if (shard.name is not None) != (field in MAPPINGS or is_labels):
        raise ValueError(f"{field} named {shard.name!r}")
    is_name = is_utf8(file) and len(file.encode()) <= _LONGEST_NAME
    if not is_name or set(file) & set("/\\\0") or not file.endswith((".npy", ".parquet")):
        raise ValueError(f"the file {file!r}")
    if is_labels != (field == "vocabulary") and field != "group_names":
        raise ValueError(f"{field} in the file {file!r}")
    for number in (*shard.shape, shard.offset, shard.size):
        if type(number) is not int or number < 0:
            raise ValueError(f"the size {number!r} of {file!r}")
    most = 2 if field in _TWO_AXES else 1
    if not 1 <= len(shard.shape) <= most or 0 in shard.shape[1:]:
        raise ValueError(f"{field} of shape {shard.shape}")
    kind = np.dtype(shard.dtype).kind
    if kind not in ("OUbiufMm" if is_labels else _KINDS.get(field, "biuf")):
        raise ValueError(f"{field} of type {shard.dtype!r}")
    n_bytes = int(np.dtype(shard.dtype).itemsize) * math.prod(shard.shape)
    if not is_labels and shard.offset + n_bytes != shard.size:
        raise ValueError(f"{shard.size} bytes in {file!r} where its shape needs others")


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
        for field, name, column in columns_of(vars(groups), ELEMENT_FIELDS):
            if not (ranged or in_order):
                pieces = (column[chunk.elements()] for chunk in groups.chunks())
                self._write(field, name, pieces, like=column, n_rows=groups.n_elements)
            elif not self._keep(field, name, column):
                self._write(field, name, _cut(column), like=column, n_rows=len(column))
        tidy = unchecked(groups.__dict__ | {"start": start, "stop": stop})
        for field, name, column in columns_of(vars(tidy), GROUP_FIELDS):
            self._write(field, name, _cut(column), like=column, n_rows=len(column))
        self._write_names(groups.group_names)
        self._write_labels("vocabulary", VOCABULARY, groups.vocabulary)
        for path in self._allocated:
            path.unlink()
        return tuple(self._shards)

    def _keep(self, field: str, name: str | None, column: np.ndarray) -> bool:
        """Whether a column is a file that `allocate` made; if so, it gets its final name."""
        for path, array in self._allocated.items():
            ours, theirs = column.__array_interface__, array.__array_interface__
            if all(ours[key] == theirs[key] for key in ("data", "typestr", "shape", "strides")):
                file = self._file(field)
                os.rename(path, file)
                del self._allocated[path]
                self._note(field, name, file, column)
                return True
        return False

    def _write(
        self, field: str, name: str | None, pieces: Pieces, *, like: np.ndarray, n_rows: int
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
        dtype = names.dtype
        if dtype.kind == "O":
            # NumPy drops trailing zero characters.
            is_narrow = all(
                isinstance(name, str) and len(name) <= WIDEST and not name.endswith("\0")
                for name in names
            )
            if not is_narrow:
                self._write_labels("group_names", GROUP_NAMES, {"group_names": names})
                return
            dtype = np.dtype(f"<U{max(map(len, names), default=1) or 1}")
        like = np.empty(0, dtype)
        self._write("group_names", None, _cut(names), like=like, n_rows=len(names))

    def _write_labels(self, field: str, file: str, labels: dict[str, np.ndarray]) -> None:
        _write_labels(self.folder / file, labels)
        for name, column in labels.items():
            self._note(field, name, self.folder / file, column)

    def _file(self, field: str) -> Path:
        if field not in MAPPINGS:
            return self.folder / f"{field}.npy"
        number = sum(shard.field == field for shard in self._shards)
        return self.folder / f"{field}-{number}.npy"

    def _note(self, field: str, name: str | None, file: Path, column: np.ndarray) -> None:
        contents = contents_of(file)
        offset = contents.size - column.nbytes if file.suffix == ".npy" else 0
        layout = (column.dtype.str, column.shape, offset)
        self._shards.append(Shard(field, name, file.name, *layout, **asdict(contents)))


def mapped_groups(folder: Path, shards: Iterable[Shard], *, ordered: bool) -> Groups:
    """The groups whose columns are these files; nothing is read but labels."""
    fields: dict[str, Any] = {field: {} for field in MAPPINGS} | {"ordered": ordered}
    for field in (*ELEMENT_FIELDS, *GROUP_FIELDS, "group_names"):
        fields.setdefault(field, None)
    labels: dict[str, dict[str, str]] = {}
    for shard in shards:
        if shard.file.endswith(".npy"):
            # The manifest says where the numbers are: a header that was changed can do no harm.
            path, dtype = folder / shard.file, shard.dtype
            numbers = np.memmap(path, dtype, "r", offset=shard.offset, shape=shard.shape)
            _set(fields, shard.field, shard.name, np.asarray(numbers))
        else:
            labels.setdefault(shard.file, {})[shard.name or ""] = shard.dtype
    for file, dtypes in labels.items():
        for name, column in _read_labels(folder / file, dtypes).items():
            _set(fields, "group_names" if file == GROUP_NAMES else "vocabulary", name, column)
    return unchecked(fields)


def _set(fields: dict[str, Any], field: str, name: str | None, column: np.ndarray) -> None:
    if field in MAPPINGS:
        fields[field][name] = column
    else:
        fields[field] = column


def _cut(column: np.ndarray) -> Pieces:
    for first in range(0, len(column), ROWS_PER_PIECE):
        yield column[first : first + ROWS_PER_PIECE]


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
            f"{path.name} of {size} bytes. Choose another one."
        ) from error
    return np.asarray(array)


def _write_labels(file: Path, labels: Mapping[str, np.ndarray]) -> None:
    """Write the labels of each column, in order of their codes, as text."""
    text = [_as_text(column, held) for column, held in labels.items()]
    columns = [pa.array([column] * len(held)) for column, held in labels.items()]
    table = pa.table(
        {
            "column": pa.chunked_array(columns, pa.string()),
            "label": pa.chunked_array(text, pa.large_string()),
        }
    )
    pq.write_table(table, file)


def _read_labels(file: Path, dtypes: Mapping[str, str]) -> dict[str, np.ndarray]:
    try:
        table = pq.read_table(file).combine_chunks()
        column, label = (table[name].to_numpy(zero_copy_only=False) for name in ("column", "label"))
        labels = {}
        for name, dtype in dtypes.items():
            text, is_boolean = label[column == name], np.dtype(dtype).kind == "b"
            labels[name] = text == "True" if is_boolean else text.astype(dtype)
        return labels
    except (pa.ArrowException, KeyError, TypeError, ValueError, OSError) as error:
        raise DataError(f"{file} must hold labels as they were written, got {error}.") from error


def _as_text(column: str, labels: np.ndarray) -> pa.Array:
    if labels.dtype.kind not in "OUbiufM":
        raise DataError(_unfit(column, labels.flat[0]))
    try:
        plain = labels if labels.dtype.kind in "OU" else labels.astype(str)
        return pa.array(plain, type=pa.large_string())
    except (pa.ArrowException, TypeError, UnicodeError) as error:
        is_text = [isinstance(label, str) for label in labels.tolist()]
        odd = labels.tolist()[is_text.index(False)] if False in is_text else "text out of Unicode"
        raise DataError(_unfit(column, odd)) from error


def _unfit(column: str, got: object) -> str:
    return (
        f"Labels of {column!r} must be text, numbers, booleans or times to be stored, all of one "
        f"type, got {got!r} ({type(got).__name__}). Convert them to text first."
    )
