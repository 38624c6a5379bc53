"""Features of training cells from models that were fitted without their groups, and the rank."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int64
from scipy.special import gammaln

from exfam.efa.values.cells import ValueCells
from exfam.efa.values.effects import AttributeEffects
from exfam.efa.values.factor_em import FactorModel, effects_of, fit_factors
from exfam.efa.values.features import ValueFeatures, factor_features, joined

RANKS = (0, 4, 8, 16)
# Of few cells a fit without a quarter of them lacks too much.
N_FOLDS, FOLDS_OF_FEW = 4, 8
# With more cells, one part of this many is held out once instead of all in folds.
MOST_IN_FOLDS, HELD_OUT = 500_000, 300_000
# The rank is chosen on groups with about this many cells; by all folds if they are few.
MOST_FOR_RANK, FEW_CELLS = 1_000_000, 30_000
# How many items the prior of the variance of loadings may count as; see `fit_factors`.
PRIOR_ITEMS = (0.0, 100.0)
# A higher rank must gain this, in nats; levels alone must be ahead of factors by that, since those
# that are not needed die, and cost less than a choice by chance.
LEAST_GAIN, LEAST_OF_LEVELS = 1e-4, 5e-3
# Of equal values there is no error at all.
_LEAST_SCALE = 1e-12
_CONTEXT_SCALES = (3.0, 10.0, 30.0, 100.0)


@dataclass(frozen=True, eq=False)
class Fold:
    """Groups a model is fitted without, and those it is fitted to, by their numbers."""

    held_out: Int64[np.ndarray, "held_out"]
    rest: Int64[np.ndarray, "rest"]


def folds_of(cells: ValueCells, *, seed: int) -> list[Fold]:
    """Four parts of the groups, or eight of few cells; of many cells one part only.

    One group is a fold of its own.
    """
    order = np.random.default_rng(seed).permutation(cells.n_groups)
    if cells.n_cells <= MOST_IN_FOLDS:
        wanted = FOLDS_OF_FEW if cells.n_cells <= FEW_CELLS else N_FOLDS
        n_folds = max(min(wanted, cells.n_groups), 1)
        parts = [order[k::n_folds] for k in range(n_folds)]
    else:
        parts = [order[: max(cells.n_groups * HELD_OUT // cells.n_cells, 1)]]
    kept = [np.setdiff1d(order, part) for part in parts]
    return [
        Fold(np.sort(part), rest if len(rest) else np.sort(part))
        for part, rest in zip(parts, kept, strict=True)
    ]


def predictive_score(features: ValueFeatures, value: np.ndarray) -> float:
    """Mean log-density of standardized values by multivariate t conditionals, best of some nu."""
    use = np.isfinite(value)
    error = (value - features.mean)[use]
    n, variance = features.n_context[use], features.variance[use]
    scores = []
    for nu in _CONTEXT_SCALES:
        df = nu + n
        square = variance * (nu + features.chi_square[use]) / df
        # The best common scale, by two fixed-point steps.
        common = 1.0
        for _ in range(2):
            scaled = error**2 / square
            common = np.mean((df + 1) * scaled / (df + scaled / max(common, _LEAST_SCALE)))
        square = square * max(common, _LEAST_SCALE)
        log_density = gammaln((df + 1) / 2) - gammaln(df / 2) - 0.5 * np.log(df * np.pi * square)
        scores.append(np.mean(log_density - (df + 1) / 2 * np.log1p(error**2 / (square * df))))
    return float(max(scores)) if use.any() else 0.0


@dataclass(frozen=True, eq=False)
class RankChoice:
    """The rank and the items its prior counts as, the cross-fitted scores of the ranks tried.

    `models`: those of the choice, by fold
    """

    rank: int
    scores: dict[int, float]
    models: dict[int, FactorModel]
    prior_items: float = 0.0


def choose_rank(
    cells: ValueCells,
    n_items: int,
    folds: list[Fold],
    *,
    causal: bool,
    ranks: tuple[int, ...] = RANKS,
    seed: int = 0,
) -> RankChoice:
    """The rank of the best cross-fitted score; without a gain no higher one is tried.

    Rank 0 must be ahead of the next one by `LEAST_OF_LEVELS`. The lowest rank above 0 chooses the
    items that the prior counts as, for all ranks. Of many cells two folds are scored, of very many
    those of a sample of the groups.
    """
    sampled = cells.n_cells > MOST_FOR_RANK
    if sampled:
        order = np.random.default_rng(seed).permutation(cells.n_groups)
        cells = cells.take(np.sort(order[: cells.n_groups * MOST_FOR_RANK // cells.n_cells + 1]))
        folds = folds_of(cells, seed=seed)
    tried = folds if cells.n_cells <= FEW_CELLS else folds[:2]
    best = RankChoice(0, {}, {})
    effects = [effects_of(cells.take(fold.rest)) for fold in tried]
    scores: dict[int, float] = {}
    priors: tuple[float, ...] = PRIOR_ITEMS
    for rank in ranks:
        if rank >= n_items and rank > 0:
            break
        found = [
            _scored(
                cells,
                n_items,
                tried,
                effects,
                rank=rank,
                prior_items=prior,
                causal=causal,
                seed=seed,
            )
            for prior in (priors if rank > 0 else PRIOR_ITEMS[:1])
        ]
        choice = max(found, key=lambda one: one.scores[rank])
        scores |= choice.scores
        if rank > 0:
            priors = (choice.prior_items,)
        least = LEAST_GAIN if best.rank > 0 else -LEAST_OF_LEVELS
        if not best.models or scores[rank] >= scores[best.rank] + least:
            best = choice
        elif best.rank > 0:
            break
    return replace(best, scores=scores, models={} if sampled else best.models)


def _scored(
    cells: ValueCells,
    n_items: int,
    folds: list[Fold],
    effects: list[AttributeEffects | None],
    *,
    rank: int,
    prior_items: float,
    causal: bool,
    seed: int,
) -> RankChoice:
    """One rank, with its score and its models."""
    models = [
        fit_factors(
            cells.take(fold.rest),
            n_items,
            rank=rank,
            seed=seed,
            prior_items=prior_items,
            effects=own,
        ).model
        for fold, own in zip(folds, effects, strict=True)
    ]
    parts = [
        factor_features(model, cells.take(fold.held_out), causal=causal, ordered=False)
        for model, fold in zip(models, folds, strict=True)
    ]
    rows = np.concatenate([cells.rows_of(fold.held_out) for fold in folds])
    score = predictive_score(joined(parts), cells.value[rows])
    return RankChoice(rank, {rank: score}, dict(enumerate(models)), prior_items)
