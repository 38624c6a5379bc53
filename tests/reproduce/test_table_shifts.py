from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from exfam.checks import DataError, ExfamWarning
from exfam_studies.common.harness import Options, reproduce
from exfam_studies.common.rows import Row
from exfam_studies.experts import shift_models, table_shifts
from exfam_studies.experts.public_tables import TableShift
from exfam_studies.experts.shift_features import missing_cells
from exfam_studies.experts.shift_losses import names_of, row_losses
from exfam_studies.experts.shift_models import OURS, SHARES, ShiftModel, with_dropped
from exfam_studies.experts.shift_ours import fit_shift_masked
from exfam_studies.experts.shift_peers import Predicted, fit_shift_ridge, hold_out, shift_figures
from exfam_studies.experts.shift_rows import difference_rows, figure_rows
from exfam_studies.experts.shift_store import ShiftKey, ShiftResult, shift_store
from exfam_studies.experts.table_shifts import ShiftTask, kept

QUICK = {"max_epochs": 8, "ordinal": True, "extra_masking": 0.5, "learning_rate": 0.05}


def toy(task="regression", n=200):
    random = np.random.default_rng(0)
    color = random.choice(np.array(["red", "blue"], dtype=object), 2 * n)
    size = random.normal(size=2 * n)
    y = size + 2.0 * (color == "red") + 0.3 * random.normal(size=2 * n)
    levels = {}
    if task == "ordinal":
        y, levels = np.clip(np.rint(y), -1, 3).astype(int), {"y": tuple(range(-2, 5))}
    if task == "classification":
        y = np.where(y > 1, "many", "few").astype(object)
    parts = [{"color": color[part], "size": size[part]} for part in (slice(n), slice(n, None))]
    kinds = {"color": "categorical", "size": "numeric"}
    return TableShift("toy", parts[0], y[:n], parts[1], y[n:], kinds, task, "none", levels)


@pytest.fixture
def fits(monkeypatch):
    """Two models that leave a note of each fit, one of dropped cells, one that is not there."""
    made = []

    def ridge(shift, *, seed):
        made.append((shift.name, len(shift.train_y), seed))
        return fit_shift_ridge(shift, seed=seed)

    models = {
        "masked-table": ShiftModel(ridge),
        "ridge": ShiftModel(ridge),
        "ridge-dropped": ShiftModel(ridge, of_dropped=True),
        "gone": ShiftModel(ridge, package="no_such_package"),
    }
    monkeypatch.setattr(table_shifts, "shift_models", lambda task, *, fast: models)
    monkeypatch.setattr(table_shifts, "_TASKS", {
        "whole": ShiftTask("whole", "ordinal", lambda: toy("ordinal"), rows=150),
        "some": ShiftTask("some", "regression", toy, dropped=True),
    })  # fmt: skip
    monkeypatch.setattr(table_shifts, "TASKS", ("whole", "some"))
    return made


def of(rows, **wanted):
    return [
        row
        for row in rows
        if all(row.settings.get(k, getattr(row, k, None)) == v for k, v in wanted.items())
    ]


def test_each_fit_is_made_once_and_kept(fits, tmp_path):
    options = Options(seeds=2, folder=tmp_path, out=tmp_path / "plots")
    rows = reproduce("table-shifts", options=options)
    # Two seeds, and one fit for validation.
    assert len(fits) == 3 * (2 + 3)
    assert {n for name, n, _ in fits} == {200, 160, 150, 120}
    plain = [replace(row, run=None, parameters={}) for row in rows]
    assert kept(options) == [row for row in plain if row.model != "gone"]
    again = reproduce("table-shifts", options=replace(options, out=None))
    assert again == rows and len(fits) == 15
    assert of(rows, model="gone")[0].note == "not installed"
    assert not of(rows, task="whole", model="ridge-dropped")
    assert "150 training rows" in of(rows, task="whole", model="ridge")[0].note
    row = of(rows, task="some", model="ridge", metric="mse", dropped=0.5, by="cell")[0]
    assert row.n_seeds == 2 and row.sd > 0 and row.validation > 0 and row.settings["error"] > 0
    assert (tmp_path / "plots" / "table-some-mse.png").is_file()


def test_more_cells_dropped_cost_more(fits):
    rows = reproduce("table-shifts", options=Options(seeds=3, only=["some"]))
    for by in ("cell", "column"):
        mse = [
            of(rows, model="ridge", metric="mse", dropped=share, by=by)[0].value
            for share in (0.1, 0.7)
        ]
        assert mse[0] < mse[1]
    # Where cells are dropped, only a model fitted to such rows is compared.
    for model, places in (("ridge", 1), ("ridge-dropped", 1 + 2 * len(SHARES[1:]))):
        same = of(rows, metric="minus-mse", against=model, model="masked-table")
        assert len(same) == places and all(row.value == 0 for row in same)


