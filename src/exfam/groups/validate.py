"""Checks of the columns of Groups, made once when they are put together."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

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


def checked_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of Groups as arrays of the right dtype, or DataError naming the wrong one.

    >>> checked_fields({"start": [0], "stop": [2], "item": [1, 0]})["item"]
    array([1, 0], dtype=int32)
    """
    checked = dict(fields) | _as_arrays(fields)
    if not isinstance(checked.get("ordered", False), bool):
        raise DataError(f"`ordered` must be True or False, got {checked['ordered']!r}.")
    _check_names(checked)
    n_groups, n_flat = len(checked["start"]), _n_flat(checked)
    for name, column in _columns(checked, GROUP_FIELDS, ("group_attributes",)):
        _check_rows(name, column, n_groups, "groups")
    for name, column in _columns(checked, ELEMENT_FIELDS, ("values", "attributes")):
        _check_rows(name, column, n_flat or 0, "elements")
    _check_ranges(checked, "", n_flat)
    if (checked.get("context_start") is None) != (checked.get("context_stop") is None):
        raise DataError("`context_start` and `context_stop` must be given together, got one.")
    if checked.get("context_start") is not None:
        _check_ranges(checked, "context_", n_flat)
    _check_codes(checked)
    return checked


def _check_names(fields: Mapping[str, Any]) -> None:
    taken = {"item"} if fields.get("item") is not None else set()
    for name in NAMED_FIELDS:
        for key in fields[name]:
            if key in taken:
                raise DataError(f"`{name}` must have names of their own, got {key!r} once more.")
            taken.add(key)


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
    name: str,
    column: Any,
    *,
    kind: str,
    dtype: type | None = None,
    ndims: tuple[int, ...] = (1,),
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


def _columns(
    fields: Mapping[str, Any], plain: Mapping[str, Any], named: tuple[str, ...]
) -> Iterator[tuple[str, np.ndarray]]:
    for name in plain:
        if fields.get(name) is not None:
            yield name, fields[name]
    for name in named:
        for key, column in fields[name].items():
            yield f'{name}["{key}"]', column


def _n_flat(fields: Mapping[str, Any]) -> int | None:
    columns = _columns(fields, ELEMENT_FIELDS, ("values", "attributes"))
    return next((len(column) for _, column in columns), None)


def _check_rows(name: str, column: np.ndarray, length: int, unit: str) -> None:
    if len(column) != length:
        raise DataError(
            f"`{name}` must have one row for each of {length} {unit}, got {len(column)}."
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
