"""Tables of the suite and of the tabular folder, split by a random fifth, time, order or space."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.arena.read import suite_rows
from benchmarks.arena.tabular.data import Rows, TableData, fifths
from benchmarks.arena.values.read import suite_frame
from jaxtyping import Bool

# Of large tables, training and test rows at most, drawn with seed 0.
MOST_TRAIN, MOST_TEST = 10_000, 5_000

Test = Bool[np.ndarray, "rows"]


@dataclass(frozen=True, eq=False)
class Table:
    """All rows of a table. `labels`: whether the response is one; else it is a number.

    `groups`: columns whose equal rows are in the same part
    """

    frame: pd.DataFrame
    response: str
    labels: bool
    groups: Sequence[str] = ()


def suite_table(
    name: str,
    *,
    drop: Sequence[str] = (),
    groups: Sequence[str] = (),
    clean: Callable[[pd.DataFrame], pd.DataFrame] = lambda frame: frame,
) -> Table:
    """A table of the suite, without the columns that its remarks leave out."""
    file = f"tables/{name}.csv.gz"
    row = next(row for row in suite_rows() if row["file"] == file)
    frame = clean(suite_frame(file)).drop(columns=[*row.get("drop", ()), *drop])
    return Table(frame, row["response"], row["task"] == "classification", groups)


def split_table(
    table: Table,
    *,
    test: Callable[[pd.DataFrame], Test] | None = None,
    drop: Sequence[str] = (),
    most: tuple[int, int] | None = (MOST_TRAIN, MOST_TEST),
    n_train: int | None = None,
    in_order: bool = False,
) -> TableData:
    """A random fifth as test, of each label equally, unless `test` says which rows are.

    `drop`: columns that only the split needs; `most`: rows of both parts, None for all
    `n_train`: training rows, drawn with seed 0, if not all
    `in_order`: whether the rows of the file are in the order of time, and test rows the last ones
    """
    frame = table.frame.dropna(subset=table.response).reset_index(drop=True)
    is_test = _random_fifth(frame, table) if test is None else np.asarray(test(frame))
    parts = [frame[~is_test], frame[is_test]]
    if most is not None:
        parts = [drawn_rows(part, limit) for part, limit in zip(parts, most, strict=True)]
    if n_train is not None:
        parts[0] = drawn_rows(parts[0], n_train)
    return replace(as_table_data(*parts, table, drop=drop), in_order=in_order)


def as_table_data(
    train: pd.DataFrame, test: pd.DataFrame, table: Table, *, drop: Sequence[str] = ()
) -> TableData:
    """Training and test rows that are split already; test rows of new labels are left out."""
    away = [table.response, *drop]
    responses = [part[table.response].to_numpy() for part in (train, test)]
    cells = [_cells(part.drop(columns=away)) for part in (train, test)]
    if not table.labels:
        numbers = [response.astype(np.float64) for response in responses]
        return TableData(train=Rows(cells[0], numbers[0]), test=Rows(cells[1], numbers[1]))
    labels = np.unique(responses[0])
    is_old = np.isin(responses[1], labels)
    codes = [np.searchsorted(labels, part) for part in (responses[0], responses[1][is_old])]
    return TableData(
        train=Rows(cells[0], codes[0]),
        test=Rows(cells[1][is_old], codes[1]),
        labels=labels,
        ordered=labels.dtype.kind in "if" and len(labels) > 2,
        left_out=int((~is_old).sum()),
    )


def drawn_rows(frame: pd.DataFrame, most: int) -> pd.DataFrame:
    """Rows drawn with seed 0, in the order of the file."""
    kept = np.sort(np.random.default_rng(0).permutation(len(frame))[:most])
    return frame.iloc[kept]


def _random_fifth(frame: pd.DataFrame, table: Table) -> Test:
    if table.groups:
        number = frame.groupby(list(table.groups)).ngroup().to_numpy()
        return fifths(np.arange(number.max() + 1), by_label=False, seed=0)[number] == 0
    return fifths(frame[table.response].to_numpy(), by_label=table.labels, seed=0) == 0


def _cells(frame: pd.DataFrame) -> pd.DataFrame:
    """Numbers as float64, all else as texts."""
    columns: dict[str, Any] = {}
    for name in frame.columns:
        column = frame[name].reset_index(drop=True)
        is_number = pd.api.types.is_numeric_dtype(column) and column.dtype != bool
        columns[name] = column.astype(np.float64) if is_number else column.astype("str")
    return pd.DataFrame(columns)
