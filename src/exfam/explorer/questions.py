"""What the page may send: fields of a question, checked one by one."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from exfam.checks import ExfamError, shown

Question = Mapping[str, Any]
# Elements of a context, so that one question cannot hold the server up.
MOST_ELEMENTS = 2000


def text_of(question: Question, name: str, *, default: str | None = None) -> str:
    """A field of text. Raises ExfamError for another, and where there is none and no default."""
    value = question.get(name, default)
    if not isinstance(value, str):
        raise ExfamError(f"`{name}` must be a text, got {shown(value)}.")
    return value


def whole_of(
    question: Question, name: str, *, low: int, high: int, default: int | None = None
) -> int:
    """A whole number from `low` to `high`. Raises ExfamError for another."""
    value = question.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ExfamError(f"`{name}` must be a whole number, {low} .. {high}, got {shown(value)}.")
    return value


def codes_of(question: Question, name: str, *, n: int) -> list[int]:
    """Codes of items, each from 0 to n - 1. Raises ExfamError for others, and for too many."""
    value = question.get(name, [])
    codes = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else None
    if codes is None or not all(type(code) is int and 0 <= code < n for code in codes):
        raise ExfamError(f"`{name}` must be a list of codes, 0 .. {n - 1}, got {shown(value)}.")
    if len(codes) > MOST_ELEMENTS:
        raise ExfamError(
            f"`{name}` must have at most {MOST_ELEMENTS:,} elements, got {len(codes):,}."
        )
    return codes


def number_or_none(value: Any) -> float | None:
    """A number as JSON can say it: None where it is not finite."""
    number = float(value)
    return number if math.isfinite(number) else None


def numbers_or_none(values: Any) -> list[Any]:
    """An array of numbers as nested lists that JSON can say, None where one is not finite."""
    array = np.asarray(values, dtype=np.float64)
    listed = array.astype(object)
    listed[~np.isfinite(array)] = None
    numbers: list[Any] = listed.tolist()
    return numbers
