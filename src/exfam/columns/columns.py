"""Columns of one source, and what the parts that they play make of them."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Int64, Shaped
from pyarrow import types

from exfam.checks import DataError
from exfam.columns.dialect import BY_LOOKING, Dialect
from exfam.columns.frames import frame_columns
from exfam.columns.parts import Origin, Part
from exfam.columns.rules import (
    broken_rule,
    is_moment,
    is_real,
    is_text,
    is_time,
    plain_type,
    rules_of,
)
from exfam.dates import find_date_format, format_of_dates, have_zones, parse_dates

_LAST_YEAR = 9999
Where = Callable[[int], str]
# What times in text have for a zone.
OFFSET = "an offset from UTC"
# One pattern for a whole column. What is not a number (a, b, c) is the same in every row.
_NUMBERED = (
    r"^(?P<before>|[^\d]*[^\d.,+\-]|[^\d]*\w-)(?P<a>\d{1,18})(?P<after>|[^\d.,][^\d]*)$",
    r"^(?P<a>\d{4})(?P<between>[-/ ]?[WQ]?)(?P<b>\d{1,2})$",
    r"^(?P<a>\d{1,2}):(?P<b>\d{2})$",
    r"^(?P<a>\d{1,2}):(?P<b>\d{2}):(?P<c>\d{2})$",
)
_NUMBERS = ("a", "b", "c")


@dataclass(frozen=True, eq=False)
class Labels:
    """A column of labels: row i holds `names[codes[i]]`, names in order of first appearance."""

    codes: Int64[np.ndarray, "rows"]
    names: np.ndarray


@dataclass(frozen=True, eq=False)
class Columns:
    """Arrow columns of one length, and where their rows stand.

    Reading a part raises DataError naming the first row that breaks one of its rules.
    """

    arrays: Mapping[Part, pa.Array]
    origin: Origin = Origin()

    @classmethod
    def of_frame(cls, frame: Any, parts: Sequence[Part]) -> "Columns":
        """The columns of a frame in memory that `parts` name; DataError as `frame_columns`."""
        return cls(frame_columns(frame, parts))

    def without_marks(self, dialect: Dialect) -> "Columns":
        """The columns with cells missing that are what the dialect says stands for missing."""
        if not dialect.missing:
            return self
        arrays = {
            part: _without(array, *dialect.marks_of(part.argument))
            for part, array in self.arrays.items()
        }
        return Columns(arrays, self.origin)

    @property
    def n_rows(self) -> int:
        """How many rows every column has."""
        return len(next(iter(self.arrays.values())))

    def complain(
        self, part: Part, rule: str, wrong: pa.Array | np.ndarray, advice: str = ""
    ) -> None:
        """Raise DataError if any row is `wrong`, naming the first, its file and its cell."""
        rows = np.flatnonzero(np.asarray(wrong))
        if rows.size:
            found = (int(rows[0]), _as_python(self.arrays[part][int(rows[0])]), len(rows))
            raise self.origin.error(part, rule, found=found, n_rows=self.n_rows, advice=advice)

    def check(self, part: Part, known: Container[str] = ()) -> pa.Array:
        """The column, if it keeps the rules of its part; `known`: the vocabularies that are given.

        A column of values that are all missing may be of any kind.
        """
        array = self.arrays[part]
        for rule in rules_of(part, array.type, known):
            if array.null_count or not rule.if_gaps:
                wrong = rule.wrong(array).fill_null(False)
                self.complain(part, rule.text, wrong, rule.advice)
        is_broken = broken_rule(part, array.type, known) is not None
        return pa.nulls(len(array), pa.float64()) if is_broken else array

    def labels(self, part: Part) -> Labels:
        """A column of labels as codes and names."""
        array = self.check(part, (part.name,))
        encoded = (array.cast(pa.int64()) if is_real(array.type) else array).dictionary_encode()
        codes = numbers_in(encoded.indices).astype(np.int64)
        return Labels(codes, label_names(encoded.dictionary))

    def numbers(self, part: Part, *, dialect: Dialect = BY_LOOKING) -> Shaped[np.ndarray, "rows"]:
        """A column of numbers as int64 or floats, NaN where missing.

        A `position` may be a time, or text as `positions_in_text` has it: dates read as days since
        1970, durations as days.
        """
        array = self.check(part)
        if is_text(array.type):
            positions = positions_in_text(
                array, name=part.name, dialect=dialect, where=self.origin.row
            )
            advice = "Convert the column to numbers or dates first."
            self.complain(part, "be numeric", np.full(len(array), positions is None), advice)
            array = positions
        elif is_moment(array.type):
            dialect.check_zone(part.name, zone_of(array.type))
        if is_moment(array.type):
            return days_of(self.moments(part, array))
        if types.is_time(array.type):
            array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
        return _to_numbers(array)

    def order(self, part: Part, *, dialect: Dialect = BY_LOOKING) -> Shaped[np.ndarray, "rows"]:
        """A column as numbers or times that sort as it should: text as `sortable_text`."""
        array = self.check(part)
        if is_text(array.type):
            array = sortable_text(array, name=part.name, dialect=dialect, where=self.origin.row)
        is_whole = is_time(array.type) or types.is_integer(array.type)
        return numbers_in(array) if is_whole else _to_numbers(array)

    def moments(self, part: Part, array: pa.Array | None = None) -> Shaped[np.ndarray, "rows"]:
        """A column of dates or moments as datetime64 in microseconds and UTC; NaT where missing.

        `array`: the dates, where the column has them as text

        Raises DataError for years before 1 and after 9999.
        """
        stored = numbers_in(self.arrays[part] if array is None else array)
        years = stored.astype("datetime64[Y]").astype(np.int64) + 1970
        wrong = ~np.isnat(stored) & ((years < 1) | (years > _LAST_YEAR))
        rule = f"hold dates of the years 1 to {_LAST_YEAR}"
        self.complain(part, rule, wrong, "Mend these cells.")
        return stored.astype("datetime64[us]")


def _without(array: pa.Array, texts: Sequence[str], numbers: Sequence[float]) -> pa.Array:
    kind = array.type
    if is_text(kind) and texts:
        marked = pc.is_in(pc.utf8_trim_whitespace(array), pa.array(texts, kind))
    elif numbers and (is_real(kind) or types.is_integer(kind)):
        # In a column of float32 -99.9 is not the float64 that is closest to it.
        width = pa.float32() if types.is_float32(kind) else pa.float64()
        stored = array if types.is_floating(kind) else array.cast(width, safe=False)
        marked = pc.is_in(stored, pa.array(numbers, pa.float64()).cast(stored.type))
    else:
        return array
    return pc.if_else(marked, pa.scalar(None, kind), array)


def label_names(labels: pa.Array) -> np.ndarray:
    """Labels as NumPy holds them: text as objects."""
    # Arrow's own way imports pandas.
    is_object = is_text(plain_type(labels.type))
    return np.array(labels.to_pylist(), dtype=object) if is_object else numbers_in(labels)


def days_of(moments: Shaped[np.ndarray, "rows"]) -> Float[np.ndarray, "rows"]:
    """Days since 1970, NaN for NaT; durations as days."""
    if moments.dtype.kind == "M":
        moments = moments.astype("datetime64[us]") - np.datetime64(0, "us")
    return moments / np.timedelta64(1, "D")


def _to_numbers(array: pa.Array) -> Shaped[np.ndarray, "rows"]:
    kind = array.type
    if types.is_duration(kind):
        return days_of(numbers_in(array))
    is_whole = types.is_boolean(kind) or (types.is_integer(kind) and kind != pa.uint64())
    if is_whole and not array.null_count:
        return numbers_in(array).astype(np.int64)
    if not types.is_floating(kind):
        is_boolean = types.is_boolean(kind)
        array = (array.cast(pa.int8()) if is_boolean else array).cast(pa.float64(), safe=False)
    return numbers_in(array)


def numbers_in(array: pa.Array) -> np.ndarray:
    """A column as NumPy's array, not copied where it need not be."""
    kind = array.type
    is_plain = types.is_integer(kind) or types.is_floating(kind)
    if is_plain and len(array) and not array.null_count:
        # Arrow's own way imports pandas.
        held = np.frombuffer(array.buffers()[1], dtype=kind.to_pandas_dtype())
        return held[array.offset : array.offset + len(array)]
    return array.to_numpy(zero_copy_only=False)


