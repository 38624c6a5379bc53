"""Cells that are right as they stand, and seldom what was meant: they are pointed out."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from exfam.checks import ExfamWarning
from exfam.columns.label_index import LabelIndex, without_white_space

# Numbers that programs write where they have none, beside those of nines alone.
_STAND_INS = frozenset({32767.0, 32768.0, 2147483647.0, 2147483648.0, 1e20, 1e30})
# So far from all others, in units of the range of these.
_FAR = 1.5
_FEWEST_OTHERS = 3


def warn_of_twins(argument: str, column: str, labels: Any, known: Any = ()) -> None:
    """One ExfamWarning for labels that differ in white space alone, such as ' milk' and 'milk'.

    `argument`, `column`: the part and its name; `known`: labels of a fit that they are beside, or
        their index
    """
    if isinstance(known, LabelIndex):
        if not known.has_twins([label for label in labels if isinstance(label, str)]):
            return
        known = known.labels
    # Arrays of another type, which may be long, have no text.
    may_be = [
        some for some in (known, labels) if getattr(some, "dtype", np.dtype(object)).kind in "OU"
    ]
    texts = list(dict.fromkeys(x for some in may_be for x in some if isinstance(x, str)))
    if not texts:
        return
    plain = without_white_space(texts)
    if plain == texts or len(set(plain)) == len(texts):
        return
    seen: dict[str, str] = {}
    twins = [
        (seen[key], text)
        for key, text in zip(plain, texts, strict=True)
        if seen.setdefault(key, text) != text
    ]
    first, second = twins[0]
    more = f", and {len(twins) - 1} more such pairs" if len(twins) > 1 else ""
    warnings.warn(
        f"`{argument}` has labels in column {column!r} that differ in white space alone: {first!r} "
        f"and {second!r}{more}. They are told apart; strip them if they are the same.",
        ExfamWarning,
        stacklevel=2,
    )


def warn_of_stand_ins(columns: Mapping[str, np.ndarray]) -> None:
    """One ExfamWarning a column in which a number such as -999 repeats, far from all others."""
    for name, column in columns.items():
        found = stand_in(column)
        if found is not None:
            number, count, low, high = found
            warnings.warn(
                f"Column {name!r} has {number:g} in {count} of {len(column)} rows, and else only "
                f"numbers from {low:g} to {high:g}. If it stands for a missing value, pass "
                f"missing={number:g}; pass missing=() if it does not.",
                ExfamWarning,
                stacklevel=2,
            )


def stand_in(column: np.ndarray) -> tuple[float, int, float, float] | None:
    """A number that most likely stands for a missing one, how often, and the range of the others.

    >>> stand_in(np.array([1.0, 2.0, -999.0, 4.0, -999.0]))
    (-999.0, 2, 1.0, 4.0)
    >>> stand_in(np.array([996.0, 998.0, 999.0, 997.0, 999.0])) is None
    True
    """
    if column.dtype.kind not in "iuf" or column.ndim != 1:
        return None
    finite = column[np.isfinite(column)] if column.dtype.kind == "f" else column
    if not len(finite):
        return None
    ends = [float(end) for end in (finite.min(), finite.max()) if _may_stand_in(float(end))]
    others = finite[~np.isin(finite, ends)] if ends else finite
    if not ends or len(others) < _FEWEST_OTHERS:
        return None
    low, high = float(others.min()), float(others.max())
    for end in ends:
        count = int((finite == end).sum())
        gap = low - end if end < low else end - high
        if count > 1 and high > low and gap > _FAR * (high - low):
            return end, count, low, high
    return None


def _may_stand_in(number: float) -> bool:
    size = abs(number)
    digits = f"{size:.6g}".replace(".", "")
    return size in _STAND_INS or (len(digits) > 1 and set(digits) == {"9"})
