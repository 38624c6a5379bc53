"""The factor model of values, fitted by variational expectation and maximization.

A standardized value of item i in group u is

    z = mu + b_i + l_i0 a_u + l_i . f_u + e,   e ~ N(0, s_i^2 / w_u)

with b_i ~ N(0, t_b), l_i0 ~ N(1, p_0), l_ik ~ N(0, p_k), a_u ~ N(0, t_a / w_u) and
f_u ~ N(0, I / w_u): an item level, a group level, r factors, a noise of every item and a scale of
every group. The posteriors of items and of groups are independent Gaussians.
"""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import scipy.sparse
from jaxtyping import Float64, Int64

from exfam.efa.values.cells import ValueCells
from exfam.efa.values.effects import AttributeEffects, fit_effects

N_PASSES = 25
# How many cells the prior of an item's noise, and of a group's weight, counts as.
_NOISE_CELLS, _WEIGHT_CELLS = 10.0, 10.0
# The start's shrinkage of item and group levels, in cells, and its alternations.
_LEVEL_CELLS, _ALTERNATIONS = 5.0, 5
# The mean square of a factor's loadings at the start, in units of the noise.
_LOADING_SHARE = 0.1
# From which pass on priors and groups' weights are renewed, and factors have priors of their own.
_PRIORS_FROM, _WEIGHTS_FROM, _OWN_FROM = 1, 2, 7
_LEAST_VARIANCE = 1e-10


@dataclass(frozen=True, eq=False)
class FactorModel:
    """What predictions of a group's values are made of, for items 0, 1, ... and unseen ones.

    The last row of `level`, `loading` and `noise` is that of an item that was not in the training
    groups: the prior's mean and variance. A value is then N(mu + level + loading . f, noise) with
    f ~ N(0, I), all over the group's weight; the first factor is the group's level.
    `amount`, of families whose heads read it, is the mean of the values as they are; `effects` of
    what is given are added to the levels.
    """

    mu: float
    level: Float64[np.ndarray, "items"]
    loading: Float64[np.ndarray, "items factors"]
    noise: Float64[np.ndarray, "items"]
    count: Float64[np.ndarray, "items"]
    amount: Float64[np.ndarray, "items"] | None = None
    effects: AttributeEffects | None = None

    def rows(self, cells: ValueCells) -> Int64[np.ndarray, "cells"]:
        """The row of every cell: the last one for items that it has not seen."""
        known = (cells.item >= 0) & (cells.item < self.n_items)
        return np.where(known, cells.item, self.n_items)

    def effect(self, cells: ValueCells) -> Float64[np.ndarray, "cells"]:
        """What is given of every cell adds this to its level."""
        if self.effects is None or cells.given is None:
            return np.zeros(cells.n_cells)
        return self.effects.of(cells.given)

    def levels(self, cells: ValueCells) -> Float64[np.ndarray, "cells"]:
        """Expected values of cells where no other value of the group is known."""
        return self.mu + self.level[self.rows(cells)] + self.effect(cells)

    @property
    def n_items(self) -> int:
        """Items with a row of their own."""
        return len(self.level) - 1

    @property
    def rank(self) -> int:
        return self.loading.shape[1] - 1


@dataclass(eq=False)
class _State:
    """Posterior moments and priors while a model is fitted."""

    mean: Float64[np.ndarray, "items size"]
    moments: Float64[np.ndarray, "items packed"]
    noise: Float64[np.ndarray, "items"]
    weight: Float64[np.ndarray, "groups"]
    variance: Float64[np.ndarray, "factors"]
    prior_mean: Float64[np.ndarray, "size"]
    prior_variance: Float64[np.ndarray, "size"]
    mu: float = 0.0
    pooled_noise: float = 1.0
    prior_items: float = 0.0


@dataclass(frozen=True, eq=False)
class FactorFit:
    """A fitted model with the bound on its log-likelihood after every pass."""

    model: FactorModel
    bound: Float64[np.ndarray, "passes"]
    weight: Float64[np.ndarray, "groups"]


