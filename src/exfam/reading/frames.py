"""Frames in memory."""

from collections.abc import Container, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from exfam.checks import DataError
from exfam.groups.columns import open_frame, read_array
from exfam.reading.checks import complaint
from exfam.reading.database import Database
from exfam.reading.kinds import broken_rule
from exfam.reading.table import Column, Part, Places, Table

__all__ = ["open_arrays"]


def open_arrays(
    database: Database, frame: Any, parts: Sequence[Part], known: Container[str]
) -> Table:
    """A frame as a table that DuckDB scans in place.

    Raises DataError for a frame that is none, a missing column, or one of a kind that its part
    cannot be of.
    """
    opened = open_frame(frame)
    arrays = {part: read_array(opened, part.argument, part.name) for part in parts}
    n_rows = len(arrays[parts[0]])
    columns, held = {}, {"row": pa.array(np.arange(n_rows))}
    for k, (part, array) in enumerate(arrays.items()):
        if len(array) != n_rows:
            raise DataError(
                f"`{part.argument}` must have as many rows as {parts[0].name!r}, {n_rows}, got "
                f"{len(array)} in column {part.name!r}."
            )
        if n_rows and broken_rule(part, array.type, known):
            array = _refuse(part, array, known)
        columns[part] = Column(f"c{k}", array.type)
        held[f"c{k}"] = _as_scanned(array)
    database.con.register("frame", pa.table(held))
    return Table("frame", columns, Places())


def _refuse(part: Part, array: pa.Array, known: Container[str]) -> pa.Array:
    """Complain of a kind here, where DuckDB might not know it; values all missing may be of any."""
    broken = broken_rule(part, array.type, known)
    assert broken is not None
    (rule, advice), wrong = broken, np.asarray(array.is_valid())
    if part.argument != "value" and array.null_count:
        rule, advice, wrong = "not be missing", "Drop or fill these rows.", ~wrong
    rows = np.flatnonzero(wrong)
    if not rows.size:
        return pa.nulls(len(array))
    found = (int(rows[0]), array[int(rows[0])].as_py(), len(rows))
    table = Table("frame", {}, Places())
    raise complaint(table, part, rule, found=found, n_rows=len(array), advice=advice)


def _as_scanned(array: pa.Array) -> pa.Array:
    """Times as the whole numbers they are stored as: DuckDB knows fewer units of them."""
    if types.is_temporal(array.type) and not types.is_interval(array.type):
        return array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    return array
