"""What a fit learns from: the response, the columns, the rows held out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64

from exfam.checks import DataError
from exfam.families import Family
from exfam.tables.data import Cells, RawTable, TableSchema, learn_schema
from exfam.tables.estimator.given import without_column

# Bins, or knots, of a column of numbers: one for so many rows, at least and at most these.
# Bins are as many as rows can fill; of knots more than a few cost more by chance than they gain.
_ROWS_PER_BIN, _BINS = 16, (8, 32)
_ROOTS_PER_KNOT, _KNOTS = 6, (4, 16)


@dataclass(frozen=True)
class Response:
    """The column that a fit is for: its name, its kind or labels in order, and its family.

    `family`: None for labels, and for numbers in bins of their own
    """

    name: str
    kind: str | Sequence[object]
    family: Family | None


@dataclass(frozen=True)
class Recipe:
    """The choices that validation may make.

    `length`: by how much the training is longer than by the number of rows alone (default 1)
    """

    ordinal: bool
    extra_masking: float
    length: int = 1


@dataclass(frozen=True, eq=False)
class TablePlan:
    """What a fit learns from.

    `cells`: of the training rows, all columns, the response included where there is one
    `response`: index of the column that the fit is for, None if for all alike
    `families`: one per column
    `weight`: one number per row
    `validation`: rows that choose when to stop
    """

    schema: TableSchema
    cells: Cells
    response: int | None
    families: tuple[Family, ...]
    weight: Float64[np.ndarray, "rows"] | None = None
    validation: Cells | None = None
    checkpoint: Path | None = None

    @property
    def targets(self) -> list[int]:
        """Indices of the columns that the fit is for."""
        if self.response is not None:
            return [self.response]
        return [self.schema.index(name) for name in self.schema.targets]


def learn_columns(
    estimator: Any, tables: Sequence[RawTable], response: Response | None
) -> TableSchema:
    """The schema of all columns, the response the last, by an estimator's parameters.

    Raises DataError for `kinds` of unknown columns, for cells that are not of their kind, and for
    dates alone.
    """
    options = _bins_and_knots(estimator.n_bins, sum(table.n_rows for table in tables))
    own = None if response is None else response.name
    others = [rest for table in tables if (rest := without_column(table, own)).names]
    schema = learn_schema(
        others,
        kinds={name: kind for name, kind in (estimator.kinds or {}).items() if name != own},
        numeric=estimator.numeric,
        date_format=estimator.date_format,
        **options,
    )
    if response is not None:
        name = response.name
        alone = [
            RawTable((name,), {name: table.columns[name]}, n_rows=table.n_rows)
            for table in tables
            if name in table.columns
        ]
        # Numbers without a family are in bins.
        numeric = "binned" if response.family is None else "continuous"
        last = learn_schema(alone, kinds={name: response.kind}, numeric=numeric, **options)
        schema = TableSchema((*schema.columns, *last.columns), schema.dates)
    if not schema.targets:
        raise DataError(
            "`X` must have a column besides dates, got dates alone. Dates are inputs: give "
            "what is to be predicted from them, or days since a date as a number."
        )
    return schema


def _bins_and_knots(n_bins: Any, n_rows: int) -> dict[str, int]:
    n_knots = n_bins
    if n_bins == "auto":
        n_bins = np.clip(n_rows // _ROWS_PER_BIN, *_BINS)
        n_knots = np.clip(round(n_rows**0.5 / _ROOTS_PER_KNOT), *_KNOTS)
    return {"n_bins": int(n_bins), "n_knots": int(n_knots)}


def split_rows(
    eligible: Bool[np.ndarray, "rows"], *, fraction: float, seed: int
) -> tuple[Int64[np.ndarray, "kept"], Int64[np.ndarray, "held"]]:
    """Rows to learn from, and a share of the eligible ones, drawn at random, to hold out.

    None are held out where the share is less than one row.
    """
    rows = np.flatnonzero(eligible)
    n_held = int(fraction * len(rows))
    held = np.sort(np.random.default_rng(seed).permutation(rows)[:n_held])
    kept = np.setdiff1d(np.arange(len(eligible)), held)
    return kept, held
