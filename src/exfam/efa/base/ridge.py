"""Ridge scores of item sets: each item regressed on the others, every conditional left out exactly.

A group is the set x of its items, 0 or 1 an item. With the precision P = (X'X + D)^-1 the ridge
regression of item j on the others scores it, from the context c of a target,

    s_j = -(P c)_j / P_jj,    D_ii = strength * (count_i / mean count)^(1/4),

an estimate of the probability that a group with these items holds j (as in EASE), less 1 for items
of the context, so that the score's weight says whether they come again. The output is a
popularity, the score and the logarithm of the score, with and without what popularity adds to it:

    eta_j = a log pop_j + b (log pop_j + 6)^2 / 10
            + g s_j + c log(softplus(100 s_j) / 100 + kappa pop_j) + d log max(s_j, 1/10000)

with a, b, g, c, d and log kappa that are lines in the log of how many items the context has.

Of a large catalog the most frequent items are regressed on each other; the others have score 0 and
are no context. Leading factors in their place would take in each group that they are made of: they
cannot be left out of the fit, and the base would be too sure of the groups it was fitted to.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.functional import softplus

from exfam.efa.base.sets import Sets, Where, groups_of
from exfam.groups import Batch, Groups

# Scores far below 1 / _SHARPNESS count as nothing.
_SHARPNESS = 100.0
# Scores below this are alike in their own logarithm.
_LEAST_SCORE = 1e-4
# Sizes of contexts differ up to this, and their logs are counted from that of 4 or 5 items.
MOST_IN_CONTEXT, _MEAN_LOG_SIZE = 1_000, 1.5
# A group's share of its own fit is less than 1, but not in single precision.
_LEAST_REST = 1e-6
# Groups that are taken in at a time.
_GROUPS = 1_000

Codes = Int64[Tensor, "chosen"]
# Items of the precision.
Columns = Int64[Tensor, "columns"]


def precision_dtype(n_covered: int) -> torch.dtype:
    """What a precision is computed in: of many items, single precision."""
    return torch.float64 if n_covered < 1_000 else torch.float32


class RidgeNumbers(NamedTuple):
    """Weights of the terms of an output, and the log of the popularity in its link."""

    popularity: Float[Tensor, "rows one"]
    score: Float[Tensor, "rows one"]
    link: Float[Tensor, "rows one"]
    curve: Float[Tensor, "rows one"]
    log_score: Float[Tensor, "rows one"]
    log_kappa: Float[Tensor, "rows one"]

    @classmethod
    def at(
        cls, numbers: Float[Tensor, "two six"], log_size: Float[Tensor, "rows"]
    ) -> "RidgeNumbers":
        """Of contexts of these sizes: `numbers[0] + numbers[1] * log_size`."""
        return cls(*(numbers[0] + numbers[1] * log_size[:, None]).T[:, :, None])


class LinkInputs(NamedTuple):
    """Scores of some items, their log popularity, and the logs of the contexts' sizes.

    `log_size` is 0 at 4 or 5 items, and of none as of one.
    """

    score: Float[Tensor, "rows chosen"]
    log_popularity: Float[Tensor, "rows_or_one chosen"]
    log_size: Float[Tensor, "rows"]


def chance_of(score: Float[Tensor, "rows chosen"]) -> Float[Tensor, "rows chosen"]:
    """Scores as probabilities, above 0: `softplus(100 s) / 100`."""
    return softplus(score * _SHARPNESS) / _SHARPNESS


def curve_of(log_popularity: Float[Tensor, "rows chosen"]) -> Float[Tensor, "rows chosen"]:
    """What makes outputs a parabola in log popularity: `(log pop + 6)^2 / 10`."""
    return (log_popularity + 6).square() / 10


def log_of(score: Float[Tensor, "rows chosen"]) -> Float[Tensor, "rows chosen"]:
    """The logarithm of scores from 1/10000 on."""
    return score.clamp_min(_LEAST_SCORE).log()


def ridge_link(
    inputs: LinkInputs, numbers: Float[Tensor, "two six"]
) -> Float[Tensor, "rows chosen"]:
    """Outputs of scores and popularity, by the equation of this file."""
    at, (score, popularity, _) = RidgeNumbers.at(numbers, inputs.log_size), inputs
    chance = chance_of(score) + (at.log_kappa + popularity).exp()
    of_popularity = at.popularity * popularity + at.curve * curve_of(popularity)
    of_score = at.score * score + at.link * chance.log() + at.log_score * log_of(score)
    return of_popularity + of_score


def held_items(groups: Groups, n_items: int) -> scipy.sparse.csr_array:
    """Groups x items: 1 where a group has an item, context elements included."""
    assert groups.item is not None
    item = groups.item[groups.elements()]
    group = np.repeat(np.arange(len(groups)), groups.stop - groups.start)
    known = item >= 0
    shape = (len(groups), n_items)
    pairs = (np.ones(int(known.sum())), (group[known], item[known]))
    held = scipy.sparse.csr_array(pairs, shape=shape)
    held.sum_duplicates()
    held.data[:] = 1.0
    return held


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

    @property
    def n_items(self) -> int:
        """How many outputs there are."""
        return len(self.count)

    def outputs(self, batch: Batch, where: Where, chosen: Codes) -> Float[Tensor, "rows chosen"]:
        """Outputs of the chosen items at the elements at `where`."""
        covered = (self.row[chosen] >= 0).nonzero()[:, 0]
        if self.training or len(covered) == len(chosen):
            return ridge_link(self.link_inputs(batch, where, chosen), self.numbers)
        # The others have no score: theirs are the same in all contexts of a size.
        batch, where = groups_of(batch, where)
        log_size, size_of = self._log_size(batch, where).unique(return_inverse=True)
        popularity = self._log_popularity(chosen)
        nothing = popularity.new_zeros(len(log_size), len(chosen))
        eta = ridge_link(LinkInputs(nothing, popularity, log_size), self.numbers)[size_of]
        if len(covered):
            inputs = self.link_inputs(batch, where, chosen[covered])
            eta[:, covered] = ridge_link(inputs, self.numbers)
        return eta

    def link_inputs(self, batch: Batch, where: Where, chosen: Codes) -> LinkInputs:
        """What the outputs of the chosen items at the elements at `where` are made of."""
        batch, where = groups_of(batch, where)
        log_size = self._log_size(batch, where)
        column = self.row[chosen]
        covered = (column >= 0).nonzero()[:, 0]
        score = self._covered_scores(batch, where, column[covered])
        if len(covered) < len(chosen):
            zeros = score.new_zeros(len(score), len(chosen))
            score = zeros.index_copy_(1, covered, score)
        if not self.training:
            return LinkInputs(score, self._log_popularity(chosen), log_size)
        popularity = self._log_popularity_without(batch, chosen)[where[0]]
        return LinkInputs(score, popularity, log_size)

    def _log_size(self, batch: Batch, where: Where) -> Float[Tensor, "rows"]:
        sets = Sets.of(batch, self.n_items)
        size = sets.totals(torch.ones_like(sets.item, dtype=self.count.dtype))[where[0]]
        others = size - (sets.left_out[where] >= 0).to(size)
        return others.clamp(1, MOST_IN_CONTEXT).log() - _MEAN_LOG_SIZE

    def add(self, groups: Groups) -> None:
        """Take in further groups as if they had been fitted too; penalties and numbers stay."""
        held = held_items(groups, self.n_items)
        covered = (self.row >= 0).cpu().numpy()
        precision = self.precision.cpu().to(precision_dtype(int(covered.sum())))
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
        total = self.count.sum() + 0.5 * self.n_items
        return ((self.count[chosen] + 0.5) / total).log()[None]

    def _covered_scores(
        self, batch: Batch, where: Where, column: Columns
    ) -> Float[Tensor, "rows columns"]:
        assert batch.item is not None
        code = torch.where(batch.item >= 0, self.row[batch.item.clamp_min(0)], -1)
        # Of the precision, rows of the items that are there: few of many.
        items, there = code[code >= 0].unique(return_inverse=True)
        batch = replace(batch, item=code.masked_scatter(code >= 0, there))
        items = items if len(items) else column.new_zeros(1)
        precision, n_there = self.precision[items], len(items)
        chosen = precision if len(column) == len(self.precision) else precision[:, column]
        sets = Sets.of(batch, n_there)
        group, item = where[0], sets.left_out[where]
        of_seen = sets.sums_of(chosen)
        # An item that the group has twice stays in its own context.
        left_out = torch.where((item >= 0)[:, None], chosen[item.clamp_min(0)], 0.0)
        product = of_seen[group] - left_out
        diagonal = self.precision.diagonal()[column]
        if not self.training:
            return -product / diagonal
        # What context ranges show is no part of the group's row in the fit.
        own, of_own = sets, of_seen
        if bool(batch.steps_back.any()):
            own = Sets.of(batch, n_there, own=True)
            of_own = own.sums_of(chosen)
        at_entries = own.sums_at(precision[:, items], sets)
        total = sets.totals(torch.where(sets.in_(own), at_entries, 0.0))
        rest = (1 - total).clamp_min(_LEAST_REST)[group, None]
        share = (sets.totals(at_entries)[group] - sets.at(at_entries, where))[:, None] / rest
        of_own = of_own[group]
        return -(product + share * of_own) / (diagonal + of_own.square() / rest)

    def _log_popularity_without(
        self, batch: Batch, chosen: Codes
    ) -> Float[Tensor, "groups chosen"]:
        """Log popularity in all other groups."""
        sets = Sets.of(batch, self.n_items, own=True)
        smooth = self.count + 0.5
        size = sets.totals(torch.ones_like(sets.item, dtype=smooth.dtype))
        left = (smooth[chosen] - sets.among(chosen)).clamp_min(0.5)
        return (left / (smooth.sum() - size)[:, None]).log()
