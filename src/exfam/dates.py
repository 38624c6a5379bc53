"""Dates and times written as text: one format for a whole column, never a guess between two."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, product
from re import ASCII, compile, sub
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Int64, Shaped

from exfam.checks import DataError

# The name of the format that years, months and days in this order have, as 2024-01-31T12:30.
ISO = "iso"

_ISO = compile(
    r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:?\d{2})?)?", ASCII
)
_ORDERS = ("%d-%m-%Y", "%m-%d-%Y", "%Y-%m-%d")
_NAMED = (
    *(f"%d{by}{month}{by}%Y" for month in ("%b", "%B") for by in " -"),
    *(f"{month} %d{by}%Y" for month in ("%b", "%B") for by in (", ", " ")),
)
_DATES = (
    *(order.replace("-", by) for order in _ORDERS for by in "/.-"),
    *_NAMED,
    # Two digits for a year between 1969 and 2068.
    *(order.replace("-", by).replace("%Y", "%y") for order in _ORDERS for by in "/.-"),
    *(named.replace("%Y", "%y") for named in _NAMED if "%b" in named),
)
_TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
_MONTHS = ("%Y-%m", "%Y/%m", "%m/%Y", "%m-%Y", "%m.%Y", "%b %Y", "%B %Y")
_FORMATS = (ISO, *(date + time for date, time in product(_DATES, _TIMES)), *_MONTHS)
# Of eight digits, which are dates only where a whole column says so.
_COMPACT = ("%Y%m%d", "%d%m%Y", "%m%d%Y")
_ALL = (*_FORMATS, *_COMPACT)
_COMPACT_YEARS = range(1900, 2101)
# A column of text that is dates in so large a share of its distinct texts is one of dates.
NEARLY_ALL = 0.9
_ZONED = compile(r".*\d{2}:\d{2}.*(Z|[+-]\d{2}:?\d{2})", ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# Read in another way it is another day.
_PROBE = datetime(2024, 2, 1, 12, 30)


def parse_dates(
    texts: pa.Array | Sequence[str | None],
    *,
    name: str,
    date_format: Any = None,
    where: Callable[[int], str] = "row {}".format,
) -> Shaped[np.ndarray, "rows"]:
    """A column of text as moments, datetime64 in microseconds and UTC; NaT where text is missing.

    `name`: what errors call the column
    `date_format`: "iso" or a format of `datetime.strptime`, such as "%d/%m/%Y"; None for the one
        format that all of the column fits (default None)
    `where`: a row in words, such as "row 3"

    Raises DataError naming column, row and remedy for a text of another format, for a column that
    fits several formats which disagree, such as 01/02/2024, and for one of which some rows alone
    have a time zone.
    """
    column = _Column.of(texts, name, where)
    if date_format is None:
        date_format = column.fitting(_FORMATS)[0]
    _check_format(date_format)
    column.check_zones()
    moments = [microseconds(text, date_format) for text in column.distinct]
    if None in moments:
        raise column.not_in_format([moment is None for moment in moments], date_format)
    known = np.array([*moments, np.iinfo(np.int64).min], dtype=np.int64)  # the last is NaT
    return known[column.codes].astype("datetime64[us]")


def find_date_format(
    texts: pa.Array | Sequence[str | None],
    *,
    name: str,
    where: Callable[[int], str] = "row {}".format,
) -> str | None:
    """The one format of dates that all texts of a column fit; None if they are not dates.

    Not dates are columns in which more than a tenth of the distinct texts fit none of the formats.
    A column of which nearly every text is some date, but not all of one format, or of several, is
    refused as in `parse_dates`; so is one of which other dates could be read in several ways, such
    as 05/05/2024 alone.
    """
    column = _Column.of(texts, name, where)
    possible = []
    n_wrong = 0
    for text in column.distinct:
        possible.append(_possible(text, _ALL))
        n_wrong += not possible[-1]
        if n_wrong > (1 - NEARLY_ALL) * len(column.distinct):
            return None
    if not possible:
        return None
    if n_wrong:
        commonest = Counter(chain(*possible)).most_common(1)[0][0]
        raise column.not_in_format([not formats for formats in possible], commonest)
    fitting = column.fitting(_ALL)
    if len(_readings(_PROBE.strftime(fitting[0]), fitting)) > 1:
        raise column.in_several_ways(0, fitting)
    return fitting[0]


def format_of_dates(
    texts: pa.Array | Sequence[str | None],
    *,
    name: str,
    likely: str | None = None,
    where: Callable[[int], str] = "row {}".format,
) -> tuple[str, bool]:
    """The format that `parse_dates` takes by itself, and whether no other would do as well.

    `likely`: the one to take where a column fits several formats which disagree (default None)
    """
    column = _Column.of(texts, name, where)
    fitting = column.fitting(_FORMATS, likely)
    return fitting[0], len(_readings(_PROBE.strftime(fitting[0]), fitting)) == 1


def have_zones(texts: Iterable[str]) -> bool:
    """Whether times in text all name a time zone, or an offset from UTC."""
    return all(_ZONED.fullmatch(text) for text in texts)


def date_share(texts: pa.Array | Sequence[str | None], *, date_format: Any) -> float:
    """The share of the distinct texts of a column that are dates of a format; 0 without texts.

    Raises DataError for a format without a year.
    """
    _check_format(date_format)
    distinct = _Column.of(texts, "", str).distinct
    n_dates = sum(microseconds(text, date_format) is not None for text in distinct)
    return n_dates / max(1, len(distinct))


def microseconds(text: str, date_format: str) -> int | None:
    """Microseconds since 1970, in UTC if the text names no zone; None if it is not so written."""
    try:
        if date_format == ISO:
            moment = datetime.fromisoformat(text) if _ISO.fullmatch(text) else None
        else:
            moment = datetime.strptime(text, date_format)
            is_compact = len(text) == 8 and moment.year in _COMPACT_YEARS
            if date_format in _COMPACT and not is_compact:  # strptime reads 1112024, too
                return None
    except ValueError:  # such as a 31st of June
        return None
    if moment is None:
        return None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND


def _check_format(date_format: Any) -> None:
    """Raise DataError for a format that cannot read the year that it writes."""
    if date_format == ISO:
        return
    try:
        right = datetime.strptime(_PROBE.strftime(date_format), date_format).year == _PROBE.year
    except (TypeError, ValueError):
        right = False
    if not right:
        raise DataError(
            f"`date_format` must be 'iso' or a format of datetime.strptime with a year, got "
            f"{date_format!r}. Write for instance '%d/%m/%Y' for 31/01/2024."
        )


def _possible(text: str, formats: Iterable[str]) -> tuple[str, ...]:
    alike = {ISO} | _WITH_MARKS.get(_marks(text), set())
    return tuple(
        date_format
        for date_format in formats
        if date_format in alike and microseconds(text, date_format) is not None
    )


def _marks(text: str) -> str:
    """What stands between the numbers and names of a date."""
    return sub(r"\s+", " ", sub(r"%?[^\W_]+", "", text))


# The formats with the same marks: reading a text in all of them would take long.
_WITH_MARKS = {
    marks: {date_format for date_format in _ALL if _marks(date_format) == marks}
    for marks in set(map(_marks, _ALL))
}


def _readings(text: str, formats: Iterable[str]) -> set[int]:
    """The moments that a text may be."""
    moments = (microseconds(text, date_format) for date_format in formats)
    return {moment for moment in moments if moment is not None}


@dataclass(frozen=True)
class _Column:
    """The distinct texts, and for each row which one it has, -1 where it is missing."""

    codes: Int64[np.ndarray, "rows"]
    distinct: list[str]
    name: str
    where: Callable[[int], str]

    @classmethod
    def of(
        cls, texts: pa.Array | Sequence[str | None], name: str, where: Callable[[int], str]
    ) -> "_Column":
        array = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.large_string())
        coded = array.cast(pa.large_string()).dictionary_encode()
        codes = coded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        return cls(codes, coded.dictionary.to_pylist(), name, where)

    def check_zones(self) -> None:
        """Raise DataError if some texts name a time zone and others do not."""
        bare = [not have_zones([text]) for text in self.distinct]
        if any(bare) and not all(bare):
            rows = np.flatnonzero(np.append(bare, False)[self.codes])
            raise DataError(
                f"Column {self.name!r} must have a time zone in all rows or in none, got "
                f"{self.distinct[self.codes[rows[0]]]!r} at {self.where(int(rows[0]))} "
                f"({len(rows)} of {len(self.codes)} rows without one). Add Z for UTC, or an "
                "offset such as +01:00."
            )

    def fitting(self, formats: tuple[str, ...], likely: str | None = None) -> tuple[str, ...]:
        """The formats that all texts fit; DataError for none, and if they disagree on a text.

        `likely`: the one to take alone if they do
        """
        if all(_ISO.fullmatch(text) for text in self.distinct):
            return (ISO,)
        fitting = formats
        for code, text in enumerate(self.distinct):
            left = _possible(text, fitting)
            if not left:
                wrong = [other == code for other in range(len(self.distinct))]
                raise self.not_in_format(wrong, fitting[0] if code else ISO)
            fitting = left
        for code, text in enumerate(self.distinct if len(fitting) > 1 else ()):
            if len(_readings(text, fitting)) > 1:
                if likely in fitting:
                    return (likely,)
                raise self.in_several_ways(code, fitting)
        return fitting

    def in_several_ways(self, code: int, fitting: Sequence[str]) -> DataError:
        either = " or ".join(map(repr, fitting))
        row = self.where(int(np.argmax(self.codes == code)))
        return DataError(
            f"Column {self.name!r} must hold dates that can be read in one way, got "
            f"{self.distinct[code]!r} at {row}, and all of the column fits {either}. Name the "
            "right one in `date_format`, or write dates as 2024-01-31."
        )

    def not_in_format(self, wrong: Sequence[bool], date_format: str) -> DataError:
        """The error for the first row whose text is `wrong`."""
        rows = np.flatnonzero(np.append(wrong, False)[self.codes])
        written = "such as '2024-01-31' or '2024-01-31T12:30'"
        if date_format != ISO:
            written = f"of one format, here {date_format!r}"
        return DataError(
            f"Column {self.name!r} must hold dates {written}, got "
            f"{self.distinct[self.codes[rows[0]]]!r} at {self.where(int(rows[0]))} "
            f"({len(rows)} of {len(self.codes)} rows). Mend these cells, or name the format of the "
            "column in `date_format`, such as '%d/%m/%Y'."
        )
