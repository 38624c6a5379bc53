"""Data sets of items: files of the suite, cut into parts as its table says."""

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.arena.kind import Data

from exfam.checks import DataError
from exfam.groups import Groups
from exfam.reading.public_sets.published import find_file

PARTS = ("train", "validation", "test")
RANDOM = {"how": "random", "parts": [0.8, 0.1, 0.1]}


@cache
def suite_rows() -> list[dict[str, Any]]:
    """What the suite says of its files."""
    return json.loads(suite_file("suite.json").read_text(encoding="utf-8"))


def suite_file(name: str) -> Any:
    path = find_file(f"suite/{name}")
    if path is None:
        raise DataError(
            f"`EXFAM_DATA` must name a folder with suite/{name}, found no such file. Set it to "
            "the folder of data sets, or choose others with --only."
        )
    return path


def read_suite(
    file: str,
    *,
    kind: str,
    keep: Callable[[pd.DataFrame], pd.DataFrame] | None = None,
    split: dict[str, Any] | None = None,
    cut: Sequence[int] | None = None,
) -> Data:
    """A file of the suite as sets ("baskets") or "sequences".

    `keep`: the rows that the suite's filter names; `split`: in place of the suite's
    `cut`: groups of training, validation and test at most, drawn with seed 0
    """
    row = next(row for row in suite_rows() if row["file"] == file and row["kind"] == kind)
    path = suite_file(file.removesuffix(".gz"))
    columns = {"group": row["group"][0], "item": row["item"]}
    if path.suffix == ".parquet":
        frame = pd.read_parquet(path)
    else:
        frame = pd.read_csv(path, dtype={columns["item"]: str}, low_memory=False)
    frame = frame[frame[columns["item"]].notna()]
    if keep is not None:
        frame = keep(frame)
    order = row["order"][0] if kind == "sequences" else None
    return split_frame(frame, **columns, order=order, split=split or row["split"], cut=cut)


def split_frame(
    frame: pd.DataFrame,
    *,
    group: str,
    item: str,
    order: str | None,
    split: dict[str, Any],
    cut: Sequence[int] | None = None,
) -> Data:
    """One row an element; sets without `order`, whose repeats within a group count once."""
    frame = frame[list(dict.fromkeys([group, item, order or group, split.get("column", group)]))]
    if order is None:
        frame = frame.drop_duplicates([group, item])
    else:
        frame = frame.sort_values(order, kind="stable")
    parts = [frame[rows] for rows in part_rows(frame, group, split)]
    if cut is not None:
        parts = [drawn(part, group, most) for part, most in zip(parts, cut, strict=True)]
    names = np.sort(parts[0][item].unique())
    code = pd.Series(np.arange(len(names)), index=names)
    coded = [part.assign(code=part[item].map(code)) for part in parts]
    left_out = {name: int(part.code.isna().sum()) for name, part in zip(PARTS, coded, strict=True)}
    groups = [_groups(part.dropna(subset="code"), group, ordered=bool(order)) for part in coded]
    return as_data(groups, n_items=len(names), left_out=left_out)


def as_data(
    parts: Sequence[Groups], *, n_items: int, left_out: dict[str, int] | None = None
) -> Data:
    """Training, validation and test groups; a sequence is one if groups are ordered."""
    vocabulary = {"item": np.arange(n_items)}
    train, validation, test = (part.with_(vocabulary=vocabulary, tied=None) for part in parts)
    ordered = train.ordered
    return Data(
        train=train,
        validation=validation,
        test=test,
        n_items=n_items,
        direction="causal" if ordered else "bidirectional",
        exclude=all(part.first_repeat() is None for part in parts),
        ranked="last" if ordered else "all",
        left_out=left_out or {},
    )


def part_rows(frame: pd.DataFrame, group: str, split: dict[str, Any]) -> list[np.ndarray]:
    """Which rows are in training, validation and test."""
    if split["how"] == "time":
        value = frame[split["column"]]
        before, after = value < split["train_below"], value >= split["test_from"]
        return [before.to_numpy(), (~before & ~after).to_numpy(), after.to_numpy()]
    if split["how"] == "random":
        names = np.random.default_rng(0).permutation(np.sort(frame[group].unique()))
    else:
        first = frame.groupby(group)[split["column"]].min()
        names = first.sort_values(kind="stable").index.to_numpy()
    ends = np.round(np.cumsum(split["parts"][:2]) * len(names)).astype(int)
    return [frame[group].isin(part).to_numpy() for part in np.split(names, ends)]


def drawn(frame: pd.DataFrame, group: str, most: int) -> pd.DataFrame:
    names = np.sort(frame[group].unique())
    kept = np.random.default_rng(0).permutation(names)[:most]
    return frame[frame[group].isin(kept)]


def _groups(frame: pd.DataFrame, group: str, *, ordered: bool) -> Groups:
    number = pd.factorize(frame[group], sort=True)[0]
    rows = np.argsort(number, kind="stable")
    lengths = np.bincount(number)
    stop = np.cumsum(lengths)
    item = frame["code"].to_numpy()[rows].astype(np.int32)
    return Groups(start=stop - lengths, stop=stop, item=item, ordered=ordered)