def test_a_smoke_run_fits_two_models_of_few_rows(data_folder):
    with pytest.warns(ExfamWarning, match="are missing"):  # the rows of a task that hides cells
        rows = reproduce("table-shifts", options=Options(fast=True, only=["bike-day"]))
    assert {row.model for row in rows} >= {"ridge", "masked-table"}
    assert len(of(rows, model="masked-table", metric="mse", rule="mean")) == 9


@pytest.mark.parametrize("task", ["ordinal", "classification"])
def test_losses_of_labels_average_to_the_figures(task):
    shift = toy(task)
    levels = shift.levels.get("y", ("few", "many"))
    chances = np.random.default_rng(1).dirichlet(np.ones(len(levels)), len(shift.test_y))
    losses = row_losses(Predicted(chances=chances), shift.test_y, shift=shift)
    assert tuple(losses) == names_of(task)
    figures = shift_figures(Predicted(chances=chances), shift.test_y, shift=shift)
    same = {
        "accuracy argmax": "accuracy-argmax",
        "accuracy rounded": "accuracy-mean",
        "mse argmax": "mse-argmax",
        "nats": "nats",
        "nats-mixed": "nats-mixed",
    }
    for name, figure in same.items():
        if name in losses:
            assert losses[name].mean() == pytest.approx(figures[figure])
    if task == "ordinal":
        # No one number has a smaller expected squared error than the mean.
        assert losses["mse mean"].mean() < losses["mse argmax"].mean()


def test_nats_of_what_had_no_chance_are_infinite_but_for_those_mixed():
    shift = toy("ordinal")
    never = np.zeros((len(shift.test_y), 7))
    never[:, 0] = 1
    losses = row_losses(Predicted(chances=never), shift.test_y, shift=shift)
    assert np.isinf(losses["nats"]).all()
    np.testing.assert_allclose(losses["nats-mixed"], np.log(7 / 1e-3))


def test_nats_of_numbers_are_those_of_their_law():
    shift, mean = toy(), np.linspace(-1, 1, 200)
    plain = row_losses(Predicted(mean=mean, sd=2.0), shift.test_y, shift=shift)
    np.testing.assert_allclose(plain["nats"], -norm.logpdf(shift.test_y, mean, 2.0))
    law = Predicted(mean=mean, log_prob=lambda y: norm.logpdf(y, mean, 0.5))
    other = row_losses(law, shift.test_y, shift=shift)
    np.testing.assert_allclose(other["nats"], -norm.logpdf(shift.test_y, mean, 0.5))
    np.testing.assert_allclose(other["mse mean"], plain["mse mean"])


@pytest.mark.filterwarnings("ignore:.*of `X` are missing:exfam.checks.ExfamWarning")
@pytest.mark.parametrize(
    ("task", "classes"),
    [("regression", False), ("ordinal", True), ("ordinal", False), ("classification", True)],
)
def test_masked_tables_know_more_than_chance(task, classes):
    shift = toy(task)
    fitted = fit_shift_masked(shift, seed=0, settings=QUICK, classes=classes)
    assert fitted.chosen == {"ordinal": True, "extra_masking": 0.5, "length": 1}
    losses = row_losses(fitted.predict(shift.test), shift.test_y, shift=shift)
    if task == "regression":
        assert losses["mse mean"].mean() < 0.5 * shift.test_y.var()
        return
    chances = fitted.predict(shift.test).chances
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    known = np.unique(shift.train_y, return_counts=True)[1].max() / len(shift.train_y)
    assert losses["accuracy argmax"].mean() > known + 0.1
    # An unseen category is like a missing cell.
    other = {**shift.test, "color": np.array(["green"] * 200, dtype=object)}
    gone = {**shift.test, "color": np.array([None] * 200, dtype=object)}
    with pytest.warns(ExfamWarning, match="200 of column 'color', such as 'green' at row 0"):
        told = fitted.predict(other).chances
    np.testing.assert_array_equal(told, fitted.predict(gone).chances)


def test_dropped_rows_come_once_with_every_share():
    shift = toy(n=400)
    whole = with_dropped(shift, copies=5, seed=0)
    gone = np.stack([missing_cells(column) for column in whole.train.values()]).mean(0)
    by_copy = gone.reshape(5, 80, 5).transpose(1, 0, 2)
    # Row by row: copy c of row i has the share at place i + c.
    turned = [by_copy[:, c, (k - c) % 5].mean() for c in range(5) for k in range(5)]
    np.testing.assert_allclose(np.reshape(turned, (5, 5)), [SHARES] * 5, atol=0.15)
    assert (np.reshape(turned, (5, 5))[:, 0] == 0).all()
    np.testing.assert_array_equal(whole.train_y, np.tile(shift.train_y, 5))
    there = ~missing_cells(whole.train["size"])
    np.testing.assert_array_equal(
        whole.train["size"][there], np.tile(shift.train["size"], 5)[there]
    )
    once = with_dropped(shift, copies=1, seed=0)
    assert len(once.train_y) == 400 and missing_cells(once.train["size"]).any()


