"""What is known of an element beforehand, in the base of items: how often items come with it.

Of a level l (a category, or a range of a number) that n_l elements had, C[l, i] of them item i,

    lift_l(i) = log (C[l, i] / pop_i + b) / (n_l + b)

is how much likelier i is there than everywhere, with b counts of the popularity added; of several
columns together, b counts of the mean of what one fewer of them say. With w fitted to left-out
groups

    eta_i = w_0 base_i + sum over columns, and some combinations of them, of w_c lift_c(i).
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from exfam.efa.base.like_items import LikeItems
from exfam.efa.base.neighbors import NeighborItems, both_orders, ranks_along
from exfam.efa.base.ridge import RidgeItems
from exfam.efa.base.sets import Where
from exfam.efa.base.transitions import TransitionItems
from exfam.efa.values.given import GivenColumn
from exfam.groups import Batch, Groups
from exfam.groups.arrange import sequential_batches

# Ranges that a number is cut into; elements that are counted at a time.
N_RANGES, _AT_ONCE = 12, 100_000
# How many elements come before an element, and after it.
BEFORE, AFTER = (GivenColumn(None, False, None, axis) for axis in (-1, -2))

# Numbers of columns that are looked at together.
Together = tuple[int, ...]


class KnownItems(nn.Module):
    """A base, and what categories and ranges of numbers that are known beforehand add to it.

    In training mode the whole of an element's group is left out of all that was counted: there it
    must be one of those that were. What a group's context ranges show was not counted in it.
    """

    count: Tensor
    weights: Tensor
    back_off: Tensor
    edges: Tensor
    pointer: Tensor
    column: Tensor
    near: Tensor

    def __init__(
        self,
        base: RidgeItems | TransitionItems | NeighborItems | LikeItems,
        columns: Sequence[GivenColumn],
        together: Sequence[Sequence[int]] = (),
        *,
        n_items: int | None = None,
        n_counted: int = 0,
    ) -> None:
        """Of no groups. `together`: numbers of columns, fewer before more of them.

        `n_items`, `n_counted`: items, and pairs of a level and an item, to be loaded.
        """
        super().__init__()
        self.base, self.direction = base, base.direction
        self.columns = tuple(columns)
        # One column each, then several.
        self.parts: list[Together] = [(number,) for number in range(len(self.columns))]
        self.parts += [tuple(numbers) for numbers in together]
        widths = [n_levels_of(self.columns, part) for part in self.parts]
        # The first level of each part, and how many there are.
        self.first = np.cumsum([0, *widths])
        self.register_buffer("count", torch.zeros(n_items or base.n_items))
        self.register_buffer("weights", torch.eye(1 + len(widths))[0])
        self.register_buffer("back_off", torch.tensor(10.0))
        self.register_buffer("edges", torch.full((len(self.columns), N_RANGES - 1), torch.inf))
        self.register_buffer("pointer", torch.zeros(int(self.first[-1]) + 1, dtype=torch.int64))
        self.register_buffer("column", torch.zeros(n_counted, dtype=torch.int64))
        self.register_buffer("near", torch.zeros(n_counted))
        self._kept: tuple[scipy.sparse.csr_array, np.ndarray] | None = None

    @property
    def n_items(self) -> int:
        """How many outputs there are."""
        return self.base.n_items

    def shape(self) -> dict[str, Any]:
        """What an empty one is built by, beside the base."""
        columns = [[each.name, each.of_group, each.n, each.axis] for each in self.columns]
        together = [list(part) for part in self.parts[len(columns) :]]
        sizes = {"n_items": len(self.count), "n_counted": len(self.near)}
        return {"columns": columns, "together": together, **sizes}

    def with_base(self, base: Any) -> "KnownItems":
        """The same beside another base, which may have later items."""
        other = KnownItems(base, **self.shape() | {"columns": self.columns})
        for name, numbers in self.named_buffers(recurse=False):
            other.register_buffer(name, numbers)
        return other.train(self.training)

    def add(self, groups: Groups) -> None:
        """Take in further groups; weights and what the base was fitted to stay."""
        self.base.add(groups)
        self.take_in(groups)

    def take_in(self, groups: Groups) -> None:
        """Count the items of these groups, by level."""
        counts = self._near()[0]
        for batch, is_own in counted_batches(groups):
            assert batch.item is not None
            item = self._counted(batch.item.numpy())[is_own]
            level = self._levels_of(batch)[is_own]
            row, part = np.nonzero((level >= 0) & (item >= 0)[:, None])
            counts = counts + self._table(level[row, part], item[row], int(self.first[-1]))
            count = np.bincount(item[item >= 0], minlength=len(self.count))
            self.count += torch.from_numpy(count).to(self.count)
        for name, numbers in (
            ("pointer", counts.indptr.astype(np.int64)),
            ("column", counts.indices.astype(np.int64)),
            ("near", counts.data.astype(np.float32)),
        ):
            self.register_buffer(name, torch.from_numpy(numbers).to(self.count.device))
        self._kept = None

    def _near(self) -> tuple[scipy.sparse.csr_array, Float[np.ndarray, "levels"]]:
        """Counts of levels and items, and of levels."""
        if self._kept is None:
            near, column, pointer = (
                part.cpu().numpy() for part in (self.near, self.column, self.pointer)
            )
            shape = (int(self.first[-1]), len(self.count))
            counts = scipy.sparse.csr_array((near, column, pointer), shape=shape)
            self._kept = counts, np.asarray(counts.sum(1)).ravel()
        return self._kept

    def _counted(self, item: np.ndarray) -> Int64[np.ndarray, "*elements"]:
        """Codes of items, -1 for those that came later."""
        item = item.astype(np.int64)
        return np.where(item < len(self.count), item, -1)

    def outputs(
        self, batch: Batch, where: Where, chosen: Int64[Tensor, "chosen"]
    ) -> Float[Tensor, "rows chosen"]:
        """Outputs of the chosen items at the elements at `where`."""
        eta = self.base.outputs(batch, where, chosen) * self.weights[0]
        weights = self.weights[1:].tolist()
        for weight, lift in zip(weights, self.lifts(batch, where, chosen), strict=True):
            eta = eta.add_(lift.to(eta), alpha=weight)
        return eta

    def parts_of(
        self, batch: Batch, where: Where, chosen: Int64[Tensor, "chosen"]
    ) -> Float[Tensor, "parts rows chosen"]:
        """What is weighed: outputs of the base, and lifts."""
        outputs = self.base.outputs(batch, where, chosen)
        return torch.stack(
            [outputs, *(lift.to(outputs) for lift in self.lifts(batch, where, chosen))]
        )

    def lift_by_known(
        self, batch: Batch, where: Where, item: Int64[Tensor, "rows"]
    ) -> Float[Tensor, "rows"]:
        """What the columns add to the output of one item a row."""
        distinct, own = item.unique(return_inverse=True)
        total = torch.zeros(len(item)).to(self.count)
        for weight, lift in zip(self.weights[1:], self.lifts(batch, where, distinct), strict=True):
            total = total + weight * lift.to(total).gather(1, own[:, None])[:, 0]
        return total

    def contributions(
        self, batch: Batch, where: Where, item: Int64[Tensor, "rows"]
    ) -> tuple[Float[Tensor, "rows"], Float[Tensor, "rows length"]]:
        """Those of the base; in nats they are weighed as its output is."""
        without, added = self.base.contributions(batch, where, item)
        weight = self.weights[0] if isinstance(self.base, NeighborItems) else 1.0
        return without * weight, added * weight

    def lift(
        self, batch: Batch, where: Where, item: Int64[Tensor, "rows"]
    ) -> Float[Tensor, "rows"]:
        """What the classes of groups add to the output of one item a row."""
        by_classes: Any = getattr(self.base, "lift", None)
        if by_classes is None:
            return self.count.new_zeros(len(item))
        lift: Tensor = by_classes(batch, where, item)
        return lift * self.weights[0]

    def lifts(
        self, batch: Batch, where: Where, chosen: Int64[Tensor, "chosen"]
    ) -> Iterator[Float[Tensor, "rows chosen"]]:
        """Of each column, then of each combination: 0 at unknown levels, and of later items."""
        row, columns = where[0].cpu().numpy(), chosen.cpu().numpy()
        old = np.flatnonzero(columns < len(self.count))
        levels = self._levels_of(batch)
        own = _OwnCounts.of(batch, levels, self) if self.training else None
        popularity = self._popularity(own, row, columns[old])
        ratios: dict[Together, np.ndarray] = {(): np.ones(())}
        level = levels[row, where[1].cpu().numpy()]
        for part, at in zip(self.parts, level.T, strict=True):
            near, size = self._of_levels(own, row, at, columns[old])
            fewer = [ratios[key] for key in _one_fewer(part) if key in ratios]
            b, usual = float(self.back_off), sum(fewer) / len(fewer)
            ratio = (near / popularity + b * usual) / (size + b)[:, None]
            ratios[part] = np.where((at >= 0)[:, None], ratio, 1.0)
            lift = np.zeros((len(row), len(columns)))
            lift[:, old] = np.log(ratios[part])
            yield torch.from_numpy(lift)

    def _of_levels(
        self, own: "_OwnCounts | None", row: np.ndarray, level: np.ndarray, columns: np.ndarray
    ) -> tuple[Float[np.ndarray, "rows chosen"], Float[np.ndarray, "rows"]]:
        """Counts of the chosen items, and of all, without those of each row's group."""
        (counts, sizes), index = self._near(), np.maximum(level, 0)
        near, size = counts[index][:, columns].toarray(), sizes[index]
        if own is None:
            return near, size
        less, fewer = own.of_levels(row, level, columns)
        return (near - less).clip(min=0.0), (size - fewer).clip(min=0.0)

    def _popularity(
        self, own: "_OwnCounts | None", row: np.ndarray, columns: np.ndarray
    ) -> Float[np.ndarray, "rows_or_one chosen"]:
        """Shares of all items without those of each row's group."""
        count = self.count.double().cpu().numpy()
        left, total = count[None, columns], count.sum() + 0.5 * len(count)
        if own is not None:
            left = (left - own.held[:, columns].toarray()).clip(min=0.0)[row]
            total = (total - np.asarray(own.held.sum(1)).ravel())[row, None]
        return (left + 0.5) / total

    def _table(self, row: np.ndarray, item: np.ndarray, n_rows: int) -> scipy.sparse.csr_array:
        """How often each item comes with each row."""
        ones = np.ones(len(row))
        return scipy.sparse.csr_array((ones, (row, item)), shape=(n_rows, len(self.count)))

    def _levels_of(self, batch: Batch) -> Int64[np.ndarray, "groups length parts"]:
        """Of the elements of a batch, -1 where nothing is present."""
        present = batch.present.cpu().numpy()
        edges, single = self.edges.cpu().numpy(), []
        for number, column in enumerate(self.columns):
            value = numbers_of(batch, column, self.direction)
            if column.n is None:
                level = np.searchsorted(edges[number], value, side="right")
            else:
                level = np.where((value >= 0) & (value < column.n), value, -1).astype(np.int64)
            single.append(np.where(present, level, -1))
        levels = []
        for first, part in zip(self.first[:-1], self.parts, strict=True):
            level, is_known = np.zeros(present.shape, dtype=np.int64), present
            for number in part:
                level = level * n_levels_of(self.columns, (number,)) + single[number]
                is_known = is_known & (single[number] >= 0)
            levels.append(np.where(is_known, level + first, -1))
        return np.stack(levels, -1)


