"""What a search starts from: words, vectors, or several of them for and against."""

import difflib
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Float32

from exfam.checks import DataError, ExfamError, UnknownItemError
from exfam.vectors.neighbors import unit_rows

# Words that are compared letter by letter; of a vocabulary in order of counts, the commonest.
_LOOKED_AT, _COMPARED, _SHOWN = 200_000, 3000, 3
# A known word, or a vector of its own.
Query = str | Float[np.ndarray, "_"]


def as_queries(given: Query | Sequence[Query]) -> list[Query]:
    """A list, also of a word or vector that is given alone."""
    return [given] if isinstance(given, str | np.ndarray) else list(given)


def direction(vector: Float[np.ndarray, "_"], *, dim: int, name: str) -> Float32[np.ndarray, "dim"]:
    """The vector scaled to length 1; `name` is what messages call it.

    Raises DataError unless it has `dim` finite numbers that are not all 0.
    """
    if len(vector) != dim:
        raise DataError(f"{name} must have {dim} numbers as the vectors have, got {len(vector)}.")
    if not np.isfinite(vector).all():
        raise DataError(f"{name} must be finite, got nan or inf.")
    if not vector.any():
        raise DataError(
            f"{name} must not be zero, which has no direction, got zeros. Leave that word out."
        )
    scaled = vector / np.abs(vector).max()
    return unit_rows(scaled[None].astype(np.float32))[0]


def mean_direction(
    positive: Sequence[Float[np.ndarray, "dim"]], negative: Sequence[Float[np.ndarray, "dim"]]
) -> Float32[np.ndarray, "dim"]:
    """The direction of the sum of all that is for less the sum of all that is against.

    Raises ExfamError if nothing is given, DataError if all cancels.
    """
    if not len(positive) and not len(negative):
        raise ExfamError("`positive` or `negative` must name a word or vector, got none.")
    parts = np.stack([*positive, *(-vector for vector in negative)]).astype(np.float64)
    total = parts.sum(axis=0)
    # Parts that cancel leave rounding errors of float32.
    if np.abs(total).max() <= 1e-6 * np.abs(parts).max():
        raise DataError(
            "`positive` and `negative` must not cancel out, got a sum without a direction."
        )
    return direction(total, dim=len(total), name="The sum of `positive` less `negative`")


class UnknownWordError(UnknownItemError, KeyError):
    """A word has no vector; also a KeyError, as mappings raise."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError shows the repr of its message


def unknown_word(word: Any, words: Sequence[str]) -> UnknownWordError:
    """The error of a word that is not among `words`, with near spellings."""
    near = near_spellings(word, words) if isinstance(word, str) else []
    hint = f"Near: {', '.join(map(repr, near))}." if near else "No known word is spelled alike."
    return UnknownWordError(f"`word` must be one of {len(words)} known words, got {word!r}. {hint}")


def near_spellings(word: str, words: Sequence[str]) -> list[str]:
    """Up to 3 words that are spelled alike, nearest first; other cases of letters come before all.

    Looked for among the first 200,000 words, at most 3,000 of which are compared: those of nearly
    the same length with the same first or last letter.
    """
    plain, near = word.lower(), []
    for other in words[:_LOOKED_AT]:
        low = other.lower()
        ends_alike = low[:1] == plain[:1] or low[-1:] == plain[-1:]
        if ends_alike and abs(len(low) - len(plain)) <= 2:
            near.append(other)
    same = [other for other in near if other.lower() == plain][:_SHOWN]
    alike = difflib.get_close_matches(plain, near[:_COMPARED], n=_SHOWN, cutoff=0.6)
    return list(dict.fromkeys([*same, *alike]))[:_SHOWN]
