"""Figures and names as they are written on a page."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from exfam.plots.style import shortened

# Letters of a name in tables; pictures have less room.
_IN_TABLES = 60
_MINUS = "\N{MINUS SIGN}"


def clean(label: object, *, most: int = _IN_TABLES) -> str:
    """A label in one line that any file can hold: no control letters, no halves of letters.

    `most`: letters, the last an ellipsis where there are more (default 60)
    """
    whole = str(label).encode("utf-8", "replace").decode("utf-8")
    printed = "".join(letter if letter.isprintable() else " " for letter in whole)
    return shortened(printed, most=most) or "(empty)"


class ItemNames:
    """Names of items by their codes, read when needed: catalogs may be large."""

    def __init__(self, labels: np.ndarray) -> None:
        self.labels = labels

    def __len__(self) -> int:
        return len(self.labels)

    def __call__(self, code: int, *, most: int = _IN_TABLES) -> str:
        return clean(self.labels[code], most=most)

    def all(self, codes: Sequence[int] | np.ndarray, *, most: int = _IN_TABLES) -> list[str]:
        """The names of some items."""
        return [self(int(code), most=most) for code in codes]


def figure(number: float | np.floating[Any], digits: int = 3) -> str:
    """A number with that many decimals and a true minus; an en dash for NaN."""
    if np.isnan(number):
        return "–"
    if np.isinf(number):
        return "∞" if number > 0 else _MINUS + "∞"
    return f"{number:,.{digits}f}".replace("-", _MINUS)


def percent(share: float | np.floating[Any], digits: int = 1) -> str:
    """A share in percent; an en dash for NaN."""
    return "–" if np.isnan(share) else f"{figure(100 * share, digits)} %"


def quantity(number: int, one: str) -> str:
    """A number with what it counts: "1 group", "1,200 groups"."""
    return f"{number:,} {one}{'' if number == 1 else 's'}"


def listing(names: Sequence[str]) -> str:
    """Names as in a sentence: "a, b and c"."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
