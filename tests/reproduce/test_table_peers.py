import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import norm
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, LeaveOneOut, cross_val_predict

from exfam_studies.experts.ordered_probit import _loss, fit_ordered_probit, normal_scores
from exfam_studies.experts.shifted_tables import simulate_shifted_tables
from exfam_studies.experts.table_grids import GRIDS, fit_tuned
from exfam_studies.experts.table_models import PEERS
from exfam_studies.experts.table_peers import fit_ridge, fit_tuned_peer, one_hot
from exfam_studies.experts.table_rules import decide, figures_of, gaussian_bins, mean_nats

PLAIN = [name for name in PEERS if not name.endswith("-tuned")]


def tables(n_rows=90, n_categories=3, seed=0):
    return simulate_shifted_tables(
        n_informative=5, noise=0.5, corr=0.9, seed=seed, n_train=n_rows, n_test=n_rows,
        n_categories=n_categories,
    )  # fmt: skip


@pytest.fixture(scope="module")
def drawn():
    return tables()


@pytest.mark.parametrize("name", GRIDS)
def test_a_grid_finds_what_grid_search_finds(drawn, name):
    grid = GRIDS[name]
    values = {key: each[:2] for key, each in grid.values.items()}
    build = grid.build if grid.sizes else partial(grid.build, max_iter=15)
    grid = replace(grid, build=build, values=values, sizes=(2, 5) if grid.sizes else ())
    x, y = one_hot(drawn.train_x, n_categories=3), drawn.train_y
    chances, classes, chosen = fit_tuned(grid, x, y, seed=3)
    whole = {**values, **({"n_estimators": grid.sizes} if grid.sizes else {})}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = GridSearchCV(grid.build(random_state=3), whole, cv=5, scoring="accuracy").fit(x, y)
    assert chosen == search.best_params_
    assert np.ptp(search.cv_results_["mean_test_score"]) > 0
    assert grid.n_configurations == len(search.cv_results_["params"])
    np.testing.assert_array_equal(classes, search.classes_)
    test = one_hot(drawn.test_x, n_categories=3)
    np.testing.assert_array_equal(chances(test), search.predict_proba(test))


@pytest.mark.parametrize("name", ["random-forest", "gradient-boosting"])
def test_the_first_trees_are_a_smaller_model(drawn, name):
    grid = GRIDS[name]
    x, test = (one_hot(each, n_categories=3) for each in (drawn.train_x, drawn.test_x))
    small, large = (
        grid.build(n_estimators=n, random_state=1).fit(x, drawn.train_y) for n in (4, 9)
    )
    stages = list(grid.stages(large, test))
    assert len(stages) == 9
    np.testing.assert_allclose(stages[3], small.predict_proba(test), rtol=1e-12)
    assert not np.allclose(stages[3], stages[8])


@pytest.mark.parametrize("name", PLAIN)
def test_peers_know_more_than_how_often_a_code_is_seen(drawn, name):
    peer = PEERS[name]
    if not peer.is_installed:
        pytest.skip(f"{peer.package} is not installed")
    fitted = peer.fit(drawn.train_x, drawn.train_y, n_categories=3, seed=0)
    chances = fitted.predict_proba(drawn.train_x)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert (chances >= 0).all()
    share = np.bincount(drawn.train_y) / len(drawn.train_y)
    known = -np.log(share[drawn.train_y]).mean()
    assert mean_nats(chances, drawn.train_y) < 0.9 * known


@pytest.mark.parametrize("name", [name for name in PLAIN if name != "catboost"])
def test_a_code_that_training_lacks_has_its_place(drawn, name):
    peer = PEERS[name]
    if not peer.is_installed:
        pytest.skip(f"{peer.package} is not installed")
    y = np.where(drawn.train_y == 1, 0, drawn.train_y)
    chances = peer.fit(drawn.train_x, y, n_categories=4, seed=0).predict_proba(drawn.test_x)
    assert chances.shape == (len(drawn.test_y), 4)
    assert chances[:, [0, 2]].sum(axis=1).min() > 0.2
    if name not in ("ridge", "ordered-probit"):  # these know an order, not only labels
        assert (chances[:, [1, 3]] == 0).all()