def fit_factors(
    cells: ValueCells,
    n_items: int,
    *,
    rank: int,
    seed: int = 0,
    n_passes: int = N_PASSES,
    prior_items: float = 0.0,
    effects: AttributeEffects | None = None,
) -> FactorFit:
    """Fit to standardized values; cells without a value are left out.

    In the variance of a factor's loadings, their variance at the start counts as that of
    `prior_items` further items. Without these weak factors vanish, though many of them together
    may say much of values that are few. Effects of what is given are taken off first, and fitted if
    there are none yet.

    Time and memory are linear in the number of cells: about `(rank + 2)^2` additions a pass.
    """
    cells = cells.only_observed()
    effects = effects_of(cells) if effects is None else effects
    if effects is not None and cells.given is not None:
        cells = cells.with_value(cells.value - effects.of(cells.given))
    state = _start(cells, n_items, rank=rank, seed=seed)
    state.prior_items = prior_items
    count = np.bincount(cells.item, minlength=n_items).astype(np.float64)
    n_groups = int((cells.length > 0).sum())
    bounds = [
        _one_pass(cells, state, count, n_groups=n_groups, number=number)
        for number in range(n_passes)
    ]
    model = replace(_finished(state, count), effects=effects)
    return FactorFit(model, np.array(bounds), state.weight)


def effects_of(cells: ValueCells) -> AttributeEffects | None:
    """Of what is given of standardized values; None where nothing is, or where there are none."""
    cells = cells.only_observed()
    if cells.given is None or not cells.n_cells:
        return None
    return fit_effects(cells.given, cells.value, cells.item, cells.group)


def _one_pass(
    cells: ValueCells,
    state: _State,
    count: Float64[np.ndarray, "items"],
    *,
    n_groups: int,
    number: int,
) -> float:
    """Groups, noise, items and priors once; returns the bound with the priors before."""
    from exfam.kernels.factor_pass import group_pass, item_pass

    size = state.mean.shape[1]
    sums, linear = np.zeros_like(state.moments), np.zeros_like(state.mean)
    squares, spread = np.zeros(len(count)), np.zeros(size - 1)
    prior_weight = _WEIGHT_CELLS if number >= _WEIGHTS_FROM else 0.0
    bound = group_pass(
        cells.offset, cells.item, cells.value - state.mu, state.weight, state.mean, state.moments,
        state.noise, state.variance, prior_weight, sums, linear, squares, spread,
    )  # fmt: skip
    bound -= 0.5 * (count @ np.log(state.noise) + n_groups * np.log(state.variance).sum())
    total = max(count.sum(), 1.0)
    state.pooled_noise = max(squares.sum() / total, _LEAST_VARIANCE)
    state.noise = (squares + _NOISE_CELLS * state.pooled_noise) / (count + _NOISE_CELLS)
    bound += item_pass(
        sums, linear, state.noise, state.prior_mean, state.prior_variance, state.mean, state.moments
    )
    if number >= _PRIORS_FROM and n_groups:
        _renew_priors(state, count > 0, spread / n_groups, own=number >= _OWN_FROM)
    return bound


def _renew_priors(
    state: _State, seen: np.ndarray, spread: Float64[np.ndarray, "factors"], *, own: bool
) -> None:
    """Prior variances from the seen items; the factors' second moments go into their loadings."""
    size = state.mean.shape[1]
    shift = float(state.mean[seen, 0].mean())
    diagonal = np.arange(size) * (np.arange(size) + 3) // 2
    square = state.moments[seen][:, diagonal].mean(0)
    square[1] += 1.0 - 2.0 * float(state.mean[seen, 1].mean())
    square[0] -= shift * shift
    if not own and size > 2:
        square[2:] = square[2:].mean()
    scale = np.ones(size)
    scale[2:] = np.sqrt(np.maximum(spread[1:], _LEAST_VARIANCE))
    state.variance[0] = max(spread[0], _LEAST_VARIANCE)
    state.prior_variance = np.maximum(square, _LEAST_VARIANCE) * scale**2
    share = state.prior_items / (seen.sum() + state.prior_items)
    at_start = _LOADING_SHARE * state.pooled_noise
    state.prior_variance[2:] += share * (at_start - state.prior_variance[2:])
    row, column = _pairs(size)
    # The items' common level becomes part of mu.
    first = np.arange(size) * (np.arange(size) + 1) // 2
    state.moments[:, first] -= shift * state.mean
    state.moments[:, 0] += shift * shift - shift * state.mean[:, 0]
    state.mean[:, 0] -= shift
    state.mu += shift
    state.mean *= scale
    state.moments *= scale[row] * scale[column]


