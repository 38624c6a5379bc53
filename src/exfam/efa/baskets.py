"""Items as lists, baskets as lists of them, and counts of items, as Groups."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from exfam.checks import DataError, shown
from exfam.columns.columns import Columns
from exfam.columns.parts import Part
from exfam.groups import Groups

_EXAMPLES = "Pass ['milk', 'bread'], [['milk', 'bread'], ['tea']] or {'milk': 2, 'bread': 1}"
_ITEM = Part("item", "item")
_MOST_COUNT = 2**53


def is_baskets(data: Any) -> bool:
    """Whether these are items of one basket, baskets, or counts of items, and no table.

    >>> is_baskets(["milk", "bread"]), is_baskets([["milk"], []]), is_baskets({"milk": 2})
    (True, True, True)
    >>> is_baskets({"basket": [1, 1], "item": ["milk", "bread"]})
    False
    """
    if isinstance(data, Mapping):
        return bool(data) and all(map(_is_number, data.values()))
    return isinstance(data, list | tuple | set | frozenset) or (
        isinstance(data, np.ndarray) and data.ndim == 1
    )


def read_baskets(data: Any, *, value: str | None = None, ordered: bool = False) -> Groups:
    """Baskets as Groups, a group for each, in their order.

    `data`: the items of one basket, a list of such lists, a mapping of items to counts, or a list
        of such mappings
    `value`: the column of values that counts are; without one, an item is there as many times
    `ordered`: whether items of a list come in an order that means something

    Raises DataError for a mixture of items and baskets, and for counts that are no whole numbers.

    >>> read_baskets([["milk", "bread"], ["tea", "milk"]])
    Groups(2 groups, 4 elements, 3 items)
    >>> read_baskets({"milk": 2, "bread": 1})
    Groups(1 groups, 3 elements, 2 items)
    """
    baskets = _baskets(data)
    counts = [_counts(basket, k) for k, basket in enumerate(baskets)]
    has_counts = any(isinstance(basket, Mapping) for basket in baskets)
    as_value = value if has_counts else None
    flat = list(chain.from_iterable(baskets))
    times = np.array(list(chain.from_iterable(counts)), dtype=np.int64)
    lengths = np.array([len(basket) for basket in baskets], dtype=np.int64)
    values = {}
    if as_value is not None:
        values = {as_value: times}
    else:
        flat = [item for item, n in zip(flat, times.tolist(), strict=True) for _ in range(n)]
        lengths = np.array([sum(own) for own in counts], dtype=np.int64)
    codes, names = _coded(flat)
    stop = np.cumsum(lengths)
    return Groups(
        start=stop - lengths,
        stop=stop,
        item=codes,
        values=values,
        vocabulary={"item": names},
        ordered=ordered and not has_counts,
    )


def _baskets(data: Any) -> list[Any]:
    """Each basket as a list of items or a mapping of them to counts."""
    if isinstance(data, Mapping):
        return [data]
    held = sorted(data, key=repr) if isinstance(data, set | frozenset) else list(data)
    several = [_is_several(part) for part in held]
    if held and all(several):
        return [part if isinstance(part, Mapping) else list(part) for part in held]
    if any(several):
        k = several.index(not several[0])
        raise DataError(
            f"`X` must be a list of items or a list of baskets, got both: {shown(held[0])} and, at "
            f"{k}, {shown(held[k])}. {_EXAMPLES}."
        )
    return [held]


def _is_several(part: Any) -> bool:
    return isinstance(part, Mapping | list | tuple | set | frozenset | np.ndarray)


def _counts(basket: Any, k: int) -> list[int]:
    if not isinstance(basket, Mapping):
        return [1] * len(basket)
    for item, count in basket.items():
        if not _is_number(count) or count != int(count) or count < 0:
            raise DataError(
                f"`X` must map items to counts, whole numbers from 0, got {shown(count)} for "
                f"{item!r} in basket {k}. {_EXAMPLES}, or a mapping of columns to lists."
            )
    return [int(count) for count in basket.values()]


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float | np.integer | np.floating)
    return is_number and not isinstance(value, bool) and bool(abs(value) < _MOST_COUNT)


def _plain_labels(flat: Sequence[Any]) -> tuple[np.ndarray, np.ndarray] | None:
    """As `_coded`, of texts alone or whole numbers alone, whose columns keep every rule; else None.

    A few items are coded so in a tenth of the time that an Arrow column takes.
    """
    kinds = set(map(type, flat))
    if kinds == {str}:
        try:
            "".join(flat).encode()
        except UnicodeEncodeError:
            return None
        names = np.array(sorted(set(flat)), dtype=object)
    elif kinds == {int} and min(flat) >= -(2**63) and max(flat) < 2**63:
        names = np.array(sorted(set(flat)), dtype=np.int64)
    else:
        return None
    code = {label: number for number, label in enumerate(names.tolist())}
    return np.array([code[label] for label in flat], dtype=np.int32), names


def _coded(flat: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """The code of every item, and the sorted labels."""
    if not flat:
        return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=object)
    plain = _plain_labels(flat)
    if plain is not None:
        return plain
    labels = Columns.of_frame({_ITEM.name: list(flat)}, [_ITEM]).labels(_ITEM)
    order = np.argsort(labels.names)
    return np.argsort(order)[labels.codes].astype(np.int32), labels.names[order]
