"""Ridge scores of item sets: each item regressed on the others, every conditional left out exactly.

A group is the set x of its items, 0 or 1 an item. With the precision P = (X'X + D)^-1 the ridge
regression of item j on the others scores it, from the context c of a target,

    s_j = -(P c)_j / P_jj,    D_ii = strength * (count_i / mean count)^(1/4),

an estimate of the probability that a group with these items holds j (as in EASE), less 1 for items
of the context, so that the score's weight says whether they come again. The output is a weighted
sum of popularity, the score and the logarithm of the score, with and without what popularity adds
to it: see `ridge_link`.

Of a large catalog the most frequent items are regressed on each other; the others have score 0 and
are no context. Leading factors in their place would take in each group that they are made of: they
cannot be left out of the fit, and the base would be too sure of the groups it was fitted to.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from exfam.catalog.linear import chunks_of
from exfam.efa.base.classes import ItemClasses
from exfam.efa.base.ridge_link import (
    LinkInputs,
    PopularityTerms,
    RidgeNumbers,
    add_scores,
    ridge_link,
)
from exfam.efa.base.sets import Sets, Where, groups_of, held_items
from exfam.groups import Batch, Groups

# Sizes of contexts differ up to this, and their logs are counted from that of 4 or 5 items.
MOST_IN_CONTEXT, _MEAN_LOG_SIZE = 1_000, 1.5
# A group's share of its own fit is less than 1, but not in single precision.
_LEAST_REST = 1e-6
# Outputs that are computed at a time: as many as a processor's cache holds; elsewhere all.
_AT_ONCE = {"cpu": 2**18}
# Groups that are taken in at a time.
_GROUPS = 1_000

Codes = Int64[Tensor, "chosen"]
# Items of the precision.
Columns = Int64[Tensor, "columns"]


def precision_dtype(n_covered: int) -> torch.dtype:
    """What a precision is computed in: of many items, single precision."""
    return torch.float64 if n_covered < 1_000 else torch.float32


class RidgeItems(nn.Module):
    """Ridge scores with their link: outputs of every item at every element, given the others.

    In training mode the element's whole group is taken out of the fit, in closed form: there it
    must be one that the precision was made of.
    Source: Steck (2019), Embarrassingly Shallow Autoencoders for Sparse Data, for the scores.
    """

    direction = "bidirectional"
    precision: Tensor
    row: Tensor
    count: Tensor
    numbers: Tensor
    # Items that popularity is a share of: those of the fit, not those added since.
    n_counted: int
    # Smaller contexts, of which the fit saw few or none, count as of this size; where it is above
    # 1, outputs without any context are log popularity.
    least_size: float = 1.0

    def __init__(
        self,
        precision: Float[Tensor, "covered covered"],
        *,
        row: Int64[Tensor, "items"],
        count: Float[Tensor, "items"],
        numbers: Float[Tensor, "two six"],
    ) -> None:
        """`row`: of each item in the precision, -1 for none."""
        super().__init__()
        self.register_buffer("precision", precision)
        self.register_buffer("row", row)
        self.register_buffer("count", count)
        self.register_buffer("numbers", numbers)
        self.n_counted = len(count)
        # Where they say more than scores alone do.
        self.classes: ItemClasses | None = None

    @property
    def n_items(self) -> int:
        """How many outputs there are."""
        return len(self.count)

    @property
    def all_numbers(self) -> Float[Tensor, "two numbers"]:
        """Those of the link, and of the classes' weight if there are any."""
        if self.classes is None:
            return self.numbers
        return torch.cat([self.numbers, self.classes.weight[:, None]], 1)

    def set_numbers(self, numbers: Float[Tensor, "two numbers"]) -> None:
        """Set them."""
        self.numbers.copy_(numbers[:, :6])
        if self.classes is not None:
            self.classes.weight.copy_(numbers[:, 6])

    def outputs(self, batch: Batch, where: Where, chosen: Codes) -> Float[Tensor, "rows chosen"]:
        """Outputs of the chosen items at the elements at `where`."""
        batch, where = groups_of(batch, where)
        contexts = self._contexts(batch, where, chosen)
        eta = self._linked(batch, where, chosen, contexts)
        if self.classes is not None:
            weight = self.classes.weights(contexts.log_size)[contexts.of_row]
            for rows, lift in self.classes.lifts(batch, where).of(chosen):
                eta[rows].addcmul_(weight[rows], lift)
        return eta

    def _linked(
        self, batch: Batch, where: Where, chosen: Codes, contexts: "_Contexts"
    ) -> Float[Tensor, "rows chosen"]:
        """Outputs of scores and popularity alone."""
        numbers = RidgeNumbers.at(self.numbers, contexts.log_size)
        terms, row = PopularityTerms.of(contexts.log_popularity, numbers), contexts.of_row
        column = self.row[chosen]
        covered = (column >= 0).nonzero()[:, 0]
        is_whole = len(covered) == len(chosen)
        eta = self.precision.new_empty(len(row), len(chosen))
        if not is_whole:
            # The others have no score: theirs are the same in all contexts of a kind.
            without = PopularityTerms(terms.added.clone(), terms.share)
            nothing = torch.zeros_like(terms.added)
            torch.index_select(add_scores(without, nothing, numbers), 0, row, out=eta)
            terms = terms.among(covered)
        scores = self._scores(batch, where, column[covered])
        numbers = RidgeNumbers.at(self.numbers, contexts.log_size[row])
        size = max(1, _AT_ONCE.get(eta.device.type, eta.numel()) // max(1, len(chosen)))
        for rows in chunks_of(len(eta) if len(covered) else 0, size):
            some = add_scores(terms.rows(row[rows]), scores.at(rows), numbers.rows(rows))
            if is_whole:
                eta[rows] = some
            else:
                eta[rows].index_copy_(1, covered, some)
        return eta

    def own(self, batch: Batch, where: Where, item: Int64[Tensor, "rows"]) -> Float[Tensor, "rows"]:
        """The output of one item a row, without the outputs of all items of all rows."""
        batch, where = groups_of(batch, where)
        distinct, column = item.unique(return_inverse=True)
        log_size, popularity, row = self._contexts(batch, where, distinct)
        popularity = popularity.expand(len(log_size), -1)[row, column]
        score = self._own_scores(batch, where, item)
        inputs = LinkInputs(score[:, None], popularity[:, None], log_size[row])
        eta = ridge_link(inputs, self.numbers)[:, 0]
        return eta + self.lift(batch, where, item)

    def lift(
        self, batch: Batch, where: Where, item: Int64[Tensor, "rows"]
    ) -> Float[Tensor, "rows"]:
        """What the classes of groups add to the output of one item a row."""
        if self.classes is None:
            return self.count.new_zeros(len(item))
        batch, where = groups_of(batch, where)
        lift = self.classes.lifts(batch, where).of_own(item)
        return lift * self.classes.weights(self._log_size(batch, where))[:, 0]

    def log_popularity(
        self, batch: Batch, where: Where, chosen: Codes
    ) -> Float[Tensor, "rows_or_one chosen"]:
        """Of the chosen items, at the elements at `where`."""
        if not self.training:
            return self._log_popularity(chosen)
        batch, where = groups_of(batch, where)
        return self._log_popularity_without(batch, chosen)[where[0]]

    def link_inputs(self, batch: Batch, where: Where, chosen: Codes) -> LinkInputs:
        """What the outputs of the chosen items at the elements at `where` are made of."""
        batch, where = groups_of(batch, where)
        log_size, popularity, row = self._contexts(batch, where, chosen)
        column = self.row[chosen]
        covered = (column >= 0).nonzero()[:, 0]
        score = self._scores(batch, where, column[covered]).at(slice(0, len(row)))
        if len(covered) < len(chosen):
            zeros = score.new_zeros(len(score), len(chosen))
            score = zeros.index_copy_(1, covered, score)
        popularity = popularity.index_select(0, row) if self.training else popularity
        return LinkInputs(score, popularity, log_size[row])

    def _contexts(self, batch: Batch, where: Where, chosen: Codes) -> "_Contexts":
        log_size, row = self._log_size(batch, where).unique(return_inverse=True)
        if not self.training:
            return _Contexts(log_size, self._log_popularity(chosen), row)
        # There each group has a popularity of its own.
        n_sizes = len(log_size)
        kind, row = (where[0] * n_sizes + row).unique(return_inverse=True)
        popularity = self._log_popularity_without(batch, chosen)
        return _Contexts(log_size[kind % n_sizes], popularity[kind // n_sizes], row)

    def _log_size(self, batch: Batch, where: Where) -> Float[Tensor, "rows"]:
        sets = Sets.of(batch, self.n_items)
        size = sets.totals(torch.ones_like(sets.item, dtype=self.count.dtype))[where[0]]
        others = size - (sets.left_out[where] >= 0).to(size)
        log_size = others.clamp(self.least_size, MOST_IN_CONTEXT).log() - _MEAN_LOG_SIZE
        if self.least_size == 1.0:
            return log_size
        return log_size.masked_fill(others == 0, -torch.inf)

    def add(self, groups: Groups) -> None:
        """Take in further groups as if they had been fitted too; penalties and numbers stay."""
        held = held_items(groups, self.n_items)
        covered = (self.row >= 0).cpu().numpy()
        precision = self.precision.cpu().to(precision_dtype(int(covered.sum())))
        if self.classes is not None:
            self.classes.add(held, groups.start)
        held = held.astype(precision.numpy().dtype)
        for first in range(0, len(groups), _GROUPS):
            rows = held[first : first + _GROUPS][:, covered]
            # The identity of Woodbury: the inverse of the Gram matrix with these rows in it.
            product = rows @ precision.numpy()
            inner = torch.from_numpy(rows @ product.T)
            inner.diagonal().add_(1.0)
            added = torch.from_numpy(product)
            precision.addmm_(added.T, torch.linalg.solve(inner, added), alpha=-1)
        self.precision.copy_(precision)
        self.count += torch.from_numpy(np.asarray(held.sum(0)).ravel()).to(self.count)

    def contributions(
        self, batch: Batch, where: Where, item: Int64[Tensor, "rows"]
    ) -> tuple[Float[Tensor, "rows"], Float[Tensor, "rows length"]]:
        """The score of one item a row without context, 0, and what each element adds: -P_ij / P_jj.

        In evaluation mode. NaN for what is no known item of the context; an item that it has
        several times counts once, in equal shares.
        """
        assert batch.item is not None
        known = batch.present & (batch.item >= 0)
        same = (batch.item[:, :, None] == batch.item[:, None]) & known[:, None]
        seen, own = batch.item[where[0]], batch.item[where][:, None]
        times = same.sum(-1)[where[0]] - (seen == own).long()
        in_context = known[where[0]].scatter(1, where[1][:, None], False)
        row, column = self.row[seen.clamp_min(0)], self.row[item][:, None]
        added = -self.precision[row, column] / self.precision.diagonal()[column]
        added = torch.where((row >= 0) & (column >= 0), added, 0.0) / times.clamp_min(1)
        return added.new_zeros(len(item)), added.masked_fill(~in_context, torch.nan)

    def _log_popularity(self, chosen: Codes) -> Float[Tensor, "one chosen"]:
        total = self.count[: self.n_counted].sum() + 0.5 * self.n_counted
        return ((self.count[chosen] + 0.5) / total).log()[None]

    def _scores(self, batch: Batch, where: Where, column: Columns) -> "_Scores":
        code = self._rows_of(batch)
        # Of the precision, rows of the items that are there: few of many. Selected, not indexed: an
        # index of a whole dimension takes several times as long.
        items, there = code[code >= 0].unique(return_inverse=True)
        batch = replace(batch, item=code.masked_scatter(code >= 0, there))
        items = items if len(items) else column.new_zeros(1)
        precision = self.precision.index_select(0, items)
        if len(column) < len(self.precision):
            precision = precision.index_select(1, column)
        sets = Sets.of(batch, len(items))
        of_seen = sets.sums_of(precision)
        scores = _Scores(
            precision=precision,
            diagonal=self.precision.diagonal()[column],
            of_seen=of_seen,
            group=where[0],
            left_out=sets.left_out[where],
        )
        if not self.training:
            return scores
        # What context ranges show is no part of the group's row in the fit.
        own, of_own = sets, of_seen
        if bool(batch.steps_back.any()):
            own = Sets.of(batch, len(items), own=True)
            of_own = own.sums_of(precision)
        return replace(scores, of_own=of_own, without=self._shares(sets, own, items, where))

    def _rows_of(self, batch: Batch) -> Int64[Tensor, "batch length"]:
        """Rows of the elements' items in the precision, -1 for none."""
        assert batch.item is not None
        return torch.where(batch.item >= 0, self.row[batch.item.clamp_min(0)], -1)

    def _own_scores(
        self, batch: Batch, where: Where, item: Int64[Tensor, "rows"]
    ) -> Float[Tensor, "rows"]:
        score, column = self.precision.new_zeros(len(item)), self.row[item]
        covered = (column >= 0).nonzero()[:, 0]
        here, column = (where[0][covered], where[1][covered]), column[covered]
        batch = replace(batch, item=self._rows_of(batch))
        sets = Sets.of(batch, len(self.precision))
        left_out, diagonal = sets.left_out[here], self.precision.diagonal()[column]
        of_left_out = torch.where(left_out >= 0, self.precision[left_out.clamp_min(0), column], 0.0)
        of_seen = sets.sums_of_one(self.precision, here[0], column)
        product = of_seen - of_left_out
        if not self.training:
            return score.index_copy_(0, covered, product.div_(diagonal).neg_())
        own, of_own = sets, of_seen
        if bool(batch.steps_back.any()):
            own = Sets.of(batch, len(self.precision), own=True)
            of_own = own.sums_of_one(self.precision, here[0], column)
        every = torch.arange(len(self.precision), device=item.device)
        share, rest = (number[:, 0] for number in self._shares(sets, own, every, here))
        return score.index_copy_(0, covered, _without_group(product, diagonal, of_own, share, rest))

    def _shares(
        self, sets: Sets, own: Sets, items: Columns, where: Where
    ) -> tuple[Float[Tensor, "rows one"], Float[Tensor, "rows one"]]:
        """What scores owe to a group's row in the fit, and what is left of the row without it."""
        at_entries = own.sums_at(self.precision, sets, items)
        total = sets.totals(torch.where(sets.in_(own), at_entries, 0.0))
        rest = (1 - total).clamp_min(_LEAST_REST)[where[0], None]
        share = (sets.totals(at_entries)[where[0]] - sets.at(at_entries, where))[:, None] / rest
        return share, rest

    def _log_popularity_without(
        self, batch: Batch, chosen: Codes
    ) -> Float[Tensor, "groups chosen"]:
        """Log popularity in all other groups."""
        sets = Sets.of(batch, self.n_items, own=True)
        smooth = self.count + 0.5
        size = sets.totals(torch.ones_like(sets.item, dtype=smooth.dtype))
        left = (smooth[chosen] - sets.among(chosen)).clamp_min(0.5)
        return (left / (smooth.sum() - size)[:, None]).log()


class _Contexts(NamedTuple):
    """Kinds of contexts that have the same outputs of items without a score; that of each row."""

    log_size: Float[Tensor, "kinds"]
    log_popularity: Float[Tensor, "kinds_or_one chosen"]
    of_row: Int64[Tensor, "rows"]


@dataclass(frozen=True, eq=False)
class _Scores:
    """Scores of some columns of the precision at some elements, computed some rows at a time.

    `precision`: of items that are there; `of_seen`, `of_own`: sums over each group's items;
    `left_out`: of the items, the one that an element's context lacks, or -1; `without`: shares and
    rests, where the group is taken out of the fit.
    """

    precision: Float[Tensor, "there columns"]
    diagonal: Float[Tensor, "columns"]
    of_seen: Float[Tensor, "groups columns"]
    group: Int64[Tensor, "rows"]
    left_out: Int64[Tensor, "rows"]
    of_own: Float[Tensor, "groups columns"] | None = None
    without: tuple[Float[Tensor, "rows one"], Float[Tensor, "rows one"]] | None = None

    def at(self, rows: slice) -> Float[Tensor, "some columns"]:
        """Those of some rows."""
        group, item = self.group[rows], self.left_out[rows]
        # An item that the group has twice stays in its own context.
        left_out = self.precision.index_select(0, item.clamp_min(0)).mul_((item >= 0)[:, None])
        product = self.of_seen.index_select(0, group).sub_(left_out)
        if self.of_own is None or self.without is None:
            return product.div_(self.diagonal).neg_()
        share, rest = (part[rows] for part in self.without)
        of_own = self.of_own.index_select(0, group)
        return _without_group(product, self.diagonal, of_own, share, rest)


def _without_group(
    product: Float[Tensor, "*scores"],
    diagonal: Tensor,
    of_own: Float[Tensor, "*scores"],
    share: Tensor,
    rest: Tensor,
) -> Float[Tensor, "*scores"]:
    """Scores of a fit without a row, in place of the products, by the identity of Woodbury."""
    product.addcmul_(share, of_own)
    return product.div_(of_own.square_().div_(rest).add_(diagonal)).neg_()
