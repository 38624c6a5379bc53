"""Effects of attributes on values: a broken line of every number, a level of every category.

With the design X of all attributes, a standardized value of item i in group u is

    z = mu + b_i + a_u + X beta + e,   beta_k ~ N(0, tau_c^2) for the terms of part c

where a number has two parts, its line and the breaks of it, and a category one. Group levels are
taken out exactly, item levels by alternation, and each variance is that of its part's effects by
the degrees of freedom they have, so that attributes of no use have effects of almost 0. Source:
Wood & Fasiolo (2017), eq. 4, and Ruppert, Wand & Carroll (2003), section 3.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64, Int64

from exfam.efa.values.given import GivenColumn, GivenNumbers

# Breaks of a line at most; categories with an effect of their own, and their fewest cells.
N_BREAKS, MOST_CODES, LEAST_CELLS = 12, 100, 2
# Cells that effects are fitted to, at most; alternations with the levels.
MOST_CELLS, N_STEPS = 100_000, 20
# The variance of a part at the start, and the least one, of standardized values.
_START, _LEAST = 0.1, 1e-8

_ARRAYS = ("center", "spread", "ends", "breaks", "codes", "mean", "weight")

Columns = Float64[np.ndarray, "cells"]


@dataclass(frozen=True, eq=False)
class AttributeEffects:
    """What the attributes of a cell add to its standardized value.

    `center`, `spread`: of numbers; in that unit, `ends`: the least and the largest one, and
    `breaks`: of every number, infinite for none. A category has `codes`, -1 for none. `weight`: of
    the terms, one column after the other
    """

    columns: tuple[GivenColumn, ...]
    center: Float64[np.ndarray, "columns"]
    spread: Float64[np.ndarray, "columns"]
    ends: Float64[np.ndarray, "columns two"]
    breaks: Float64[np.ndarray, "columns breaks"]
    codes: Int64[np.ndarray, "columns codes"]
    mean: Float64[np.ndarray, "terms"]
    weight: Float64[np.ndarray, "terms"]

    def of(self, given: GivenNumbers) -> Columns:
        """What is added to each cell."""
        total, at = np.zeros(len(given.values)), 0
        for number in range(len(self.columns)):
            terms = self.terms(given.values[:, number], number)
            own = slice(at, at + terms.shape[1])
            total += (terms - self.mean[own]) @ self.weight[own]
            at = own.stop
        return total

    def terms(self, value: Columns, number: int) -> Float64[np.ndarray, "cells terms"]:
        """The design of a column."""
        if self.columns[number].n is not None:
            codes = self.codes[number]
            return (value[:, None] == codes[codes >= 0]).astype(np.float64)
        unit = (value - self.center[number]) / self.spread[number]
        if self.columns[number].name is None:  # nothing is known of a course beyond its ends
            unit = unit.clip(*self.ends[number])
        breaks = self.breaks[number]
        return _broken_line(unit, breaks[np.isfinite(breaks)])

    def arrays(self) -> dict[str, np.ndarray]:
        """All numbers, by name."""
        return {f"effect_{name}": getattr(self, name).astype(np.float64) for name in _ARRAYS}

    @classmethod
    def of_arrays(
        cls, columns: Sequence[GivenColumn], arrays: Mapping[str, np.ndarray]
    ) -> "AttributeEffects | None":
        """Those that `arrays` gave; None where there are none."""
        if "effect_weight" not in arrays:
            return None
        found = {name: np.asarray(arrays[f"effect_{name}"], dtype=np.float64) for name in _ARRAYS}
        found["codes"] = found["codes"].astype(np.int64)
        return cls(tuple(columns), **found)


def _broken_line(
    unit: Columns, breaks: Float64[np.ndarray, "breaks"]
) -> Float64[np.ndarray, "cells terms"]:
    """The number itself, and by how much it is above each break.

    A term's size is that of a random walk's step from one break to the next.
    """
    steps = np.sqrt(np.diff(breaks, prepend=breaks[:1] - 1.0).clip(min=1e-3))
    return np.column_stack([unit, (unit[:, None] - breaks).clip(min=0.0) * steps])


def fit_effects(
    given: GivenNumbers,
    value: Columns,
    item: Int64[np.ndarray, "cells"],
    group: Int64[np.ndarray, "cells"],
) -> AttributeEffects:
    """Of standardized values that are observed."""
    # Every second group, say; of a few large ones there may be none.
    some = group % (len(value) // MOST_CELLS + 1) == 0
    if some.any():
        given, value, item, group = given[some], value[some], item[some], group[some]
    start = _without_weight(given)
    terms = [start.terms(own, number) for number, own in enumerate(given.values.T)]
    parts: list[int] = []
    for column, own in zip(given.columns, terms, strict=True):
        first = max(parts, default=-1) + 1
        is_line = column.n is None
        parts += [first + (is_line and term > 0) for term in range(own.shape[1])]
    design = np.concatenate(terms, 1)
    mean = design.mean(0)
    levels = _Levels(value, np.unique(item, return_inverse=True)[1], group - group[0])
    weight = _Fit(design - mean, np.array(parts, dtype=np.int64), levels).weight()
    return replace(start, mean=mean, weight=weight)


def _without_weight(given: GivenNumbers) -> AttributeEffects:
    """Breaks between the quantiles of numbers, and the codes that occur most often."""
    n, values = len(given.columns), given.values
    center, spread = values.mean(0), values.std(0)
    spread = np.where(spread > 1e-9 * np.abs(center), spread, 1.0)
    breaks, codes = np.full((n, N_BREAKS), np.inf), np.full((n, MOST_CODES), -1)
    for number, column in enumerate(given.columns):
        if column.n is not None:
            code, count = np.unique(values[:, number], return_counts=True)
            often = np.argsort(-count, kind="stable")[:MOST_CODES]
            kept = code[often][(count[often] >= LEAST_CELLS) & (code[often] >= 0)]
            codes[number, : len(kept)] = kept
        else:
            unit = (values[:, number] - center[number]) / spread[number]
            distinct = np.unique(unit)
            inner = np.unique(np.quantile(unit, np.linspace(0, 1, N_BREAKS + 2)[1:-1]))
            if len(distinct) <= N_BREAKS + 2:
                inner = distinct
            inner = inner[(inner > distinct[0]) & (inner < distinct[-1])]
            breaks[number, : len(inner)] = inner
    ends = (np.stack([values.min(0), values.max(0)], 1) - center[:, None]) / spread[:, None]
    none = np.zeros(0)
    return AttributeEffects(given.columns, center, spread, ends, breaks, codes, none, none)


class _Levels:
    """Levels of items and groups beside the effects, and the variances of all."""

    def __init__(
        self, value: Columns, item: Int64[np.ndarray, "cells"], group: Int64[np.ndarray, "cells"]
    ) -> None:
        self.value, self.item, self.group = value - value.mean(), item, group
        self.n_of_item, self.n_of_group = np.bincount(item), np.bincount(group)
        self.noise, self.of_items, self.of_groups = 0.5, _START, _START
        self.item_level = np.zeros(len(self.n_of_item))

    @property
    def share(self) -> Float64[np.ndarray, "groups"]:
        """Of a group's mean that is its level."""
        by_noise = self.n_of_group * self.of_groups
        return by_noise / (by_noise + self.noise)

    def renew(self, effect: Columns, degrees: float) -> None:
        """Levels and variances beside these effects, which have so many degrees of freedom."""
        rest = self.value - effect - self.item_level[self.item]
        share, n = self.share, self.n_of_group
        level = share * np.bincount(self.group, rest) / n.clip(min=1)
        self.of_groups = max(float(level @ level) / max(share.sum(), 1e-9), _LEAST)
        rest = self.value - effect - level[self.group]
        by_noise = self.n_of_item * self.of_items
        of_item = by_noise / (by_noise + self.noise)
        self.item_level = of_item * np.bincount(self.item, rest) / self.n_of_item
        self.of_items = max(float(np.square(self.item_level).sum()) / of_item.sum(), _LEAST)
        rest = rest - self.item_level[self.item]
        free = len(rest) - degrees - share.sum() - of_item.sum()
        self.noise = max(float(rest @ rest) / max(free, 0.1 * len(rest)), _LEAST)


