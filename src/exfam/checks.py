"""Errors and argument checks shared by every floor.

ValueError
└── ExfamError
    ├── SupportError        a value its family cannot produce
    ├── DataError           a frame or file that cannot be read as groups
    ├── UnknownItemError    an item never seen in training
    ├── ModelFileError      a saved model that is damaged, foreign or newer
    └── CheckpointError     a checkpoint that does not belong to this fit

UserWarning
└── ExfamWarning            a result that is right, but may not be what the caller thinks it is
"""

import difflib
import math
import os
import types
import typing
from collections.abc import Iterable
from typing import Any

import numpy as np

# Letters of a value that an error shows.
_LONGEST = 400
# Systems take names of 255 bytes; files are first written beside their path, under longer names.
_LONGEST_NAME = 240
# Of one observation: sums of larger ones leave the numbers that networks compute with.
LARGEST_WEIGHT = 1e30


class ExfamError(ValueError):
    """Base of all errors that a caller can mend."""


class SupportError(ExfamError):
    """A value lies outside the support of its family."""


class DataError(ExfamError):
    """A frame or file cannot be read as groups."""


class UnknownItemError(DataError):
    """An item was never seen in training."""


class ModelFileError(ExfamError):
    """A saved model is damaged, foreign or newer than this version."""


class CheckpointError(ExfamError):
    """A checkpoint does not belong to this fit."""


class ExfamWarning(UserWarning):
    """A result is right, but may not be what the caller thinks it is: the message says why."""


def check_choice(name: str, value: Any, choices: Iterable[Any]) -> None:
    """Raise unless `value` is one of `choices`."""
    allowed = list(choices)
    # What is no single value, such as an array, may not say whether it equals one.
    single = value is None or isinstance(value, str | bool | int | float | np.generic)
    if not single or value not in allowed:
        listed = ", ".join(repr(choice) for choice in allowed)
        names = [choice for choice in allowed if isinstance(choice, str)]
        near = difflib.get_close_matches(value, names, n=1) if isinstance(value, str) else []
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ExfamError(f"`{name}` must be one of {listed}, got {shown(value)}.{hint}")


def shown(value: Any) -> str:
    """A value as an error names it: Python's text of it, cut where it is very long."""
    try:
        # NumPy's own numbers and texts as Python's: 1, not np.int64(1).
        text = repr(value.item() if isinstance(value, np.number | np.str_) else value)
    except Exception:  # objects may raise anything; Python itself refuses very large integers
        return f"a value of type {type(value).__name__} that Python cannot show"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def check_positive(name: str, value: Any, *, zero: bool = False) -> None:
    """Raise unless `value` is a finite number above 0 (from 0 with `zero=True`)."""
    is_number = isinstance(value, (int, float, np.integer, np.floating))
    is_whole = isinstance(value, (int, np.integer))  # finite, though floats may not hold it
    is_number = is_number and not isinstance(value, bool) and (is_whole or math.isfinite(value))
    if not is_number or value < 0 or (value == 0 and not zero):
        rule = "a number >= 0" if zero else "a number > 0"
        raise ExfamError(f"`{name}` must be {rule}, got {value!r}.")


def check_whole(name: str, value: Any, *, least: int = 1) -> None:
    """Raise unless `value` is an integer of at least `least`, and one that 64 bits hold."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_whole or value < least:
        raise ExfamError(f"`{name}` must be an integer >= {least}, got {value!r}.")
    if value >= 2**63:
        raise ExfamError(f"`{name}` must be an integer below 2^63, got {value!r}.")


def check_seed(name: str, value: Any) -> None:
    """Raise unless `value` is an integer that generators take: from 0 to 2^63 - 1."""
    check_whole(name, value, least=0)


def check_fraction(name: str, value: Any) -> None:
    """Raise unless 0 <= `value` < 1."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not is_number or not 0 <= value < 1:
        raise ExfamError(f"`{name}` must be a number in [0, 1), got {value!r}.")


def check_inside(name: str, value: Any) -> None:
    """Raise unless 0 < `value` < 1."""
    is_number = isinstance(value, int | float | np.integer | np.floating)
    if not is_number or not 0 < value < 1:
        raise ExfamError(f"`{name}` must be a number strictly between 0 and 1, got {value!r}.")


def check_path(name: str, path: Any) -> None:
    """Raise unless a file or folder of this name can be written."""
    rule = f"`{name}` must be"
    if not isinstance(path, str | os.PathLike):
        raise ExfamError(f"{rule} a path, got {shown(path)} of type {type(path).__name__}.")
    text = os.fspath(path)
    if not isinstance(text, str) or not is_utf8(text) or "\0" in text:
        raise ExfamError(f"{rule} a path of UTF-8 text without NUL, got {shown(path)}.")
    if not text:
        raise ExfamError(f'{rule} a path, got an empty one. The working directory is ".".')
    longest = max(len(part.encode()) for part in text.split(os.sep))
    if longest > _LONGEST_NAME:
        raise ExfamError(
            f"{rule} a path of names of at most {_LONGEST_NAME} bytes, got one of {longest}: "
            f"{shown(path)}."
        )


def with_types(record: Any) -> Any:
    """A dataclass that was read from a file, if its plain fields are of the types declared.

    Numbers must be finite. Fields of other classes are left to these.
    Raises TypeError, which whoever reads the file says more about.
    """
    kind = type(record)
    for name, declared in typing.get_type_hints(kind).items():
        value = getattr(record, name)
        if not _is_of(value, declared):
            raise TypeError(f"{name} of {kind.__name__} must be {declared}, got {value!r}")
    return record


def _is_of(value: Any, declared: Any) -> bool:
    parts = typing.get_args(declared)
    if typing.get_origin(declared) in (types.UnionType, typing.Union):
        return any(_is_of(value, part) for part in parts)
    if typing.get_origin(declared) is tuple:
        if not isinstance(value, tuple):
            return False
        wanted = parts[:1] * len(value) if parts[-1] is ... else parts
        return len(value) == len(wanted) and all(map(_is_of, value, wanted))
    if declared in (int, float):
        is_number = isinstance(value, int if declared is int else int | float)
        return is_number and not isinstance(value, bool) and abs(value) < math.inf
    return isinstance(value, declared) if declared in (str, bool, type(None)) else True


def is_utf8(text: str) -> bool:
    """Whether UTF-8 can write a text: halves of surrogate pairs it cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def regular_array(given: Any, *, otherwise: str) -> np.ndarray:
    """What is given as an array; DataError, saying `otherwise`, for lists of unlike lengths."""
    try:
        return np.asarray(given)
    except ValueError as error:  # NumPy's own rule
        raise DataError(otherwise) from error


def checked_validation(validation: Any) -> tuple[Any, Any]:
    """Data and targets to choose an epoch by; DataError for what is no pair."""
    if not isinstance(validation, list | tuple) or len(validation) != 2:
        raise DataError(f"`validation` must be a pair (X, y), got {type(validation).__name__}.")
    return validation[0], validation[1]


def support_error(
    name: str, got: Any, *, support: str, row: int, counts: tuple[int, int], hint: str = ""
) -> SupportError:
    """The error of a value outside the support; `counts`: such rows, and all rows."""
    where = f"at row {row} ({counts[0]} of {counts[1]} rows)"
    return SupportError(f"`{name}` must be {support}, got {got:g} {where}. {hint}".rstrip())
