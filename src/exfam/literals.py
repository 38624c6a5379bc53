"""Plain values as they are written in words: each kind turns what is written into its value.

A kind gives back what it gave: its own value is accepted unchanged. It raises ValueError with the
rule that was broken, "must be a number", and leaves the rest of the sentence to the caller.
"""

import contextlib
import math
from collections.abc import Callable
from typing import Any

Kind = Callable[[Any], Any]

TRUTH = {"true": True, "yes": True, "false": False, "no": False}
_NOTHING = ("none", "null", "~")


def text(value: Any) -> str:
    """A word or a path."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError("must be a text")
    return value


def flag(value: Any) -> bool:
    """True or false; yes and no are as good."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or value.lower() not in TRUTH:
        raise ValueError("must be true or false")
    return TRUTH[value.lower()]


def whole(value: Any) -> int:
    """A whole number that 64 bits can hold."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError("must be a whole number")
    if abs(value) >= 2**63:
        raise ValueError("must be a whole number of 64 bits")
    return value


def number(value: Any) -> float:
    """A finite number."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = float(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or abs(value) > 1e300 or math.isnan(value):
        raise ValueError("must be a finite number")
    return float(value)


def row_of_numbers(value: Any) -> tuple[float, ...]:
    """One number or several, that stay as they are."""
    return tuple(number(part) for part in _several(value))


def row_of_whole_numbers(value: Any) -> tuple[int, ...]:
    """One whole number or several, that stay as they are; none from an empty list."""
    return tuple(whole(part) for part in _several(value))


def or_auto(kind: Kind) -> Kind:
    """The kind that takes the word auto besides."""

    def value_or_auto(value: Any) -> Any:
        if value == "auto":
            return value
        try:
            return kind(value)
        except ValueError as error:
            raise ValueError(f"{error} or auto") from None

    return value_or_auto


def optional(kind: Kind) -> Kind:
    """The kind that takes null besides."""
    return lambda value: None if is_nothing(value) else kind(value)


def is_nothing(value: Any) -> bool:
    """Whether this is none, or a word for it."""
    return value is None or (isinstance(value, str) and value.lower() in _NOTHING)


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
