"""Columns of one source, and what the parts that they play make of them."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int64, Shaped
from pyarrow import types

from exfam.columns.frames import frame_columns
from exfam.columns.kinds import is_moment, is_real, is_text, is_time
from exfam.columns.ordering import dates_in_text, sortable_text
from exfam.columns.parts import Part, Places, complaint
from exfam.columns.rules import broken_rule, rules_of

_LAST_YEAR = 9999


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
    places: Places = Places()

    @classmethod
    def of_frame(cls, frame: Any, parts: Sequence[Part]) -> "Columns":
        """The columns of a frame in memory that `parts` name; DataError as `frame_columns`."""
        return cls(frame_columns(frame, parts))

    @property
    def n_rows(self) -> int:
        """How many rows every column has."""
        return len(next(iter(self.arrays.values())))

    def complain(
        self, part: Part, rule: str, wrong: pa.Array | np.ndarray, advice: str = ""
    ) -> None:
        """Raise DataError if any row is `wrong`, naming the first, its file and what stands there.

        >>> part = Part("value", "stars")
        >>> Columns({part: pa.array([1, 2])}).complain(part, "be odd", np.array([False, False]))
        """
        rows = np.flatnonzero(np.asarray(wrong))
        if not rows.size:
            return
        found = (int(rows[0]), _as_python(self.arrays[part][int(rows[0])]), len(rows))
        raise complaint(self.places, part, rule, found=found, n_rows=self.n_rows, advice=advice)

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
        """A column of labels as codes and names.

        >>> part = Part("group", "user")
        >>> Columns.of_frame({"user": ["b", "a", "b"]}, [part]).labels(part).codes
        array([0, 1, 0])
        """
        array = self.check(part, (part.name,))
        encoded = (array.cast(pa.int64()) if is_real(array.type) else array).dictionary_encode()
        codes = _to_numpy(encoded.indices).astype(np.int64)
        return Labels(codes, label_names(encoded.dictionary))

    def numbers(self, part: Part, *, date_format: str | None = None) -> Shaped[np.ndarray, "rows"]:
        """A column of numbers as int64 or floats, NaN where missing.

        A `position` may be a time, or a date in text: it reads as days since 1970, durations as
        days.

        >>> part = Part("value", "stars")
        >>> Columns.of_frame({"stars": [3, None]}, [part]).numbers(part)
        array([ 3., nan])
        """
        array = self.check(part)
        if is_text(array.type):
            dates = dates_in_text(
                array, name=part.name, date_format=date_format, where=self.places.row
            )
            advice = "Convert the column to numbers or dates first."
            self.complain(part, "be numeric", np.full(len(array), dates is None), advice)
            array = dates
        if is_moment(array.type):
            return days_of(self.moments(part, array))
        return _to_numbers(array)

    def order(self, part: Part, *, date_format: str | None = None) -> Shaped[np.ndarray, "rows"]:
        """A column as numbers or times that sort as it should: text as what it writes.

        Raises DataError for other text: see `sortable_text`.

        >>> part = Part("order", "step")
        >>> Columns.of_frame({"step": ["t9", "t10", "t1"]}, [part]).order(part)
        array([ 9, 10,  1])
        """
        array = self.check(part)
        if is_text(array.type):
            array = sortable_text(
                array, name=part.name, date_format=date_format, where=self.places.row
            )
        if is_time(array.type) or types.is_integer(array.type):
            return _to_numpy(array)
        return _to_numbers(array)

    def moments(self, part: Part, array: pa.Array | None = None) -> Shaped[np.ndarray, "rows"]:
        """A column of dates or moments as datetime64 in microseconds and UTC; NaT where missing.

        `array`: the dates, where the column has them as text

        Raises DataError for years before 1 and after 9999.
        """
        stored = _to_numpy(self.arrays[part] if array is None else array)
        years = stored.astype("datetime64[Y]").astype(np.int64) + 1970
        wrong = ~np.isnat(stored) & ((years < 1) | (years > _LAST_YEAR))
        rule = f"hold dates of the years 1 to {_LAST_YEAR}"
        self.complain(part, rule, wrong, "Mend these cells.")
        return stored.astype("datetime64[us]")


def label_names(labels: pa.Array) -> np.ndarray:
    """Labels as NumPy holds them: text as objects.

    >>> label_names(pa.array(["a", "b"], pa.large_string())).dtype
    dtype('O')
    """
    is_object = is_text(labels.type)
    return np.array(labels.to_pylist(), dtype=object) if is_object else _to_numpy(labels)


def days_of(moments: Shaped[np.ndarray, "rows"]) -> Float[np.ndarray, "rows"]:
    """Days since 1970, NaN for NaT; durations as days.

    >>> days_of(np.array(["1970-01-02T12"], "datetime64[us]"))
    array([1.5])
    """
    if moments.dtype.kind == "M":
        moments = moments.astype("datetime64[us]") - np.datetime64(0, "us")
    return moments / np.timedelta64(1, "D")


def _to_numbers(array: pa.Array) -> Shaped[np.ndarray, "rows"]:
    kind = array.type
    if types.is_duration(kind):
        return days_of(_to_numpy(array))
    is_whole = types.is_boolean(kind) or (types.is_integer(kind) and kind != pa.uint64())
    if is_whole and not array.null_count:
        return _to_numpy(array).astype(np.int64)
    if not types.is_floating(kind):
        is_boolean = types.is_boolean(kind)
        array = (array.cast(pa.int8()) if is_boolean else array).cast(pa.float64(), safe=False)
    return _to_numpy(array)


def _to_numpy(array: pa.Array) -> np.ndarray:
    return array.to_numpy(zero_copy_only=False)


def _as_python(cell: pa.Scalar) -> Any:
    """What a cell holds, as an error shows it."""
    try:
        return cell.as_py()
    except pa.ArrowInvalid:  # a time in a zone that this machine does not know
        return cell.cast(pa.timestamp(cell.type.unit)).as_py()
    except (ValueError, OverflowError):  # a date that Python has none of
        return str(cell.cast(pa.string()))
