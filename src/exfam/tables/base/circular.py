"""Columns that go round in circles: hours, weekdays, months, days of the year, angles."""

import re

import numpy as np
from jaxtyping import Float64

N_HARMONICS = 2
# How much of a circle the values have to reach round.
_LEAST_SHARE = 0.7
# Of each unit: words of names, where circles may start, the period, whether numbers are whole.
_CIRCLES: tuple[tuple[frozenset[str], tuple[float, ...], float, bool], ...] = (
    (frozenset({"hour", "hours", "hr", "hod"}), (0, 1), 24, True),
    (frozenset({"weekday", "weekdays", "dow", "dayofweek"}), (0, 1), 7, True),
    (frozenset({"month", "months", "mnth", "mon"}), (0, 1), 12, True),
    (frozenset({"week", "weeks", "weekofyear"}), (0, 1), 53, True),
    (frozenset({"yday", "doy", "dayofyear"}), (0, 1), 366, True),
    (frozenset({"minute", "minutes"}), (0,), 60, True),
    (
        frozenset({"angle", "degrees", "direction", "dir", "azimuth", "aspect", "bearing"})
        | frozenset({"heading", "longitude", "lon", "wd", "winddir"}),
        (0, -180),
        360,
        False,
    ),
)


def circle_of(name: str, value: Float64[np.ndarray, "rows"]) -> float | None:
    """The period of a column whose name and training values say that it is one; else None.

    Values are missing where NaN. A name says so by a word such as hour, weekday or angle; values do
    if they stay within one turn and reach round most of it, as whole numbers unless they are
    angles.

    >>> circle_of("pickup_hour", np.arange(24.0)), circle_of("hours_per_week", np.arange(60.0))
    (24.0, None)
    """
    seen = value[~np.isnan(value)]
    words = _words(name)
    for names, starts, period, whole in _CIRCLES:
        if not len(seen) or not words & names or (whole and (seen != np.floor(seen)).any()):
            continue
        low, high = float(seen.min()), float(seen.max())
        last = period - 1 if whole else period
        within = any(start <= low and high <= start + last for start in starts)
        if within and high - low >= _LEAST_SHARE * last:
            return float(period)
    return None


def _words(name: str) -> set[str]:
    """The words of a name in lower case, each pair and each three that follow as one as well."""
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)
    lower = [part.lower() for part in parts]
    joined = ("".join(lower[k : k + n]) for n in (1, 2, 3) for k in range(len(lower) - n + 1))
    return set(joined)


def sines_and_cosines(
    value: Float64[np.ndarray, "rows"], period: float
) -> Float64[np.ndarray, "rows harmonics"]:
    """Sine and cosine of one turn and of two; NaN where the value is.

    >>> sines_and_cosines(np.array([6.0]), 24.0).round(6) + 0.0
    array([[ 1.,  0.,  0., -1.]])
    """
    turn = 2 * np.pi / period * value
    both = [part(k * turn) for k in range(1, N_HARMONICS + 1) for part in (np.sin, np.cos)]
    return np.column_stack(both)
