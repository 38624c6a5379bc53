"""Data sets of values: frames with a row for every value, cut into parts by groups."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.arena.kind import Folds
from benchmarks.arena.read import PARTS, RANDOM, drawn, part_rows, suite_file
from benchmarks.arena.values.data import ValueData

from exfam.groups import Groups


def suite_frame(file: str, *, item: str | None = None) -> pd.DataFrame:
    """A file of the suite; codes of `item` are text."""
    path = suite_file(file.removesuffix(".gz"))
    return pd.read_csv(path, dtype=None if item is None else {item: str}, low_memory=False)


def split_values(
    frame: pd.DataFrame,
    *,
    form: str,
    order: str | None = None,
    direction: str = "bidirectional",
    split: dict[str, Any] | None = None,
    cut: Sequence[int] | None = None,
) -> ValueData:
    """Columns group, item and value, and others by which to order or split.

    `split`: as the suite writes it, 80/10/10 % of groups with seed 0 unless given
    `cut`: groups of training, validation and test at most, drawn with seed 0
    """
    if order is not None:
        frame = frame.sort_values(order, kind="stable")
    parts = [frame[rows] for rows in part_rows(frame, "group", split or RANDOM)]
    if cut is not None:
        parts = [drawn(part, "group", most) for part, most in zip(parts, cut, strict=True)]
    return as_values(parts, form=form, ordered=order is not None, direction=direction)


def folds(frame: pd.DataFrame, *, form: str, n_folds: int) -> Folds:
    """Every group is in the test part once; the fold after it is the validation part."""
    names = np.random.default_rng(0).permutation(np.sort(frame.group.unique()))
    pieces = np.array_split(names, n_folds)
    splits = []
    for fold in range(n_folds):
        test, validation = pieces[fold], pieces[(fold + 1) % n_folds]
        train = np.setdiff1d(names, np.concatenate([test, validation]))
        parts = [frame[frame.group.isin(part)] for part in (train, validation, test)]
        splits.append(as_values(parts, form=form))
    return Folds(splits)


def as_values(
    parts: Sequence[pd.DataFrame],
    *,
    form: str,
    ordered: bool = False,
    direction: str = "bidirectional",
) -> ValueData:
    """Training, validation and test rows, with the items of training alone."""
    names = np.sort(parts[0].item.unique())
    code = pd.Series(np.arange(len(names)), index=names)
    coded = [part.assign(code=part.item.map(code)) for part in parts]
    groups = [_groups(part.dropna(subset="code"), len(names), ordered=ordered) for part in coded]
    return ValueData(
        train=groups[0],
        validation=groups[1],
        test=groups[2],
        n_items=len(names),
        direction=direction,
        form=form,
        left_out={
            name: int(part.code.isna().sum()) for name, part in zip(PARTS, coded, strict=True)
        },
    )


def of_groups(parts: Sequence[Groups], *, form: str, direction: str) -> ValueData:
    """Groups that are split already, with the value column "value"."""
    train, validation, test = (
        part.compact().with_(group_names=None, source_row=None, tied=None) for part in parts
    )
    return ValueData(
        train=train,
        validation=validation,
        test=test,
        n_items=train.n_items,
        direction=direction,
        form=form,
    )


def long_form(frame: pd.DataFrame, *, group: str, items: Sequence[str]) -> pd.DataFrame:
    """A row for every value that is there, of a frame with a column for every item."""
    long = frame.melt(id_vars=[group], value_vars=list(items), var_name="item")
    return long.dropna(subset="value").rename(columns={group: "group"})


def _groups(frame: pd.DataFrame, n_items: int, *, ordered: bool) -> Groups:
    number = pd.factorize(frame.group, sort=True)[0]
    rows = np.argsort(number, kind="stable")
    lengths = np.bincount(number)
    stop = np.cumsum(lengths)
    return Groups(
        start=stop - lengths,
        stop=stop,
        item=frame.code.to_numpy()[rows].astype(np.int32),
        values={"value": frame.value.to_numpy(dtype=np.float64)[rows]},
        vocabulary={"item": np.arange(n_items)},
        ordered=ordered,
    )


Reader = Callable[[], ValueData | Folds]
