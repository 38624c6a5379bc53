"""A frame with its missing values filled in, of the kind that was given."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from exfam.checks import DataError
from exfam.columns.frames import open_frame
from exfam.fields.data.field_checks import is_observed
from exfam.fields.inputs import FieldInputs
from exfam.scores.prediction import Prediction


def filled(
    frame: Any, inputs: FieldInputs, prediction: Prediction, *, column: str, level: float
) -> Any:
    """The frame with its missing values replaced, and columns that say where and how surely.

    Raises DataError where the frame has a column of one of these names.
    """
    observed = np.empty(len(inputs.rows), dtype=bool)
    observed[inputs.rows] = is_observed(inputs.groups)[inputs.groups.elements()]
    values = inputs.spread(inputs.values)
    low, high = prediction.interval(level)
    columns = {
        column: np.where(observed, values, prediction.mean),
        f"{column}_imputed": ~observed,
        f"{column}_low": np.where(observed, values, low),
        f"{column}_high": np.where(observed, values, high),
    }
    return _with_columns(frame, columns, replaced=column)


def _with_columns(frame: Any, columns: dict[str, np.ndarray], *, replaced: str) -> Any:
    held = open_frame(frame)
    for name in columns:
        if name in held and name != replaced:
            raise DataError(
                f"`frame` must have no column {name!r}, which marks what was filled in. Rename it."
            )
    if isinstance(frame, Mapping):
        return {**frame, **columns}
    if hasattr(frame, "assign"):  # pandas
        return frame.assign(**columns)
    if hasattr(frame, "with_columns"):
        import polars as pl

        return frame.with_columns([pl.Series(name, array) for name, array in columns.items()])
    return _with_arrow_columns(pa.table(frame), columns)


def _with_arrow_columns(table: pa.Table, columns: dict[str, np.ndarray]) -> pa.Table:
    for name, array in columns.items():
        if name in table.column_names:
            table = table.set_column(table.column_names.index(name), name, pa.array(array))
        else:
            table = table.append_column(name, pa.array(array))
    return table
