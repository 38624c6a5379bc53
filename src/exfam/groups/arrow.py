"""Groups as an Arrow table with one row a group, and back, without loss."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from exfam.checks import DataError
from exfam.groups.groups import Groups

KEY = b"exfam.groups"
FORMAT = 1
ELEMENT_FIELDS = ("item", "position", "observed", "role", "source_row", "tied")
ELEMENT_MAPPINGS = ("values", "attributes")
GROUP_FIELDS = ("group_names", "ignored", "context_start", "context_stop")


def to_arrow(groups: Groups) -> pa.Table:
    """One row a group; element columns are lists; the vocabulary is in the schema's metadata.

    Elements seen only by context ranges are in one more row at the end.

    >>> to_arrow(Groups(start=[0, 2], stop=[2, 3], item=[4, 0, 1])).to_pydict()
    {'size': [2, 1], 'item': [[4, 0], [1]]}
    """
    groups = groups.compact()
    sizes = groups.stop - groups.start
    spare = groups.context_start is not None
    if spare:
        sizes = np.append(sizes, groups.n_rows - sizes.sum())
    columns = {"size": pa.array(sizes)}
    dtypes = {}
    for name, column in _named(groups, ELEMENT_FIELDS, ELEMENT_MAPPINGS):
        offsets = pa.array(np.append(0, np.cumsum(sizes)))
        columns[name] = pa.LargeListArray.from_arrays(offsets, _as_array(column))
        dtypes[name] = column.dtype.str
    for name, column in _named(groups, GROUP_FIELDS, ("group_attributes",)):
        array = _as_array(column)
        columns[name] = pa.concat_arrays([array, pa.nulls(1, array.type)]) if spare else array
        dtypes[name] = column.dtype.str
    header = {
        "format": FORMAT,
        "n_groups": len(groups),
        "ordered": groups.ordered,
        "dtypes": dtypes,
        "vocabulary": {key: _plain(key, labels) for key, labels in groups.vocabulary.items()},
    }
    return pa.table(columns).replace_schema_metadata({KEY: json.dumps(header)})


def _named(
    groups: Groups, plain: tuple[str, ...], mappings: tuple[str, ...]
) -> Iterator[tuple[str, np.ndarray]]:
    for name in plain:
        if (column := getattr(groups, name)) is not None:
            yield name, column
    for mapping in mappings:
        for key, column in getattr(groups, mapping).items():
            yield f"{mapping}.{key}", column


def _as_array(column: np.ndarray) -> pa.Array:
    if column.ndim == 1:
        return pa.array(column)
    return pa.FixedSizeListArray.from_arrays(pa.array(column.ravel()), column.shape[1])


def _plain(name: str, labels: np.ndarray) -> dict[str, Any]:
    plain = labels.tolist()
    if not all(isinstance(label, (str, int, float)) for label in plain):
        raise DataError(
            f"`vocabulary` of {name!r} must hold text, numbers or booleans to be written, "
            f"got dtype {labels.dtype}. Convert the labels to text first."
        )
    return {"dtype": labels.dtype.str, "labels": plain}


def from_arrow(table: pa.Table) -> Groups:
    """The groups that `to_arrow` wrote. Raises DataError for any other table.

    >>> from_arrow(to_arrow(Groups(start=[0, 2], stop=[2, 3], item=[4, 0, 1])))
    Groups(2 groups, 3 elements, 5 items)
    """
    header = _header(table)
    n_groups = header["n_groups"]
    sizes = table["size"].to_numpy()
    fields: dict[str, Any] = {name: {} for name in (*ELEMENT_MAPPINGS, "group_attributes")}
    for name, dtype in header["dtypes"].items():
        column = table[name].combine_chunks()
        is_list = name.partition(".")[0] in ELEMENT_FIELDS + ELEMENT_MAPPINGS
        column = column.flatten() if is_list else column[:n_groups]
        part, dot, key = name.partition(".")
        (fields[part] if dot else fields)[key if dot else part] = _as_numpy(column, dtype)
    stop = np.cumsum(sizes[:n_groups])
    vocabulary = {
        key: np.array(labels["labels"], dtype=labels["dtype"])
        for key, labels in header["vocabulary"].items()
    }
    return Groups(
        start=stop - sizes[:n_groups],
        stop=stop,
        vocabulary=vocabulary,
        ordered=header.get("ordered", False),
        **fields,
    )


def _header(table: pa.Table) -> dict[str, Any]:
    metadata = table.schema.metadata or {}
    if KEY not in metadata:
        raise DataError(
            "`table` must have been made by Groups.to_arrow, got one without its metadata. "
            "Use Groups.from_frame for other tables."
        )
    header = json.loads(metadata[KEY])
    if header["format"] > FORMAT:
        raise DataError(
            f"`table` must be of format {FORMAT} or older, got {header['format']}. Update exfam."
        )
    lacking = sorted({"size", *header["dtypes"]} - set(table.column_names))
    if lacking:
        raise DataError(
            f"`table` must have all columns it was written with, got no {lacking[0]!r}."
        )
    return header


def _as_numpy(column: pa.Array, dtype: str) -> np.ndarray:
    if pa.types.is_fixed_size_list(column.type):
        width = column.type.list_size
        return column.flatten().to_numpy(zero_copy_only=False).astype(dtype).reshape(-1, width)
    return column.to_numpy(zero_copy_only=False).astype(dtype)
