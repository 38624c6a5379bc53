"""Columns of a table with a natural shift as the matrices that peers take."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Shaped

from exfam.checks import check_choice, check_fraction

__all__ = ["Features", "learn_features", "missing_cells", "with_missing"]

Columns = Mapping[str, Shaped[np.ndarray, "rows"]]
# Kinds whose values have an order enter as one number, these as a label each.
UNORDERED = "categorical"


def missing_cells(column: Shaped[np.ndarray, "rows"]) -> Bool[np.ndarray, "rows"]:
    """Where a column has no value: None or NaN.

    >>> missing_cells(np.array(["a", None], dtype=object)), missing_cells(np.array([1.0, np.nan]))
    (array([False,  True]), array([False,  True]))
    """
    if column.dtype != object:
        return np.asarray(column != column)
    return np.array([cell is None or cell != cell for cell in column], dtype=bool)


@dataclass(frozen=True, eq=False)
class Features:
    """What was learned of the columns to fit on: labels in order, means and sds of numbers.

    `labels`: of unordered columns
    """

    kinds: Mapping[str, str]
    labels: Mapping[str, Shaped[np.ndarray, "labels"]]
    means: Mapping[str, float]
    sds: Mapping[str, float]

    @property
    def unordered(self) -> list[int]:
        """Places of the columns whose numbers are names only."""
        return [place for place, kind in enumerate(self.kinds.values()) if kind == UNORDERED]

    def codes(
        self, columns: Mapping[str, Shaped[np.ndarray, "rows"]]
    ) -> Float[np.ndarray, "rows columns"]:
        """A number for each cell, codes of labels; NaN for what is missing or was never seen."""
        return np.stack([self._numbers(name, columns[name]) for name in self.kinds], axis=1)

    def design(
        self, columns: Mapping[str, Shaped[np.ndarray, "rows"]]
    ) -> Float[np.ndarray, "rows features"]:
        """Standardized numbers, and a column of 0 and 1 for each label; 0 for what is missing."""
        parts = []
        for name in self.kinds:
            numbers = self._numbers(name, columns[name])[:, None]
            if name in self.labels:
                parts.append((numbers == np.arange(len(self.labels[name]))).astype(np.float64))
            else:
                parts.append(np.nan_to_num((numbers - self.means[name]) / self.sds[name]))
        return np.concatenate(parts, axis=1)

    def _numbers(self, name: str, column: Shaped[np.ndarray, "rows"]) -> Float[np.ndarray, "rows"]:
        numbers = np.full(len(column), np.nan)
        there = ~missing_cells(column)
        if name not in self.labels:
            numbers[there] = column[there].astype(np.float64)
            return numbers
        place = {label: code for code, label in enumerate(self.labels[name].tolist())}
        numbers[there] = [place.get(label, np.nan) for label in column[there].tolist()]
        return numbers


def learn_features(
    columns: Mapping[str, Shaped[np.ndarray, "rows"]], kinds: Mapping[str, str]
) -> Features:
    """What the rows to fit on tell of their columns.

    >>> columns = {"color": np.array(["red", "blue"], dtype=object), "size": np.array([1.0, 3.0])}
    >>> features = learn_features(columns, {"color": "categorical", "size": "numeric"})
    >>> features.design(columns)
    array([[ 0.,  1., -1.],
           [ 1.,  0.,  1.]])
    """
    there = {name: columns[name][~missing_cells(columns[name])] for name in kinds}
    labels = {
        name: np.array(sorted(set(there[name].tolist())), dtype=object)
        for name, kind in kinds.items()
        if kind == UNORDERED
    }
    numbers = {name: each.astype(np.float64) for name, each in there.items() if name not in labels}
    means = {name: float(each.mean()) for name, each in numbers.items()}
    sds = {name: float(each.std()) or 1.0 for name, each in numbers.items()}
    return Features(dict(kinds), labels, means, sds)


def with_missing(
    columns: Mapping[str, Shaped[np.ndarray, "rows"]], *, share: float, by: str, seed: int
) -> dict[str, Shaped[np.ndarray, "rows"]]:
    """The columns with a share of their cells made missing, at random.

    `share`: in [0, 1)
    `by`: "cell": each cell by itself; "column": whole columns, the nearest number of them

    Numbers become NaN, labels None.
    Raises ExfamError for a `share` or `by` out of range.

    >>> hidden = with_missing({"a": np.arange(4.0)}, share=0.5, by="cell", seed=0)
    >>> bool(np.isnan(hidden["a"]).any())
    True
    """
    check_fraction("share", share)
    check_choice("by", by, ["cell", "column"])
    random = np.random.default_rng(seed)
    n_rows = len(next(iter(columns.values())))
    if by == "column":
        chosen = random.permutation(len(columns)) < round(share * len(columns))
        hidden = np.broadcast_to(chosen, (n_rows, len(columns)))
    else:
        hidden = random.random((n_rows, len(columns))) < share
    parts = {}
    for place, (name, column) in enumerate(columns.items()):
        floating = column.dtype.kind == "f"
        changed = column.copy() if floating else column.astype(object)
        changed[hidden[:, place]] = np.nan if floating else None
        parts[name] = changed
    return parts