def _as_python(cell: pa.Scalar) -> Any:
    """What a cell holds, as an error shows it."""
    try:
        return cell.as_py()
    except pa.ArrowInvalid:  # a time in a zone that this machine does not know
        return cell.cast(pa.timestamp(cell.type.unit)).as_py()
    except (ValueError, OverflowError):  # a date that Python has none of
        return str(cell.cast(pa.string()))


def sortable_text(
    texts: pa.Array, *, name: str, dialect: Dialect = BY_LOOKING, where: Where = "row {}".format
) -> pa.Array:
    """A column of text, none of it missing, as numbers or timestamps that sort as it should.

    Numbers sort as numbers, unless some have leading zeros and all are dates, such as 01052023.
    Dates are read in the format that all of the column fits, or in that of the dialect, as for
    `exfam.dates.parse_dates`. Names such as t9 and t10, weeks such as 2024-W07 and times such as
    09:30 sort by their numbers. `name`: what errors call the column.

    Raises DataError naming column, row and remedy for any other text, which has no order.
    """
    keys = _keys_in_text(texts, name, dialect, where)
    if keys is not None:
        return keys
    raise DataError(
        f"`order` must hold numbers, dates or names with one number each, such as 't9' and 't10', "
        f"got {texts[0].as_py()!r} at {where(0)} of column {name!r}. Other text has no order of "
        "its own: convert the column to numbers, or name the format of dates in `date_format`."
    )


