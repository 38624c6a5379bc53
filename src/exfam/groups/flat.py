"""Flat columns of groups: checked when they come in, their elements side by side."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from jaxtyping import Int64

from exfam.checks import DataError

KINDS = {"integers": "iu", "booleans": "b", "numbers": "biuf", "labels": "OUSbiufMm"}
# field -> (kind, dtype, numbers of dimensions): one row an element, one row a group
ELEMENT_FIELDS: dict[str, tuple[str, type | None, tuple[int, ...]]] = {
    "item": ("integers", np.int32, (1,)),
    "position": ("numbers", None, (1, 2)),
    "observed": ("booleans", np.bool_, (1,)),
    "role": ("integers", np.int8, (1,)),
    "source_row": ("integers", np.int64, (1,)),
    "tied": ("booleans", np.bool_, (1,)),
}
GROUP_FIELDS: dict[str, tuple[str, type | None, tuple[int, ...]]] = {
    "start": ("integers", np.int64, (1,)),
    "stop": ("integers", np.int64, (1,)),
    "context_start": ("integers", np.int64, (2,)),
    "context_stop": ("integers", np.int64, (2,)),
    "group_names": ("labels", None, (1,)),
    "ignored": ("integers", np.int64, (1,)),
}
NAMED_FIELDS = {"values": (1,), "attributes": (1, 2), "group_attributes": (1, 2)}

Index = Int64[np.ndarray, "batch length"]


def checked_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of Groups as arrays of the right dtype, or DataError naming the wrong one."""
    checked = dict(fields) | _as_arrays(fields)
    if not isinstance(checked.get("ordered", False), bool):
        raise DataError(f"`ordered` must be True or False, got {checked['ordered']!r}.")
    taken = {"item"} if checked.get("item") is not None else set()
    for name in NAMED_FIELDS:
        for key in checked[name]:
            if key in taken:
                raise DataError(f"`{name}` must have names of their own, got {key!r} once more.")
            taken.add(key)
    flat = list(columns_of(checked, (*ELEMENT_FIELDS, "values", "attributes")))
    n_flat = next((len(column) for _, _, column in flat), None)
    for part in columns_of(checked, (*GROUP_FIELDS, "group_attributes")):
        _check_rows(*part, len(checked["start"]), "groups")
    for part in flat:
        _check_rows(*part, n_flat or 0, "elements")
    _check_ranges(checked, "", n_flat)
    if (checked.get("context_start") is None) != (checked.get("context_stop") is None):
        raise DataError("`context_start` and `context_stop` must be given together, got one.")
    if checked.get("context_start") is not None:
        _check_ranges(checked, "context_", n_flat)
    _check_codes(checked)
    return checked


def _as_arrays(fields: Mapping[str, Any]) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    for name, (kind, dtype, ndims) in (ELEMENT_FIELDS | GROUP_FIELDS).items():
        if fields.get(name) is not None:
            arrays[name] = _as_array(name, fields[name], kind=kind, dtype=dtype, ndims=ndims)
    for name, ndims in NAMED_FIELDS.items():
        arrays[name] = {
            key: _as_array(f'{name}["{key}"]', column, kind="numbers", ndims=ndims)
            for key, column in (fields.get(name) or {}).items()
        }
    arrays["vocabulary"] = {
        key: _as_array(f'vocabulary["{key}"]', labels, kind="labels")
        for key, labels in (fields.get("vocabulary") or {}).items()
    }
    return arrays


def _as_array(
    name: str, column: Any, *, kind: str, dtype: type | None = None, ndims: tuple[int, ...] = (1,)
) -> np.ndarray:
    array = np.asarray(column)
    if array.size == 0 and dtype is not None:
        array = array.astype(dtype)  # an empty list has no say about its kind
    if array.dtype.kind not in KINDS[kind]:
        raise DataError(f"`{name}` must hold {kind}, got dtype {array.dtype}.")
    if array.ndim not in ndims:
        rule = " or ".join(str(n) for n in ndims)
        raise DataError(f"`{name}` must have {rule} dimension(s), got shape {array.shape}.")
    if array.ndim == 2 and array.shape[1] == 0:
        raise DataError(f"`{name}` must have at least one column, got shape {array.shape}.")
    if dtype is None or array.dtype == dtype:
        return array
    narrow: np.ndarray = array.astype(dtype)
    if not np.array_equal(narrow, array):
        raise DataError(f"`{name}` must fit into {np.dtype(dtype)}, got {array.max()}.")
    return narrow


