"""Labels as Parquet: the vocabulary, and names of groups that are long text."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from exfam.checks import DataError

# Wider names are stored as Parquet: one long name must not widen those of all groups.
WIDEST = 48


def write_labels(file: Path, labels: Mapping[str, np.ndarray]) -> None:
    """Write the labels of each column, in order of their codes, as text.

    Raises DataError for labels that are neither text, numbers, booleans nor times.
    """
    text = [_as_text(column, held) for column, held in labels.items()]
    columns = [pa.array([column] * len(held)) for column, held in labels.items()]
    table = pa.table(
        {
            "column": pa.chunked_array(columns, pa.string()),
            "label": pa.chunked_array(text, pa.large_string()),
        }
    )
    pq.write_table(table, file)


def read_labels(file: Path, dtypes: Mapping[str, str]) -> dict[str, np.ndarray]:
    """The labels of each column that `write_labels` wrote; DataError for any other file."""
    try:
        table = pq.read_table(file).combine_chunks()
        column, label = (table[name].to_numpy(zero_copy_only=False) for name in ("column", "label"))
        return {name: _as_dtype(label[column == name], dtype) for name, dtype in dtypes.items()}
    except (pa.ArrowException, KeyError, TypeError, ValueError, OSError) as error:
        raise DataError(f"{file} must hold labels as they were written, got {error}.") from error


def _as_text(column: str, labels: np.ndarray) -> pa.Array:
    if labels.dtype.kind not in "OUbiufM":
        raise DataError(_unfit(column, labels.flat[0]))
    try:
        plain = labels if labels.dtype.kind in "OU" else labels.astype(str)
        return pa.array(plain, type=pa.large_string())
    except (pa.ArrowException, TypeError, UnicodeError) as error:
        is_text = [isinstance(label, str) for label in labels.tolist()]
        odd = labels.tolist()[is_text.index(False)] if False in is_text else "text out of Unicode"
        raise DataError(_unfit(column, odd)) from error


def _unfit(column: str, got: object) -> str:
    return (
        f"Labels of {column!r} must be text, numbers, booleans or times to be stored, all of one "
        f"type, got {got!r} ({type(got).__name__}). Convert them to text first."
    )


def _as_dtype(text: np.ndarray, dtype: str) -> np.ndarray:
    if np.dtype(dtype).kind == "b":
        return text == "True"
    return text.astype(dtype)


def is_narrow_text(names: np.ndarray) -> bool:
    """Whether text can be stored with one width for all without waste or loss.

    >>> is_narrow_text(np.array(["ann", "bob"], dtype=object))
    True
    """
    # NumPy drops trailing zero characters.
    return all(
        isinstance(name, str) and len(name) <= WIDEST and not name.endswith("\0") for name in names
    )
