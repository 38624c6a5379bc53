"""Whether neighbors are worth a kernel, by groups that it was not fitted to."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from exfam.efa.values.cells import ValueCells
from exfam.efa.values.factor_em import FactorModel
from exfam.efa.values.features import ValueFeatures, add_near, joined, spread_of
from exfam.efa.values.fit_near import MOST_TARGETS, fit_near
from exfam.efa.values.near_kernel import NearKernel

# Of so many cells, or fewer, features of each part of the groups are by a kernel of the other ones;
# of more cells a kernel is fitted to few. And as many as it is judged by, at most.
FEW_CELLS, N_PARTS, MOST_JUDGED = 4 * MOST_TARGETS, 4, 10_000
# So many nats a value must be gained, and beyond them so many of all values together.
LEAST_GAIN, LEAST_IN_ALL = 0.002, 4.0

Groups = Int64[np.ndarray, "groups"]
# The mean log-density of some cells, of which these are the features, by a head fitted to them.
Judge = Callable[[ValueFeatures, Int64[np.ndarray, "cells"]], float]


@dataclass(frozen=True, eq=False)
class NearCells:
    """Standardized cells and their features without neighbors, of those that are `held`.

    The others are no context. `features` and `held` are in order. Without a judge there is a
    kernel, whatever it gains.
    """

    cells: ValueCells
    features: ValueFeatures
    held: Int64[np.ndarray, "held"]
    model: FactorModel
    nats: Judge | None
    causal: bool
    ordered: bool
    seed: int

    def with_kernel(self) -> tuple[NearKernel, ValueFeatures] | None:
        """A kernel and the features with it; None if these gain nothing by it."""
        every = np.arange(self.cells.n_groups)
        kernel = self._kernel(every)
        if kernel is None:
            return None
        if self.nats is None:
            return kernel, self._features(kernel, every)[1]
        order = np.random.default_rng(self.seed).permutation(every)
        if len(self.held) <= FEW_CELLS:
            found = self._by_others(order)
            return None if found is None or not self._is_ahead(found) else (kernel, found[1])
        some = int((np.cumsum(self.cells.length[order]) <= MOST_JUDGED).sum())
        if not self._is_ahead(self._features(kernel, order[: max(1, some)])):
            return None
        return kernel, self._features(kernel, every)[1]

    def _by_others(self, order: Groups) -> tuple[np.ndarray, ValueFeatures] | None:
        """Which of `held` are first, second, ..., and their features."""
        parts = []
        for number in range(min(N_PARTS, len(order))):
            part = order[number::N_PARTS]
            kernel = self._kernel(np.setdiff1d(order, part))
            if kernel is None:
                return None
            parts.append(self._features(kernel, part))
        which = np.concatenate([part[0] for part in parts])
        back = np.argsort(which)
        return which[back], joined([part[1] for part in parts]).take(back)

    def _kernel(self, groups: Groups) -> NearKernel | None:
        """Fitted to some groups."""
        level = np.full(self.cells.n_cells, np.nan)
        level[self.held] = self.features.level
        residual = (self.cells.value - level) / spread_of(self.model, self.cells)
        others = ~np.isin(self.cells.group, groups)
        residual[others] = np.nan
        causal, ordered = self.causal, self.ordered
        return fit_near(self.cells, residual, causal=causal, ordered=ordered, seed=self.seed)

    def _features(self, kernel: NearKernel, groups: Groups) -> tuple[np.ndarray, ValueFeatures]:
        """Which of `held` are in some groups, and their features."""
        rows = self.cells.rows_of(groups)
        which = np.searchsorted(self.held, rows).clip(max=len(self.held) - 1)
        is_held = self.held[which] == rows
        features = self.features.take(which)
        features.level[~is_held] = np.nan
        found = add_near(features, kernel, self.model, self.cells.take(groups), causal=self.causal)
        return which[is_held], found.take(np.flatnonzero(is_held))

    def _is_ahead(self, found: tuple[np.ndarray, ValueFeatures]) -> bool:
        assert self.nats is not None
        which, features = found
        rows, least = self.held[which], LEAST_GAIN + LEAST_IN_ALL / len(which)
        return self.nats(features, rows) > self.nats(self.features.take(which), rows) + least
