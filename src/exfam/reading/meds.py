"""Medical events as MEDS has them: Parquet files of subject_id, time, code and numeric_value."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from exfam.checks import DataError, check_path
from exfam.files import as_path

# What each column is, as parameters of a model of events.
MEDS_COLUMNS = {"group": "subject_id", "time": "time", "item": "code", "value": "numeric_value"}
_NEEDED = ("subject_id", "time", "code")


def read_meds(path: str | os.PathLike[str]) -> pa.Table:
    """The events of a Parquet file, or of all in a folder, that have a time.

    Rows without a time, which MEDS has for what does not change, are left out. Where no file has
    numeric values, nor has the table.
    Raises DataError for what is no such file or folder.
    """
    check_path("path", path)
    root = as_path(path)
    files = sorted(root.rglob("*.parquet")) if root.is_dir() else [root]
    tables = [_read_one(file) for file in files]
    if not tables:
        raise DataError(f"`path` must have Parquet files in it, got none in {root}.")
    return pa.concat_tables(tables, promote_options="default")


def _read_one(file: Path) -> pa.Table:
    try:
        names = pq.read_schema(file).names
        wanted = [name for name in MEDS_COLUMNS.values() if name in names]
        table: Any = pq.read_table(file, columns=wanted)
    except (OSError, pa.ArrowInvalid) as error:
        what = f"`path` must be a Parquet file that is whole, got {file}: {error}."
        raise DataError(what) from error
    if lacking := [name for name in _NEEDED if name not in names]:
        raise DataError(
            f"`path` must have the columns of MEDS, subject_id, time and code, got no "
            f"{lacking[0]!r} in {file}."
        )
    return table.filter(pc.is_valid(table["time"]))