def _start(cells: ValueCells, n_items: int, *, rank: int, seed: int) -> _State:
    """Levels by shrunken alternation, loadings from the leading singular vectors of the rest."""
    size, group = rank + 2, cells.group
    count = np.bincount(cells.item, minlength=n_items)
    length = cells.length
    mu = float(cells.value.mean()) if cells.n_cells else 0.0
    item_level, group_level = np.zeros(n_items), np.zeros(cells.n_groups)
    for _ in range(_ALTERNATIONS):
        rest = cells.value - mu - group_level[group]
        item_level = np.bincount(cells.item, rest, n_items) / (count + _LEVEL_CELLS)
        rest = cells.value - mu - item_level[cells.item]
        group_level = np.bincount(group, rest, cells.n_groups) / (length + _LEVEL_CELLS)
    rest = cells.value - mu - item_level[cells.item] - group_level[group]
    noise = max(float(rest @ rest) / max(cells.n_cells, 1), _LEAST_VARIANCE)
    mean = np.zeros((n_items, size))
    mean[:, 0], mean[:, 1] = item_level, 1.0
    mean[:, 2:] = _loadings(cells, rest, n_items, rank=rank, seed=seed) * np.sqrt(
        _LOADING_SHARE * noise
    )
    row, column = _pairs(size)
    prior = np.full(size, _LOADING_SHARE * noise)
    prior[0] = max(float(item_level @ item_level) / n_items, _LEAST_VARIANCE)
    prior[1] = 0.1
    variance = np.ones(size - 1)
    seen = max(int((length > 0).sum()), 1)
    variance[0] = max(float(group_level @ group_level) / seen, _LEAST_VARIANCE)
    prior_mean = np.zeros(size)
    prior_mean[1] = 1.0
    return _State(
        mean=mean,
        moments=mean[:, row] * mean[:, column],
        noise=np.full(n_items, noise),
        weight=np.ones(cells.n_groups),
        variance=variance,
        prior_mean=prior_mean,
        prior_variance=prior,
        mu=mu,
        pooled_noise=noise,
    )


@cache
def _pairs(size: int) -> tuple[Int64[np.ndarray, "packed"], Int64[np.ndarray, "packed"]]:
    """Rows and columns of packed moments."""
    return np.tril_indices(size)


def _loadings(
    cells: ValueCells, rest: Float64[np.ndarray, "cells"], n_items: int, *, rank: int, seed: int
) -> Float64[np.ndarray, "items rank"]:
    """Right singular vectors of the residual matrix by item frequency, of mean square 1.

    Source: Halko, Martinsson & Tropp (2011), algorithm 4.4, with two power steps.
    """
    if rank == 0:
        return np.zeros((n_items, 0))
    shape = (cells.n_groups, n_items)
    matrix = scipy.sparse.csr_array((rest, cells.item, cells.offset), shape=shape)
    width = min(rank + 8, *shape)
    draw = np.random.default_rng(seed).standard_normal((n_items, width))
    basis = np.linalg.qr(matrix @ draw)[0]
    for _ in range(2):
        basis = np.linalg.qr(matrix @ np.linalg.qr(matrix.T @ basis)[0])[0]
    right = np.linalg.svd(matrix.T @ basis, full_matrices=False)[0][:, :rank]
    share = np.bincount(cells.item, minlength=n_items) / cells.n_groups
    loading = np.zeros((n_items, rank))
    loading[:, : right.shape[1]] = right / np.sqrt(share + 5 / cells.n_groups)[:, None]
    square = np.mean(loading**2, axis=0)
    return loading / np.sqrt(np.where(square > 0, square, 1.0))


def _finished(state: _State, count: Float64[np.ndarray, "items"]) -> FactorModel:
    """The model that predicts, with a row for unseen items."""
    size = state.mean.shape[1]
    diagonal = np.arange(size) * (np.arange(size) + 3) // 2
    spread = np.append(1.0, state.variance)
    uncertain = np.maximum(state.moments[:, diagonal] - state.mean**2, 0.0)
    seen = (count > 0)[:, None]
    uncertain = np.where(seen, uncertain, state.prior_variance)
    mean = np.vstack([np.where(seen, state.mean, state.prior_mean), state.prior_mean])
    noise = np.append(
        state.noise + uncertain @ spread, state.pooled_noise + state.prior_variance @ spread
    )
    return FactorModel(
        mu=state.mu,
        level=mean[:, 0].copy(),
        loading=np.ascontiguousarray(mean[:, 1:] * np.sqrt(state.variance)),
        noise=noise,
        count=np.append(count, 0.0),
    )
