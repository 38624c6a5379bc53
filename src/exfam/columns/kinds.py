"""Which kinds of columns there are."""

import pyarrow as pa
from pyarrow import types

is_text = types.is_large_string


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type that columns of a kind are read as: dictionaries and all kinds of text are text.

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


def is_number(kind: pa.DataType, *, boolean: bool = True) -> bool:
    """Whether these are numbers, or nothing but missing; `boolean`: or truth values.

    >>> is_number(pa.bool_()), is_number(pa.bool_(), boolean=False)
    (True, False)
    """
    is_whole = types.is_integer(kind) or types.is_null(kind)
    return is_whole or is_real(kind) or (boolean and types.is_boolean(kind))


def is_time(kind: pa.DataType) -> bool:
    """Whether these are dates, moments, times of day or durations.

    >>> is_time(pa.duration("s"))
    True
    """
    return types.is_temporal(kind) and not types.is_interval(kind)


def is_moment(kind: pa.DataType) -> bool:
    """Whether these are dates or moments.

    >>> is_moment(pa.date32()), is_moment(pa.duration("s"))
    (True, False)
    """
    return types.is_date(kind) or types.is_timestamp(kind)
