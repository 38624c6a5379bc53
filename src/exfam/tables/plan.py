"""From what a fit is given to its plan: kinds, the response, rows held out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64

from exfam.families import Family
from exfam.tables.data import RawTable, TableSchema, learn_schema
from exfam.tables.inputs import without_column

__all__ = ["Response", "learn_columns", "split_rows"]


@dataclass(frozen=True)
class Response:
    """The column that a fit is for: its name, its kind or labels in order, and its family.

    `family`: None for labels, and for numbers in bins of their own

    >>> from exfam.families import Gaussian
    >>> Response("y", "numeric", Gaussian()).binned
    False
    """

    name: str
    kind: str | Sequence[object]
    family: Family | None

    @property
    def binned(self) -> bool:
        """Whether it is a number told by bins."""
        return self.kind == "numeric" and self.family is None


def learn_columns(
    tables: Sequence[RawTable],
    response: Response | None,
    *,
    kinds: Any,
    numeric: str,
    n_bins: int,
    n_knots: int | None = None,
    date_format: Any = None,
) -> TableSchema:
    """The schema of all columns, the response the last.

    `n_bins`, `n_knots`, `date_format`: as in `learn_schema`

    Raises DataError for `kinds` of unknown columns and for cells that are not of their kind.

    >>> from exfam.tables.data import read_table
    >>> table = read_table({"a": [1.5, 2.0], "y": [0.5, 3.0]})
    >>> schema = learn_columns(
    ...     [table], Response("y", "numeric", None), kinds=None, numeric="continuous", n_bins=2
    ... )
    >>> [column.binned for column in schema.columns]
    [False, True]
    """
    options: dict[str, Any] = {"n_bins": n_bins, "n_knots": n_knots}
    dated = {**options, "date_format": date_format}
    if response is None:
        return learn_schema(tables, kinds=kinds, numeric=numeric, **dated)
    name = response.name
    others = [table for each in tables if (table := without_column(each, name)).names]
    declared = {key: kind for key, kind in (kinds or {}).items() if key != name}
    schema = learn_schema(others, kinds=declared, numeric=numeric, **dated)
    own = [
        RawTable((name,), {name: table.columns[name]}, n_rows=table.n_rows)
        for table in tables
        if name in table.columns
    ]
    told = "binned" if response.binned else "continuous"
    last = learn_schema(own, kinds={name: response.kind}, numeric=told, **options)
    return TableSchema((*schema.columns, *last.columns), schema.dates)


def split_rows(
    eligible: Bool[np.ndarray, "rows"], *, fraction: float, seed: int
) -> tuple[Int64[np.ndarray, "kept"], Int64[np.ndarray, "held"]]:
    """Rows to learn from, and a share of the eligible ones, drawn at random, to hold out.

    None are held out where the share is less than one row.

    >>> kept, held = split_rows(np.ones(10, dtype=bool), fraction=0.2, seed=0)
    >>> len(kept), len(held)
    (8, 2)
    """
    places = np.flatnonzero(eligible)
    n_held = int(fraction * len(places))
    held = np.sort(np.random.default_rng(seed).permutation(places)[:n_held])
    kept = np.setdiff1d(np.arange(len(eligible)), held)
    return kept, held
