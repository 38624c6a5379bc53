"""Which kinds of columns there are, and which may play which part."""

from collections.abc import Container

import pyarrow as pa
from pyarrow import types

from exfam.reading.table import Part

__all__ = ["LABELS", "broken_rule", "holds_labels", "is_real", "plain_type", "restored"]

LABELS = "hold labels (text, whole numbers, booleans)"


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type that a column is spoken of as: dictionaries and all kinds of text are text.

    >>> plain_type(pa.dictionary(pa.int8(), pa.string()))
    DataType(large_string)
    """
    if types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if types.is_string(kind) or types.is_string_view(kind):
        return pa.large_string()
    return pa.float32() if types.is_float16(kind) else kind


def is_real(kind: pa.DataType) -> bool:
    """Whether these are floats or decimals, which are labels only where they are whole.

    >>> is_real(pa.int8())
    False
    """
    return types.is_floating(kind) or types.is_decimal(kind)


def _is_number(kind: pa.DataType) -> bool:
    exact = types.is_integer(kind) or types.is_boolean(kind) or types.is_null(kind)
    return exact or is_real(kind)


def _is_time(kind: pa.DataType) -> bool:
    return types.is_temporal(kind) and not types.is_interval(kind)


def holds_labels(part: Part, kind: pa.DataType, known: Container[str]) -> bool:
    """Whether a part is coded by a vocabulary; `known` are the vocabularies that are given.

    >>> holds_labels(Part("attributes", "genre"), pa.large_string(), ())
    True
    """
    if part.argument in ("group", "item"):
        return True
    is_attribute = part.argument in ("attributes", "group_attributes")
    is_text = types.is_boolean(kind) or types.is_large_string(kind)
    return is_attribute and (part.name in known or is_text)


def broken_rule(part: Part, kind: pa.DataType, known: Container[str]) -> tuple[str, str] | None:
    """The rule that columns of this kind break in this part, and what to do; None if they may.

    >>> broken_rule(Part("value", "stars"), pa.large_string(), ())
    ('be numeric', 'Convert the column to numbers first.')
    """
    is_plain = _is_number(kind) or types.is_large_string(kind)
    if holds_labels(part, kind, known):
        fits = is_plain or (_is_time(kind) and part.argument == "group")
    elif part.argument == "order":
        fits = is_plain or _is_time(kind)
    else:
        is_day = types.is_timestamp(kind) or types.is_date(kind) or types.is_duration(kind)
        may_be_day = is_day or types.is_large_string(kind)
        if not _is_number(kind) and not (part.argument == "position" and may_be_day):
            return "be numeric", "Convert the column to numbers first."
        return None
    return None if fits else (LABELS, "Convert the column first.")


def restored(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """An array as its column's type, where DuckDB gave whole numbers or another unit of time.

    >>> restored(pa.array([1]), pa.date32()).to_pylist()
    [datetime.date(1970, 1, 2)]
    """
    if not types.is_temporal(kind) or array.type == kind:
        return array
    if types.is_integer(array.type):
        return array.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    return array.cast(kind, safe=False)
