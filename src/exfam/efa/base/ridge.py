"""Ridge scores of item sets: each item regressed on the others, every conditional left out exactly.

A group is the set x of its items, 0 or 1 an item. With the precision P = (X'X + strength I)^-1 the
regression of item j on the others scores it, from the context c of a target,

    s_j = c_j - (P c)_j / P_jj,

an estimate of the probability that a group with these items holds j (as in EASE). The output is a
popularity, the score and the logarithm of the score, each with a weight of its own:

    eta_j = a log pop_j + g s_j + c log(softplus(100 s_j) / 100 + kappa pop_j)
"""

from typing import NamedTuple, Protocol

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.functional import softplus

from exfam.efa.base.sets import Sets, Where
from exfam.groups import Batch

# Scores far below 1 / _SHARPNESS count as nothing.
_SHARPNESS = 100.0
# A group's share of its own fit is less than 1, but not in single precision.
_LEAST_REST = 1e-6

Codes = Int64[Tensor, "chosen"]


class RidgeNumbers(NamedTuple):
    """Weights of log popularity, score and log link, and the log of the popularity in the link."""

    popularity: Float[Tensor, ""]
    score: Float[Tensor, ""]
    link: Float[Tensor, ""]
    log_kappa: Float[Tensor, ""]


def ridge_link(
    score: Float[Tensor, "rows chosen"],
    log_popularity: Float[Tensor, "rows_or_one chosen"],
    numbers: RidgeNumbers,
) -> Float[Tensor, "rows chosen"]:
    """Outputs of scores: `a log pop + g s + c log(softplus(100 s) / 100 + kappa pop)`."""
    chance = softplus(score * _SHARPNESS) / _SHARPNESS
    chance = chance + (numbers.log_kappa + log_popularity).exp()
    return numbers.popularity * log_popularity + numbers.score * score + numbers.link * chance.log()


class Precision(Protocol):
    """P = (X'X + strength I)^-1 of groups x items, at chosen items."""

    @property
    def n_items(self) -> int: ...

    def diagonal(self, chosen: Codes) -> Float[Tensor, "chosen"]:
        """P_jj."""

    def of_items(self, item: Int64[Tensor, "rows"], chosen: Codes) -> Float[Tensor, "rows chosen"]:
        """P_ij of each item i."""

    def of_sets(self, sets: Sets, chosen: Codes) -> Float[Tensor, "groups chosen"]:
        """(P x)_j of each set x."""

    def at_entries(self, sets: Sets, others: Sets) -> Float[Tensor, "entries"]:
        """(P x)_j of each set x at the items of others, of the same groups."""


class DensePrecision(nn.Module):
    """The precision of a catalog that is not large, items x items."""

    matrix: Tensor

    def __init__(self, matrix: Float[Tensor, "items items"]) -> None:
        super().__init__()
        self.register_buffer("matrix", matrix)

    @property
    def n_items(self) -> int:
        return len(self.matrix)

    def diagonal(self, chosen: Codes) -> Float[Tensor, "chosen"]:
        return self.matrix.diagonal()[chosen]

    def of_items(self, item: Int64[Tensor, "rows"], chosen: Codes) -> Float[Tensor, "rows chosen"]:
        rows = self.matrix[item]
        return rows if len(chosen) == self.n_items else rows[:, chosen]

    def of_sets(self, sets: Sets, chosen: Codes) -> Float[Tensor, "groups chosen"]:
        return sets.totals(self.of_items(sets.item, chosen))

    def at_entries(self, sets: Sets, others: Sets) -> Float[Tensor, "entries"]:
        every = torch.arange(self.n_items, device=sets.item.device)
        return self.of_sets(sets, every)[others.group, others.item]


