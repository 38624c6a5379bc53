"""Which classes are listed for which rows: what a row may not choose, in memory of its context."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

Pairs = tuple[Int64[Tensor, "pairs"], Int64[Tensor, "pairs"]]
Where = tuple[Int64[Tensor, "rows"], Int64[Tensor, "rows"]]


class Listed(ABC):
    """Distinct pairs of a row and a class, found for any tile of the rows and classes."""

    @abstractmethod
    def within(self, rows: slice, classes: slice) -> Pairs:
        """The pairs of a tile, counted from its first row and class."""

    def flat(self, rows: slice, classes: slice) -> Int64[Tensor, "positions"]:
        """The pairs as positions in a tile's outputs, row after row.

        There may be others that are one beyond the last: then no number of pairs is waited for.
        """
        row, column = self.within(rows, classes)
        return row * (classes.stop - classes.start) + column

    @abstractmethod
    def among(self, chosen: Int64[Tensor, "chosen"]) -> "Listed":
        """The same in a catalog of the `chosen` (increasing) items: classes are positions in it."""

    @abstractmethod
    def part(self, rows: slice) -> "Listed":
        """The same of some rows."""


@dataclass(frozen=True, eq=False)
class OnePerRow(Listed):
    """One class a row, or none (-1)."""

    code: Int64[Tensor, "rows"]

    def within(self, rows: slice, classes: slice) -> Pairs:
        code = self.code[rows]
        row = ((code >= classes.start) & (code < classes.stop)).nonzero()[:, 0]
        return row, code[row] - classes.start

    def flat(self, rows: slice, classes: slice) -> Int64[Tensor, "positions"]:
        return _flat(self.code[rows][:, None] - classes.start, classes)

    def among(self, chosen: Int64[Tensor, "chosen"]) -> "OnePerRow":
        position, held = _positions(chosen, self.code)
        return OnePerRow(torch.where(held, position, -1))

    def part(self, rows: slice) -> "OnePerRow":
        return OnePerRow(self.code[rows])


@dataclass(frozen=True, eq=False)
class ContextItems(Listed):
    """The items in the context of each row, kept as the distinct items of each group.

    `code`, increasing: an item of a group, at positions `first` to `last`; the group's rows are
    `start` to `stop`, and row r stands at `position[r]`. Rows that are `free` see nothing.
    """

    code: Int64[Tensor, "entries"]
    first: Int64[Tensor, "entries"]
    last: Int64[Tensor, "entries"]
    start: Int64[Tensor, "entries"]
    stop: Int64[Tensor, "entries"]
    position: Int64[Tensor, "rows"]
    causal: bool
    free: Bool[Tensor, "rows"] | None = None

    @classmethod
    def of(
        cls,
        code: Int64[Tensor, "batch length"],
        where: Where,
        *,
        n_items: int,
        causal: bool,
    ) -> "ContextItems":
        """Of the rows at `where` (in order) of padded groups; codes >= `n_items` are no items."""
        group, position = where
        ordered, positions, again = runs(code)
        ends = torch.ones_like(again)
        ends[:, :-1] = ~again[:, 1:]
        is_known = ordered < n_items
        begins, ends = is_known & ~again, is_known & ends
        entry_code, order = ordered[begins].sort()
        entry_group = begins.nonzero()[:, 0][order]
        return cls(
            code=entry_code,
            first=positions[begins][order],
            last=positions[ends][order],
            start=torch.searchsorted(group, entry_group),
            stop=torch.searchsorted(group, entry_group, right=True),
            position=position,
            causal=causal,
        )

    def within(self, rows: slice, classes: slice) -> Pairs:
        ends = self.code.new_tensor([classes.start, classes.stop])
        low, high = torch.searchsorted(self.code, ends).tolist()
        if low == high:
            return self.code[:0], self.code[:0]
        first = self.start[low:high].clamp(rows.start, rows.stop)
        times = self.stop[low:high].clamp(rows.start, rows.stop) - first
        # A GPU is waited for here, once, and for the indices of pairs that are seen.
        n_pairs = int(times.sum())
        entry = torch.arange(low, high, device=first.device)
        entry = entry.repeat_interleave(times, output_size=n_pairs)
        skipped = times.cumsum(0) - times - first
        row = torch.arange(n_pairs, device=first.device)
        row = row - skipped.repeat_interleave(times, output_size=n_pairs)
        seen = self._seen(row, entry).nonzero()[:, 0]
        return row[seen] - rows.start, self.code[entry[seen]] - classes.start

    def _seen(self, row: Tensor, entry: Tensor) -> Bool[Tensor, "pairs"]:
        position = self.position[row]
        if self.causal:
            seen = self.first[entry] < position
        else:
            seen = (self.first[entry] != position) | (self.last[entry] != position)
        return seen if self.free is None else seen & ~self.free[row]

    def sparing(self, n_items: int) -> "ContextItems":
        """The same, but nothing for rows that see the whole catalog."""
        row, _ = self.within(slice(0, len(self.position)), slice(0, n_items))
        count = torch.bincount(row, minlength=len(self.position))
        return replace(self, free=count == n_items)

    def among(self, chosen: Int64[Tensor, "chosen"]) -> "ContextItems":
        position, held = _positions(chosen, self.code)
        entries = {name: getattr(self, name)[held] for name in ("first", "last", "start", "stop")}
        return replace(self, code=position[held], **entries)

    def part(self, rows: slice) -> "ContextItems":
        start, stop = (b.clamp(rows.start, rows.stop) - rows.start for b in (self.start, self.stop))
        free = None if self.free is None else self.free[rows]
        return replace(self, start=start, stop=stop, position=self.position[rows], free=free)


@dataclass(frozen=True, eq=False)
class ContextTable(Listed):
    """The same for a GPU: items of each group side by side, of sizes that need no waiting for.

    `code` is `nothing` where there is no item, or the one before it again; row r is an element of
    group `group[r]`.
    """

    code: Int64[Tensor, "groups length"]
    first: Int64[Tensor, "groups length"]
    last: Int64[Tensor, "groups length"]
    group: Int64[Tensor, "rows"]
    position: Int64[Tensor, "rows"]
    causal: bool
    nothing: int
    free: Bool[Tensor, "rows"] | None = None

    @classmethod
    def of(
        cls,
        code: Int64[Tensor, "batch length"],
        where: Where,
        *,
        n_items: int,
        causal: bool,
    ) -> "ContextTable":
        """As of `ContextItems`."""
        ordered, positions, again = runs(code)
        length = code.shape[1]
        end = torch.arange(length, device=code.device).expand_as(code).clone()
        end[:, :-1].masked_fill_(again[:, 1:], length)
        end = end.flip(1).cummin(1).values.flip(1)
        return cls(
            code=ordered.masked_fill(again, n_items),
            first=positions,
            last=positions.gather(1, end),
            group=where[0],
            position=where[1],
            causal=causal,
            nothing=n_items,
        )

    def within(self, rows: slice, classes: slice) -> Pairs:
        width = classes.stop - classes.start
        position = self.flat(rows, classes)
        n_outputs = len(self.position[rows]) * width
        position = position[position < n_outputs]
        return position // width, position % width

    def flat(self, rows: slice, classes: slice) -> Int64[Tensor, "positions"]:
        code = self._seen(rows)
        return _flat(code.where(code < self.nothing, -1) - classes.start, classes)

    def _seen(self, rows: slice) -> Int64[Tensor, "rows length"]:
        """The codes that rows see, `nothing` elsewhere."""
        group, position = self.group[rows], self.position[rows][:, None]
        if self.causal:
            seen = self.first[group] < position
        else:
            seen = (self.first[group] != position) | (self.last[group] != position)
        if self.free is not None:
            seen &= ~self.free[rows][:, None]
        return self.code[group].where(seen, self.nothing)

    def sparing(self, n_items: int) -> "ContextTable":
        """The same, but nothing for rows that see the whole catalog."""
        count = (self._seen(slice(None)) < self.nothing).sum(1)
        return replace(self, free=count == n_items)

    def among(self, chosen: Int64[Tensor, "chosen"]) -> "ContextTable":
        position, held = _positions(chosen, self.code)
        return replace(self, code=position.where(held, len(chosen)), nothing=len(chosen))

    def part(self, rows: slice) -> "ContextTable":
        free = None if self.free is None else self.free[rows]
        return replace(self, group=self.group[rows], position=self.position[rows], free=free)


def context_of_rows(
    code: Int64[Tensor, "batch length"],
    where: Where,
    *,
    n_items: int,
    causal: bool,
) -> ContextItems | ContextTable:
    """The items in the context of each row, in the form that suits the device."""
    kind = ContextTable if code.is_cuda else ContextItems
    return kind.of(code, where, n_items=n_items, causal=causal)


def _flat(column: Int64[Tensor, "rows listed"], classes: slice) -> Int64[Tensor, "positions"]:
    """Columns of a tile as positions in it; those of other columns are one beyond the last."""
    width, n_rows = classes.stop - classes.start, len(column)
    start = torch.arange(n_rows, device=column.device)[:, None] * width
    inside = (column >= 0) & (column < width)
    return (start + column).where(inside, n_rows * width).flatten()


def _positions(chosen: Tensor, code: Tensor) -> tuple[Tensor, Bool[Tensor, "*codes"]]:
    """Where codes stand among the chosen ones, and whether they do."""
    position = torch.searchsorted(chosen, code).clamp_max(len(chosen) - 1)
    return position, chosen[position] == code


def runs(
    code: Int64[Tensor, "batch length"],
) -> tuple[Tensor, Tensor, Bool[Tensor, "batch length"]]:
    """Each group's codes in increasing order, their positions, and which repeat the one before."""
    ordered, position = code.sort(dim=1, stable=True)
    again = torch.zeros_like(code, dtype=torch.bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    return ordered, position, again
