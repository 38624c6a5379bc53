"""Counts of what stands near what in sequences, and what a history picks from them.

In training the counts of an element's own group are subtracted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from exfam.efa.base.sets import Where
from exfam.groups import Batch

Codes = Int64[np.ndarray, "elements"]
# Codes of the elements of padded groups, -1 for none.
Padded = Int64[np.ndarray, "groups length"]
# Items of the history that count.
RECENT = 40


class Kernel(NamedTuple):
    """Pairs up to `reach` apart count distance^-power; `prior` counts of popularity are added."""

    reach: int
    power: float
    both_ways: bool
    prior: float
    decays: tuple[float, ...]


KERNELS = (
    Kernel(1, 0.0, False, 10.0, (0.3, 0.8)),
    Kernel(10, 0.5, False, 10.0, (0.5, 0.9, 0.97)),
    Kernel(50, 0.25, True, 30.0, (0.8, 0.95)),
)
# Items of the longest context that is counted as a whole, and counts of the shorter ones added: few
# where what comes next is all but certain.
LONGEST, BACK_OFFS = 4, (8.0, 2.0)
N_OF_CONTEXTS = LONGEST * len(BACK_OFFS)
N_FILTERS = sum(len(kernel.decays) for kernel in KERNELS) + N_OF_CONTEXTS
# Which counts are those of contexts of 1, 2, ... items: what comes right after one is a kernel.
OF_CONTEXTS = (0, *range(len(KERNELS), len(KERNELS) + LONGEST - 1))


def kernel_counts(
    code: Codes, group: Codes, n_codes: int, kernel: Kernel
) -> scipy.sparse.csr_array:
    """C[j, i]: how often i stands near j, by distance; codes below 0 count nothing.

    Elements of a group stand side by side, in order.
    """
    total = scipy.sparse.csr_array((n_codes, n_codes))
    for distance in range(1, min(kernel.reach, len(code) - 1) + 1):
        if (group[:-distance] != group[distance:]).all():
            break
        near = pair_counts(code, code, group, total.shape, distance=distance)
        total += near * distance**-kernel.power
    return scipy.sparse.csr_array(total + total.T) if kernel.both_ways else total


def pair_counts(
    first: Codes, second: Codes, group: Codes, shape: tuple[int, int], *, distance: int = 1
) -> scipy.sparse.csr_array:
    """How often a code of `second` comes so far after one of `first`, in the same group."""
    before, after = first[:-distance], second[distance:]
    near = (group[:-distance] == group[distance:]) & (before >= 0) & (after >= 0)
    ones = np.ones(int(near.sum()))
    return scipy.sparse.csr_array((ones, (before[near], after[near])), shape=shape)


def longer_keys(code: Codes, item: Codes, group: Codes, n_items: int) -> Codes:
    """Of contexts one item longer: what ends one element earlier, and this item; -1 for none."""
    key = np.full(len(item), -1)
    joined = (group[:-1] == group[1:]) & (code[:-1] >= 0) & (item[1:] >= 0)
    key[1:][joined] = code[:-1][joined] * n_items + item[1:][joined]
    return key


def index_in(keys: Int64[np.ndarray, "keys"], wanted: Codes) -> Codes:
    """Where increasing keys have the wanted ones, -1 where they do not."""
    if not len(keys):
        return np.full(wanted.shape, -1)
    index = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[index] == wanted, index, -1)


@dataclass(frozen=True, eq=False)
class Histories:
    """The last known items of some rows, and the kernels to be applied to them.

    `code`: the rows' items by lag, -1 for none, as rows of the kernels `counts`, whose columns are
    the chosen items; `sizes` are the sums over all items. `contexts`: rows of the counts of
    contexts of 1, 2, ... items.
    """

    code: Int64[np.ndarray, "rows recent"]
    contexts: Sequence[Int64[np.ndarray, "rows"]]
    counts: Sequence[scipy.sparse.csr_array]
    sizes: Sequence[np.ndarray]

    def filtered(
        self, kernel: int, weight: Float[np.ndarray, "rows recent"]
    ) -> tuple[scipy.sparse.csr_array, Float[np.ndarray, "rows"]]:
        """Sums over the histories of `weight`: of counts, and of what popularity is due."""
        prior = KERNELS[kernel].prior
        row, lag = np.nonzero(self.code >= 0)
        code = self.code[row, lag]
        share = weight[row, lag] / (self.sizes[kernel][code] + prior)
        due = np.bincount(row, weights=share * prior, minlength=len(self.code))
        # Counts of nothing are whole numbers, whatever their weights.
        return self._picked(kernel, row, code, share), due.astype(np.float64, copy=False)

    def backed_off(
        self, shares: Float[np.ndarray, "lengths back_offs"]
    ) -> tuple[scipy.sparse.csr_array, Float[np.ndarray, "rows"]]:
        """The same of what came after contexts of each length, each backed off to the shorter."""
        left, picked = np.zeros((len(self.code), len(BACK_OFFS))), []
        for length in range(LONGEST, 0, -1):
            number, context = OF_CONTEXTS[length - 1], self.contexts[length - 1]
            left += shares[length - 1]
            row = np.flatnonzero(context >= 0)
            code = context[row]
            share = left[row] / (self.sizes[number][code][:, None] + BACK_OFFS)
            picked.append(self._picked(number, row, code, share.sum(1)))
            left[row] = share * BACK_OFFS
        return sum(picked[1:], picked[0]), left.sum(1)

    def _picked(
        self, number: int, row: np.ndarray, code: np.ndarray, share: np.ndarray
    ) -> scipy.sparse.csr_array:
        """Sums for rows of shares of what was counted of codes."""
        shape = (len(self.code), self.counts[number].shape[0])
        return scipy.sparse.csr_array((share, (row, code)), shape=shape) @ self.counts[number]

    def weights(self, decay: float) -> Float[np.ndarray, "rows recent"]:
        """decay^lag for what each row has, as shares."""
        weight = np.where(self.code >= 0, decay ** np.arange(self.code.shape[1]), 0.0)
        total = weight.sum(1, keepdims=True)
        return weight / np.where(total > 0, total, 1.0)

    @property
    def is_empty(self) -> np.ndarray:
        """Rows without a known item before them."""
        return self.code.max(1, initial=-1) < 0


def known_items(batch: Batch) -> Int64[np.ndarray, "batch length"]:
    """Codes of items, -1 for unknown ones and padding."""
    assert batch.item is not None
    return torch.where(batch.present, batch.item.long(), -1).cpu().numpy()


def before(
    codes: Sequence[Padded], index: Int64[np.ndarray, "rows"], position: Int64[np.ndarray, "rows"]
) -> list[np.ndarray]:
    """The last items before each element, the last one first, and the contexts that end there.

    `codes`: those of contexts of 1, 2, ... items; `position`: how many elements come before.
    """
    lag = np.arange(1, 1 + min(RECENT, int(position.max(initial=0))))
    recent = codes[0].ravel()[np.maximum(index[:, None] - lag, 0)]
    last = [code.ravel()[np.maximum(index - 1, 0)] for code in codes]
    is_first = position == 0
    return [
        np.where(lag <= position[:, None], recent, -1),
        *(np.where(is_first, -1, code) for code in last),
    ]


def repeat_inputs(
    batch: Batch, where: Where, chosen: Int64[Tensor, "chosen"], *, n_items: int
) -> Float[Tensor, "two rows chosen"]:
    """Whether each chosen item is in the history of elements, and log(1 + how often)."""
    column = np.full(n_items + 1, -1)
    column[chosen.cpu().numpy()] = np.arange(len(chosen))
    group, position = (index.cpu().numpy() for index in where)
    row = np.repeat(np.arange(len(group)), position)
    earlier = np.arange(len(row)) - np.repeat(np.cumsum(position) - position, position)
    code = column[known_items(batch)[group[row], earlier]]
    key = (row * len(chosen) + code)[code >= 0]
    times = np.bincount(key, minlength=len(group) * len(chosen))
    count = torch.from_numpy(times.reshape(len(group), len(chosen))).to(chosen.device).float()
    return torch.stack([(count > 0).float(), count.log1p()])


class _Pairs(NamedTuple):
    """The distinct pairs of a group and a code: both, and which pair each element is, -1 for none.

    `own`: the same for elements whose pair was counted in the group.
    """

    code: Codes
    group: Codes
    seen: Padded
    own: Padded

    @classmethod
    def of(cls, code: Padded, own: Padded) -> "_Pairs":
        n_codes = int(code.max(initial=0)) + 1
        key = np.arange(len(code))[:, None] * n_codes + code
        pair, index = np.unique(key[code >= 0], return_inverse=True)
        seen = np.full(code.shape, -1)
        seen[code >= 0] = index
        return cls(pair % n_codes, pair // n_codes, seen, np.where(own >= 0, seen, -1))


@dataclass(frozen=True, eq=False)
class OwnCounts:
    """Some groups, whose own counts are to be subtracted: pairs of contexts of 1, 2, ... items.

    A context that a group sees may begin in its context ranges: then it was not counted there.
    """

    pairs: Sequence[_Pairs]
    n_items: int

    @classmethod
    def of(
        cls,
        item: Padded,
        is_own: Bool[np.ndarray, "groups length"],
        contexts: Callable[[Padded], list[Padded]],
        n_items: int,
    ) -> "OwnCounts":
        own = contexts(np.where(is_own, item, -1))
        pairs = [_Pairs.of(*codes) for codes in zip(contexts(item), own, strict=True)]
        return cls(pairs, n_items)

    def histories(
        self,
        row: Int64[np.ndarray, "rows"],
        position: Int64[np.ndarray, "rows"],
        counts: Sequence[scipy.sparse.csr_array],
        sizes: Sequence[np.ndarray],
        chosen: Int64[Tensor, "chosen"],
    ) -> Histories:
        """The histories of elements of the groups `row`, with their own counts subtracted."""
        items, (n_groups, length) = self.pairs[0], self.pairs[0].seen.shape
        index, n = row * length + position, len(items.code)
        recent, *contexts = before([pairs.seen for pairs in self.pairs], index, position)
        group, item = np.repeat(np.arange(n_groups), length), items.own.ravel()
        to_items = scipy.sparse.csr_array(
            (np.ones(n), (np.arange(n), items.code)), shape=(n, self.n_items)
        )[:, chosen.cpu().numpy()]
        of_kernels = [(items, kernel_counts(item, group, n, kernel)) for kernel in KERNELS]
        of_contexts = [
            (pairs, pair_counts(pairs.own.ravel(), item, group, (len(pairs.code), n)))
            for pairs in self.pairs[1:]
        ]
        left, sizes_left = [], []
        own_counts = of_kernels + of_contexts
        for (pairs, own), matrix, size in zip(own_counts, counts, sizes, strict=True):
            left.append(matrix[pairs.code] - own @ to_items)
            sizes_left.append(np.maximum(size[pairs.code] - own.sum(1), 0.0))
        return Histories(recent, contexts, left, sizes_left)

    def held(self) -> scipy.sparse.csr_array:
        """How often each group has each item."""
        items = self.pairs[0]
        times = np.bincount(items.own[items.own >= 0], minlength=len(items.code))
        shape = (len(items.seen), self.n_items)
        pairs = (times.astype(float), (items.group, items.code))
        return scipy.sparse.csr_array(pairs, shape=shape)
