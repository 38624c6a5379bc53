"""Terms of a log-likelihood, ranked by what they belong to, and in slices."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64

from exfam.checks import ExfamError
from exfam.explorer.questions import number_or_none
from exfam.explorer.views import Answer
from exfam.scores.metrics import mean_over_groups

ORDERS = ("total", "mean", "least", "difference")
_NORMAL = 1.96  # standard errors to both ends of an interval of 95 %
_BINS = 5


@dataclass(frozen=True, eq=False)
class Terms:
    """Every number that is predicted from others: a cell, an element of a group, a value.

    `unit`: the row, group or map that it is in, which are independent of each other; `part`: the
    column, item or station that it is of; `nats`: its log-probability
    """

    unit: Int64[np.ndarray, "terms"]
    part: Int64[np.ndarray, "terms"]
    nats: Float64[np.ndarray, "terms"]

    def __len__(self) -> int:
        return len(self.nats)

    @cached_property
    def by_nats(self) -> Int64[np.ndarray, "terms"]:
        """The terms from the least probable one on."""
        return np.argsort(self.nats, kind="stable")


@dataclass(frozen=True, eq=False)
class Slicing:
    """Parts that terms fall into: a code each, -1 for terms of none, and what each is called.

    `outcome`: the column whose own values make the slices, if any
    """

    code: Int64[np.ndarray, "terms"]
    labels: list[str]
    outcome: str | None = None


class Ranked(NamedTuple):
    """Units or parts in an order, with the number of their terms and the least probable one.

    `key`: which unit or part; `difference`: mean nats beyond those of the other model, if any
    """

    key: Int64[np.ndarray, "ranked"]
    n: Int64[np.ndarray, "ranked"]
    total: Float64[np.ndarray, "ranked"]
    least: Int64[np.ndarray, "ranked"]
    difference: Float64[np.ndarray, "ranked"] | None


def ranked(
    terms: Terms,
    key: Int64[np.ndarray, "terms"],
    *,
    order: str,
    chosen: Bool[np.ndarray, "terms"],
    other: Float64[np.ndarray, "terms"] | None = None,
) -> Ranked:
    """What the chosen terms belong to by `key`, the worst predicted first.

    `order`: by the sum of nats, their mean, the least of them, or the mean difference to `other`
    """
    by_nats = terms.by_nats[chosen[terms.by_nats]]
    # Of equal keys `unique` takes the first: the term of the fewest nats.
    keys, first, inverse = np.unique(key[by_nats], return_index=True, return_inverse=True)
    n = np.bincount(inverse, minlength=len(keys))
    total = np.bincount(inverse, weights=terms.nats[by_nats], minlength=len(keys))
    least = by_nats[first]
    difference = None
    if other is not None:
        gap = (terms.nats - other)[by_nats]
        there = ~np.isnan(gap)
        sums = np.bincount(inverse[there], weights=gap[there], minlength=len(keys))
        with np.errstate(invalid="ignore"):
            difference = sums / np.bincount(inverse[there], minlength=len(keys))
    by = {"total": total, "mean": total / n, "least": terms.nats[least], "difference": difference}
    worst = by[order]
    if worst is None:
        raise ExfamError("`order` must not be 'difference' without a second model.")
    by_worst = np.argsort(worst, kind="stable")
    part = None if difference is None else difference[by_worst]
    return Ranked(keys[by_worst], n[by_worst], total[by_worst], least[by_worst], part)


def mean_nats(
    nats: Float64[np.ndarray, "terms"],
    unit: Int64[np.ndarray, "terms"],
    other: Float64[np.ndarray, "terms"] | None = None,
) -> Answer:
    """Mean log-probability with an interval of 95 % over units, and how much it is beyond another.

    Differences are of terms that both models have.
    """
    answer: Answer = {"n": len(nats), **_estimated(nats, unit)}
    if other is not None:
        gap = nats - other
        there = ~np.isnan(gap)
        answer["difference"] = _estimated(gap[there], unit[there]) if there.any() else None
    return answer


def _estimated(number: Float64[np.ndarray, "terms"], unit: Int64[np.ndarray, "terms"]) -> Answer:
    own = mean_over_groups(number, unit)
    low, high = (own.mean + sign * _NORMAL * own.error for sign in (-1, 1))
    ends = {"mean": own.mean, "error": own.error, "low": low, "high": high}
    return {name: number_or_none(end) for name, end in ends.items()} | {"units": own.n_groups}


def sliced(
    terms: Terms,
    slicing: Slicing,
    *,
    order: str,
    other: Float64[np.ndarray, "terms"] | None = None,
) -> list[int]:
    """Codes of the slices that hold terms: as they are, or by their mean nats, total or number."""
    code = slicing.code
    there = code >= 0
    n = np.bincount(code[there], minlength=len(slicing.labels))
    held = np.flatnonzero(n)
    if order == "label":
        return list(map(int, held))
    if order == "n":
        return list(map(int, held[np.argsort(-n[held], kind="stable")]))
    gap = terms.nats if order != "difference" else _gap(terms.nats, other)
    use = there & ~np.isnan(gap)
    sums = np.bincount(code[use], weights=gap[use], minlength=len(slicing.labels))
    counts = np.bincount(code[use], minlength=len(slicing.labels)).clip(1)
    worst = sums if order == "total" else sums / counts
    return list(map(int, held[np.argsort(worst[held], kind="stable")]))


def _gap(
    nats: Float64[np.ndarray, "terms"], other: Float64[np.ndarray, "terms"] | None
) -> Float64[np.ndarray, "terms"]:
    if other is None:
        raise ExfamError("`order` must not be 'difference' without a second model.")
    return nats - other


def of_labels(code: Any, labels: Any, *, outcome: str | None = None) -> Slicing:
    """Slices by a label; a code of -1 is of none."""
    return Slicing(np.asarray(code, dtype=np.int64), [str(label) for label in labels], outcome)


def of_bins(number: Any, *, missing: str | None = None, outcome: str | None = None) -> Slicing:
    """Slices by a number: its values where there are few, else bins that hold about as many each.

    `missing`: what numbers that are NaN are called, which are of no slice without
    """
    number = np.asarray(number, dtype=np.float64)
    there = ~np.isnan(number)
    values = np.unique(number[there])
    if len(values) <= _BINS:
        labels = [f"{value:g}" for value in values]
        code = np.searchsorted(values, number)
    else:
        edges = np.unique(np.quantile(number[there], np.linspace(0, 1, _BINS + 1)[1:-1]))
        code = np.searchsorted(edges, number, side="left")
        ends = [values[0], *edges, values[-1]]
        labels = [f"{low:.6g} to {high:.6g}" for low, high in zip(ends, ends[1:], strict=False)]
    code = np.where(there, code, -1)
    if missing is not None:
        code, labels = np.where(there, code, len(labels)), [*labels, missing]
    return Slicing(code.astype(np.int64), labels, outcome)
