"""How a text file is written: its encoding, its numbers, its dates, what stands for missing."""

import codecs
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from exfam.checks import DataError, ExfamError, check_choice, is_utf8, shown

DECIMALS = (".", ",")
THOUSANDS = ("", ",", ".", " ", "'")
# Parts in which a number may stand for a missing one.
MEASURED = ("value", "attributes", "group_attributes", "covariates")
Missing = str | int | float


@dataclass(frozen=True)
class Dialect:
    """How a file is written; what is None is found by looking at the whole file.

    `encoding`: of text files, a name that Python knows, such as "latin-1" or "utf-16"
    `decimal`: "." or ","; `thousands`: what stands between groups of three digits: ",", ".", " ",
    "'", or "" for nothing
    `date_format`: how text of times and orders writes dates: "iso" or a format of
    `datetime.strptime`
    `missing`: numbers and texts that stand for a missing value, beside empty cells; None for the
    words NA, NaN and null, which are then no names either
    `sheet`: of Excel files, the name of the sheet
    `likely`: what was found of a model's training data, by the names above, and "time_zone NAME"
    of a column: it decides where a file can be read in several ways
    `found`: takes what is found while a model is fitted; None where nothing is kept

    Raises ExfamError for what is none of these.

    >>> Dialect(decimal=",", missing=(-999,)).numbers
    (-999.0,)
    """

    encoding: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    date_format: str | None = None
    missing: Any = None
    sheet: str | None = None
    likely: Mapping[str, str] = field(default_factory=dict)
    found: dict[str, str] | None = None

    def __post_init__(self) -> None:
        if self.encoding is not None:
            check_encoding("encoding", self.encoding)
        if self.decimal is not None:
            check_choice("decimal", self.decimal, DECIMALS)
        if self.thousands is not None:
            check_choice("thousands", self.thousands, THOUSANDS)
            if self.thousands == self.decimal:
                raise ExfamError(
                    f"`thousands` must not be the decimal mark, got {self.thousands!r} for both. "
                    "Choose thousands='' if thousands are not marked."
                )
        if self.date_format is not None:
            check_date_format(self.date_format)
        if self.missing is not None:
            object.__setattr__(self, "missing", as_marks("missing", self.missing))

    @property
    def numbers(self) -> tuple[float, ...]:
        """The numbers that stand for a missing value."""
        return tuple(mark for mark in self.missing or () if not isinstance(mark, str))

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts that stand for a missing value, without white space around them."""
        return tuple(mark.strip() for mark in self.missing or () if isinstance(mark, str))

    def marks_of(self, argument: str) -> tuple[tuple[str, ...], tuple[float, ...]]:
        """The texts, and the numbers, that stand for missing in columns of this part.

        A number such as -99 may well be a longitude, the label of a group or a time.
        """
        return self.texts, self.numbers if argument in MEASURED else ()

    def remember(self, **settings: str) -> None:
        """Keep what was found, if it is the first of its name."""
        if self.found is not None:
            for name, setting in settings.items():
                self.found.setdefault(name, setting)

    def check_zone(self, name: str, zone: str) -> None:
        """Keep the zone of a column of times; DataError for "", none, where training had one."""
        if zone:
            self.remember(**{f"time_zone {name}": zone})
        elif known := self.likely.get(f"time_zone {name}"):
            raise DataError(
                f"Column {name!r} must hold times with a time zone, as in training ({known}), got "
                "times without one. Add theirs, in pandas by .dt.tz_localize('Europe/Paris') for "
                "instance, in text as in 2024-01-31T12:30+01:00."
            )


BY_LOOKING = Dialect()


def check_date_format(date_format: Any) -> None:
    """Raise ExfamError for a format of digits alone, whose dates look like numbers."""
    if isinstance(date_format, str) and not is_utf8(date_format):
        raise ExfamError(f"`date_format` must be text that UTF-8 can write, got {date_format!r}.")
    if isinstance(date_format, str) and datetime(2024, 2, 1).strftime(date_format).isdigit():
        raise ExfamError(
            f"`date_format` must have something between its numbers, got {date_format!r}: such "
            "dates look like numbers. Convert the column to dates first."
        )


def check_encoding(name: str, encoding: Any) -> None:
    """Raise ExfamError unless it is the name of an encoding of text that Python knows."""
    try:
        known = isinstance(encoding, str) and codecs.lookup(encoding)._is_text_encoding
    except (LookupError, ValueError):
        known = False
    if not known:
        raise ExfamError(
            f"`{name}` must be the name of an encoding that Python knows, such as 'utf-8', "
            f"'latin-1' or 'utf-16', got {shown(encoding)}."
        )


def as_marks(name: str, given: Any) -> tuple[Missing, ...]:
    """Numbers and texts that stand for a missing value, from one or several."""
    several = isinstance(given, list | tuple | set | frozenset | np.ndarray)
    given = np.atleast_1d(given) if isinstance(given, np.ndarray) else given
    marks = list(given) if several else [given]
    plain = [mark.item() if isinstance(mark, np.generic) else mark for mark in marks]
    for mark in plain:
        is_number = isinstance(mark, int | float) and not isinstance(mark, bool)
        is_word = isinstance(mark, str) and is_utf8(mark)
        if not (is_word or (is_number and mark == mark)):
            raise ExfamError(
                f"`{name}` must be a number or a text, or several, such as -99 or 'unknown', got "
                f"{shown(given)}. None, NaN and empty cells are missing anyway."
            )
    return tuple(mark if isinstance(mark, str) else _as_float(mark) for mark in plain)


def _as_float(number: int | float) -> float:
    try:
        return float(number)
    except OverflowError:  # which no cell holds
        return float("inf")
