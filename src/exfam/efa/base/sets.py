"""Groups as sets: the distinct items of each, and what each element's context lacks."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor
from torch.nn.functional import embedding_bag

from exfam.groups import Batch, Groups
from exfam.groups.arrange import group_of_elements

Index = Int64[Tensor, "rows"]
Where = tuple[Index, Index]
Codes = Int[np.ndarray, "pairs"]


def indicator(
    row: Codes, column: Codes, shape: tuple[int, int], *, dtype: type = np.float32
) -> scipy.sparse.csr_array:
    """1 at every pair of row and column, however often it is named."""
    held = scipy.sparse.csr_array((np.ones(len(row), dtype=dtype), (row, column)), shape=shape)
    held.sum_duplicates()
    held.data[:] = 1.0
    return held


def held_items(groups: Groups, n_items: int) -> scipy.sparse.csr_array:
    """Groups x items: 1 where a group has an item, context elements included."""
    assert groups.item is not None
    item, group = groups.item[groups.elements()], group_of_elements(groups)
    known, shape = item >= 0, (len(groups), n_items)
    return indicator(group[known], item[known], shape, dtype=np.float64)


_OF_ELEMENTS = ("item", "position", "present", "target", "observed", "element", "steps_back")


def groups_of(batch: Batch, where: Where) -> tuple[Batch, Where]:
    """The items of some elements' groups, and where the elements are among these."""
    group, row = where[0].unique(return_inverse=True)
    arrays = {name: getattr(batch, name)[group] for name in _OF_ELEMENTS}
    items = Batch(values={}, attributes={}, group_attributes={}, **arrays)
    return items, (row, where[1])


@dataclass(frozen=True, eq=False)
class Sets:
    """The distinct known items of groups, sorted by group and item.

    `left_out`: the item that an element's context lacks, -1 where its group has it twice, or where
    it is unknown.
    """

    item: Int64[Tensor, "entries"]
    group: Int64[Tensor, "entries"]
    left_out: Int64[Tensor, "batch length"]
    n_items: int

    @classmethod
    def of(cls, batch: Batch, n_items: int, *, own: bool = False) -> "Sets":
        """The sets that the groups of a batch see, or have of their `own`."""
        assert batch.item is not None
        item = batch.item.long()
        known = batch.present & (item >= 0)
        if own:
            known = known & (batch.steps_back == 0)
        group = torch.arange(len(known), device=known.device)[:, None].expand_as(known)
        key = (group * n_items + item)[known]
        distinct, index, count = key.unique(return_inverse=True, return_counts=True)
        left_out = torch.full_like(item, -1)
        left_out[known] = torch.where(count[index] == 1, item[known], -1)
        return cls(distinct % n_items, distinct // n_items, left_out, n_items)

    @property
    def keys(self) -> Int64[Tensor, "entries"]:
        """One increasing number for each group and item."""
        return self.group * self.n_items + self.item

    @property
    def n_groups(self) -> int:
        return len(self.left_out)

    def totals(self, numbers: Float[Tensor, "entries *more"]) -> Float[Tensor, "groups *more"]:
        """Sums over the items of each group."""
        zeros = numbers.new_zeros(self.n_groups, *numbers.shape[1:])
        return zeros.index_add_(0, self.group, numbers)

    def sums_of(self, table: Float[Tensor, "items columns"]) -> Float[Tensor, "groups columns"]:
        """Sums over the items of each group of their rows in a table."""
        group = torch.arange(self.n_groups, device=self.group.device)
        first = torch.searchsorted(self.group, group)
        return embedding_bag(self.item, table, first, mode="sum")

    def sums_of_one(
        self, table: Float[Tensor, "items columns"], group: Index, column: Index
    ) -> Float[Tensor, "rows"]:
        """For each row, the sum over its group's items of their numbers in one column."""
        item = self._padded()[group]
        return (table[item.clamp_min(0), column[:, None]] * (item >= 0)).sum(1)

    def sums_at(
        self, table: Float[Tensor, "all all"], other: "Sets", rows: Int64[Tensor, "items"]
    ) -> Float[Tensor, "entries"]:
        """For each entry of another's sets of the same groups, the sum over the group's items.

        As `sums_of(table[rows][:, rows])[other.group, other.item]`, without columns of items that
        are not there. `rows`: of the items in the table.
        """
        own, seen = self._padded(), other._padded()
        row, column = rows[own.clamp_min(0)], rows[seen.clamp_min(0)]
        pairs = table[row[:, :, None], column[:, None]] * (own >= 0)[:, :, None]
        return pairs.sum(1)[seen >= 0]

    def _padded(self) -> Int64[Tensor, "groups most"]:
        """The items of each group, then -1."""
        size = torch.bincount(self.group, minlength=self.n_groups)
        rank = torch.arange(len(self.group)).to(self.group) - (size.cumsum(0) - size)[self.group]
        most = int(size.max()) if len(size) else 0
        padded = self.item.new_full((self.n_groups, most), -1)
        padded[self.group, rank] = self.item
        return padded

    def at(
        self, numbers: Float[Tensor, "entries *more"], where: Where
    ) -> Float[Tensor, "rows *more"]:
        """The numbers of the item that the context of each element at `where` lacks, 0 for none."""
        item = self.left_out[where]
        entry = torch.searchsorted(self.keys, where[0] * self.n_items + item.clamp_min(0))
        # One more, where there are no entries at all.
        padded = torch.cat([numbers, numbers.new_zeros(1, *numbers.shape[1:])])
        return padded[torch.where(item >= 0, entry, len(numbers))]

    def in_(self, other: "Sets") -> Bool[Tensor, "entries"]:
        """Which entries another's sets of the same groups have too."""
        return torch.isin(self.keys, other.keys)

    def among(self, chosen: Int64[Tensor, "chosen"]) -> Float[Tensor, "groups chosen"]:
        """1 where a group has a chosen item, else 0."""
        held = torch.zeros(self.n_groups, len(chosen), device=chosen.device)
        column = torch.full((self.n_items,), -1, device=chosen.device)
        column[chosen] = torch.arange(len(chosen), device=chosen.device)
        entry = (column[self.item] >= 0).nonzero()[:, 0]
        held[self.group[entry], column[self.item[entry]]] = 1.0
        return held
