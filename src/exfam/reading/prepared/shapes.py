"""Whether the files of a prepared folder can be the columns of groups, before any is opened."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from exfam.checks import is_utf8

ELEMENT_FIELDS = (
    "item", "values", "attributes", "position", "observed", "role", "source_row", "tied",
)  # fmt: skip
GROUP_FIELDS = ("start", "stop", "context_start", "context_stop", "group_attributes", "ignored")
LABEL_FIELDS = ("vocabulary", "group_names")
MAPPINGS = ("values", "attributes", "group_attributes", "vocabulary")

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


def check_shards(shards: Sequence[Any]) -> None:
    """Raise ValueError for a file that cannot be what it says, in the words of what was found.

    Files are in the folder itself; types, shapes, offsets and sizes fit each other; columns of
    elements have a row for each of them, those of groups for each group.

    >>> check_shards([])
    Traceback (most recent call last):
    ...
    ValueError: no column start
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


def _check_shard(shard: Any) -> None:
    field, file = shard.field, shard.file
    if field not in (*ELEMENT_FIELDS, *GROUP_FIELDS, *LABEL_FIELDS):
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
    if not is_labels and shard.offset + shard.n_bytes != shard.size:
        raise ValueError(f"{shard.size} bytes in {file!r} where its shape needs others")
