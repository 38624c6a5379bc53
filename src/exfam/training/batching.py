"""What training reads: which groups go into which batch, in memory or from disk, and weights."""

import hashlib
import mmap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int64, Real

from exfam.checks import LARGEST_WEIGHT, ExfamError, check_positive
from exfam.groups import TARGET, Batch, Groups
from exfam.groups.arrange import batch_cuts, sequential_batches

# Fields of Groups that training does not look at.
_UNUSED = ("source_row", "group_names", "ignored", "ordered")
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
    """
    columns = _flat_columns(groups)
    if sum(column.nbytes for column in columns) <= LARGE:
        yield
        return
    _advise(columns, "MADV_RANDOM")
    try:
        yield
    finally:
        _advise(columns, "MADV_NORMAL")


def _flat_columns(groups: Groups) -> list[np.ndarray]:
    columns = [groups.item, *groups.values.values(), *groups.attributes.values()]
    columns += [groups.position, groups.observed, groups.role, groups.tied]
    return [column for column in columns if column is not None]


def _advise(columns: list[np.ndarray], advice: str) -> None:
    number = getattr(mmap, advice, None)
    if number is None:  # not every system knows it
        return
    for column in columns:
        base: Any = column
        while isinstance(base, np.ndarray):
            base = base.base
        if isinstance(base, mmap.mmap):
            base.madvise(number)


# Measured on MovieLens: sorting over longer stretches saves little more padding, and the same
# groups then meet in every epoch, which costs 0.02 nats.
BATCHES_PER_BUCKET = 4
# Where an epoch has many batches, stretches of an eighth of it still mix well.
STRETCHES, MOST_BATCHES_PER_BUCKET = 8, 64

Chosen = Int64[np.ndarray, "chosen"]


def epoch_batches(
    groups: Groups,
    *,
    generator: np.random.Generator,
    batch_size: int | None = None,
    max_tokens: int | None = None,
    bucket: bool = True,
) -> Iterator[Int64[np.ndarray, "batch"]]:
    """Every group with own elements once, in random batches of whole groups.

    A batch holds `batch_size` groups, or else as many as make at most `max_tokens` padded elements
    (groups times the longest of them); a longer group is a batch of its own. With `bucket`, groups
    are shuffled, sorted by length within stretches of 4 batches (4 to 64 with `max_tokens`), cut
    into batches, and the batches are shuffled: little padding, little loss of randomness. The same
    state of `generator` gives the same batches.
    Raises ExfamError unless exactly one of the two sizes is given.
    """
    if (batch_size is None) == (max_tokens is None):
        raise ExfamError(
            "`batch_size` or `max_tokens` must be given, one of the two, "
            f"got {batch_size} and {max_tokens}."
        )
    if batch_size is not None:
        check_positive("batch_size", batch_size)
    if max_tokens is not None:
        check_positive("max_tokens", max_tokens)
    lengths = groups.lengths
    for window in reading_windows(groups, generator):
        order = generator.permutation(window)
        # Sizes may be beyond NumPy's integers.
        if batch_size is not None:
            size = max(1, min(batch_size, len(window)))
            batches = _batches_of_groups(order, lengths, size, bucket=bucket)
        if max_tokens is not None:
            size = min(max_tokens, max(1, len(window) * int(lengths.max(initial=1))))
            batches = _batches_of_tokens(order, lengths, size, bucket=bucket)
        for number in generator.permutation(len(batches)) if bucket else range(len(batches)):
            yield batches[number]


def _batches_of_groups(
    order: Chosen, lengths: Int64[np.ndarray, "groups"], size: int, *, bucket: bool
) -> list[np.ndarray]:
    if bucket:
        stretch = np.arange(len(order)) // (BATCHES_PER_BUCKET * size)
        order = order[np.lexsort((lengths[order], stretch))]
    return np.split(order, np.arange(size, len(order), size))


def _batches_of_tokens(
    order: Chosen, lengths: Int64[np.ndarray, "groups"], max_tokens: int, *, bucket: bool
) -> list[np.ndarray]:
    if bucket:
        end = np.cumsum(lengths[order])
        n_batches = end[-1] // max_tokens
        per_stretch = np.clip(n_batches // STRETCHES, BATCHES_PER_BUCKET, MOST_BATCHES_PER_BUCKET)
        stretch = end // (per_stretch * max_tokens)
        order = order[np.lexsort((lengths[order], stretch))]
    return np.split(order, batch_cuts(lengths[order], max_tokens))


def element_weights(
    groups: Groups, weight: Real[np.ndarray, "own"]
) -> Float[np.ndarray, "elements"]:
    """One weight for each row of the flat columns, as `Groups.pad` takes it.

    `weight`: of the own elements, in the order of `groups.elements()`; all others weigh 0
    """
    elements = groups.elements()
    if len(weight) != len(elements):
        raise ExfamError(
            f"`sample_weight` must have one number an element, {len(elements)}, got {len(weight)}."
        )
    wrong = ~((weight >= 0) & (weight <= LARGEST_WEIGHT))
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise ExfamError(
            f"`sample_weight` must be numbers from 0 to {LARGEST_WEIGHT:g}, got {weight[first]} at "
            f"element {first}."
        )
    flat = np.zeros(groups.n_rows, dtype=np.float64)
    flat[elements] = weight
    return flat


@runtime_checkable
class Source(Protocol):
    """Data that a model is trained on, or validated on: groups, rows of a table, …

    `total`: the sum of the weights of the targets of groups `first` to `last`, the latter excluded;
    `pad` gives groups as the tensors that the objective takes, which have a `to`; fingerprints are
    short texts that differ where what training sees of the data does.
    """

    @property
    def lengths(self) -> Int64[np.ndarray, "groups"]: ...

    def total(self, first: int, last: int) -> float: ...

    def epoch_batches(
        self, *, generator: np.random.Generator, batch_size: int | None, max_tokens: int | None
    ) -> Iterator[np.ndarray]: ...

    def sequential_batches(self, *, max_tokens: int) -> Iterator[np.ndarray]: ...

    def pad(self, index: Int64[np.ndarray, "batch"]) -> Any: ...

    def fingerprint(self) -> dict[str, str]: ...

    def read_at_random(self) -> AbstractContextManager[None]: ...


@dataclass(frozen=True, eq=False)
class Weighted:
    """Groups, and one weight for every row of their flat columns (None: all weigh 1)."""

    groups: Groups
    weight: Float[np.ndarray, "elements"] | None = None

    @property
    def lengths(self) -> Int64[np.ndarray, "groups"]:
        return self.groups.lengths

    def pad(self, index: Int64[np.ndarray, "batch"]) -> Batch:
        return self.groups.pad(index, weight=self.weight)

    def total(self, first: int, last: int) -> float:
        groups = self.groups[first:last]
        if self.weight is None:
            return float(groups.n_targets)
        total = 0.0
        for chunk in groups.chunks():
            own = chunk.elements()
            own = own if chunk.role is None else own[chunk.role[own] == TARGET]
            total += float(self.weight[own].sum())
        return total

    def epoch_batches(
        self, *, generator: np.random.Generator, batch_size: int | None, max_tokens: int | None
    ) -> Iterator[np.ndarray]:
        return epoch_batches(
            self.groups, generator=generator, batch_size=batch_size, max_tokens=max_tokens
        )

    def sequential_batches(self, *, max_tokens: int) -> Iterator[np.ndarray]:
        return sequential_batches(self.groups, max_tokens=max_tokens)

    def fingerprint(self) -> dict[str, str]:
        return {"groups": groups_digest(self.groups), "weights": digest([self.weight])}

    def read_at_random(self) -> AbstractContextManager[None]:
        return read_at_random(self.groups)


def digest(arrays: Iterable[np.ndarray | None]) -> str:
    """A short fingerprint of arrays: their bytes, shapes and dtypes, in order."""
    total = hashlib.sha256()
    for array in arrays:
        if array is None:
            total.update(b"none;")
            continue
        total.update(f"{array.dtype.str}{array.shape};".encode())
        plain = array.dtype.kind in "biufc"
        content = np.ascontiguousarray(array).data if plain else repr(array.tolist()).encode()
        total.update(content)
    return total.hexdigest()[:16]


def groups_digest(groups: Groups) -> str:
    """A short fingerprint of all that training sees of the groups."""
    arrays: list[np.ndarray | None] = []
    for field in fields(groups):
        value = getattr(groups, field.name)
        # Fits that began before there were ties go on.
        if field.name in _UNUSED or (field.name == "tied" and value is None):
            continue
        if isinstance(value, Mapping):
            for name, column in value.items():
                arrays += [np.array(f"{field.name} {name}"), column]
        else:
            arrays.append(value)
    return digest(arrays)
