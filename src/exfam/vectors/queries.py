"""What is looked for: words, rows or vectors, alone or weighted, and their sums and means."""

import difflib
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Float64

from exfam.checks import DataError, ExfamError, UnknownItemError, check_positive
from exfam.vectors.neighbors import unit_rows

# Words in order of counts, the commonest, that are compared letter by letter; near ones shown.
_LOOKED_AT, _SHOWN = 200_000, 3
# A known word, the number of its row, or a vector of its own.
Query = str | int | np.integer | Float[np.ndarray, "_"]
WeightedQuery = Query | tuple[Query, float | int]


class Term(NamedTuple):
    """A query and how much it counts, more than 0."""

    query: Query
    weight: float

    @property
    def is_key(self) -> bool:
        """Whether it is a word or a row, which has a vector of length 1 here."""
        return not isinstance(self.query, np.ndarray)


def as_terms(given: Any, *, name: str) -> list[Term]:
    """A list, also of a word, row or vector that is given alone, or of the rows of a matrix.

    Raises ExfamError for what is none of these, and for a weight that is not a number > 0.
    """
    if _is_query(given):
        return [Term(given, 1.0)]
    # Whole numbers in an array could be rows or a vector.
    if not np.iterable(given) or (isinstance(given, np.ndarray) and given.dtype.kind not in "fUOT"):
        raise _no_query(name, given)
    return [_term(part, name) for part in given]


def _is_query(given: Any) -> bool:
    is_key = isinstance(given, str | Integral) and not isinstance(given, bool | np.bool_)
    return is_key or (isinstance(given, np.ndarray) and given.ndim == 1 and given.dtype.kind == "f")


def _term(given: Any, name: str) -> Term:
    if not isinstance(given, tuple) or len(given) != 2:
        given = given, 1.0
    query, weight = given
    if not _is_query(query):
        raise _no_query(name, query)
    if not isinstance(weight, Real) or not 0 < float(weight) < np.inf:
        raise ExfamError(
            f"`{name}` must have weights > 0, got {weight!r}. The words of `negative` are "
            "subtracted: their weights are positive too."
        )
    return Term(query, float(weight))


def _no_query(name: str, given: Any) -> ExfamError:
    got = f"an array of {given.dtype}" if isinstance(given, np.ndarray) else repr(given)
    return ExfamError(
        f"`{name}` must hold words, row numbers or vectors of floats, each alone or as "
        f"(word, weight), got {got}."
    )


def direction(vector: Float[np.ndarray, "_"], *, dim: int, name: str) -> Float32[np.ndarray, "dim"]:
    """The vector scaled to length 1; `name` is what messages call it.

    Raises DataError unless it has `dim` finite numbers that are not all 0.
    """
    check_vector(vector, dim=dim, name=name)
    if not vector.any():
        raise DataError(
            f"{name} must not be zero, which has no direction, got zeros. Leave that word out."
        )
    scaled = vector / np.abs(vector).max()
    return unit_rows(scaled[None].astype(np.float32))[0]


def check_vector(vector: Float[np.ndarray, "_"], *, dim: int, name: str) -> None:
    """Raises DataError unless it has `dim` finite numbers; `name` is what messages call it."""
    if len(vector) != dim:
        raise DataError(f"{name} must have {dim} numbers as the vectors have, got {len(vector)}.")
    if not np.isfinite(vector).all():
        raise DataError(f"{name} must be finite, got nan or inf.")


def summed_direction(vectors: Sequence[Float[np.ndarray, "dim"]]) -> Float32[np.ndarray, "dim"]:
    """The direction of a sum. Raises ExfamError if nothing is given, DataError if all cancels."""
    if not vectors:
        raise ExfamError("`positive` or `negative` must name a word or vector, got none.")
    parts = np.stack(vectors).astype(np.float64)
    total = parts.sum(axis=0)
    # Parts that cancel leave rounding errors of float32.
    if np.abs(total).max() <= 1e-6 * np.abs(parts).max():
        raise DataError(
            "`positive` and `negative` must not cancel out, got a sum without a direction."
        )
    return direction(total, dim=len(total), name="The sum of `positive` less `negative`")


def checked_weights(weights: Any, *, n: int) -> Float64[np.ndarray, "keys"]:
    """One finite number for each key, 1 where none are given; a mean may have negative ones.

    Raises DataError for others.
    """
    if weights is None:
        return np.ones(n)
    numbers = np.asarray(weights)
    if numbers.shape != (n,) or numbers.dtype.kind not in "iufb" or not np.isfinite(numbers).all():
        raise DataError(f"`weights` must be a finite number for each of {n} keys, got {weights!r}.")
    return numbers.astype(np.float64)


def weighted_mean(
    vectors: Float[np.ndarray, "keys dim"], weights: Float64[np.ndarray, "keys"]
) -> Float32[np.ndarray, "dim"]:
    """The sum of weights times vectors, divided by the sum of the weights' sizes.

    Raises DataError if there is nothing to average.
    """
    total = np.abs(weights).sum()
    if not total:
        raise DataError(
            "`keys` must hold at least one known word or vector whose weight is not 0, got none."
        )
    return (weights @ vectors.astype(np.float64) / total).astype(np.float32)


def how_many(k: int | None, topn: int | None) -> int:
    """The number of words to find, by either name; 10 without. Raises ExfamError for both."""
    if k is not None and topn is not None:
        raise ExfamError(f"`topn` must be left out where `k` is given, got {topn!r} beside k={k}.")
    if topn is not None:
        check_positive("topn", topn)
    return next((n for n in (k, topn) if n is not None), 10)


def first_rows(matrix: np.ndarray, among: int | None) -> np.ndarray:
    """The rows that are searched: the first `among`, or all for None."""
    if among is not None:
        check_positive("among", among)
    return matrix[:among]


class UnknownWordError(UnknownItemError, KeyError):
    """A word has no vector; also a KeyError, as mappings raise."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError shows the repr of its message


def unknown_word(word: Any, words: Sequence[str], *, advice: str = "") -> UnknownWordError:
    """The error of a word that is not among `words`, with near spellings; or of a wrong row."""
    if isinstance(word, Integral):
        rows = f"a row from 0 to {len(words) - 1}"
        return UnknownWordError(f"`word` must be a known word or {rows}, got {word}.{advice}")
    hint, near = "No known word is spelled alike.", dict[str, None]()
    if isinstance(word, str) and word:
        # Other cases of letters first.
        some, plain = words[:_LOOKED_AT], word.lower()
        near = dict.fromkeys(other for other in some if other.lower() == plain)
        near |= dict.fromkeys(difflib.get_close_matches(plain, some, n=_SHOWN))
    if near:
        hint = f"Near: {', '.join(map(repr, list(near)[:_SHOWN]))}."
    return UnknownWordError(
        f"`word` must be one of {len(words)} known words, got {word!r}. {hint}{advice}"
    )
