"""Groups made of other groups, items that repeat within one, and hashes of what groups hold."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int64, UInt64

from exfam.checks import DataError, ExfamError, check_positive
from exfam.groups.groups import TARGET, Groups, unchecked

PLAIN_COLUMNS = ("item", "position", "observed", "role", "source_row", "tied")
BOUNDS = ("start", "stop", "context_start", "context_stop")
NAMED_COLUMNS = ("values", "attributes", "group_attributes")
# Long enough for fast sorting, short enough for memory however many elements there are.
ELEMENTS_PER_CHUNK = 1 << 20
_UNKNOWN = np.uint64(0x9E3779B97F4A7C15)  # of an item that the vocabulary does not have

Hashes = UInt64[np.ndarray, "n"]


def chunks(groups: Groups, max_elements: int | None = None) -> Iterator[Groups]:
    """See `Groups.chunks`."""
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
    """See `Groups.compact`."""
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
    bounds = {"context_start": context_start, "context_stop": context_stop}
    # Rows of columns that were checked, and bounds of these rows.
    columns = _at_rows(groups, rows)
    return unchecked(groups.__dict__ | columns | bounds | {"start": stop - own, "stop": stop})


def with_rows(groups: Groups, rows: Int64[np.ndarray, "rows"], **changes: Any) -> Groups:
    """Groups whose flat columns are those at these rows, but for what changes, unchecked."""
    return unchecked(groups.__dict__ | _at_rows(groups, rows) | changes)


def _at_rows(groups: Groups, rows: Int64[np.ndarray, "rows"]) -> dict[str, Any]:
    """The flat columns at these rows."""
    named = {
        kind: {name: take(column, rows) for name, column in getattr(groups, kind).items()}
        for kind in ("values", "attributes")
    }
    plain = {
        name: take(column, rows)
        for name in PLAIN_COLUMNS
        if (column := getattr(groups, name)) is not None
    }
    return named | plain


def take(column: np.ndarray, rows: Int64[np.ndarray, "rows"]) -> np.ndarray:
    """The column at these rows; zeros where it has none at all."""
    if not len(column):
        return np.zeros((len(rows), *column.shape[1:]), dtype=column.dtype)
    return column[rows]


def keep_rows(groups: Groups, keep: Bool[np.ndarray, "rows"]) -> Groups:
    """The groups without the other rows of their flat columns."""
    before = np.concatenate([[0], np.cumsum(keep)])
    changes: dict[str, Any] = {
        name: before[bound] for name in BOUNDS if (bound := getattr(groups, name)) is not None
    }
    if groups.tied is not None:
        # Tied to the element kept before them.
        changes["tied"] = np.diff(np.cumsum(~groups.tied)[keep], prepend=-1) == 0
    return with_rows(groups, np.flatnonzero(keep), **changes)


def _spread(
    start: Int64[np.ndarray, "ranges"], length: Int64[np.ndarray, "ranges"]
) -> Int64[np.ndarray, "rows"]:
    first = np.cumsum(length) - length
    return np.repeat(start - first, length) + np.arange(length.sum())


def concatenate(parts: Sequence[Groups]) -> Groups:
    """See `Groups.concatenate`."""
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
    """See `Groups.split`."""
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
    """See `Groups.first_repeat`."""
    if groups.item is None:
        return None
    first = 0
    for chunk in chunks(groups):
        repeat = _repeat_within(chunk)
        if repeat is not None:
            return first + repeat[0], repeat[1], repeat[2]
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
    first = int(ordered[1:][twice][0])
    return first // n_items, first % n_items, rows[key == first]


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


def row_hashes(table: Float[np.ndarray, "n columns"]) -> UInt64[np.ndarray, "n"]:
    """64 bits for each row of numbers, the same on every machine; NaN stands for a missing one."""
    total = np.zeros(len(table), dtype=np.uint64)
    for column in range(table.shape[1]):
        total = _mixed(total ^ _bits(table[:, column]))
    return total


def group_hashes(groups: Groups) -> UInt64[np.ndarray, "n"]:
    """64 bits for each group: of its label, if it has one, and its items and values.

    The order of a group's elements changes nothing; nor does the order of the vocabulary.
    """
    parts = [np.zeros(0, dtype=np.uint64)]
    parts += [_contents(*chunk) for chunk in element_hashes(groups)]
    content = np.concatenate(parts)
    if groups.group_names is None:
        return _mixed(content)
    return _mixed(content ^ label_hashes(groups.group_names))


def element_hashes(
    groups: Groups,
) -> Iterator[tuple[UInt64[np.ndarray, "own"], Int64[np.ndarray, "groups"]]]:
    """64 bits for each own element, of its item and values, and the lengths of their groups.

    A bounded number of groups at a time.
    """
    labels = None
    if groups.item is not None:
        known = groups.vocabulary.get("item", np.arange(groups.n_items))
        labels = np.append(label_hashes(known), _UNKNOWN)
    for chunk in groups.chunks():
        yield _elements(chunk, labels), chunk.stop - chunk.start


def _elements(groups: Groups, labels: UInt64[np.ndarray, "labels"] | None) -> Hashes:
    own = groups.elements()
    element = np.zeros(len(own), dtype=np.uint64)
    if labels is not None and groups.item is not None:
        element = _mixed(labels[groups.item[own]])
    for name in sorted(groups.values):
        value = np.asarray(groups.values[name][own], dtype=np.float64)
        value = np.where(groups.has_value(name, own), value, np.nan)
        element = _mixed(element ^ _mixed(_text_hash(name) ^ _bits(value)))
    return element


def _contents(
    element: UInt64[np.ndarray, "own"], length: Int64[np.ndarray, "groups"]
) -> UInt64[np.ndarray, "groups"]:
    # Differences of running sums wrap around as the sums do.
    total = np.append(np.uint64(0), np.cumsum(element, dtype=np.uint64))
    stop = np.cumsum(length)
    return _mixed(total[stop] - total[stop - length]) ^ length.astype(np.uint64)


def label_hashes(labels: np.ndarray) -> UInt64[np.ndarray, "n"]:
    """64 bits for each label, of its text."""
    hashes = (_text_hash(str(label)) for label in labels.tolist())
    return np.fromiter(hashes, dtype=np.uint64, count=len(labels))


def _text_hash(text: str) -> np.uint64:
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


def _bits(value: Float[np.ndarray, "n"]) -> Hashes:
    """The bits of float64, one pattern for 0 and -0, and one for NaN."""
    plain = value.astype(np.float64) + 0.0
    plain[np.isnan(plain)] = np.nan
    return plain.view(np.uint64)


def _mixed(number: Hashes) -> Hashes:
    """The finalizer of splitmix64 (Steele, Lea & Flood, 2014): every bit moves all others."""
    mixed = number + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def sequential_batches(groups: Groups, *, max_tokens: int) -> Iterator[Int64[np.ndarray, "batch"]]:
    """Every group once, by length, in batches of at most `max_tokens` padded elements.

    A group longer than that is a batch of its own. Groups of equal length keep their order.
    """
    check_positive("max_tokens", max_tokens)
    lengths = np.maximum(groups.lengths, 1)
    order = np.argsort(lengths, kind="stable")
    yield from np.split(order, batch_cuts(lengths[order], max_tokens)) if len(order) else ()


def group_of_elements(groups: Groups) -> Int64[np.ndarray, "own"]:
    """The number of the group of each own element."""
    return np.repeat(np.arange(len(groups)), groups.stop - groups.start)


def sampled_groups(groups: Groups, most: int, rng: np.random.Generator) -> Groups:
    """Random groups, in order, as many as reach `most` elements together; all if none do."""
    order = rng.permutation(len(groups))
    reached = np.cumsum(groups.lengths[order])
    return groups[np.sort(order[: int(np.searchsorted(reached, most)) + 1])]


def batch_cuts(lengths: Int64[np.ndarray, "order"], max_tokens: int) -> list[int]:
    """Where a sequence of groups is cut for no part to pad to more than `max_tokens`."""
    cuts = [0]
    while (first := cuts[-1]) < len(lengths):
        # All are padded to this one's length at least, so no more than that are in its batch.
        most = max(1, max_tokens // int(lengths[first]))
        longest = np.maximum.accumulate(lengths[first : first + most])
        padded = longest * np.arange(1, len(longest) + 1)
        cuts.append(first + max(1, int(np.searchsorted(padded, max_tokens, side="right"))))
    return cuts[1:-1]
