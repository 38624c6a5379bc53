"""Numbers of 64 bits that stand for groups and rows: equal for equal content, on every machine."""

import hashlib
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int64, UInt64

from exfam.groups.groups import Groups

_UNKNOWN = np.uint64(0x9E3779B97F4A7C15)  # of an item that the vocabulary does not have

Hashes = UInt64[np.ndarray, "n"]


def row_hashes(table: Float[np.ndarray, "n columns"]) -> UInt64[np.ndarray, "n"]:
    """One number for each row of numbers; NaN stands for a missing one.

    >>> one, other, again = row_hashes(np.array([[1.0, np.nan], [np.nan, 1.0], [1.0, np.nan]]))
    >>> bool(one == again), bool(one == other)
    (True, False)
    """
    total = np.zeros(len(table), dtype=np.uint64)
    for column in range(table.shape[1]):
        total = _mixed(total ^ _bits(table[:, column]))
    return total


def group_hashes(groups: Groups) -> UInt64[np.ndarray, "n"]:
    """One number for each group: of its label, if it has one, and its items and values.

    The order of a group's elements changes nothing; nor does the order of the vocabulary.

    >>> groups = Groups(start=[0, 2], stop=[2, 4], item=[0, 1, 1, 0])
    >>> one, other = group_hashes(groups)
    >>> bool(one == other)
    True
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
    """One number for each own element, of its item and values, and the lengths of their groups.

    A bounded number of groups at a time.

    >>> groups = Groups(start=[0, 2], stop=[2, 3], item=[0, 1, 1])
    >>> ((one, other, again), lengths), = element_hashes(groups)
    >>> bool(one == other), bool(other == again), lengths.tolist()
    (False, True, [2, 1])
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
        if groups.observed is not None:
            value = np.where(groups.observed[own], value, np.nan)
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
    """One number for each label, of its text.

    >>> len(set(label_hashes(np.array(["a", "b", "a"])).tolist()))
    2
    """
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
