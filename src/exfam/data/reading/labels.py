"""Labels as codes, by their order of first appearance, by sorted order, or by a vocabulary."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int64
from pyarrow import types

from exfam.checks import DataError, UnknownItemError
from exfam.data.reading.checks import Checked
from exfam.data.reading.database import Database
from exfam.data.reading.kinds import restored
from exfam.data.reading.table import Part

__all__ = ["Encoding", "Labels", "encode", "find_labels"]


@dataclass(frozen=True, eq=False)
class Labels:
    """The distinct labels of a part: label k is `names[k]`, and row k of a table of DuckDB's.

    `first` is the first row that has it, `count` how many have it.
    """

    table: str
    names: np.ndarray
    first: Int64[np.ndarray, "labels"]
    count: Int64[np.ndarray, "labels"]


@dataclass(frozen=True, eq=False)
class Encoding:
    """Codes for the labels of a part: label k has code `codes[k]`, -1 if `known` lacks it."""

    labels: Labels
    codes: Int64[np.ndarray, "labels"]
    known: np.ndarray


def find_labels(database: Database, checked: Checked, part: Part, *, table: str) -> Labels:
    """The distinct labels of a part: groups as they first appear, others sorted."""
    column = checked.table.columns[part]
    order = "first" if part.argument == "group" else "label"
    database.run(
        f"CREATE TEMP TABLE {table} AS SELECT {column.sql} AS label, min(row) AS first, "
        f"count(*) AS count FROM {checked.table.relation} GROUP BY ALL ORDER BY {order}"
    )
    found = database.table(f"SELECT label, first, count FROM {table} ORDER BY rowid")
    names = restored(found["label"].combine_chunks(), column.type)
    return Labels(
        table,
        np.array(names.to_pylist(), dtype=object)
        if types.is_large_string(column.type)
        else names.to_numpy(zero_copy_only=False),
        found["first"].to_numpy(),
        found["count"].to_numpy(),
    )


def encode(
    checked: Checked, part: Part, labels: Labels, vocabulary: Mapping[str, Any], *, unknown: str
) -> Encoding:
    """Codes by the vocabulary if there is one for the part, otherwise by sorted order.

    Raises UnknownItemError (DataError for attributes) naming the first row with an unknown label,
    if `unknown` is "error".
    """
    key = "item" if part.argument == "item" else part.name
    if key not in vocabulary:
        return Encoding(labels, np.arange(len(labels.names)), labels.names)
    known = np.asarray(vocabulary[key])
    lookup = {label: code for code, label in enumerate(known.tolist())}
    codes = [lookup.get(label, -1) for label in labels.names.tolist()]
    encoding = Encoding(labels, np.array(codes, dtype=np.int64), known)
    if unknown == "error" and (encoding.codes < 0).any():
        raise _unknown(checked, part, encoding)
    return encoding


def _unknown(checked: Checked, part: Part, encoding: Encoding) -> DataError:
    labels, lost = encoding.labels, np.flatnonzero(encoding.codes < 0)
    label = lost[labels.first[lost].argmin()]
    row, where = checked.table.places.of(int(labels.first[label]))
    of = "" if part.argument == "item" else f" of {part.name!r}"
    error = UnknownItemError if part.argument == "item" else DataError
    return error(
        f"`{part.argument}` must be in the vocabulary{of} ({len(encoding.known)} labels), got "
        f"{labels.names.tolist()[label]!r} at row {row}{where} ({labels.count[lost].sum()} of "
        f"{checked.n_rows} rows). Choose unknown='ignore' or unknown='unk'."
    )
