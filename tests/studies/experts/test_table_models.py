"""Models of tables, against scikit-learn, scipy and what is known of the data."""

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import norm
from sklearn.linear_model import Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict

from exfam.checks import ExfamWarning
from exfam_studies.experts.tables import peers
from exfam_studies.experts.tables.boosting import LIBRARIES, fit_boosting, hold_out
from exfam_studies.experts.tables.data import coded_table, with_missing
from exfam_studies.experts.tables.fits import (
    CODED,
    LOSSES,
    Predicted,
    gaussian_bins,
    normal_prediction,
    row_losses,
)
from exfam_studies.experts.tables.models import (
    BASES,
    CODED_SETTINGS,
    OURS,
    coded_models,
    fit_masked,
    shift_models,
)
from exfam_studies.experts.tables.peers import (
    fit_one_hot,
    fit_ordered_probit,
    fit_reference_tables,
    fit_ridge,
    probit_loss,
    reference_network,
)
from studies.experts.table_cases import TASKS, coded, toy

PLAIN = {
    name: model
    for name, model in coded_models(fast=False).items()
    if not name.endswith("-tuned") and name not in (*CODED_SETTINGS, "reference")
}
SMALL = {
    "lightgbm": replace(LIBRARIES["lightgbm"], grid={"num_leaves": (4, 8)}),
    "catboost": replace(LIBRARIES["catboost"], grid={"depth": (2,), "learning_rate": (0.3,)}),
}
QUICK = {"max_epochs": 8, "ordinal": True, "extra_masking": 0.5, "learning_rate": 0.05}
WAYS = [("regression", False), ("ordinal", True), ("ordinal", False), ("classification", True)]


def needs(package):
    if package is not None and find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


@pytest.mark.parametrize("name", PLAIN)
def test_peers_know_more_than_how_often_a_code_is_seen(name):
    needs(PLAIN[name].package)
    table = coded()
    chances = PLAIN[name].fit(table, seed=0).predict(table.train).chances
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    share = np.bincount(table.train_y) / len(table.train_y)
    own = chances[np.arange(len(chances)), table.train_y]
    assert -np.log(own).mean() < -0.9 * np.log(share[table.train_y]).mean()
    if name == "catboost":
        return
    # A code that training lacks keeps its column.
    table = coded(n_levels=4, lacking=1)
    chances = PLAIN[name].fit(table, seed=0).predict(table.test).chances
    assert chances.shape == (len(table.test_y), 4)
    if name not in ("ridge", "ordered-probit"):  # these know an order, not only labels
        assert (chances[:, [1, 3]] == 0).all()


def test_a_tuned_peer_reports_what_it_chose(monkeypatch):
    monkeypatch.setattr(peers, "GRIDS", {"mlp": {"hidden_layer_sizes": ((2,), (3, 2))}})
    fitted = fit_one_hot(coded(), seed=0, model="mlp", tuned=True)
    assert fitted.chosen["hidden_layer_sizes"] in ("(2,)", "(3, 2)")


def test_ridge_is_normal_with_the_sd_of_errors_left_out():
    small = coded(n_rows=40)
    fitted = fit_ridge(small, seed=0, standardized=False)
    x, test = (np.stack(list(part.values()), 1) for part in (small.train, small.test))
    model = Ridge(alpha=fitted.chosen["alpha"])
    left_out = cross_val_predict(model, x, small.train_y, cv=LeaveOneOut())
    sd = np.sqrt(np.mean((left_out - small.train_y) ** 2))
    below = norm.cdf(0.5, model.fit(x, small.train_y).predict(test), sd)
    np.testing.assert_allclose(fitted.predict(small.test).chances[:, 0], below, rtol=1e-6)
    # Bins are exact in both tails.
    chances = gaussian_bins(np.zeros(1), 1.0, np.array([-20.0, -19.0, 19.0, 20.0]))
    assert chances[0, 3] == pytest.approx(norm.sf(19) - norm.sf(20), rel=1e-9)
    np.testing.assert_allclose(chances, chances[:, ::-1], rtol=1e-12)