def test_copies_of_a_row_are_held_out_together():
    rows = np.tile(np.arange(50), 3)
    (kept_x, _), (held_x, _) = hold_out(
        rows[:, None], rows.astype(float), classes=False, seed=0, copies=3
    )
    assert len(held_x) > 3 and not set(kept_x[:, 0]) & set(held_x[:, 0])
    apart = hold_out(rows[:, None], rows.astype(float), classes=False, seed=0, copies=1)
    assert set(apart[0][0][:, 0]) & set(apart[1][0][:, 0])


def test_models_are_listed_by_task():
    whole = shift_models.shift_models("ordinal", fast=False)
    assert {*OURS, "ridge", "lightgbm-tuned", "catboost-tuned", "masked-table-regression"} <= {
        *whole
    }
    assert whole["masked-table"].n_configurations == 6
    assert whole["masked-table-missing"].n_configurations == 4
    assert whole["masked-table-deep"].n_configurations == 3
    assert "lightgbm-tuned-regression" not in shift_models.shift_models("regression", fast=False)


@pytest.mark.parametrize("name", ["ridge-dropped", "lightgbm", "lightgbm-dropped"])
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_further_peers(name, task):
    model = shift_models.shift_models(task, fast=False)[name]
    if not model.is_installed:
        pytest.skip(f"{model.package} is not installed")
    shift = toy(task, n=60)
    predicted = model.fit(shift, seed=0).predict(shift.test)
    losses = row_losses(predicted, shift.test_y, shift=shift)
    if task == "regression":
        assert losses["mse mean"].mean() < 0.6 * shift.test_y.var() and predicted.sd > 0.1
    else:
        assert losses["accuracy argmax"].mean() > 0.7


def result(model, number, rows, *, part="test"):
    losses = {("0", "mse mean"): np.array(rows, dtype=float)}
    return ShiftResult(ShiftKey("wine", part, number, model), losses, 1.0)


def test_errors_are_over_rows_and_sds_over_fits():
    results = [result("ridge", 0, [1, 2, 6]), result("ridge", 1, [3, 4, 8])]
    held = result("ridge", 0, [7, 9], part="validation")
    (row,) = figure_rows(results, validation=held, row=Row(task="wine", model="ridge", metric=""))
    assert (row.metric, row.value, row.validation, row.n_seeds) == ("mse", 4.0, 8.0, 2)
    assert row.sd == pytest.approx(np.sqrt(2))
    assert row.settings["error"] == pytest.approx(np.std([2, 3, 7], ddof=1) / 3**0.5, rel=1e-3)
    assert row.settings["dropped"] == 0 and row.settings["rule"] == "mean"


def test_differences_are_row_by_row_of_the_fits_of_both():
    results = {
        "masked-table": [
            result("masked-table", 0, [1, 2, 3]),
            result("masked-table", 1, [3, 3, 3]),
        ],
        "masked-table-ensemble": [result("masked-table-ensemble", 1, [0, 0, 0])],
        "ridge": [result("ridge", 1, [2, 4, 6]), result("ridge", 2, [0, 0, 0])],
    }
    (row,) = difference_rows(results, ours="masked-table", task="wine")
    assert (row.metric, row.value, row.n_seeds) == ("minus-mse", -1.0, 1)
    error = np.std([1, -1, -3], ddof=1) / 3**0.5
    assert row.settings["against"] == "ridge"
    assert row.note == f"{-1 / error:+.1f} standard errors"
    assert difference_rows(results, ours="none", task="wine") == []


def test_what_is_infinite_has_no_figure():
    results = [result("ridge", 0, [np.inf, 1.0])]
    (row,) = figure_rows(results, validation=None, row=Row(task="wine", model="ridge", metric=""))
    assert row.value is None and "infinite" in row.note
    own = [result("masked-table", 0, [np.inf, 1.0])]
    assert difference_rows({"masked-table": own, "ridge": results}, ours=OURS[0], task="w") == []


def test_a_result_is_what_was_put(tmp_path):
    put = result("ridge", 3, [0.5, np.inf])
    shift_store(tmp_path).put(replace(put, chosen={"alpha": 0.1}))
    got = shift_store(tmp_path).get(put.key)
    assert got.key == put.key and got.chosen == {"alpha": 0.1} and got.cpu_seconds == 1.0
    np.testing.assert_array_equal(got.losses["0", "mse mean"], [0.5, np.inf])
    assert shift_store(tmp_path).get(replace(put.key, number=4)) is None


@pytest.mark.parametrize("content", [b"", b"PK", b"{}"])
def test_a_damaged_result_is_named(tmp_path, content):
    key = ShiftKey("wine", "test", 0, "ridge")
    path = tmp_path / key.path
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"`folder` must hold results .* at .*ridge.npz"):
        shift_store(tmp_path).get(key)
