"""In what order to go through groups that lie in files larger than memory."""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from jaxtyping import Int64

from exfam.groups import Groups

__all__ = ["read_at_random", "reading_windows"]

# Data of fewer bytes are shuffled as a whole: they fit into any machine's memory.
LARGE = 1 << 32
ELEMENTS_PER_BLOCK = 1 << 14
BLOCKS_PER_WINDOW = 1 << 8


def reading_windows(
    groups: Groups, generator: np.random.Generator
) -> Iterator[Int64[np.ndarray, "window"]]:
    """The groups with own elements, in parts that are to be shuffled and read one after the other.

    One part with all of them, unless their columns hold more than 4 GB: then each part is a random
    choice of contiguous blocks, 256 of some 16,000 elements each, so that every page of a file is
    read once an epoch and not once a group.

    >>> groups = Groups(start=[0, 2, 2], stop=[2, 2, 5], item=[0, 1, 2, 0, 1])
    >>> [part.tolist() for part in reading_windows(groups, np.random.default_rng(0))]
    [[0, 2]]
    """
    index = np.flatnonzero(groups.stop > groups.start)
    if not len(index):
        return
    if sum(column.nbytes for column in _flat_columns(groups)) <= LARGE:
        yield index
        return
    index = index[np.argsort(groups.start[index], kind="stable")]
    block = np.cumsum(groups.lengths[index]) // ELEMENTS_PER_BLOCK
    blocks = np.split(index, np.flatnonzero(np.diff(block)) + 1)
    order = generator.permutation(len(blocks))
    for first in range(0, len(order), BLOCKS_PER_WINDOW):
        yield np.concatenate([blocks[i] for i in order[first : first + BLOCKS_PER_WINDOW]])


@contextmanager
def read_at_random(groups: Groups) -> Iterator[None]:
    """Within it, the system reads no more of large mapped files than the pages that are asked for.

    Reading ahead, of help to one pass through a file, costs a hundred times the time of the
    reading itself where groups are picked here and there.

    >>> with read_at_random(Groups(start=[0], stop=[2], item=[0, 1])):
    ...     pass
    """
    columns = _flat_columns(groups)
    large = sum(column.nbytes for column in columns) > LARGE
    mappings = [mapping for column in columns if large and (mapping := _mapping(column))]
    _advise(mappings, "MADV_RANDOM")
    try:
        yield
    finally:
        _advise(mappings, "MADV_NORMAL")


def _flat_columns(groups: Groups) -> list[np.ndarray]:
    columns = [groups.item, *groups.values.values(), *groups.attributes.values()]
    columns += [groups.position, groups.observed, groups.role, groups.tied]
    return [column for column in columns if column is not None]


def _mapping(column: np.ndarray) -> mmap.mmap | None:
    """The mapped file that a column is a view of."""
    base: object = column
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, mmap.mmap) else None


def _advise(mappings: list[mmap.mmap], advice: str) -> None:
    number = getattr(mmap, advice, None)
    if number is not None:  # not every system knows it
        for mapping in mappings:
            mapping.madvise(number)
