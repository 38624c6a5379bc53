"""Which kind a column is of."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from exfam.checks import DataError, check_choice
from exfam.tables.data.columns import COLUMN_KINDS, label_array
from exfam.tables.data.raw import RawColumn

DeclaredKinds = Mapping[str, str | Sequence[object]]


def check_kinds(kinds: DeclaredKinds, names: Iterable[str]) -> None:
    """Raise ExfamError unless `kinds` names columns, and of each a kind or labels in order.

    >>> check_kinds({"age": "numeric", "size": ["S", "M"]}, ["age", "size"])
    """
    columns = list(names)
    for name, given in kinds.items():
        if name not in columns:
            listed = ", ".join(map(repr, columns))
            raise DataError(f"`kinds` must name columns of the table, {listed}; got {name!r}.")
        if isinstance(given, str):
            check_choice(f"kinds[{name!r}]", given, COLUMN_KINDS)
        else:
            _check_labels(name, list(given))


def _check_labels(name: str, labels: list[object]) -> None:
    sorts = {str if isinstance(label, str) else _number_sort(label) for label in labels}
    if not labels or len(set(labels)) < len(labels) or len(sorts) > 1 or None in sorts:
        raise DataError(
            f"`kinds[{name!r}]` must be a kind or a list of distinct labels of one type (texts, "
            f"finite numbers or booleans), got {labels!r}."
        )


def _number_sort(label: object) -> type | None:
    if isinstance(label, bool | np.bool_):
        return bool
    is_number = isinstance(label, int | float | np.integer | np.floating)
    return float if is_number and np.isfinite(label) else None  # type: ignore[call-overload]


def split_kinds(kinds: DeclaredKinds, name: str) -> tuple[str | None, np.ndarray | None]:
    """The declared kind of a column and its declared labels, None for what is not declared.

    >>> split_kinds({"size": ["S", "M"]}, "size")
    ('ordinal', array(['S', 'M'], dtype=object))
    """
    given = kinds.get(name)
    if given is None or isinstance(given, str):
        return given, None
    return "ordinal", label_array(given)


def infer_kind(column: RawColumn) -> str:
    """The kind of a column that is not declared.

    Categories in an order are ordinal, other categories and texts categorical, truth values
    boolean, numbers numeric: whole numbers too, since others may come later. Only where training
    has 0 and 1 and no other whole number, as indicators do, these are labels (ordinal). Counts are
    never guessed.

    >>> infer_kind(RawColumn(np.arange(5), np.zeros(5, dtype=bool)))
    'numeric'
    """
    if column.order is not None:
        return "ordinal"
    if column.category or column.type == "text":
        return "categorical"
    if column.type == "boolean":
        return "boolean"
    values = column.values[~column.missing]
    is_indicator = values.dtype.kind != "f" and len(values) > 0 and values.min() == 0
    return "ordinal" if is_indicator and values.max() == 1 else "numeric"