def test_ordered_probit_is_the_distribution_that_drew_the_codes():
    random = np.random.default_rng(1)
    x, cuts = random.integers(0, 10, (20_000, 2)), np.array([-1.0, 0.2, 1.1])
    latent = norm.ppf((x + 0.5) / 10) @ [0.8, -0.5]
    y = (latent + random.normal(size=len(x)) > cuts[:, None]).sum(axis=0)
    columns = {"first": x[:, 0], "second": x[:, 1]}
    table = coded_table(columns, y, np.ones(len(y), dtype=bool), n_levels=10)
    chances = fit_ordered_probit(table, seed=0).predict(table.train).chances
    np.testing.assert_allclose(chances[:, :4], gaussian_bins(latent, 1.0, cuts), atol=0.02)
    scores, y, at = random.normal(size=(50, 2)), y[:50], np.array([0.3, -0.2, -1.0, -0.4, 0.1])
    numeric = approx_fprime(at, lambda p: probit_loss(p, scores, y)[0], 1e-7)
    np.testing.assert_allclose(probit_loss(at, scores, y)[1], numeric, atol=1e-5)


def better_than_knowing_nothing(fitted, table):
    hidden = with_missing(table.test, share=0.5, by="cell", seed=0)
    losses, worse = (
        row_losses(fitted.predict(columns), table.test_y, table=table)
        for columns in (table.test, hidden)
    )
    # What is missing is no error, and does not help.
    if table.task == "regression":
        assert losses["mse mean"].mean() < 0.5 * table.test_y.var()
        assert worse["mse mean"].mean() > losses["mse mean"].mean()
        return
    chances, name = fitted.predict(table.test).chances, "accuracy argmax"
    assert chances.shape == (200, len(table.y_levels))
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    known = np.unique(table.train_y, return_counts=True)[1].max() / len(table.train_y)
    assert losses[name].mean() > max(known + 0.1, worse[name].mean())


@pytest.mark.parametrize("task", TASKS)
def test_ridge_of_all_kinds_of_columns(task):
    for name in ("ridge", "ridge-dropped"):
        fit = shift_models(task, fast=False)[name].fit
        better_than_knowing_nothing(fit(toy(task), seed=0), toy(task))


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize(("task", "classes"), WAYS)
def test_tuned_trees(name, task, classes):
    needs(name)
    fitted = fit_boosting(toy(task), seed=0, library=SMALL[name], classes=classes, tuned=True)
    assert 1 <= fitted.chosen["trees"] <= 600
    better_than_knowing_nothing(fitted, toy(task))


@pytest.mark.parametrize("name", SMALL)
def test_trees_are_the_same_whatever_the_levels_are_called(name):
    needs(name)
    tables = toy("ordinal"), replace(toy("ordinal"), levels={"y": tuple(range(-3, 8))})
    fits = [
        fit_boosting(table, seed=0, library=SMALL[name], classes=True, tuned=True)
        for table in tables
    ]
    assert fits[0].chosen == fits[1].chosen and fits[0].chosen["trees"] > 5
    chances, more = (fitted.predict(tables[0].test).chances for fitted in fits)
    np.testing.assert_allclose(more[:, 4:], chances)


def test_trees_that_are_not_tuned_and_of_dropped_cells():
    needs("lightgbm")
    for changed in ({}, {"tuned": True, "dropped": True}):
        fitted = fit_boosting(
            toy("regression"), seed=0, library=SMALL["lightgbm"], classes=False, **changed
        )
        better_than_knowing_nothing(fitted, toy("regression"))


@pytest.mark.filterwarnings("ignore::exfam.checks.ExfamWarning")
@pytest.mark.parametrize(("task", "classes"), WAYS)
def test_masked_tables_know_more_than_chance(task, classes):
    table = toy(task)
    fitted = fit_masked(table, seed=0, settings=QUICK, classes=classes)
    assert fitted.chosen == {"ordinal": True, "extra_masking": 0.5, "length": 1}
    better_than_knowing_nothing(fitted, table)
    if task == "classification":
        # An unseen category is like a missing cell.
        other, gone = (
            {**table.test, "color": np.array([color] * 200, dtype=object)}
            for color in ("green", None)
        )
        with pytest.warns(ExfamWarning, match="200 of column 'color', such as 'green' at row 0"):
            unseen = fitted.predict(other).chances
        np.testing.assert_array_equal(unseen, fitted.predict(gone).chances)