class LowRankPrecision(nn.Module):
    """The precision of a large catalog, of the leading factors of X: (I - V diag(d) V') / strength.

    With X'X = V diag(e) V' nearly, d = e / (e + strength).
    """

    factors: Tensor
    shares: Tensor
    strength: Tensor

    def __init__(
        self,
        factors: Float[Tensor, "items rank"],
        shares: Float[Tensor, "rank"],
        strength: Float[Tensor, ""],
    ) -> None:
        super().__init__()
        self.register_buffer("factors", factors)
        self.register_buffer("shares", shares)
        self.register_buffer("strength", strength)

    @property
    def n_items(self) -> int:
        return len(self.factors)

    def diagonal(self, chosen: Codes) -> Float[Tensor, "chosen"]:
        return (1 - self.factors[chosen].square() @ self.shares) / self.strength

    def of_items(self, item: Int64[Tensor, "rows"], chosen: Codes) -> Float[Tensor, "rows chosen"]:
        same = (item[:, None] == chosen).to(self.factors.dtype)
        return (same - (self.factors[item] * self.shares) @ self.factors[chosen].T) / self.strength

    def of_sets(self, sets: Sets, chosen: Codes) -> Float[Tensor, "groups chosen"]:
        total = sets.totals(self.factors[sets.item]) * self.shares
        return (sets.among(chosen) - total @ self.factors[chosen].T) / self.strength

    def at_entries(self, sets: Sets, others: Sets) -> Float[Tensor, "entries"]:
        total = sets.totals(self.factors[sets.item]) * self.shares
        product = (total[others.group] * self.factors[others.item]).sum(1)
        return (others.in_(sets).to(product) - product) / self.strength


class RidgeItems(nn.Module):
    """Ridge scores with their link: outputs of every item at every element, given the others.

    In training mode the element's whole group is taken out of the fit, in closed form: there it
    must be one that the precision was made of.
    Source: Steck (2019), Embarrassingly Shallow Autoencoders for Sparse Data, for the scores.
    """

    direction = "bidirectional"
    count: Tensor
    numbers: Tensor

    def __init__(
        self,
        precision: DensePrecision | LowRankPrecision,
        *,
        count: Float[Tensor, "items"],
        numbers: Float[Tensor, "four"],
    ) -> None:
        super().__init__()
        self.precision = precision
        self.register_buffer("count", count)
        self.register_buffer("numbers", numbers)

    @property
    def n_items(self) -> int:
        """How many outputs there are."""
        return self.precision.n_items

    def outputs(self, batch: Batch, where: Where, chosen: Codes) -> Float[Tensor, "rows chosen"]:
        """Outputs of the chosen items at the elements at `where`."""
        return ridge_link(*self.link_inputs(batch, where, chosen), RidgeNumbers(*self.numbers))

    def link_inputs(
        self, batch: Batch, where: Where, chosen: Codes
    ) -> tuple[Float[Tensor, "rows chosen"], Float[Tensor, "rows_or_one chosen"]]:
        """Scores of the chosen items at the elements at `where`, and their log popularity."""
        sets = Sets.of(batch, self.n_items)
        group, item = where[0], sets.left_out[where]
        # An item that the group has twice stays in its own context.
        lacks = (item >= 0)[:, None]
        left_out = torch.where(lacks, self.precision.of_items(item.clamp_min(0), chosen), 0.0)
        of_seen = self.precision.of_sets(sets, chosen)
        product = of_seen[group] - left_out
        diagonal = self.precision.diagonal(chosen)
        context = sets.among(chosen)[group] - (item[:, None] == chosen).to(product)
        if not self.training:
            return context - product / diagonal, self._log_popularity(chosen)
        # What context ranges show is no part of the group's row in the fit.
        own = Sets.of(batch, self.n_items, own=True) if batch.steps_back.any() else sets
        of_own = of_seen if own is sets else self.precision.of_sets(own, chosen)
        at_entries = self.precision.at_entries(own, sets)
        total = sets.totals(torch.where(sets.in_(own), at_entries, 0.0))
        rest = (1 - total).clamp_min(_LEAST_REST)[group, None]
        share = (sets.totals(at_entries)[group] - sets.at(at_entries, where))[:, None] / rest
        of_own = of_own[group]
        score = (product + share * of_own) / (diagonal + of_own.square() / rest)
        return context - score, self._log_popularity_without(own, chosen)[group]

    def _log_popularity(self, chosen: Codes) -> Float[Tensor, "one chosen"]:
        smooth = self.count + 0.5
        return (smooth[chosen] / smooth.sum()).log()[None]

    def _log_popularity_without(self, sets: Sets, chosen: Codes) -> Float[Tensor, "groups chosen"]:
        """Log popularity in all other groups."""
        smooth = self.count + 0.5
        size = sets.totals(torch.ones_like(sets.item, dtype=smooth.dtype))
        left = (smooth[chosen] - sets.among(chosen)).clamp_min(0.5)
        return (left / (smooth.sum() - size)[:, None]).log()
