"""How much a prediction may be asked for: its levels, and the size of its probabilities."""

from collections.abc import Iterator, Mapping, Set
from typing import Any

import numpy as np

from exfam.checks import ExfamError

__all__ = ["MAX_BYTES", "check_size", "chosen_levels"]

# Of the array that predict_proba gives.
MAX_BYTES = 8e9


def chosen_levels(quantiles: Any, interval: Any) -> list[float] | None:
    """The levels of quantiles, or of the ends of a central interval; None where neither is given.

    Raises ExfamError for both, or for levels that are not strictly between 0 and 1.

    >>> chosen_levels(None, 0.5)
    [0.25, 0.75]
    """
    if quantiles is not None and interval is not None:
        raise ExfamError("`quantiles` and `interval` must not both be given.")
    if interval is not None:
        _check_level("interval", interval)
        return [(1 - interval) / 2, (1 + interval) / 2]
    if quantiles is None:
        return None
    is_list = np.iterable(quantiles) and not isinstance(quantiles, str | Mapping | Set | Iterator)
    levels = list(quantiles) if is_list else []
    if not levels:
        raise ExfamError(f"`quantiles` must be a list of levels, got {quantiles!r}.")
    for level in levels:
        _check_level("quantiles", level)
    return levels


def _check_level(name: str, value: Any) -> None:
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(
        value, bool
    )
    if not is_number or not 0 < value < 1:
        raise ExfamError(f"`{name}` must be strictly between 0 and 1, got {value!r}.")


def check_size(n_rows: int, n_items: int) -> None:
    """Raise ExfamError if the probabilities of all items in all rows would not fit in memory.

    >>> check_size(n_rows=10, n_items=100)
    """
    size = n_rows * n_items * np.dtype(np.float64).itemsize
    if size > MAX_BYTES:
        raise ExfamError(
            f"`X` must lead to at most {MAX_BYTES / 1e9:g} GB of probabilities, got {n_rows} rows "
            f"and {n_items} items, {size / 1e9:.1f} GB. Ask for fewer rows, or recommend for the "
            "most probable items, or log_prob for those that occurred."
        )
