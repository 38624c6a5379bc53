"""From ragged columns to padded tensors."""

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Bool, Int64, Shaped
from torch import Tensor

# Differences of numbers of this size fit single precision.
_LARGEST = 1e37

Index = Int64[np.ndarray, "batch length"]


def pad_ranges(
    start: Int64[np.ndarray, "batch"],
    stop: Int64[np.ndarray, "batch"],
    context_start: Int64[np.ndarray, "batch ranges"] | None = None,
    context_stop: Int64[np.ndarray, "batch ranges"] | None = None,
) -> tuple[Int64[np.ndarray, "batch length"], Int64[np.ndarray, "batch length"]]:
    """Flat element indices padded with -1, and how many ranges before the group's own each lies.

    The context ranges come first, in their order, then the group's own range (0 ranges before).

    >>> own, context = (np.array([2]), np.array([4])), (np.array([[0]]), np.array([[2]]))
    >>> pad_ranges(*own, *context)
    (array([[0, 1, 2, 3]]), array([[1, 1, 0, 0]]))
    """
    starts, stops = start[:, None], stop[:, None]
    if context_start is not None and context_stop is not None:
        starts = np.concatenate([context_start, starts], axis=1)
        stops = np.concatenate([context_stop, stops], axis=1)
    ends = np.cumsum(stops - starts, axis=1)
    begins = ends - (stops - starts)
    # At least one column, so that a batch of empty groups still has a length to attend over.
    offset = np.arange(max(1, int(ends[:, -1].max(initial=0))))
    element = np.full((len(start), len(offset)), -1, dtype=np.int64)
    steps_back = np.zeros(element.shape, dtype=np.int64)
    n_ranges = starts.shape[1]
    for k in range(n_ranges):
        inside = (offset >= begins[:, k, None]) & (offset < ends[:, k, None])
        np.copyto(element, offset + (starts - begins)[:, k, None], where=inside)
        steps_back[inside] = n_ranges - 1 - k
    return element, steps_back


def pad_column(
    column: Shaped[np.ndarray, "elements"],
    element: Index,
    dtype: type,
    *,
    keep: Bool[np.ndarray, "batch length"] | None = None,
) -> Shaped[Tensor, "batch length"]:
    """`column[element]` as a tensor, 0 at padding and where not `keep`.

    >>> pad_column(np.array([5, 6]), np.array([[1, -1]]), np.float32)
    tensor([[6., 0.]])
    """
    return torch.from_numpy(_take(column, element, dtype, keep))


def pad_columns(
    columns: Mapping[str, np.ndarray],
    element: Index,
    *,
    keep: Bool[np.ndarray, "batch length"] | None = None,
) -> dict[str, Tensor]:
    """Each column as float64, 0 at padding and where not `keep`.

    Single precision would round values that lie close to each other and far from 0.

    >>> pad_columns({"rating": np.array([5, 6])}, np.array([[1, -1]]))
    {'rating': tensor([[6., 0.]], dtype=torch.float64)}
    """
    return {
        name: pad_column(column, element, np.float64, keep=keep) for name, column in columns.items()
    }


def as_attributes(columns: Mapping[str, np.ndarray], index: np.ndarray) -> dict[str, Tensor]:
    """Rows of the columns at `index` (0 where -1): integer columns as codes, others as floats.

    Codes are int64; floats are float32 and get a last dimension of their own if they have none.

    >>> as_attributes({"genre": np.array([3, 4]), "gap": np.array([0.5, 2])}, np.array([1]))
    {'genre': tensor([4]), 'gap': tensor([[2.]])}
    """
    return {name: _as_attribute(column, index) for name, column in columns.items()}


def _as_attribute(column: np.ndarray, index: np.ndarray) -> Tensor:
    is_code = column.dtype.kind in "iu" and column.ndim == 1
    if is_code:
        return torch.from_numpy(_take(column, index, np.int64, None))
    picked = _take(column, index, np.float64, None).clip(-_LARGEST, _LARGEST)
    numbers = torch.from_numpy(picked.astype(np.float32))
    return numbers.unsqueeze(-1) if column.ndim == 1 else numbers


def pad_position(
    column: np.ndarray | None, element: Index, *, tied: Bool[np.ndarray, "elements"] | None = None
) -> Tensor:
    """Positions of the elements, 0 at padding: int64 or float64; 0, 1, 2, ... without a column.

    Without a column, `tied` elements share the position of the one before them (default None).

    >>> pad_position(None, np.array([[7, 8], [3, -1]]))
    tensor([[0, 1],
            [0, 0]])
    >>> pad_position(None, np.array([[0, 1, 2]]), tied=np.array([False, True, False]))
    tensor([[0, 0, 1]])
    """
    if column is None:
        counted = np.broadcast_to(np.arange(element.shape[1]), element.shape)
        if tied is not None and tied.size:
            # The first element that a group shows is tied to none, whatever lies before it.
            follows = np.diff(element, axis=1) == 1
            counted = np.cumsum(~(tied[element[:, 1:]] & follows), axis=1)
            counted = np.pad(counted, ((0, 0), (1, 0)))
        return torch.from_numpy(counted * (element >= 0))
    is_whole = column.dtype.kind in "iub"
    return torch.from_numpy(_take(column, element, np.int64 if is_whole else np.float64, None))


def _take(
    column: np.ndarray, index: np.ndarray, dtype: type, keep: np.ndarray | None
) -> np.ndarray:
    if len(column) == 0:
        return np.zeros(index.shape + column.shape[1:], dtype=dtype)
    # Fancy indexing copies, so the tensor made of it never shares memory with the column.
    picked = column[index].astype(dtype, copy=False)
    picked[index < 0 if keep is None else ~keep] = 0
    return picked