def test_ridge_is_normal_with_the_sd_of_errors_left_out():
    small = tables(n_rows=40)
    fitted = fit_ridge(small.train_x, small.train_y, n_categories=3, seed=0)
    model = Ridge(alpha=fitted.chosen["alpha"])
    left_out = cross_val_predict(model, small.train_x, small.train_y, cv=LeaveOneOut())
    sd = np.sqrt(np.mean((left_out - small.train_y) ** 2))
    mean = model.fit(small.train_x, small.train_y).predict(small.test_x)
    below = norm.cdf(0.5, mean, sd)
    np.testing.assert_allclose(fitted.predict_proba(small.test_x)[:, 0], below, rtol=1e-6)


def test_bins_of_a_normal_law_are_exact_in_both_tails():
    chances = gaussian_bins(np.array([0.0]), np.array([1.0]), np.array([-20.0, -19.0, 19.0, 20.0]))
    assert chances[0, 3] == pytest.approx(norm.sf(19) - norm.sf(20), rel=1e-9)
    np.testing.assert_allclose(chances, chances[:, ::-1], rtol=1e-12)
    assert chances.sum() == pytest.approx(1)


def test_the_gradient_of_ordered_probit_is_that_of_its_likelihood():
    random = np.random.default_rng(0)
    scores, y = random.normal(size=(50, 2)), random.integers(0, 4, 50)
    at = np.array([0.3, -0.2, -1.0, -0.4, 0.1])
    numeric = approx_fprime(at, lambda p: _loss(p, scores, y)[0], 1e-7)
    np.testing.assert_allclose(_loss(at, scores, y)[1], numeric, atol=1e-5)


def test_ordered_probit_finds_the_law_that_drew_the_codes():
    random = np.random.default_rng(1)
    x = random.integers(0, 10, (20_000, 2))
    cuts = np.array([-1.0, 0.2, 1.1])
    latent = normal_scores(x, n_categories=10) @ [0.8, -0.5]
    y = (latent + random.normal(size=len(x)) > cuts[:, None]).sum(axis=0)
    fitted = fit_ordered_probit(x, y, n_categories=10, seed=0)
    true = gaussian_bins(latent, np.ones(1), cuts)
    np.testing.assert_allclose(fitted.predict_proba(x)[:, :4], true, atol=0.02)


def test_rules_and_figures():
    chances = np.array([[0.5, 0.0, 0.5], [0.2, 0.2, 0.6]])
    assert decide(chances, rule="argmax").tolist() == [0, 2]
    assert decide(chances, rule="mean").tolist() == [1, 1]
    figures = figures_of(chances, np.array([2, 2]))
    assert figures["accuracy-argmax"] == 0.5 and figures["mse-argmax"] == 2
    assert figures["accuracy-mean"] == 0 and figures["mse-mean"] == 1
    assert figures["nats"] == pytest.approx(-0.5 * np.log(0.5 * 0.6))
    never = figures_of(chances, np.array([1, 2]))
    assert never["nats"] is None and np.isfinite(never["nats-mixed"])


def test_a_tuned_peer_tells_what_it_chose(drawn):
    grid = replace(GRIDS["mlp"], values={"hidden_layer_sizes": ((2,), (3, 2))})
    y = np.where(drawn.train_y == 1, 0, drawn.train_y)
    fitted = fit_tuned_peer(drawn.train_x, y, n_categories=3, seed=0, grid=grid)
    chances = fitted.predict_proba(drawn.test_x)
    assert (chances[:, 1] == 0).all() and (chances[:, [0, 2]] > 0).all()
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert fitted.chosen["hidden_layer_sizes"] in ("(2,)", "(3, 2)")
