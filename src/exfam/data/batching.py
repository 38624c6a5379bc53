"""Which groups go into which batch, and one weight for every element."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int64, Real

from exfam.checks import ExfamError, check_choice, check_positive
from exfam.groups import Groups

__all__ = ["element_weights", "epoch_batches", "sequential_batches"]

# Measured on MovieLens: sorting over longer stretches saves little more padding, and the same
# groups then meet in every epoch, which costs 0.02 nats.
BATCHES_PER_BUCKET = 4


def epoch_batches(
    groups: Groups, *, batch_size: int, generator: np.random.Generator, bucket: bool = True
) -> Iterator[Int64[np.ndarray, "batch"]]:
    """Every group with own elements once, in random batches of `batch_size` groups.

    With `bucket`, groups are shuffled, sorted by length within stretches of 4 batches, cut into
    batches, and the batches are shuffled: little padding, little loss of randomness. The same
    state of `generator` gives the same batches.

    >>> groups = Groups(start=[0, 2, 3], stop=[2, 3, 7])
    >>> batches = list(epoch_batches(groups, batch_size=2, generator=np.random.default_rng(0)))
    >>> sorted(len(index) for index in batches)
    [1, 2]
    """
    check_positive("batch_size", batch_size)
    order = generator.permutation(np.flatnonzero(groups.stop > groups.start))
    if bucket:
        stretch = np.arange(len(order)) // (BATCHES_PER_BUCKET * batch_size)
        order = order[np.lexsort((groups.lengths[order], stretch))]
    cuts = np.arange(0, len(order), batch_size)
    if bucket:
        cuts = generator.permutation(cuts)
    for cut in cuts:
        yield order[cut : cut + batch_size]


def sequential_batches(groups: Groups, *, max_tokens: int) -> Iterator[Int64[np.ndarray, "batch"]]:
    """Every group once, by length, in batches of at most `max_tokens` padded elements.

    A group longer than that is a batch of its own. Groups of equal length keep their order.

    >>> groups = Groups(start=[0, 4, 5], stop=[4, 5, 7])
    >>> [index.tolist() for index in sequential_batches(groups, max_tokens=4)]
    [[1, 2], [0]]
    """
    check_positive("max_tokens", max_tokens)
    lengths = np.maximum(groups.lengths, 1)
    order = np.argsort(lengths, kind="stable")
    lengths = lengths[order]
    first = 0
    while first < len(order):
        # Lengths increase, so no batch from here holds more groups than its shortest would allow.
        most = max(1, max_tokens // int(lengths[first]))
        ahead = lengths[first : first + most]
        padded = ahead * np.arange(1, len(ahead) + 1)
        count = max(1, int(np.searchsorted(padded, max_tokens, side="right")))
        yield order[first : first + count]
        first += count


def element_weights(
    groups: Groups, weight: Real[np.ndarray, "rows"], *, per: str = "element"
) -> Float[np.ndarray, "elements"]:
    """One weight for each row of the flat columns, as `Groups.pad` takes it.

    `per`: "element" if `weight` has one number an own element (in the order of
    `groups.elements()`), "row" if it has one a row of the frame the groups were read from.
    Elements that are nobody's own weigh 0.

    >>> groups = Groups(start=[0, 2], stop=[2, 3], item=[0, 1, 2], source_row=[2, 0, 1])
    >>> element_weights(groups, np.array([1.0, 2.0, 3.0]), per="row")
    array([3., 1., 2.])
    """
    check_choice("per", per, ("element", "row"))
    elements = groups.elements()
    if per == "row":
        weight = weight[_frame_rows(groups, elements, len(weight))]
    if len(weight) != len(elements):
        raise ExfamError(
            f"`sample_weight` must have one number an element, {len(elements)}, got {len(weight)}."
        )
    wrong = ~np.isfinite(weight) | (weight < 0)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise ExfamError(
            f"`sample_weight` must be finite and >= 0, got {weight[at]} at element {at}."
        )
    flat = np.zeros(groups.n_rows, dtype=np.float64)
    flat[elements] = weight
    return flat


def _frame_rows(
    groups: Groups, elements: Int64[np.ndarray, "own"], n_weights: int
) -> Int64[np.ndarray, "own"]:
    if groups.source_row is None:
        raise ExfamError("`groups` must have a `source_row` for weights per row, got none.")
    rows = groups.source_row[elements]
    if rows.size and rows.max() >= n_weights:
        raise ExfamError(
            f"`sample_weight` must have one number a row of the frame, got {n_weights} numbers "
            f"and an element of row {rows.max()}."
        )
    return rows
