"""The fit of the factor model: it climbs, finds what data were drawn from, and repeats itself."""

import numpy as np
import pytest

from efa_values.simulated_values import drawn_cells, drawn_model
from exfam.efa.values import cross_fit
from exfam.efa.values.cells import ValueCells
from exfam.efa.values.conditionals import given_others
from exfam.efa.values.cross_fit import (
    FEW_CELLS,
    FOLDS_OF_FEW,
    LEAST_GAIN,
    LEAST_OF_LEVELS,
    N_FOLDS,
    PRIOR_ITEMS,
    RankChoice,
    choose_rank,
    folds_of,
    predictive_score,
)
from exfam.efa.values.factor_em import fit_factors
from exfam.efa.values.features import factor_features


def standardized(cells):
    return cells.with_value((cells.value - cells.value.mean()) / cells.value.std())


CELLS = standardized(drawn_cells(n_groups=300))


@pytest.mark.parametrize("rank", [0, 2, 5])
def test_the_bound_rises(rank):
    bound = fit_factors(CELLS, 12, rank=rank).bound
    # Weights start in the third pass; the noise's own prior moves a little.
    assert (np.diff(bound[3:]) > -1e-3 * len(CELLS.value) ** 0.5).all()
    assert bound[-1] > bound[3] + 1


def test_the_same_seed_gives_the_same_fit():
    one, again = (fit_factors(CELLS, 12, rank=2, seed=3) for _ in range(2))
    assert (one.model.loading == again.model.loading).all() and (one.bound == again.bound).all()


def test_the_covariance_of_items_is_recovered():
    """Loadings are known up to a rotation: covariances are compared."""
    draw = np.random.default_rng(5)
    loading, level = draw.normal(size=(8, 2)), draw.normal(size=8)
    factors, group = draw.normal(size=(4000, 2)), draw.normal(size=(4000, 1))
    value = level + 0.8 * group + factors @ loading.T + 0.4 * draw.normal(size=(4000, 8))
    offset, item = np.arange(0, 32_001, 8), np.tile(np.arange(8), 4000)
    model = fit_factors(ValueCells(offset, item, value.ravel()), 8, rank=2).model
    true = loading @ loading.T + 0.64 + 0.16 * np.eye(8)
    found = model.loading[:-1] @ model.loading[:-1].T + np.diag(model.noise[:-1])
    assert np.abs(found - true).max() < 0.15 * true.max()
    np.testing.assert_allclose(model.mu + model.level[:-1], level, atol=0.15)


@pytest.mark.parametrize(("rank", "chosen"), [(3, {4, 8}), (7, {8, 16})])
def test_the_rank_is_found(rank, chosen):
    cells = standardized(drawn_cells(n_groups=400, n_items=30, rank=rank, share=0.8))
    folds = folds_of(cells, seed=0)
    choice = choose_rank(cells, 30, folds, causal=False)
    assert choice.rank in chosen
    assert choice.scores[choice.rank] > max(choice.scores.values()) - LEAST_GAIN


@pytest.mark.parametrize("n_groups", [30, 400])
def test_where_levels_are_all_there_is_factors_die(n_groups):
    cells = standardized(drawn_cells(n_groups=n_groups, n_items=30, rank=0, share=0.8))
    choice = choose_rank(cells, 30, folds_of(cells, seed=0), causal=False)
    assert choice.scores[choice.rank] > choice.scores[0] - LEAST_OF_LEVELS
    found, levels = (
        given_others(fit_factors(cells, 30, rank=rank).model, cells).mean
        for rank in (choice.rank, 0)
    )
    np.testing.assert_allclose(found, levels, atol=0.1)


def test_levels_alone_must_be_clearly_ahead(monkeypatch):
    """A little better may be chance."""
    for ahead, rank in ((0.9, 4), (1.1, 0)):
        scores = {0: ahead * LEAST_OF_LEVELS}

        def scored(*given, rank, prior_items, scores=scores, **options):
            return RankChoice(rank, {rank: scores.get(rank, 0.0)}, {0: drawn_model()}, prior_items)

        monkeypatch.setattr(cross_fit, "_scored", scored)
        assert choose_rank(CELLS, 100, folds_of(CELLS, seed=0), causal=False).rank == rank


def weak_factors(n_groups, *, seed=0):
    """Ten weak factors of 100 items, the same ones for every seed."""
    loading = 0.3 * np.random.default_rng(99).normal(size=(100, 10))
    draw = np.random.default_rng(seed)
    value = draw.normal(size=(n_groups, 10)) @ loading.T + draw.normal(size=(n_groups, 100))
    offset, item = np.arange(0, 100 * n_groups + 1, 100), np.tile(np.arange(100), n_groups)
    return ValueCells(offset, item, value.ravel())