def positions_in_text(
    texts: pa.Array, *, name: str, dialect: Dialect = BY_LOOKING, where: Where = "row {}".format
) -> pa.Array | None:
    """As `sortable_text`, with a zone as the dialect has it; None for text that has no order."""
    keys = _keys_in_text(texts, name, dialect, where)
    if keys is not None and is_moment(keys.type):
        _check_zone(texts, name, dialect)
    return keys


def _keys_in_text(texts: pa.Array, name: str, dialect: Dialect, where: Where) -> pa.Array | None:
    numbers = _numbers(texts)
    if numbers is not None:
        dates = _padded_dates(texts, name, where)
        numbers = numbers if dates is None else dates
    if numbers is None and dialect.date_format is None:
        numbers = _numbered(texts)
    if numbers is None and (dialect.date_format is not None or _begins_with_date(texts)):
        numbers = _read_dates(texts, name, dialect, where)
    return numbers


def times_in_text(texts: pa.Array, *, name: str, dialect: Dialect, where: Where) -> pa.Array:
    """As `exfam.dates.parse_dates`, by the dialect, which keeps what is found, zones included."""
    moments = _read_dates(texts, name, dialect, where)
    _check_zone(texts, name, dialect)
    return moments


def _check_zone(texts: pa.Array, name: str, dialect: Dialect) -> None:
    first = texts.drop_null()[:1].to_pylist()
    dialect.check_zone(name, OFFSET if first and have_zones(first) else "")


def _begins_with_date(texts: pa.Array) -> bool:
    first = texts[0].as_py() if len(texts) else ""
    return not first.isdigit() and _is_date(first)


def _read_dates(texts: pa.Array, name: str, dialect: Dialect, where: Where) -> pa.Array:
    date_format, is_sure = dialect.date_format, False
    if date_format is None:
        likely = dialect.likely.get("date_format")
        date_format, is_sure = format_of_dates(texts, name=name, likely=likely, where=where)
    moments = parse_dates(texts, name=name, date_format=date_format, where=where)
    if is_sure:
        dialect.remember(date_format=date_format)
    return pa.array(moments)


def zone_of(kind: pa.DataType) -> str:
    """The time zone of a column of dates or moments; "" for none."""
    return getattr(kind, "tz", None) or ""


def _is_date(text: str) -> bool:
    try:
        return find_date_format([text], name="") is not None
    except DataError:  # a date of several formats
        return True


def _numbers(texts: pa.Array) -> pa.Array | None:
    """The numbers that all texts write; None if one writes none, or no finite one."""
    trimmed = pc.utf8_trim_whitespace(texts)
    for kind in (pa.int64(), pa.float64()):
        try:
            numbers = trimmed.cast(kind)
        except pa.ArrowInvalid:
            continue
        is_finite = kind == pa.int64() or pc.all(pc.is_finite(numbers)).as_py()
        return numbers if is_finite else None
    return None


def _padded_dates(texts: pa.Array, name: str, where: Where) -> pa.Array | None:
    """The dates that numbers with leading zeros write, such as 01052023; None if they are none."""
    padded = pc.match_substring_regex(texts, r"^\s*0\d")
    if not pc.any(padded).as_py():
        return None
    try:
        date_format = find_date_format(texts, name=name, where=where)
    except DataError as error:
        row = pc.index(padded, True).as_py()
        raise DataError(
            "`order` must hold numbers, or dates that can be read in one way, got "
            f"{texts[row].as_py()!r} at {where(row)} of column {name!r}, which may be either. "
            "Write dates as 2024-01-31, numbers without leading zeros."
        ) from error
    if date_format is None:
        return None
    return pa.array(parse_dates(texts, name=name, date_format=date_format, where=where))


def _numbered(texts: pa.Array) -> pa.Array | None:
    """The numbers of names that differ in nothing else; None for other texts."""
    for pattern in _NUMBERED:
        parts = pc.extract_regex(texts, pattern)
        if parts.null_count or not len(parts):
            continue
        columns = dict(zip((field.name for field in parts.type), parts.flatten(), strict=True))
        if any(pc.count_distinct(columns[key]).as_py() > 1 for key in columns.keys() - {*_NUMBERS}):
            continue
        numbers = np.zeros(len(texts), dtype=np.int64)
        for key in _NUMBERS:
            if key in columns:
                part = columns[key].cast(pa.int64()).to_numpy(zero_copy_only=False)
                numbers = numbers * 100 + part
        return pa.array(numbers)
    return None
