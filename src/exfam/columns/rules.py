"""Kinds of columns, and what a column must hold for the part that it plays, for Arrow and SQL."""

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from exfam.columns.parts import Part

# How files without types write missing cells of numbers, in lower case and without white space.
GAPS = ("", "na", "nan", "null")
# Whole numbers up to here are exact as floating-point numbers.
EXACT = 2**53
LABELS = "hold labels (text, whole numbers, booleans)"
_TIMES = "be times (dates, timestamps, numbers, or text such as '2007-10-01' or '2007-10-01T12:30')"
_CONVERT = "Convert the column first."
_TIMED = ("time", "times")
# Parts whose whole numbers become floats.
_FLOATS = ("value", "position", "coordinates", "covariates", *_TIMED)

is_text = types.is_large_string


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type that columns of a kind are read as: dictionaries and all kinds of text are text."""
    if types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if types.is_string(kind) or types.is_string_view(kind):
        return pa.large_string()
    return pa.float32() if types.is_float16(kind) else kind


def is_real(kind: pa.DataType) -> bool:
    """Whether these are floats or decimals, which are labels only where they are whole."""
    return types.is_floating(kind) or types.is_decimal(kind)


def is_number(kind: pa.DataType, *, boolean: bool = True) -> bool:
    """Whether these are numbers, or nothing but missing; `boolean`: or truth values."""
    is_whole = types.is_integer(kind) or types.is_null(kind)
    return is_whole or is_real(kind) or (boolean and types.is_boolean(kind))


def is_time(kind: pa.DataType) -> bool:
    """Whether these are dates, moments, times of day or durations."""
    return types.is_temporal(kind) and not types.is_interval(kind)


def is_moment(kind: pa.DataType) -> bool:
    """Whether these are dates or moments."""
    return types.is_date(kind) or types.is_timestamp(kind)


@dataclass(frozen=True)
class CellRule:
    """What the cells break that are `wrong`: `sql` says the same of a column {x}.

    With `if_gaps`, only in a column that has missing cells.
    """

    text: str
    advice: str
    wrong: Callable[[pa.Array], pa.Array]
    sql: str
    if_gaps: bool = False


_WHOLE = CellRule(LABELS, "", lambda x: pc.not_equal(pc.floor(x), x), "{x} <> floor({x})")
_NO_INFINITY = CellRule(LABELS, "", pc.is_inf, "isinf({x})")
_NO_FLOAT = CellRule(
    "be below 2**53 in size where it is a floating-point number",
    "Convert the column to integers or text.",
    lambda x: pc.greater_equal(pc.abs(x.cast(pa.float64())), float(EXACT)),
    f"abs({{x}}) >= {EXACT}",
)
_NO_INTEGER = CellRule(
    LABELS, "", lambda x: pc.greater(pc.abs(x.cast(pa.float64())), 9.2e18), "abs({x}) > 9.2e18"
)
FINITE = CellRule("be finite", "Drop or mend these rows.", pc.is_inf, "isinf({x})")


def holds_labels(part: Part, kind: pa.DataType, known: Container[str] = ()) -> bool:
    """Whether a part is coded by a vocabulary; `known` are the vocabularies that are given."""
    if part.argument in ("group", "item", "site"):
        return True
    is_attribute = part.argument in ("attributes", "group_attributes")
    return is_attribute and (part.name in known or types.is_boolean(kind) or is_text(kind))


def broken_rule(
    part: Part, kind: pa.DataType, known: Container[str] = ()
) -> tuple[str, str] | None:
    """The rule that columns of this kind break in this part, and what to do; None if they may."""
    is_plain = is_number(kind) or is_text(kind)
    if part.argument in _TIMED:
        fits = is_number(kind, boolean=False) or is_moment(kind) or is_text(kind)
        return None if fits else (_TIMES, _CONVERT)
    if holds_labels(part, kind, known):
        fits = is_plain or (part.argument == "group" and is_time(kind))
        return None if fits else (LABELS, _CONVERT)
    if part.argument == "order":
        return None if is_plain or is_time(kind) else (LABELS, _CONVERT)
    is_position = is_time(kind) or is_text(kind)
    fits = is_number(kind, boolean=part.argument != "coordinates")
    if fits or (part.argument == "position" and is_position):
        return None
    return "be numeric", "Convert the column to numbers first."


def rules_of(part: Part, kind: pa.DataType, known: Container[str] = ()) -> Iterator[CellRule]:
    """The rules that cells of a column of this kind must keep in this part."""
    if part.argument != "value":
        advice = "Drop or fill these rows."
        if part.argument == "coordinates":
            advice = "Give its coordinates in every row of a site."
        yield CellRule("not be missing", advice, pc.is_null, "{x} IS NULL", if_gaps=True)
    if broken := broken_rule(part, kind, known):
        yield CellRule(*broken, pc.is_valid, "{x} IS NOT NULL")
    elif holds_labels(part, kind, known):
        if is_real(kind):
            yield _WHOLE
            yield from (_NO_INFINITY, _NO_FLOAT) if types.is_floating(kind) else (_NO_INTEGER,)
    elif types.is_floating(kind):
        yield FINITE
    elif types.is_integer(kind) and part.argument in _FLOATS:
        yield exact_rule(kind)


def exact_rule(kind: pa.DataType) -> CellRule:
    """Whole numbers must not change where they become floats."""
    is_large = kind == pa.uint64()
    column = "column of unsigned integers" if is_large else "column with gaps"
    return CellRule(
        f"be at most 2**53 in size in a {column}",
        _CONVERT,
        lambda x: _outside(x, is_large),
        f"NOT {{x}} BETWEEN {-EXACT} AND {EXACT}",
        if_gaps=not is_large,
    )


def _outside(array: pa.Array, is_large: bool) -> pa.Array:
    above = pc.greater(array, pa.scalar(EXACT, array.type if is_large else pa.int64()))
    return above if is_large else pc.or_(above, pc.less(array, pa.scalar(-EXACT, pa.int64())))
