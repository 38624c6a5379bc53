"""The fitted model of one column given any of the others."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.special import log_softmax

from exfam.estimator.gain import Gain
from exfam.families import Categorical, Family
from exfam.tables.base.encode import TableCode
from exfam.tables.base.forest import Forest
from exfam.tables.base.heads import OrderedHead
from exfam.tables.base.later import LaterPool, pool_of_rows
from exfam.tables.base.linear_heads import LinearHead
from exfam.tables.base.pool import Pool, disagreement, doubt_outside, widened
from exfam.tables.base.residual_network import ResidualNetwork
from exfam.tables.base.target_statistics import FoldStatistics
from exfam.tables.base.unit import Unit
from exfam.tables.base.views import GaussianFill, View, view_of
from exfam.tables.data import Cells

_ROWS_AT_ONCE = 8192
# The log-probability of a label that a forest was never shown, and the least by ridge regression.
_UNSEEN = -7.0


@dataclass(frozen=True, eq=False)
class FoldMembers:
    """What was fitted to the rows of one fold; a member that was not is None.

    `constant`: what is said of a row of which nothing is known: log shares of labels, or a location
    `products`: the linear predictor with products of columns; None where no fold gains by any
    `ridge`: ridge regression, logistic of labels, without logarithms of numbers far out
    """

    constant: Float64[np.ndarray, " outputs"]
    ridge: LinearHead | None
    linear: LinearHead
    products: LinearHead | None = None
    ordered: LinearHead | None = None
    network: ResidualNetwork | None = None
    trees: Forest | None = None
    trees_masked: Forest | None = None
    statistics: FoldStatistics | None = None

    def seen(self, view: View) -> View:
        """The view as the members see it: with statistics of columns with many labels."""
        return view if self.statistics is None else self.statistics.widened(view)

    def correction(self, view: View) -> Float64[np.ndarray, "rows outputs"]:
        """What the network adds to the outputs of the linear predictor."""
        assert self.network is not None
        return self.network.correction(self.linear.standardized(view.features))


@dataclass(frozen=True, eq=False)
class ResponseModel:
    """p(column | any others): members of every fold, pooled by the share of missing cells.

    `n_labels`: of labels, how many; `unit`: of numbers
    `gain`: what network and trees added to the linear predictors; None if there are none
    `later`: of rows later than all of training; None of a table without dates
    """

    code: TableCode
    fill: GaussianFill
    folds: tuple[FoldMembers, ...]
    pool: Pool
    n_labels: int | None
    unit: Unit
    gain: Gain | None = None
    later: LaterPool | None = None

    @property
    def family(self) -> Family:
        return self.unit.family if self.n_labels is None else Categorical(self.n_labels)

    @property
    def members(self) -> tuple[str, ...]:
        """Names of the members, in the order of the pool's weights."""
        return members_of(self.folds[0])

    def eta(self, cells: Cells) -> Float64[np.ndarray, "rows params"]:
        """Parameters of the column's family, by row."""
        parts = [
            self.eta_of(view_of(self.code, self.fill, cells[first : first + _ROWS_AT_ONCE]))
            for first in range(0, len(cells), _ROWS_AT_ONCE)
        ]
        return np.concatenate(parts) if parts else np.empty((0, self.family.n_params))

    def eta_of(self, view: View) -> Float64[np.ndarray, "rows params"]:
        """The same, of rows as members see them."""
        if self.n_labels is not None:
            weights = pool_of_rows(view, self.pool, self.later).weights
            pooled = sum(
                np.einsum("rm,mrk->rk", weights, label_log_probs(fold, view, self.n_labels))
                for fold in self.folds
            )
            return log_softmax(pooled / len(self.folds), axis=1)
        df = pool_of_rows(view, self.pool, self.later).df
        return self.unit.eta(*self.numbers_of(view), df)

    def numbers_of(
        self, view: View
    ) -> tuple[Float64[np.ndarray, "rows"], Float64[np.ndarray, "rows"]]:
        """Of a column of numbers the location and log scale, in the unit."""
        weights, scales, _, added = pool_of_rows(view, self.pool, self.later)
        pairs = [number_outputs(fold, view) for fold in self.folds]
        locations, log_scale = [own for own, _ in pairs], np.mean([own for _, own in pairs], axis=0)
        location = np.mean([np.einsum("rm,mr->r", weights, own) for own in locations], axis=0)
        apart = n_apart(self.members)
        inner = disagreement(locations, n_apart=apart)
        outer = doubt_outside(locations, weights, view.outside, n_apart=apart)
        log_scale = widened(scales, log_scale, inner, outer) + added
        return location, log_scale


def n_apart(members: Sequence[str]) -> int:
    """How many of the first members have no part in the disagreement: constant and ridge."""
    return members.index("linear")


def members_of(fold: FoldMembers) -> tuple[str, ...]:
    """Names of the members that a fold has."""
    names = [name for name in vars(fold) if name != "statistics"]
    return tuple(name for name in names if getattr(fold, name) is not None)


def label_log_probs(
    fold: FoldMembers, view: View, n_labels: int
) -> Float64[np.ndarray, "members rows labels"]:
    """What each member says of each label."""
    view = fold.seen(view)
    linear = fold.linear.outputs(view.features)
    outputs = [np.broadcast_to(fold.constant, linear.shape)]
    if fold.ridge is not None:
        log_probs = log_softmax(fold.ridge.outputs(view.plain), axis=1)
        outputs.append(np.maximum(log_probs, _UNSEEN))
    outputs.append(linear)
    if fold.products is not None:
        outputs.append(fold.products.outputs(view.features))
    if fold.ordered is not None:
        score = fold.ordered.outputs(view.features)[:, 0]
        outputs.append(OrderedHead(n_labels).log_probs(score, fold.ordered.shared))
    if fold.network is not None:
        outputs.append(linear + fold.correction(view))
    for forest in _forests(fold):
        outputs.append(_all_labels(forest, forest.log_probs(view.for_trees), n_labels))
    return log_softmax(np.stack(outputs), axis=2)


def number_outputs(
    fold: FoldMembers, view: View
) -> tuple[Float64[np.ndarray, "members rows"], Float64[np.ndarray, "rows"]]:
    """Each member's location, and the log scale by linear predictor and network."""
    view = fold.seen(view)
    linear = fold.linear.outputs(view.features)[:, 0]
    locations = [np.broadcast_to(fold.constant, linear.shape)]
    if fold.ridge is not None:
        locations.append(fold.ridge.outputs(view.plain)[:, 0])
    locations.append(linear)
    if fold.products is not None:
        locations.append(fold.products.outputs(view.features)[:, 0])
    log_scale = np.full(len(linear), fold.linear.shared[0])
    if fold.network is not None:
        added = fold.correction(view)
        locations.append(linear + added[:, 0])
        log_scale = log_scale + added[:, 1]
    locations += [forest.raw(view.for_trees)[:, 0] for forest in _forests(fold)]
    return np.stack(locations), log_scale


def _all_labels(
    forest: Forest, log_probs: Float64[np.ndarray, "rows classes"], n_labels: int
) -> Float64[np.ndarray, "rows labels"]:
    """The same with labels that the forest was never shown, as improbable as half a row."""
    every = np.full((len(log_probs), n_labels), _UNSEEN)
    every[:, forest.classes] = log_probs
    return every


def _forests(fold: FoldMembers) -> Sequence[Forest]:
    forests = (fold.trees, fold.trees_masked)
    return [forest for forest in forests if forest is not None]
