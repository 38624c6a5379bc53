"""Labels as codes, by their order of first appearance, by sorted order, or by a vocabulary."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int64

from exfam.columns.columns import label_names
from exfam.columns.parts import Part
from exfam.columns.unknown import UnknownLabels, look_up, vocabulary_key
from exfam.reading.checks import Checked
from exfam.reading.database import Database
from exfam.reading.table import restored


@dataclass(frozen=True, eq=False)
class Labels:
    """The distinct labels of a part: label k is `names[k]`, and row k of a table of DuckDB's.

    `first` is the first row that has it, `count` how many have it, where a vocabulary is given.
    """

    table: str
    names: np.ndarray
    first: Int64[np.ndarray, "labels"] | None = None
    count: Int64[np.ndarray, "labels"] | None = None


@dataclass(frozen=True, eq=False)
class Encoding:
    """Codes for the labels of a part: label k has code `codes[k]`, -1 if `known` lacks it.

    `unknown`: such labels, if there are any.
    """

    labels: Labels
    codes: Int64[np.ndarray, "labels"]
    known: np.ndarray
    unknown: UnknownLabels | None = None

    @property
    def n_unknown(self) -> int:
        """How many rows have a label that `known` lacks."""
        return 0 if self.unknown is None else self.unknown.rows


def find_labels(
    database: Database, checked: Checked, part: Part, *, table: str, counted: bool
) -> Labels:
    """The distinct labels of a part: groups as they first appear, others sorted.

    `counted`: whether first rows and counts are needed, which takes a little longer.
    """
    column, relation = checked.table.columns[part], checked.table.relation
    order = "first" if part.argument == "group" else "label"
    more = ", min(row) AS first" if counted or order == "first" else ""
    more += ", count(*) AS count" if counted else ""
    database.run(
        f"CREATE TEMP TABLE {table} AS SELECT {column.sql} AS label{more} FROM {relation} "
        f"GROUP BY ALL ORDER BY {order}"
    )
    found = database.table(f"SELECT * FROM {table} ORDER BY rowid")
    names = restored(found["label"].combine_chunks(), column.type)
    return Labels(
        table,
        label_names(names),
        found["first"].to_numpy() if counted else None,
        found["count"].to_numpy() if counted else None,
    )


def encode(
    database: Database,
    checked: Checked,
    part: Part,
    vocabulary: Mapping[str, Any],
    *,
    unknown: str,
    table: str,
) -> Encoding:
    """Codes by the vocabulary if there is one for the part, otherwise by sorted order.

    The labels found are kept as `table`.
    Raises UnknownItemError (DataError for attributes) naming the first row with an unknown label,
    if `unknown` is "error".
    """
    is_given = part.argument != "group" and vocabulary_key(part) in vocabulary
    labels = find_labels(database, checked, part, table=table, counted=is_given)
    if not is_given:
        return Encoding(labels, np.arange(len(labels.names)), labels.names)
    assert labels.first is not None and labels.count is not None
    known = np.asarray(vocabulary[vocabulary_key(part)])
    codes = look_up(labels.names, known, typed=checked.table.typed)
    lost = np.flatnonzero(codes < 0)
    if not lost.size:
        return Encoding(labels, codes, known)
    label = lost[labels.first[lost].argmin()]
    got, rows = labels.names.tolist()[label], int(labels.count[lost].sum())
    found = UnknownLabels(part.argument, vocabulary_key(part), rows, lost.size, got)
    if unknown == "error":
        where = checked.table.places.row(int(labels.first[label]))
        raise found.error(where, n_known=len(known), n_rows=checked.n_rows)
    return Encoding(labels, codes, known, found)