class _OwnCounts:
    """What the groups of a batch have themselves, by group and level."""

    def __init__(self, key: np.ndarray, near: Any, held: Any, n_levels: int) -> None:
        self.key, self.near, self.held, self.n_levels = key, near, held, n_levels
        self.size = np.asarray(near.sum(1)).ravel()

    @classmethod
    def of(cls, batch: Batch, levels: np.ndarray, known: KnownItems) -> "_OwnCounts":
        """Of all elements that were counted in their groups."""
        assert batch.item is not None
        item = known._counted(batch.item.cpu().numpy())
        is_own = (batch.present & (batch.steps_back == 0)).cpu().numpy() & (item >= 0)
        group, position = np.nonzero(is_own)
        held = known._table(group, item[is_own], len(item))
        row, part = np.nonzero(levels[is_own] >= 0)
        n_levels = int(known.first[-1])
        key = group[row] * n_levels + levels[group[row], position[row], part]
        key, index = np.unique(key, return_inverse=True)
        return cls(key, known._table(index, item[is_own][row], len(key)), held, n_levels)

    def of_levels(
        self, row: np.ndarray, level: np.ndarray, columns: np.ndarray
    ) -> tuple[Float[np.ndarray, "rows chosen"], Float[np.ndarray, "rows"]]:
        """Counts of the chosen items, and of all, with the level of each row in its group."""
        if not len(self.key):
            return np.zeros((len(row), len(columns))), np.zeros(len(row))
        wanted = row * self.n_levels + level
        index = np.searchsorted(self.key, wanted).clip(max=len(self.key) - 1)
        found = (self.key[index] == wanted) & (level >= 0)
        return self.near[index][:, columns].toarray() * found[:, None], self.size[index] * found


