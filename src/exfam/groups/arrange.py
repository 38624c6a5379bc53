"""Groups made of other groups, and items that repeat within a group."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int64

from exfam.checks import DataError, ExfamError, check_positive
from exfam.groups.groups import TARGET, Groups

PLAIN_COLUMNS = ("item", "position", "observed", "role", "source_row", "tied")
BOUNDS = ("start", "stop", "context_start", "context_stop")
NAMED_COLUMNS = ("values", "attributes", "group_attributes")
# Long enough for fast sorting, short enough for memory however many elements there are.
ELEMENTS_PER_CHUNK = 1 << 20


def chunks(groups: Groups, max_elements: int | None = None) -> Iterator[Groups]:
    """Consecutive views of the groups that see at most `max_elements` elements each.

    A group that sees more is a view of its own. Nothing is copied.

    `max_elements`: 2 ** 20 if None (default None)

    >>> whole = Groups(start=[0, 2, 3], stop=[2, 3, 7])
    >>> [len(part) for part in chunks(whole, 3)]
    [2, 1]
    """
    most = ELEMENTS_PER_CHUNK if max_elements is None else max_elements
    check_positive("max_elements", most)
    ends = np.cumsum(groups.lengths)
    first = 0
    while first < len(groups):
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield groups[first:last]
        first = last


def compact(groups: Groups) -> Groups:
    """The same groups over columns of their own: own elements first, in order, without gaps.

    Elements of context ranges follow them, each once.

    >>> whole = Groups(start=[0, 2], stop=[2, 5], item=[0, 1, 2, 0, 1])
    >>> compact(whole[1:]).item
    array([2, 0, 1], dtype=int32)
    """
    rows = groups.elements()
    own = groups.stop - groups.start
    stop = np.cumsum(own)
    context_start = context_stop = None
    if groups.context_start is not None and groups.context_stop is not None:
        length = groups.context_stop - groups.context_start
        shared = np.unique(_spread(groups.context_start.ravel(), length.ravel()))
        context_start = np.searchsorted(shared, groups.context_start) + len(rows)
        context_stop = context_start + length
        rows = np.concatenate([rows, shared])
    return groups.with_(
        start=stop - own,
        stop=stop,
        context_start=context_start,
        context_stop=context_stop,
        values={name: column[rows] for name, column in groups.values.items()},
        attributes={name: column[rows] for name, column in groups.attributes.items()},
        **{name: _rows_of(getattr(groups, name), rows) for name in PLAIN_COLUMNS},
    )


def _rows_of(column: np.ndarray | None, rows: Int64[np.ndarray, "rows"]) -> np.ndarray | None:
    return None if column is None else column[rows]


def _spread(
    start: Int64[np.ndarray, "ranges"], length: Int64[np.ndarray, "ranges"]
) -> Int64[np.ndarray, "rows"]:
    first = np.cumsum(length) - length
    return np.repeat(start - first, length) + np.arange(length.sum())


def concatenate(parts: Sequence[Groups]) -> Groups:
    """One Groups with the groups of all parts, in order, over columns of its own.

    The parts must have the same columns and vocabularies. Where only some say what is observed or
    what a role is, the others count as observed and as targets.

    >>> one = Groups(start=[0], stop=[2], item=[0, 1])
    >>> concatenate([one, one]).item
    array([0, 1, 0, 1], dtype=int32)
    """
    if not parts:
        raise ExfamError("`parts` must hold at least one Groups, got none.")
    for number, part in enumerate(parts):
        _check_alike(parts[0], part, number)
    filled = [_filled(compact(part), parts) for part in parts]
    offset = np.cumsum([0] + [part.n_rows for part in filled])
    fields: dict[str, Any] = {
        "vocabulary": parts[0].vocabulary,
        "ordered": all(part.ordered for part in parts),
    }
    for name in BOUNDS:
        if getattr(filled[0], name) is not None:
            shifted = [getattr(part, name) + by for part, by in zip(filled, offset, strict=False)]
            fields[name] = np.concatenate(shifted)
    for name in (*PLAIN_COLUMNS, "group_names", "ignored"):
        if getattr(filled[0], name) is not None:
            fields[name] = np.concatenate([getattr(part, name) for part in filled])
    for name in NAMED_COLUMNS:
        columns = [getattr(part, name) for part in filled]
        fields[name] = {
            key: np.concatenate([column[key] for column in columns]) for key in columns[0]
        }
    return Groups(**fields)


def _check_alike(first: Groups, part: Groups, number: int) -> None:
    for name in ("item", "position", "source_row", "group_names"):
        if (getattr(first, name) is None) != (getattr(part, name) is None):
            raise DataError(f"`parts` must all have `{name}` or none, part {number} differs.")
    for name in NAMED_COLUMNS:
        ours, theirs = _signature(getattr(first, name)), _signature(getattr(part, name))
        if ours != theirs:
            raise DataError(
                f"`parts` must have the same `{name}`, got {theirs} in part {number} after {ours}."
            )
    for name in first.vocabulary.keys() | part.vocabulary.keys():
        labels, others = first.vocabulary.get(name), part.vocabulary.get(name)
        if labels is None or others is None or not np.array_equal(labels, others):
            raise DataError(
                f"`parts` must have the same vocabulary, that of {name!r} differs in part {number}."
            )


def _signature(columns: dict[str, np.ndarray]) -> dict[str, str]:
    """Name -> "codes", "numbers" or "numbers x k"."""
    kinds = {}
    for name, column in columns.items():
        kind = "codes" if column.dtype.kind in "iu" else "numbers"
        kinds[name] = kind if column.ndim == 1 else f"numbers x {column.shape[1]}"
    return kinds


def _filled(part: Groups, parts: Sequence[Groups]) -> Groups:
    """`part` with explicit defaults for whatever any of `parts` is explicit about."""
    defaults: dict[str, np.ndarray] = {
        "observed": np.ones(part.n_rows, dtype=bool),
        "role": np.full(part.n_rows, TARGET, dtype=np.int8),
        "ignored": np.zeros(len(part), dtype=np.int64),
        "tied": np.zeros(part.n_rows, dtype=bool),
        "context_start": np.zeros((len(part), 1), dtype=np.int64),
        "context_stop": np.zeros((len(part), 1), dtype=np.int64),
    }
    wanted = {
        name: default if getattr(part, name) is None else getattr(part, name)
        for name, default in defaults.items()
        if any(getattr(other, name) is not None for other in parts)
    }
    n_ranges = max(
        0 if other.context_start is None else other.context_start.shape[1] for other in parts
    )
    for name in wanted.keys() & {"context_start", "context_stop"}:
        missing = n_ranges - wanted[name].shape[1]
        wanted[name] = np.pad(wanted[name], ((0, 0), (missing, 0)))
    return part.with_(**wanted)


def split(groups: Groups, fractions: Sequence[float], *, seed: int) -> tuple[Groups, ...]:
    """Disjoint random parts of the groups, each in the original order.

    `fractions` are positive and sum to 1; sizes are rounded so that they add up.

    >>> groups = Groups(start=np.arange(10), stop=np.arange(10) + 1)
    >>> [len(part) for part in split(groups, (0.6, 0.2, 0.2), seed=0)]
    [6, 2, 2]
    """
    if not all(fraction > 0 for fraction in fractions) or abs(sum(fractions) - 1) > 1e-6:
        raise ExfamError(f"`fractions` must be above 0 and sum to 1, got {tuple(fractions)}.")
    cuts = np.round(np.cumsum(fractions)[:-1] * len(groups)).astype(int)
    order = np.random.default_rng(seed).permutation(len(groups))
    chosen = np.split(order, cuts)
    if min(len(numbers) for numbers in chosen) == 0:
        raise ExfamError(
            f"`fractions` must leave no part empty, got {tuple(fractions)} of {len(groups)} groups."
        )
    return tuple(groups[np.sort(numbers)] for numbers in chosen)


def first_repeat(groups: Groups) -> tuple[int, int, Int64[np.ndarray, "occurrences"]] | None:
    """The first group that has an item twice, with the item and the elements that hold it.

    Elements of context ranges count, unknown items do not. None where no item repeats.

    >>> first_repeat(Groups(start=[0, 2], stop=[2, 5], item=[0, 1, 2, 0, 2]))
    (1, 2, array([2, 4]))
    """
    if groups.item is None:
        return None
    first = 0
    for chunk in chunks(groups):
        found = _repeat_within(chunk)
        if found is not None:
            return first + found[0], found[1], found[2]
        first += len(chunk)
    return None


def _repeat_within(groups: Groups) -> tuple[int, int, Int64[np.ndarray, "occurrences"]] | None:
    assert groups.item is not None
    rows, group = _visible(groups)
    item = groups.item[rows].astype(np.int64)
    rows, group, item = (column[item >= 0] for column in (rows, group, item))
    n_items = int(item.max(initial=0)) + 1
    key = group * n_items + item
    ordered = np.sort(key)
    twice = ordered[1:] == ordered[:-1]
    if not twice.any():
        return None
    found = int(ordered[1:][twice][0])
    return found // n_items, found % n_items, rows[key == found]


def _visible(groups: Groups) -> tuple[Int64[np.ndarray, "rows"], Int64[np.ndarray, "rows"]]:
    """Rows of all elements that the groups see, and the group of each."""
    number = np.arange(len(groups))
    rows = [groups.elements()]
    group = [np.repeat(number, groups.stop - groups.start)]
    if groups.context_start is not None and groups.context_stop is not None:
        length = groups.context_stop - groups.context_start
        rows.append(_spread(groups.context_start.ravel(), length.ravel()))
        group.append(np.repeat(number, length.sum(axis=1)))
    return np.concatenate(rows), np.concatenate(group)
