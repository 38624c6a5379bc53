"""Frames in memory."""

from collections.abc import Container, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from exfam.columns.columns import Columns
from exfam.columns.kinds import is_time
from exfam.columns.parts import Part, Places
from exfam.columns.rules import broken_rule
from exfam.reading.database import Database
from exfam.reading.table import Column, Table


def open_arrays(
    database: Database, frame: Any, parts: Sequence[Part], known: Container[str]
) -> Table:
    """A frame as a table that DuckDB scans in place.

    Raises DataError for a frame that is none, a missing column, or one of a kind that its part
    cannot be of.
    """
    opened = Columns.of_frame(frame, parts)
    columns, held = {}, {"row": pa.array(np.arange(opened.n_rows))}
    for k, (part, array) in enumerate(opened.arrays.items()):
        if opened.n_rows and broken_rule(part, array.type, known):
            array = opened.check(part, known)  # here, where DuckDB might not know its kind
        columns[part] = Column(f"c{k}", array.type)
        held[f"c{k}"] = _as_scanned(array)
    database.con.register("frame", pa.table(held))
    return Table("frame", columns, Places())


def _as_scanned(array: pa.Array) -> pa.Array:
    """Times as the whole numbers they are stored as: DuckDB knows fewer units of them."""
    if is_time(array.type):
        return array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    return array
