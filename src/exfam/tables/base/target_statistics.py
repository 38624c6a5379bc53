"""What the response was like in rows that share a label: numbers of columns with many labels."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from exfam.tables.base.views import View

# A label's rows count as much as the overall mean does when there are so many of them.
_SHRINKAGE = 10.0
# Of a response with more labels, only the most frequent have a statistic.
_MOST_OUTPUTS = 5
_N_PARTS = 5
# Columns with fewer labels have none: their indicators say as much.
FEWEST_LABELS = 41

Codes = Float64[np.ndarray, "rows"]
Outcomes = Float64[np.ndarray, "rows outputs"]


def outcomes(y: Float64[np.ndarray, "rows"], n_labels: int | None) -> Outcomes:
    """What statistics are means of: the response, or indicators of its most frequent labels.

    Of two labels the second's indicator alone.
    """
    if n_labels is None:
        return y[:, None]
    counts = np.bincount(y.astype(np.int64), minlength=n_labels)
    labels = np.argsort(-counts, kind="stable")[:_MOST_OUTPUTS] if n_labels > 2 else np.array([1])
    return (y[:, None] == np.sort(labels)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class TargetStatistics:
    """By label of one column, its mean outcomes less the overall ones, shrunk to none.

    `labels`: the codes, in increasing order; other codes and missing cells have statistics of 0
    """

    labels: Float64[np.ndarray, " labels"]
    value: Float64[np.ndarray, "labels outputs"]

    def __call__(self, code: Codes) -> Outcomes:
        if not len(self.labels):
            return np.zeros((len(code), self.value.shape[1]))
        index = np.searchsorted(self.labels, code).clip(max=len(self.labels) - 1)
        return np.where((self.labels[index] == code)[:, None], self.value[index], 0.0)


def learn_statistics(
    code: Codes, outcome: Outcomes, weight: Float64[np.ndarray, "rows"], *, is_share: bool
) -> TargetStatistics:
    """The statistics of all rows; `is_share`: in log-odds, for outcomes that are 0 or 1."""
    total = max(float(weight.sum()), 1e-12)
    mean = (weight @ outcome + 0.5 * is_share) / (total + is_share)
    there = ~np.isnan(code)
    labels, index = np.unique(code[there], return_inverse=True)
    counts = np.bincount(index, weights=weight[there], minlength=len(labels))[:, None]
    sums = np.zeros((len(labels), outcome.shape[1]))
    np.add.at(sums, index, weight[there, None] * outcome[there])
    own = (sums + _SHRINKAGE * mean) / (counts + _SHRINKAGE)
    if is_share:
        return TargetStatistics(labels, _log_odds(own) - _log_odds(mean))
    return TargetStatistics(labels, own - mean)


def cross_fitted(
    code: Codes,
    outcome: Outcomes,
    weight: Float64[np.ndarray, "rows"],
    *,
    is_share: bool,
    part: Int64[np.ndarray, "rows"],
) -> Outcomes:
    """Of each row the statistic of its label in all parts of the rows but its own."""
    value = np.zeros_like(outcome)
    for own in np.unique(part):
        rows, others = part == own, part != own
        statistics = learn_statistics(
            code[others], outcome[others], weight[others], is_share=is_share
        )
        value[rows] = statistics(code[rows])
    return value


@dataclass(frozen=True, eq=False)
class FoldStatistics:
    """The statistics of all columns with many labels, from the training rows of one fold.

    `columns`: their indices among the table's codes
    """

    columns: Int64[np.ndarray, " columns"]
    tables: tuple[TargetStatistics, ...]

    @property
    def column_of_number(self) -> Int64[np.ndarray, " numbers"]:
        """The index of the column that each added number is of."""
        return np.repeat(self.columns, [table.value.shape[1] for table in self.tables])

    def widened(self, view: View) -> View:
        """The view with statistics after its features, and after its numbers for trees."""
        parts = zip(self.columns, self.tables, strict=True)
        return view.widened(np.hstack([table(view.for_trees[:, k]) for k, table in parts]))

    def arrays(self) -> dict[str, np.ndarray]:
        named = {f"labels.{k}": own.labels for k, own in enumerate(self.tables)}
        named |= {f"value.{k}": own.value for k, own in enumerate(self.tables)}
        return {"columns": self.columns, **named}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "FoldStatistics":
        tables = [
            TargetStatistics(arrays[f"labels.{k}"], arrays[f"value.{k}"])
            for k in range(len(arrays["columns"]))
        ]
        return cls(arrays["columns"], tuple(tables))


@dataclass(frozen=True, eq=False)
class StatisticRows:
    """Rows that statistics are learned from: responses and weights; and which columns have them.

    `many`: columns with many labels
    """

    y: Float64[np.ndarray, "rows"]
    weight: Float64[np.ndarray, "rows"]
    n_labels: int | None
    many: Int64[np.ndarray, " many"]

    def learn(self, complete: View, trained: Bool[np.ndarray, "rows"]) -> FoldStatistics:
        """From the rows of training."""
        outcome, is_share = outcomes(self.y, self.n_labels), self.n_labels is not None
        tables = [
            learn_statistics(
                complete.for_trees[trained, k],
                outcome[trained],
                self.weight[trained],
                is_share=is_share,
            )
            for k in self.many
        ]
        return FoldStatistics(self.many, tuple(tables))

    def cross_fitted(self, views: list[View], trained: Bool[np.ndarray, "rows"]) -> list[View]:
        """The views with statistics in which no row of training sees its own response.

        Rows that are not of training have 0.
        """
        outcome, is_share = outcomes(self.y, self.n_labels), self.n_labels is not None
        part = np.arange(int(trained.sum())) % _N_PARTS
        widened = []
        for view in views:
            numbers = []
            for k in self.many:
                own = np.zeros_like(outcome)
                own[trained] = cross_fitted(
                    views[0].for_trees[trained, k],
                    outcome[trained],
                    self.weight[trained],
                    is_share=is_share,
                    part=part,
                )
                numbers.append(np.where(np.isnan(view.for_trees[:, k])[:, None], 0.0, own))
            widened.append(view.widened(np.hstack(numbers)))
        return widened


def many_labels(
    complete: View, is_label: Bool[np.ndarray, "columns"]
) -> Int64[np.ndarray, " many"]:
    """The columns of labels of which rows have many."""
    columns = [
        k
        for k in np.flatnonzero(is_label)
        if len(np.unique(complete.for_trees[~np.isnan(complete.for_trees[:, k]), k]))
        >= FEWEST_LABELS
    ]
    return np.array(columns, dtype=np.int64)


def _log_odds(share: np.ndarray) -> np.ndarray:
    odds: np.ndarray = np.log(share) - np.log1p(-share)
    return odds
