"""What a fit learns from: the response, the columns, the rows held out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64

from exfam.checks import DataError, ExfamError, support_error
from exfam.families import (
    Categorical,
    Family,
    Gaussian,
    Histogram,
    NegativeBinomial,
    Ordinal,
    PerItem,
    choose_family,
)
from exfam.tables.data import Cells, Column, RawTable, TableSchema, learn_schema
from exfam.tables.data.learn import pooled_columns
from exfam.tables.data.table_files import warn_of_suspects
from exfam.tables.estimator.given import without_column

# Bins, or knots, of a column of numbers: one for so many rows, at least and at most these.
# Bins are as many as rows can fill; of knots more than a few cost more by chance than they gain.
_ROWS_PER_BIN, _BINS = 16, (8, 32)
_ROOTS_PER_KNOT, _KNOTS = 6, (4, 16)


@dataclass(frozen=True)
class Response:
    """The column that a fit is for; no `family` of labels, and of numbers in bins of their own."""

    name: str
    kind: str | Sequence[object]
    family: Family | None


@dataclass(frozen=True)
class Recipe:
    """The choices that validation may make; `length`: how much longer than usual a training is."""

    ordinal: bool
    extra_masking: float
    length: int = 1


@dataclass(frozen=True, eq=False)
class TablePlan:
    """What a fit learns from; `response`: index of the column that it is for, None if for all."""

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
    """The schema of all columns, the response the last, by an estimator's parameters."""
    n_rows, n_bins = sum(table.n_rows for table in tables), estimator.n_bins
    n_knots = n_bins
    if n_bins == "auto":
        n_bins = np.clip(n_rows // _ROWS_PER_BIN, *_BINS)
        n_knots = np.clip(round(n_rows**0.5 / _ROOTS_PER_KNOT), *_KNOTS)
    options = {"n_bins": int(n_bins), "n_knots": int(n_knots)}
    own = None if response is None else response.name
    warn_of_suspects(pooled_columns(tables), estimator.dialect)
    schema = learn_schema(
        [rest for table in tables if (rest := without_column(table, own)).names],
        kinds={name: kind for name, kind in (estimator.kinds or {}).items() if name != own},
        numeric=estimator.numeric,
        date_format=estimator.date_format,
        **options,
    )
    if response is not None:
        name = response.name
        alone = [
            RawTable({name: table.columns[name]}, table.n_rows)
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


def split_rows(
    eligible: Bool[np.ndarray, "rows"], *, fraction: float, seed: int
) -> tuple[Int64[np.ndarray, "kept"], Int64[np.ndarray, "held"]]:
    """Rows to learn from, and a share of the eligible ones, drawn at random, to hold out."""
    rows = np.flatnonzero(eligible)
    n_held = int(fraction * len(rows))
    held = np.sort(np.random.default_rng(seed).permutation(rows)[:n_held])
    kept = np.setdiff1d(np.arange(len(eligible)), held)
    return kept, held


def column_families(
    schema: TableSchema, response: Response | None, given: Mapping[str, Any]
) -> tuple[Family, ...]:
    """The family of each column: the response's, the `given` one, or that of the column's kind."""
    others = [name for name in schema.names if response is None or name != response.name]
    for name in given:
        if name not in others:
            raise ExfamError(
                f"`families` must name columns of the table, got {name!r}, none of "
                f"{', '.join(map(repr, others))}."
            )
        column = schema.column(name)
        if column.labels is not None or column.binned:
            kind = "binned" if column.binned else column.kind
            raise ExfamError(
                f"`families` must name columns of continuous numbers or counts, got {name!r}, "
                f"which is {kind}. Leave it out, or declare another kind in `kinds`."
            )
    by_name = {name: number_family(family, argument="families") for name, family in given.items()}
    if response is not None and response.family is not None:
        by_name[response.name] = response.family
    return tuple(by_name.get(column.name) or _family(column) for column in schema.columns)


def _family(column: Column) -> Family:
    """Numbers that were all equal in training have a spread of 1: what fits them best is none."""
    if column.labels is not None:
        return Categorical(len(column.labels))
    assert column.knots is not None
    if column.kind == "count":
        return NegativeBinomial()
    if column.binned:
        edges = tuple(column.knots.tolist())
        return Histogram(edges, tails=(column.scale,) * 2 if len(edges) == 1 else None)
    return Gaussian(scale=1.0) if len(column.knots) == 1 else Gaussian()


def check_label_families(schema: TableSchema, families: Sequence[Family]) -> None:
    """Raise ValueError unless each column of labels has a family of their codes, 0, 1, …."""
    for column, family in zip(schema.columns, families, strict=True):
        if column.labels is None:
            continue
        codes = tuple(range(len(column.labels)))
        if not isinstance(family, Categorical | Ordinal) or family.categories != codes:
            raise ValueError(
                f"the family of {column.name!r} must be of {len(column.labels)} labels from 0 on, "
                f"got {family!r}"
            )


def number_family(given: Any, *, argument: str) -> Family:
    """A family of one number, from an instance or a name."""
    family = choose_family(given)
    if isinstance(family, Categorical | Ordinal | PerItem):
        raise ExfamError(
            f"`{argument}` must be a family of one number, got {family}. Labels are declared in "
            "`kinds`, or predicted by MaskedTableClassifier."
        )
    return family


def check_support(name: str, family: Family, value: Float64[np.ndarray, "rows"]) -> None:
    """Raise SupportError, naming the row, for a value that the family cannot produce."""
    rows = np.flatnonzero(~np.isnan(value))
    wrong = ~family.in_support(torch.from_numpy(value[rows])).numpy()
    if wrong.any():
        first, counts = int(rows[wrong][0]), (int(wrong.sum()), len(value))
        support, hint = family.support, family.hint
        raise support_error(
            name, value[first], support=support, row=first, counts=counts, hint=hint
        )
