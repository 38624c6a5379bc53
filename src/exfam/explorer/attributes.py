"""Attributes that dots are colored by: the columns of a table, by the items that its rows name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from exfam.checks import DataError, shown
from exfam.columns.dialect import BY_LOOKING
from exfam.explorer.questions import number_or_none
from exfam.tables.data.frames import RawColumn, read_table
from exfam.tables.data.table_files import table_of

# Labels with a color of their own; columns with more different numbers are on a scale.
N_COLORS, _FEW_NUMBERS = 8, 8


@dataclass(frozen=True, eq=False)
class Attribute:
    """One value for each item: its commonest label, or the mean of its numbers.

    `labels`: the commonest ones, None for numbers; `value`: indices of labels, of others as many
    as there are labels, -1 for none; or numbers, NaN for none
    """

    labels: tuple[str, ...] | None
    value: Float64[np.ndarray, "items"]

    def of(self, code: int) -> str | float | None:
        """The label or number of one item; None for none, and for a label without a color."""
        value = float(self.value[code])
        if self.labels is None:
            return number_or_none(value)
        return self.labels[int(value)] if 0 <= value < len(self.labels) else None


def attributes_of(table: Any, names: Sequence[str]) -> dict[str, Attribute]:
    """Of a frame or a file: the columns beside the one that names most items.

    Raises DataError where no column names any.
    """
    raw = read_table(table_of(table, BY_LOOKING))
    index = {name: code for code, name in enumerate(names)}
    rows = {
        name: np.array([index.get(text, -1) for text in _texts(column)], dtype=np.int64)
        for name, column in raw.columns.items()
    }
    hits = {name: len(np.unique(own[own >= 0])) for name, own in rows.items()}
    of_items = max(hits, key=lambda name: hits[name])
    if not hits[of_items]:
        raise DataError(
            f"`attributes` must have a column that names what is on the map, such as "
            f"{shown(names[0])}, got columns {', '.join(map(repr, hits))}."
        )
    others: Mapping[str, RawColumn] = {
        name: column for name, column in raw.columns.items() if name != of_items
    }
    return {
        name: _attribute(column, rows[of_items], n_items=len(names))
        for name, column in others.items()
        if not column.is_empty
    }


def _texts(column: RawColumn) -> list[str]:
    """The cells as text, whole numbers without a point."""
    if column.labels is not None:
        labels = [str(label) for label in column.labels]
        return ["" if gap else labels[int(code)] for code, gap in _cells(column)]
    return ["" if gap else _text(value) for value, gap in _cells(column)]


def _cells(column: RawColumn) -> Any:
    return zip(column.values.tolist(), column.missing.tolist(), strict=True)


def _text(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if whole else str(value)


def _attribute(column: RawColumn, item: Int64[np.ndarray, "rows"], *, n_items: int) -> Attribute:
    there = (item >= 0) & ~column.missing
    item = item[there]
    if column.type == "number" and len(np.unique(column.values[there])) > _FEW_NUMBERS:
        number = column.values[there].astype(np.float64)
        count = np.bincount(item, minlength=n_items)
        total = np.bincount(item, weights=number, minlength=n_items)
        mean = np.divide(total, count, out=np.full(n_items, np.nan), where=count > 0)
        return Attribute(None, mean)
    texts = [text for text, kept in zip(_texts(column), there.tolist(), strict=True) if kept]
    labels, code = np.unique(np.array(texts, dtype=object), return_inverse=True)
    pairs, count = np.unique(item * len(labels) + code, return_counts=True)
    value = np.full(n_items, -1)
    # The last one written is the commonest; of equals the first label.
    order = np.lexsort((-pairs, count))
    value[pairs[order] // len(labels)] = pairs[order] % len(labels)
    common = np.argsort(-np.bincount(value[value >= 0], minlength=len(labels)), kind="stable")
    rank = np.full(len(labels) + 1, -1)
    rank[common] = np.minimum(np.arange(len(labels)), N_COLORS)
    named = tuple(str(label) for label in labels[common[:N_COLORS]])
    return Attribute(named, rank[value].astype(np.float64))