def test_copies_of_a_row_are_held_out_together():
    x = np.tile(np.arange(50), 3)[:, None]
    for copies in (3, 1):
        (kept, _), (held, _) = hold_out(x, x[:, 0] * 1.0, classes=False, seed=0, copies=copies)
        assert len(held) > 3 and bool(set(kept[:, 0]) & set(held[:, 0])) == (copies == 1)


def test_the_default_is_beside_the_attention_network():
    table = coded(n_rows=120)
    fitted = fit_masked(table, seed=0, settings=BASES["masked-table-base-fast"])
    chances = fitted.predict(table.test).chances
    np.testing.assert_allclose(chances.sum(1), 1.0)
    assert fitted.chosen == {} and np.ptp(chances, axis=0).max() > 0.1
    whole = shift_models("regression", fast=False)
    assert all(whole[name].n_configurations is None for name in BASES)


def test_models_are_listed_by_task():
    whole = shift_models("ordinal", fast=False)
    assert {*OURS, "ridge", "masked-table-regression"} <= {*whole}
    tried = {"masked-table": 6, "masked-table-missing": 4, "masked-table-deep": 3}
    tried |= {"lightgbm-tuned": 8, "catboost-tuned": 4, "lightgbm-tuned-regression": 8}
    assert {name: whole[name].n_configurations for name in tried} == tried
    assert list(shift_models("regression", fast=True)) == ["masked-table", "ridge"]
    tuned = {"random-forest-tuned": 18, "gradient-boosting-tuned": 27, "mlp-tuned": 9}
    whole = coded_models(fast=False)
    assert {name: whole[name].n_configurations for name in tuned} == tuned
    assert not replace(whole["ridge"], package="no_such_package").is_installed


def test_losses_are_of_the_rules():
    table = coded(n_rows=2)
    chances = Predicted(chances=np.array([[0.5, 0.0, 0.5], [0.2, 0.2, 0.6]]))
    losses = row_losses(chances, np.array([2, 2]), table=table, names=CODED)
    means = {name: rows.mean() for name, rows in losses.items()}
    assert means["accuracy argmax"] == 0.5 and means["mse argmax"] == 2
    assert means["accuracy rounded"] == 0 and means["mse rounded"] == 1
    assert means["nats"] == pytest.approx(-0.5 * np.log(0.5 * 0.6))
    never = row_losses(chances, np.array([1, 2]), table=table)
    assert tuple(never) == LOSSES["ordinal"] and never["nats"][0] == np.inf
    np.testing.assert_allclose(never["nats-mixed"][0], np.log(3 / 1e-3))
    table, mean = toy("regression"), np.linspace(-1, 1, 200)
    losses = row_losses(normal_prediction(mean, 2.0, table), table.test_y, table=table)
    np.testing.assert_allclose(losses["nats"], -norm.logpdf(table.test_y, mean, 2.0))
    np.testing.assert_allclose(losses["mse mean"], (table.test_y - mean) ** 2)


def test_the_papers_model_is_fitted_to_several_tables_at_once():
    tables = [coded(n_rows=60), coded(n_rows=60, lacking=1)]
    fits = fit_reference_tables(tables, seed=0, epochs=20)
    whole, lacking = (fitted.predict(tables[0].test).chances for fitted in fits)
    np.testing.assert_allclose([whole.sum(axis=1), lacking.sum(axis=1)], 1)
    n_numbers = sum(part.numel() for part in reference_network(1, 6, 10, seed=0).parameters())
    assert n_numbers == 2535 + 2 * 20  # as in the paper, and 40 that are not used
    # A code that training lacks is less probable.
    assert lacking[:, 1].mean() < whole[:, 1].mean()
