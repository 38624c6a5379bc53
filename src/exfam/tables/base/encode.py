"""Cells as numbers: robust units, circles, steps between quantiles, one indicator per label."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64

from exfam.tables.data import Cells, TableSchema

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

# From the 10th to the 90th percentile a Gaussian has 2.56 standard deviations.
_SPREADS_BETWEEN = 2.56
# Beyond so many spreads numbers grow as their logarithm.
_FAR = 2.0
_MOST_BEYOND = float(np.log(1e6))
# How far beyond those of training plain numbers go: a line learned inside may not hold further out.
_MARGIN = 0.5
# All of so few distinct values are edges; of more, those that hold a share of the rows are.
_FEW_VALUES, _SPIKE = 13, 1 / 12
_MOST_BINS, _ROWS_PER_BIN = 12, 25
# Labels beyond so many share one indicator.
_MOST_LABELS = 40

Rows = Float64[np.ndarray, "rows"]


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


@dataclass(frozen=True, eq=False)
class ColumnCode:
    """How the cells of one column become numbers, learned from training rows.

    `labels`: of labels, the codes that have an indicator of their own; all others share the last
    `center`, `spread`: of numbers, the median and a robust standard deviation
    `edges`: of numbers, where the effect of a column may bend, in that unit
    `period`: of numbers that go round in circles, what one turn is
    `presence`: the share of rows that have a cell, of labels one that other rows have, too
    """

    labels: Int64[np.ndarray, " labels"] | None
    center: float = 0.0
    spread: float = 1.0
    edges: Float64[np.ndarray, " edges"] | None = None
    period: float | None = None
    presence: float = 1.0

    @property
    def n_numbers(self) -> int:
        if self.labels is not None:
            return len(self.labels) + 1
        return 1 if self.period is None else 1 + 2 * N_HARMONICS

    @property
    def n_features(self) -> int:
        """Those of `features`: numbers, steps between edges, and whether the cell is missing."""
        return self.n_numbers + 1 + (0 if self.edges is None else max(0, len(self.edges) - 1))

    def numbers(self, value: Rows) -> Float64[np.ndarray, "rows numbers"]:
        """The cells as numbers, NaN where missing."""
        if self.labels is None:
            number = squashed((value - self.center) / self.spread)[:, None]
            if self.period is None:
                return number
            return np.hstack([number, sines_and_cosines(value, self.period)])
        indicators = (value[:, None] == self.labels).astype(float)
        indicators = np.column_stack([indicators, 1.0 - indicators.sum(1)])
        return np.where(np.isnan(value)[:, None], np.nan, indicators)

    def steps(self, number: Rows) -> Float64[np.ndarray, "rows steps"]:
        """How far each step between two edges has been taken, less one half."""
        edges = self.edges
        if edges is None or len(edges) < 2:
            return np.empty((len(number), 0))
        share = (number[:, None] - edges[:-1]) / np.diff(edges)
        return np.clip(share, 0.0, 1.0) - 0.5


def squashed(unit: np.ndarray) -> np.ndarray:
    """Numbers in units of their spread; beyond 2, 2 plus the logarithm of 1 + what is beyond."""
    beyond = np.log1p(np.maximum(np.abs(unit) - _FAR, 0.0))
    return np.sign(unit) * (np.minimum(np.abs(unit), _FAR) + beyond)


def unsquashed(number: np.ndarray) -> np.ndarray:
    """The units of `squashed` numbers, up to a million spreads."""
    beyond = np.expm1(np.clip(np.abs(number) - _FAR, 0.0, _MOST_BEYOND))
    return np.sign(number) * (np.minimum(np.abs(number), _FAR) + beyond)


def learn_column(value: Rows, *, is_label: bool, name: str = "") -> ColumnCode:
    """The code of one column from training cells, NaN where missing.

    `name`: of the column; one such as "hour" or "angle" may say that numbers go round in circles
    """
    seen = value[~np.isnan(value)]
    if is_label:
        labels, counts = np.unique(seen.astype(np.int64), return_counts=True)
        most = np.argsort(-counts, kind="stable")[:_MOST_LABELS]
        presence = float(counts[counts > 1].sum()) / max(len(value), 1)
        return ColumnCode(np.sort(labels[most]), presence=presence)
    if not len(seen):
        return ColumnCode(None, edges=np.zeros(0), presence=0.0)
    low, center, high = np.quantile(seen, [0.1, 0.5, 0.9])
    spread = (high - low) / _SPREADS_BETWEEN
    if not spread > 0:
        spread = float(np.std(seen)) or 1.0
    code = ColumnCode(None, float(center), float(spread), period=circle_of(name, seen))
    code = replace(code, presence=len(seen) / len(value))
    return replace(code, edges=_edges(code.numbers(seen)[:, 0]))


def _edges(number: Rows) -> Float64[np.ndarray, " edges"]:
    """Every value where they are few; else values of many rows, and quantiles of the others."""
    values, counts = np.unique(number, return_counts=True)
    if len(values) <= _FEW_VALUES:
        return values
    is_spike = counts > _SPIKE * len(number)
    spikes = values[is_spike]
    others = number[~np.isin(number, spikes)]
    n_bins = int(np.clip(len(others) // _ROWS_PER_BIN, 1, _MOST_BINS - min(len(spikes), 6)))
    quantiles = np.quantile(others, np.linspace(0.0, 1.0, n_bins + 1)) if len(others) else []
    return np.unique(np.concatenate([spikes, quantiles]))


@dataclass(frozen=True, eq=False)
class TableCode:
    """The codes of some columns of a table, by their index in the schema."""

    columns: tuple[int, ...]
    codes: tuple[ColumnCode, ...]

    @property
    def column_of_number(self) -> Int64[np.ndarray, " numbers"]:
        """The index in `columns` that each number is of."""
        return np.repeat(np.arange(len(self.codes)), [code.n_numbers for code in self.codes])

    @property
    def column_of_feature(self) -> Int64[np.ndarray, " features"]:
        """The index in `columns` that each feature is of."""
        return np.repeat(np.arange(len(self.codes)), [code.n_features for code in self.codes])

    @property
    def main_features(self) -> Int64[np.ndarray, " numbers"]:
        """The features that are the numbers themselves, not steps or what is missing."""
        first = np.cumsum([0, *(code.n_features for code in self.codes)])
        parts = zip(first, self.codes, strict=False)
        return np.concatenate(
            [np.empty(0, np.int64), *(start + np.arange(code.n_numbers) for start, code in parts)]
        )

    def values(self, cells: Cells) -> Float64[np.ndarray, "rows columns"]:
        """The cells, NaN where missing."""
        value: np.ndarray = cells.value[:, list(self.columns)]
        return value

    def numbers(
        self, value: Float64[np.ndarray, "rows columns"]
    ) -> Float64[np.ndarray, "rows numbers"]:
        """All cells as numbers, NaN where missing."""
        parts = [code.numbers(own) for code, own in zip(self.codes, value.T, strict=True)]
        return np.hstack([np.empty((len(value), 0)), *parts])

    def share_missing(
        self, missing: Bool[np.ndarray, "rows columns"]
    ) -> Float64[np.ndarray, "rows"]:
        """How much of what training rows have is missing: 0 of a usual row, 1 of an empty one.

        Columns count by their presence, so that a cell that hardly any row has is not missed.
        """
        presence = np.array([code.presence for code in self.codes])
        if not presence.sum():
            return np.zeros(len(missing))
        share = missing @ presence / presence.sum()
        usual = float(presence @ (1 - presence) / presence.sum())
        return np.clip((share - usual) / (1 - usual), 0.0, 1.0)

    def features(
        self,
        filled: Float64[np.ndarray, "rows numbers"],
        missing: Bool[np.ndarray, "rows columns"],
    ) -> Float64[np.ndarray, "rows features"]:
        """What linear predictors see, column by column: numbers, steps, and what is missing."""
        parts, first = [np.empty((len(filled), 0))], 0
        for k, code in enumerate(self.codes):
            own = filled[:, first : first + code.n_numbers]
            first += code.n_numbers
            parts += [own, code.steps(own[:, 0]), missing[:, k : k + 1]]
        return np.hstack(parts)

    def plain(
        self,
        filled: Float64[np.ndarray, "rows numbers"],
        missing: Bool[np.ndarray, "rows columns"],
    ) -> Float64[np.ndarray, "rows numbers_and_columns"]:
        """Numbers in their units however far out, if hardly beyond training's; what is missing."""
        clipped, first = filled.copy(), 0
        for code in self.codes:
            if code.edges is not None and len(code.edges):
                low, high = code.edges[0] - _MARGIN, code.edges[-1] + _MARGIN
                clipped[:, first] = np.clip(filled[:, first], low, high)
            first += code.n_numbers
        return np.hstack([unsquashed(clipped), missing])

    def outside(
        self,
        filled: Float64[np.ndarray, "rows numbers"],
        missing: Bool[np.ndarray, "rows columns"],
    ) -> Float64[np.ndarray, "rows"]:
        """How far the numbers of each row lie beyond those of training, the sum over columns."""
        beyond, first = np.zeros(len(filled)), 0
        for k, code in enumerate(self.codes):
            own = filled[:, first]
            first += code.n_numbers
            if code.edges is not None and len(code.edges):
                excess = np.maximum(code.edges[0] - own, own - code.edges[-1])
                beyond += np.where(missing[:, k], 0.0, np.maximum(excess, 0.0))
        return beyond

    def for_trees(
        self,
        filled: Float64[np.ndarray, "rows numbers"],
        value: Float64[np.ndarray, "rows columns"],
    ) -> Float64[np.ndarray, "rows columns_and_count"]:
        """One number per column: filled in, of labels their code or NaN; and how many miss."""
        known, first = value.copy(), 0
        for k, code in enumerate(self.codes):
            if code.labels is None:
                known[:, k] = filled[:, first]
            first += code.n_numbers
        return np.column_stack([known, np.isnan(value).sum(1)])

    def without(self, column: int) -> "TableCode":
        """The codes of all other columns."""
        kept = [k for k, own in enumerate(self.columns) if own != column]
        return TableCode(tuple(self.columns[k] for k in kept), tuple(self.codes[k] for k in kept))

    @property
    def is_label(self) -> Bool[np.ndarray, "columns"]:
        return np.array([code.labels is not None for code in self.codes], dtype=bool)

    def to_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        pairs = list(zip(self.columns, self.codes, strict=True))
        config = [[k, code.center, code.spread, code.period, code.presence] for k, code in pairs]
        arrays = dict[str, np.ndarray]()
        for k, code in pairs:
            named = {"edges": code.edges, "labels": code.labels}
            arrays |= {f"{name}.{k}": own for name, own in named.items() if own is not None}
        return {"columns": config}, arrays

    @classmethod
    def from_state(cls, config: Any, arrays: Any) -> "TableCode":
        columns, codes = [], []
        # In older folders columns have no presence.
        for k, center, spread, period, *presence in config["columns"]:
            own = {name: arrays.get(f"{name}.{k}") for name in ("labels", "edges")}
            columns.append(int(k))
            code = ColumnCode(center=float(center), spread=float(spread), period=period, **own)
            codes.append(replace(code, presence=float(presence[0])) if presence else code)
        return cls(tuple(columns), tuple(codes))


def learn_code(cells: Cells, schema: TableSchema, columns: Sequence[int]) -> TableCode:
    """The codes of these columns, learned from training rows."""
    own = [(k, schema.columns[k]) for k in columns]
    codes = [
        learn_column(cells.value[:, k], is_label=column.labels is not None, name=column.name)
        for k, column in own
    ]
    return TableCode(tuple(columns), tuple(codes))
