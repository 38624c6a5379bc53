"""Parquet files: columns of all types, and good files whose bytes are changed."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.files import changed_bytes, columns_of, packed, read_as, write_bytes
from fuzz.spoiling import spoiled_frame
from fuzz.values import pick

_KINDS = ("groups", "fields", "tables")
_TYPES = (
    pa.null(), pa.bool_(), pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(),
    pa.string(), pa.large_string(), pa.binary(), pa.date32(), pa.date64(), pa.time64("us"),
    pa.timestamp("s"), pa.timestamp("ns", tz="UTC"), pa.duration("ms"), pa.decimal128(10, 2),
    pa.decimal256(60, 3), pa.list_(pa.int64()), pa.struct([("a", pa.int64())]),
    pa.dictionary(pa.int32(), pa.string()), pa.string_view(), pa.list_(pa.float32(), 2),
    pa.map_(pa.string(), pa.int64()),
)  # fmt: skip


def prepare(folder: Path) -> dict[str, bytes]:
    """The bytes of good files."""
    return {kind: _bytes_of(pa.Table.from_pandas(columns_of(kind))) for kind in _KINDS}


def attack(random: np.random.Generator, shared: dict[str, bytes], folder: Path) -> None:
    """Read one file."""
    kind = pick(random, _KINDS)
    if random.random() < 0.4:
        content = changed_bytes(random, shared[kind])
    else:
        content = _other_types(random, columns_of(kind)) or shared[kind]
    path = write_bytes(random, folder, packed(random, content), suffix=".parquet")
    read_as(random, kind, path)


def _other_types(random: np.random.Generator, frame: pd.DataFrame) -> bytes | None:
    """A file of the columns, spoiled and in other types; None if Arrow cannot hold them."""
    try:
        if random.random() < 0.6:
            frame = spoiled_frame(random, frame)
        table = pa.Table.from_pandas(frame, preserve_index=random.random() < 0.1)
        place = int(random.integers(len(table.columns)))
        column: Any = table.column(place)
        kind = pick(random, _TYPES)
        try:
            column = column.cast(kind)
        except pa.ArrowException:
            column = pa.nulls(len(table), kind)
        return _bytes_of(table.set_column(place, table.column_names[place], column))
    except Exception:  # not ours
        return None


def _bytes_of(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()
