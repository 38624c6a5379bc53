"""Columns of a table as the matrices that peers take, and columns with cells missing."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Shaped

from exfam.checks import check_choice
from exfam_studies.experts.tables.public import Columns, TableShift

# Kinds whose values have an order enter as one number, these as a label each.
UNORDERED = "categorical"
# Shares of cells that are dropped.
SHARES = (0.0, 0.1, 0.3, 0.5, 0.7)
# Of longer tables each row comes once where cells are dropped in training.
_FEW_ROWS = 5000

CodedPart = tuple[np.ndarray, np.ndarray]


def coded_table(train: CodedPart, test: CodedPart, *, n_levels: int) -> TableShift:
    """A table of columns x0, x1, … and y, all codes from 0 to n_levels - 1 in order."""
    names = [f"x{number}" for number in range(train[0].shape[1])]
    return TableShift(
        train=dict(zip(names, train[0].T, strict=True)),
        train_y=train[1],
        test=dict(zip(names, test[0].T, strict=True)),
        test_y=test[1],
        kinds=dict.fromkeys(names, "ordinal"),
        task="ordinal",
        levels=dict.fromkeys([*names, "y"], range(n_levels)),
    )


def missing_cells(column: Shaped[np.ndarray, "rows"]) -> Bool[np.ndarray, "rows"]:
    """Which cells are NaN or None."""
    if column.dtype != object:
        return np.asarray(column != column)
    return np.array([cell is None or cell != cell for cell in column], dtype=bool)


@dataclass(frozen=True, eq=False)
class Features:
    """What the rows to fit on say of their columns: labels in order, means and sds of numbers."""

    kinds: Mapping[str, str]
    labels: Mapping[str, list[object]]
    means: Mapping[str, float]
    sds: Mapping[str, float]

    @property
    def unordered(self) -> list[int]:
        """Indices of the columns whose numbers are names only."""
        return [index for index, kind in enumerate(self.kinds.values()) if kind == UNORDERED]

    def codes(self, columns: Columns) -> Float[np.ndarray, "rows columns"]:
        """A number for each cell, codes of labels; NaN for what is missing or was never seen."""
        return np.stack([self._numbers(name, columns[name]) for name in self.kinds], axis=1)

    def design(self, columns: Columns) -> Float[np.ndarray, "rows features"]:
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
        index = {label: code for code, label in enumerate(self.labels[name])}
        numbers[there] = [index.get(label, np.nan) for label in column[there].tolist()]
        return numbers


def learn_features(table: TableShift) -> Features:
    """What the rows to fit on say of their columns."""
    labels, means, sds = {}, {}, {}
    for name, kind in table.kinds.items():
        cells = table.train[name][~missing_cells(table.train[name])]
        if kind == UNORDERED:
            labels[name] = sorted(set(cells.tolist()))
        else:
            numbers = cells.astype(np.float64)
            means[name], sds[name] = float(numbers.mean()), float(numbers.std()) or 1.0
    return Features(table.kinds, labels, means, sds)


def with_missing(
    columns: Columns, *, share: float, by: str, seed: int
) -> dict[str, Shaped[np.ndarray, "rows"]]:
    """The columns with a share of cells, or of whole columns (`by`), missing at random."""
    check_choice("by", by, ["cell", "column"])
    random = np.random.default_rng(seed)
    n_rows = len(next(iter(columns.values())))
    if by == "column":
        chosen = random.permutation(len(columns)) < round(share * len(columns))
        hidden = np.broadcast_to(chosen, (n_rows, len(columns)))
    else:
        hidden = random.random((n_rows, len(columns))) < share
    parts = {}
    for index, (name, column) in enumerate(columns.items()):
        floating = column.dtype.kind == "f"
        changed = column.copy() if floating else column.astype(object)
        changed[hidden[:, index]] = np.nan if floating else None
        parts[name] = changed
    return parts


def n_copies(table: TableShift) -> int:
    """How many times each row comes where cells of training rows are dropped."""
    return len(SHARES) if len(table.train_y) <= _FEW_ROWS else 1


def with_dropped(table: TableShift, *, seed: int) -> TableShift:
    """The table with cells of its training rows dropped: each of `n_copies` with another share."""
    copies, turn = n_copies(table), np.arange(len(table.train_y)) % len(SHARES)
    hidden = [
        with_missing(table.train, share=share, by="cell", seed=seed + number)
        for number, share in enumerate(SHARES)
    ]
    columns = {}
    for name in table.train:
        by_share = np.stack([part[name].astype(object) for part in hidden])
        rows = [
            by_share[(turn + copy) % len(SHARES), np.arange(len(turn))] for copy in range(copies)
        ]
        whole = np.concatenate(rows)
        columns[name] = whole.astype(np.float64) if table.kinds[name] == "numeric" else whole
    return replace(table, train=columns, train_y=np.tile(table.train_y, copies))
