import json
from dataclasses import replace

import numpy as np
import pytest

from exfam.checks import DataError
from exfam_studies.common.harness import Options, reproduce
from exfam_studies.experts import table_models
from exfam_studies.experts.table_autompg import kept as kept_cars
from exfam_studies.experts.table_models import PEERS, TableContender
from exfam_studies.experts.table_paper import PAPER, paper_figures
from exfam_studies.experts.table_rows import model_rows, paired_rows
from exfam_studies.experts.table_simulation import TASKS, kept
from exfam_studies.experts.table_store import Key, Result, table_store

TASK = "simulation-5-0-0.9"


@pytest.fixture
def fits(monkeypatch):
    """Two quick models and one that is not installed, and the fits that were made."""
    made = []

    def listed(name):
        def fit(train_x, train_y, *, n_categories, seed):
            made.append((name, len(train_y), seed))
            return PEERS[name].fit(train_x, train_y, n_categories=n_categories, seed=seed)

        return fit

    models = {
        "masked-table": TableContender(listed("ridge"), n_data_sets=3),
        "ordered-probit": TableContender(listed("ordered-probit"), chance=False, n_data_sets=2),
        "gone": TableContender(PEERS["ridge"].fit, package="no_such_package"),
        "slow": TableContender(PEERS["ridge"].fit, fast=False),
    }
    monkeypatch.setattr(table_models, "TABLE_MODELS", models)
    return made


def rows_by(rows, **wanted):
    return [
        row
        for row in rows
        if all(row.settings.get(k, getattr(row, k, None)) == v for k, v in wanted.items())
    ]


def test_a_setting_is_fitted_once_and_kept(fits, tmp_path):
    options = Options(fast=True, seeds=3, only=[TASK], folder=tmp_path)
    rows = reproduce("table-simulation", options=options)
    assert len(fits) == 2 * (3 + 2)
    again = reproduce("table-simulation", options=options)
    assert again == rows and len(fits) == 10
    assert {row.model for row in kept(options)} >= {"masked-table", "ordered-probit", "reference"}
    assert len(fits) == 10
    mse = rows_by(rows, model="masked-table", metric="mse", rule="mean", bins="train")
    assert mse[0].n_seeds == 3 and mse[0].sd > 0 and "standard error" in mse[0].note
    assert rows_by(rows, model="gone")[0].note == "not installed"
    assert not rows_by(rows, model="slow")


def test_models_are_compared_on_the_data_sets_of_both(fits, tmp_path):
    rows = reproduce("table-simulation", options=Options(fast=True, seeds=3, only=[TASK]))
    apart = rows_by(rows, metric="minus-mse", against="ordered-probit", bins="pooled")
    assert apart[0].n_seeds == 2 and "standard errors" in apart[0].note


def test_cars_are_fitted_once_where_nothing_is_left_to_chance(fits, data_folder, tmp_path):
    options = Options(seeds=2, folder=tmp_path, fast=True, out=tmp_path / "plots")
    rows = reproduce("table-autompg", options=options)
    ours = rows_by(rows, model="masked-table", metric="accuracy", rule="argmax", bins="pooled")
    assert ours[0].value == pytest.approx(0.764, abs=5e-4) and ours[0].n_seeds == 2
    probit = rows_by(rows, model="ordered-probit", metric="mse", rule="mean", bins="pooled")
    assert probit[0].value == pytest.approx(0.236, abs=5e-4) and probit[0].n_seeds is None
    printed = rows_by(rows, model="reference", metric="accuracy")
    assert printed[0].value is None and printed[0].paper == 0.793
    bare = [replace(row, run=None, parameters={}) for row in rows if row.model != "gone"]
    assert kept_cars(options) == bare
    assert (tmp_path / "plots" / "table-autompg-mse.png").is_file()


def test_a_result_is_what_was_put(tmp_path):
    key = Key("autompg", "pooled", 3, "ridge")
    result = Result(key, {"nats": None, "mse-mean": 0.25}, 1.5, {"alpha": 0.1})
    table_store(tmp_path).put(result)
    assert table_store(tmp_path).get(key) == result
    assert table_store(tmp_path).get(Key("autompg", "train", 3, "ridge")) is None
    assert [path.name for path in (tmp_path / key.path).parent.iterdir()] == ["ridge.json"]


@pytest.mark.parametrize("text", ["{", json.dumps({"key": {}}), "[]"])
def test_a_damaged_result_is_named(tmp_path, text):
    key = Key("autompg", "pooled", 0, "ridge")
    path = tmp_path / key.path
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(DataError, match=r"`folder` must hold results .* at .*ridge.json"):
        table_store(tmp_path).get(key)


def result(model, number, mse):
    figures = {f"{m}-{r}": mse for m in ("accuracy", "mse") for r in ("argmax", "mean")}
    return Result(Key(TASK, "pooled", number, model), {**figures, "nats": 1.0}, 1.0)


def test_differences_are_paired():
    results = {
        "ours": [result("ours", k, mse) for k, mse in enumerate([1.0, 2.0, 4.0])],
        "other": [result("other", k, mse) for k, mse in [(1, 3.0), (2, 6.0), (5, 0.0)]],
        "alone": [result("alone", 9, 1.0)],
    }
    rows = paired_rows(results, ours="ours", task=TASK, bins="pooled")
    assert [row.settings["against"] for row in rows] == ["other", "other"]
    assert rows[1].metric == "minus-mse" and rows[1].n_seeds == 2
    assert rows[1].value == pytest.approx(np.mean([2 - 3, 4 - 6]))
    assert rows[1].note == "-3.0 standard errors"
    assert paired_rows(results, ours="none", task=TASK, bins="pooled") == []
    alike = {"ours": results["ours"], "same": results["ours"]}
    assert paired_rows(alike, ours="ours", task=TASK, bins="pooled")[1].note == ""


def test_infinite_nats_are_told_in_words():
    never = Result(
        Key(TASK, "pooled", 0, "random-forest"),
        {**result("x", 0, 1.0).figures, "nats": None, "nats-mixed": 2.5},
        1.0,
    )
    row = model_rows([never], PEERS["random-forest"], task=TASK, bins="pooled")[-1]
    assert row.metric == "nats" and row.value is None and "infinite" in row.note
    assert "2.500" in row.note


def test_the_paper_is_quoted_for_its_rule_and_bins_alone():
    known = [result("logistic-regression", 0, 1.0)]
    for bins in ("pooled", "train"):
        rows = model_rows(known, PEERS["logistic-regression"], task=TASK, bins=bins)
        printed = {(row.metric, row.settings.get("rule")): row.paper for row in rows if row.paper}
        pooled = {("accuracy", "argmax"): 0.162, ("mse", "argmax"): 5.674}
        assert printed == (pooled if bins == "pooled" else {})


def test_the_paper_has_twelve_settings_and_cars():
    assert len(TASKS) == 12 and set(PAPER) == {*TASKS, "autompg"}
    assert paper_figures("simulation-1-0.5-0.1", "reference") == {"accuracy": 0.359, "mse": 3.281}
    assert paper_figures("simulation-5-1.5-0.9", "mlp-tuned")["mse"] == 9.966
