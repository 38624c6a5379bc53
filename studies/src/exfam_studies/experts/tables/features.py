"""Columns of a table as the matrices that peers take, and columns with cells missing."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Shaped

from exfam.checks import check_choice, check_fraction
from exfam_studies.experts.tables.public import TableShift

# Kinds whose values have an order enter as one number, these as a label each.
UNORDERED = "categorical"
# Shares of cells that are dropped.
SHARES = (0.0, 0.1, 0.3, 0.5, 0.7)
# Of longer tables each row comes once where cells are dropped in training.
_FEW_ROWS = 5000


def coded_table(
    name: str,
    train: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    *,
    n_levels: int,
) -> TableShift:
    """A table whose columns x0, x1, … and y are codes from 0 to n_levels - 1, all in order.

    `train`, `test`: matrix of the columns' codes, and y
    """
    names = [f"x{number}" for number in range(train[0].shape[1])]
    return TableShift(
        name=name,
        train=dict(zip(names, train[0].T, strict=True)),
        train_y=train[1],
        test=dict(zip(names, test[0].T, strict=True)),
        test_y=test[1],
        kinds=dict.fromkeys(names, "ordinal"),
        task="ordinal",
        shift="of codes",
        levels=dict.fromkeys([*names, "y"], range(n_levels)),
    )


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
        """Indices of the columns whose numbers are names only."""
        return [index for index, kind in enumerate(self.kinds.values()) if kind == UNORDERED]

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
        index = {label: code for code, label in enumerate(self.labels[name].tolist())}
        numbers[there] = [index.get(label, np.nan) for label in column[there].tolist()]
        return numbers


def learn_features(table: TableShift) -> Features:
    """What the rows to fit on say of their columns."""
    columns, kinds = table.train, table.kinds
    there = {name: columns[name][~missing_cells(columns[name])] for name in kinds}
    labels = {
        name: np.array(sorted(set(there[name].tolist())), dtype=object)
        for name, kind in kinds.items()
        if kind == UNORDERED
    }
    numbers = {
        name: cells.astype(np.float64) for name, cells in there.items() if name not in labels
    }
    means = {name: float(cells.mean()) for name, cells in numbers.items()}
    sds = {name: float(cells.std()) or 1.0 for name, cells in numbers.items()}
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
    for index, (name, column) in enumerate(columns.items()):
        floating = column.dtype.kind == "f"
        changed = column.copy() if floating else column.astype(object)
        changed[hidden[:, index]] = np.nan if floating else None
        parts[name] = changed
    return parts


def with_dropped(table: TableShift, *, copies: int, seed: int) -> TableShift:
    """The table with cells of its training rows dropped, as they are at test.

    Each row comes `copies` times, each time with another of the shares of SHARES dropped.
    """
    turn = np.arange(len(table.train_y)) % len(SHARES)
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


def n_copies(table: TableShift) -> int:
    """How many times each row comes where cells of training rows are dropped."""
    return len(SHARES) if len(table.train_y) <= _FEW_ROWS else 1
