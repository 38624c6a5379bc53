"""What is given for text and is none, and words that a model does not know."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from exfam.checks import DataError, ExfamWarning, is_utf8


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


def check_utf8(what: str, text: str) -> None:
    """Raise DataError for halves of surrogate pairs, which texts read with "surrogateescape" have.

    >>> check_utf8("Line 1", "a man")
    """
    if not is_utf8(text):
        index = next(index for index, letter in enumerate(text) if not is_utf8(letter))
        raise DataError(
            f"{what} must be text that UTF-8 can write, got {text[index]!r} as character "
            f"{index}. Read the file with its own encoding."
        )


def warn_unknown_words(n_unknown: int, n_words: int, *, unit: str = "words") -> None:
    """Warn, once for a text, that words which the model does not know are not in its score.

    >>> warn_unknown_words(0, 9)
    """
    if n_unknown:
        warnings.warn(
            f"{n_unknown} of the {n_words} {unit} of `X` are unknown to the model, and left out of "
            "the score: compare it only with scores of models that know the same words.",
            ExfamWarning,
            stacklevel=3,
        )
