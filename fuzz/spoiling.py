"""Frames with something wrong in them, as the frames that people pass."""

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from fuzz.values import odd_cell, odd_text, odd_value, pick


def spoiled_data(random: np.random.Generator, X: Any) -> Any:
    """A frame, or lines of text, spoiled; at times something else altogether."""
    if random.random() < 0.03:
        return odd_value(random)
    if isinstance(X, pd.DataFrame):
        return in_another_form(random, spoiled_frame(random, X))
    return spoiled_lines(random, X)


def spoiled_frame(random: np.random.Generator, frame: pd.DataFrame) -> pd.DataFrame:
    """A copy with one to three changes: cells, types, rows, columns, names."""
    frame = frame.copy()
    for _ in range(int(random.integers(1, 4))):
        if not len(frame.columns):
            break
        # A change that pandas itself refuses is none of ours.
        with contextlib.suppress(Exception):
            frame = pick(random, _CHANGES)(random, frame)
    return frame


def spoiled_lines(random: np.random.Generator, lines: Any) -> Any:
    """Lines of text, or of words, some of them odd."""
    lines = list(lines)[: int(pick(random, (0, 1, 2, 24, 24, 24, 24)))]
    for _ in range(int(random.integers(1, 4))):
        place = int(random.integers(0, len(lines) + 1))
        entry = pick(random, (odd_text(random), odd_cell(random), [odd_text(random)], "a " * 900))
        lines[place : place + int(random.integers(0, 2))] = [entry]
    if random.random() < 0.3:
        lines = [line.split() if isinstance(line, str) else line for line in lines]
    forms = (list, tuple, iter, _object_array, lambda given: pd.Series(given, dtype=object))
    return pick(random, forms)(lines) if random.random() < 0.4 else lines


def in_another_form(random: np.random.Generator, frame: pd.DataFrame) -> Any:
    """The same rows as pandas, polars, pyarrow, a dict of columns, or an array."""
    forms: tuple[Callable[[pd.DataFrame], Any], ...] = (
        pl.from_pandas,
        lambda f: pa.Table.from_pandas(f, preserve_index=False),
        lambda f: {name: f[name].tolist() for name in f.columns},
        lambda f: {name: f[name].to_numpy() for name in f.columns},
        lambda f: f.to_dict("records"),
        lambda f: f.to_numpy(),
        lambda f: pl.from_pandas(f).lazy(),
    )
    if random.random() < 0.5 or _ends_arrow(frame):
        return frame
    try:
        return pick(random, forms)(frame)
    except Exception:  # what the other library cannot hold
        return frame


def _ends_arrow(frame: pd.DataFrame) -> bool:
    """Whether a column mixes objects at which Arrow's own conversion ends the process."""
    return any(isinstance(cell, np.datetime64) for cell in frame.to_numpy(dtype=object).flat)


def _object_array(lines: list[Any]) -> np.ndarray:
    array = np.empty(len(lines), dtype=object)
    array[:] = lines
    return array


def _column(random: np.random.Generator, frame: pd.DataFrame) -> int:
    return int(random.integers(len(frame.columns)))


def _with_column(frame: pd.DataFrame, place: int, values: Any) -> pd.DataFrame:
    columns = [frame.iloc[:, number] for number in range(len(frame.columns))]
    columns[place] = pd.Series(values, index=frame.index, name=frame.columns[place])
    return pd.concat(columns, axis=1)


def _cells(random: np.random.Generator, frame: pd.DataFrame) -> pd.DataFrame:
    place = _column(random, frame)
    values = frame.iloc[:, place].astype(object).tolist()
    cell = odd_cell(random)
    for row in range(len(values)):
        if random.random() < pick(random, (0.05, 0.3, 1.0)):
            values[row] = cell
    series = pd.Series(values, dtype=object)
    return _with_column(
        frame, place, (series.infer_objects() if random.random() < 0.5 else series).tolist()
    )


def _type(random: np.random.Generator, frame: pd.DataFrame) -> pd.DataFrame:
    types = (
        str, object, "category", "string", "Int64", "Float64", "boolean", bool, "int8", "uint8",
        "float16", "float32", "datetime64[ns]", "datetime64[s]", "timedelta64[ns]", "complex128",
        "datetime64[ns, UTC]", "period[D]", "Sparse[float]", "string[pyarrow]", "int64[pyarrow]",
    )  # fmt: skip
    place = _column(random, frame)
    return _with_column(frame, place, frame.iloc[:, place].astype(pick(random, types)))


def _numbers(random: np.random.Generator, frame: pd.DataFrame) -> pd.DataFrame:
    place = _column(random, frame)
    scale = pick(random, (0, 1e-300, 1e-20, 1e-8, -1, 1e8, 1e20, 1e150, 1e300, np.nan, np.inf))
    moved = frame.iloc[:, place].astype(float) * scale + pick(random, (0, 0, 1, 1e10, -1e300))
    return _with_column(frame, place, moved)


def _rows(random: np.random.Generator, frame: pd.DataFrame) -> pd.DataFrame:
    ways: tuple[Callable[[], pd.DataFrame], ...] = (
        lambda: frame.iloc[:0],
        lambda: frame.iloc[:1],
        lambda: frame.iloc[: int(random.integers(2, 5))],
        lambda: pd.concat([frame, frame]),
        lambda: frame.iloc[[0] * len(frame)],
        lambda: frame.iloc[random.permutation(len(frame))],
        lambda: frame.set_index(frame.columns[0], drop=False),
        lambda: frame.set_index([frame.columns[0], frame.columns[-1]], drop=False),
    )
    return pick(random, ways)()


def _columns(random: np.random.Generator, frame: pd.DataFrame) -> pd.DataFrame:
    place = _column(random, frame)
    name = frame.columns[place]
    other = frame.columns[_column(random, frame)]
    ways: tuple[Callable[[], pd.DataFrame], ...] = (
        lambda: frame.drop(columns=name),
        lambda: frame.rename(columns={name: other}),
        lambda: frame.rename(columns={name: odd_text(random)}),
        lambda: frame.rename(columns={name: pick(random, (0, None, 1.5, ("a", "b"), pd.NaT))}),
        lambda: frame.assign(**{odd_text(random): odd_cell(random)}),
        lambda: _with_column(frame, place, frame[other].to_numpy()),
        lambda: _with_column(frame, place, [frame.iloc[0, place]] * len(frame)),
        lambda: frame.set_axis(pd.MultiIndex.from_product([["a"], frame.columns]), axis=1),
        lambda: frame[[]],
    )
    return pick(random, ways)()


_CHANGES = (_cells, _cells, _type, _numbers, _rows, _columns)