def test_weak_factors_do_not_vanish_with_a_prior():
    cells, new = weak_factors(40), weak_factors(200, seed=1)
    alone, prior = (fit_factors(cells, 100, rank=8, prior_items=n).model for n in (0.0, 100.0))
    weakest = [np.square(model.loading[:-1, 1:]).mean(0).min() for model in (alone, prior)]
    assert weakest[0] < 0.001 < weakest[1]
    errors = [np.square(given_others(model, new).mean - new.value) for model in (alone, prior)]
    gain = (errors[0] - errors[1]).reshape(200, 100).mean(1)
    assert gain.mean() > 3 * gain.std() / np.sqrt(200)


def test_of_many_groups_the_prior_is_of_no_weight():
    cells = standardized(drawn_cells(n_groups=400, n_items=30, rank=3, share=0.8))
    alone, prior = (fit_factors(cells, 30, rank=3, prior_items=n).model for n in (0.0, 1.0))
    found = [given_others(model, cells).mean for model in (alone, prior)]
    np.testing.assert_allclose(found[0], found[1], atol=0.03)


@pytest.mark.parametrize("prior_items", PRIOR_ITEMS)
def test_the_prior_is_chosen_by_cross_fitted_scores(prior_items, monkeypatch):
    """That of the best score at the lowest rank above 0, for all ranks."""
    cells, tried = weak_factors(40), []
    best = {prior: float(prior == prior_items) for prior in PRIOR_ITEMS}

    def scored(*given, rank, prior_items, **options):
        tried.append((rank, prior_items))
        return RankChoice(rank, {rank: rank + best[prior_items]}, {0: drawn_model()}, prior_items)

    monkeypatch.setattr(cross_fit, "_scored", scored)
    choice = choose_rank(cells, 100, folds_of(cells, seed=0), causal=False)
    assert (choice.rank, choice.prior_items) == (16, prior_items)
    assert tried == [(0, 0.0), (4, 0.0), (4, 100.0), (8, prior_items), (16, prior_items)]


def test_cells_without_a_value_change_nothing():
    value = CELLS.value.copy()
    value[::5] = np.nan
    gaps = CELLS.with_value(value)
    one, other = fit_factors(gaps, 12, rank=2), fit_factors(gaps.only_observed(), 12, rank=2)
    assert (one.model.loading == other.model.loading).all()
    score = given_others(one.model, CELLS).mean
    assert np.isfinite(score).all()


def test_an_unseen_item_has_the_prior():
    model = fit_factors(CELLS, 14, rank=2).model  # items 12 and 13 have no cells
    assert (model.count[12:] == 0).all()
    np.testing.assert_allclose(model.level[12], model.level[-1], atol=1e-10)
    np.testing.assert_allclose(model.loading[13], model.loading[-1], atol=1e-10)
    assert model.noise[-1] > model.noise[:12].max()


def test_predictions_are_calibrated_where_the_model_is_true():
    new = standardized(drawn_cells(n_groups=1800))
    fit = fit_factors(new.take(np.arange(1500)), 12, rank=2).model
    held_out = new.take(np.arange(1500, 1800))
    found = given_others(fit, held_out)
    z = (held_out.value - found.mean) / np.sqrt(found.variance)
    assert abs(np.mean(z**2) - 1) < 0.1
    features = factor_features(fit, held_out, causal=False, ordered=False)
    assert predictive_score(features, held_out.value) > predictive_score(
        factor_features(fit, held_out, causal=True, ordered=False), held_out.value
    )


def test_folds_are_of_groups_and_hold_out_all():
    many = drawn_cells(n_groups=FEW_CELLS // 8 + 200)
    for cells, n_folds in ((CELLS, FOLDS_OF_FEW), (many, N_FOLDS)):
        folds = folds_of(cells, seed=1)
        held_out = np.concatenate([fold.held_out for fold in folds])
        assert sorted(held_out) == list(range(cells.n_groups)) and len(folds) == n_folds
        assert all(len(np.intersect1d(fold.held_out, fold.rest)) == 0 for fold in folds)


def test_one_group_without_items_is_fitted():
    draw = np.random.default_rng(0)
    cells = ValueCells(np.array([0, 50]), np.zeros(50, int), draw.normal(size=50))
    model = fit_factors(cells, 1, rank=0).model
    assert np.isfinite(given_others(model, cells).mean).all()
    assert np.isfinite(model.noise).all()