class _Fit:
    """Effects by levels and variances in turn."""

    def __init__(
        self,
        design: Float64[np.ndarray, "cells terms"],
        part: Int64[np.ndarray, "terms"],
        levels: _Levels,
    ) -> None:
        self.design, self.part, self.levels = design, part, levels
        self.gram = design.T @ design
        order = np.argsort(levels.group, kind="stable")
        starts = np.searchsorted(levels.group[order], np.arange(len(levels.n_of_group)))
        sums = np.add.reduceat(design[order], starts.clip(max=len(design) - 1), axis=0)
        self.sums = np.where(levels.n_of_group[:, None] > 0, sums, 0.0)
        self.variance = np.full(int(part.max(initial=-1)) + 1, _START)

    def weight(self) -> Float64[np.ndarray, "terms"]:
        """After all steps."""
        weight = np.zeros(len(self.part))
        for _ in range(N_STEPS):
            weight, degrees = self._step()
            self.levels.renew(self.design @ weight, degrees)
        return weight

    def _step(self) -> tuple[Float64[np.ndarray, "terms"], float]:
        """Effects given levels of items, and their degrees of freedom; renews their variances."""
        levels = self.levels
        rest = levels.value - levels.item_level[levels.item]
        by_group = levels.share / levels.n_of_group.clip(min=1)
        gram = self.gram - self.sums.T @ (self.sums * by_group[:, None])
        right = self.design.T @ rest - self.sums.T @ (by_group * np.bincount(levels.group, rest))
        penalty = levels.noise / self.variance[self.part]
        inverse = np.linalg.inv(gram + np.diag(penalty))
        weight = inverse @ right
        n_parts = len(self.variance)
        free = np.bincount(self.part, 1.0 - penalty * np.diag(inverse), n_parts)
        square = np.bincount(self.part, np.square(weight), n_parts)
        self.variance = np.maximum(square / free.clip(min=1e-6), _LEAST)
        return weight, float(free.sum())
