"""What is given for text and is none: tables."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from exfam.checks import DataError

__all__ = ["check_no_table"]


def check_no_table(name: str, given: Any) -> None:
    """Raise DataError for a frame or a dict, of which a loop reads the names of columns alone.

    >>> check_no_table("X", ["a man", "a dog"])
    """
    is_frame = len(getattr(given, "shape", ())) == 2 and not isinstance(given, np.ndarray)
    if is_frame or isinstance(given, Mapping):
        raise DataError(
            f"`{name}` must be texts, got a table ({type(given).__name__}). Give one column of it, "
            "such as df['text']."
        )