def columns_of(
    fields: Mapping[str, Any], names: Iterable[str]
) -> Iterator[tuple[str, str | None, np.ndarray]]:
    """The columns that these fields of Groups hold, each with its key where a field has several."""
    for name in names:
        held = fields.get(name)
        if isinstance(held, Mapping):
            yield from ((name, key, column) for key, column in held.items())
        elif held is not None:
            yield name, None, held


def _check_rows(name: str, key: str | None, column: np.ndarray, length: int, unit: str) -> None:
    if len(column) != length:
        named = name if key is None else f'{name}["{key}"]'
        raise DataError(
            f"`{named}` must have one row for each of {length} {unit}, got {len(column)}."
        )


def _check_ranges(fields: Mapping[str, Any], prefix: str, n_flat: int | None) -> None:
    start, stop = fields[f"{prefix}start"], fields[f"{prefix}stop"]
    if start.shape != stop.shape:
        raise DataError(
            f"`{prefix}stop` must have the shape of `{prefix}start`, {start.shape}, "
            f"got {stop.shape}."
        )
    wrong = (start < 0) | (stop < start)
    if n_flat is not None:
        wrong |= stop > n_flat
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        end = "" if n_flat is None else f" <= {n_flat}, the number of elements"
        raise DataError(
            f"`{prefix}start` and `{prefix}stop` must be 0 <= start <= stop{end}, "
            f"got {start[where]} and {stop[where]} at group {where[0]}."
        )


def _check_codes(fields: Mapping[str, Any]) -> None:
    coded = {"item": fields.get("item")} | fields["attributes"] | fields["group_attributes"]
    for name, codes in coded.items():
        labels = fields["vocabulary"].get(name)
        if codes is None or codes.dtype.kind not in "iu" or not codes.size or codes.ndim > 1:
            continue
        low, high = int(codes.min()), int(codes.max())
        if low >= -1 and (labels is None or high < len(labels)):
            continue
        bound = "" if labels is None else f" and < {len(labels)}, the size of its vocabulary"
        got = low if low < -1 else high
        where = int(np.flatnonzero(codes == got)[0])
        raise DataError(f"`{name}` must be a code >= 0{bound} (-1: unknown), got {got} at {where}.")
    role = fields.get("role")
    for got in () if role is None or not role.size else (int(role.min()), int(role.max())):
        if got not in (0, 1):
            raise DataError(f"`role` must be 0 (target) or 1 (context), got {got}.")


def pad_ranges(
    start: Int64[np.ndarray, "batch"],
    stop: Int64[np.ndarray, "batch"],
    context_start: Int64[np.ndarray, "batch ranges"] | None = None,
    context_stop: Int64[np.ndarray, "batch ranges"] | None = None,
) -> tuple[Int64[np.ndarray, "batch length"], Int64[np.ndarray, "batch length"]]:
    """Flat element indices padded with -1, and how many ranges before the group's own each lies.

    The context ranges come first, in their order, then the group's own range (0 ranges before).
    """
    starts, stops = start[:, None], stop[:, None]
    if context_start is not None and context_stop is not None:
        starts = np.concatenate([context_start, starts], axis=1)
        stops = np.concatenate([context_stop, stops], axis=1)
    ends = np.cumsum(stops - starts, axis=1)
    begins = ends - (stops - starts)
    # At least one column, so that a batch of empty groups still has a length to attend over.
    offset = np.arange(max(1, int(ends[:, -1].max(initial=0))))
    element = np.full((len(start), len(offset)), -1, dtype=np.int64)
    steps_back = np.zeros(element.shape, dtype=np.int64)
    n_ranges = starts.shape[1]
    for k in range(n_ranges):
        inside = (offset >= begins[:, k, None]) & (offset < ends[:, k, None])
        np.copyto(element, offset + (starts - begins)[:, k, None], where=inside)
        steps_back[inside] = n_ranges - 1 - k
    return element, steps_back