def numbers_of(
    batch: Batch, column: GivenColumn, direction: str
) -> Float[np.ndarray, "groups length"]:
    """A column at all elements of a batch, as numbers or codes."""
    if column in (BEFORE, AFTER):
        rank = torch.arange(batch.present.shape[1]).expand(batch.present.shape)
        if direction != "causal":
            line, opposite = both_orders(batch)
            rank = ranks_along(batch, line if column == BEFORE else opposite)
        return rank.double().cpu().numpy()
    assert column.name is not None
    held = batch.group_attributes if column.of_group else batch.attributes
    numbers = held[column.name]
    if column.of_group:
        numbers = numbers[:, None].expand(*batch.present.shape, *numbers.shape[1:])
    return (numbers if column.n is not None else numbers[..., column.axis]).double().cpu().numpy()


def counted_batches(groups: Groups) -> Iterator[tuple[Batch, Bool[np.ndarray, "groups length"]]]:
    """Groups in batches, and which elements are their own, no context ranges."""
    for index in sequential_batches(groups, max_tokens=_AT_ONCE):
        batch = groups.pad(index)
        yield batch, (batch.present & (batch.steps_back == 0)).numpy()


def n_levels_of(columns: Sequence[GivenColumn], part: Together) -> int:
    """How many levels some columns have together."""
    return math.prod(columns[number].n or N_RANGES for number in part)


def inner_base(base: Any) -> Any:
    """A base without what is known beforehand."""
    return base.base if isinstance(base, KnownItems) else base


def _one_fewer(part: Together) -> list[Together]:
    return [part[:number] + part[number + 1 :] for number in range(len(part))]
