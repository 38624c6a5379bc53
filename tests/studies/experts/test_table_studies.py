"""Fits of tables are made once and kept; rows are means over fits, differences are paired."""

import numpy as np
import pytest

from exfam_studies.common.fits import Contender
from exfam_studies.common.harness import Options, reproduce
from exfam_studies.common.kept import Key, Measured
from exfam_studies.experts import table_shifts
from exfam_studies.experts.table_shifts import ShiftTask
from exfam_studies.experts.tables import coded as coded_tasks
from exfam_studies.experts.tables.coded import PAPER, CodedTask
from exfam_studies.experts.tables.data import SHARES
from exfam_studies.experts.tables.fits import CODED
from exfam_studies.experts.tables.models import OURS, coded_models
from exfam_studies.experts.tables.peers import fit_ridge
from studies.experts.table_cases import coded, toy

TASK = "simulation-5-0-0.9"


def rows_by(rows, **wanted):
    """The rows whose settings or fields are these."""
    return [
        row
        for row in rows
        if all(row.settings.get(k, getattr(row, k, None)) == v for k, v in wanted.items())
    ]


@pytest.fixture
def fits(monkeypatch):
    """Quick models of both kinds of tables, one not installed, and the fits that were made."""
    noted = []
    peers = {name: model.fit for name, model in coded_models(fast=True).items()}

    def contender(name, fit, **rest):
        def noting(table, *, seed):
            noted.append((name, len(table.train_y), seed))
            return fit(table, seed=seed)

        return Contender(model=name, fit=noting, **rest)

    gone = Contender(model="gone", fit=fit_ridge, package="no_such_package")
    probit = peers["ordered-probit"]
    of_codes = {
        "masked-table": contender("masked-table", peers["ridge"], most_fits=3),
        "ordered-probit": contender("ordered-probit", probit, chance=False, most_fits=2),
        "gone": gone,
    }
    names = ("masked-table", "ridge", "ridge-dropped")
    of_shifts = {name: contender(name, fit_ridge) for name in names} | {"gone": gone}
    monkeypatch.setattr(coded_tasks, "coded_models", lambda *, fast: of_codes)
    monkeypatch.setattr(table_shifts, "shift_models", lambda task, *, fast: of_shifts)
    return noted


@pytest.fixture
def shifts(monkeypatch):
    tasks = {
        "whole": ShiftTask("whole", "ordinal", lambda: toy("ordinal", n=200), n_rows=150),
        "some": ShiftTask("some", "regression", lambda: toy("regression", n=200), dropped=True),
    }  # fmt: skip
    monkeypatch.setattr(table_shifts, "_TASKS", tasks)
    monkeypatch.setattr(table_shifts, "TASKS", tuple(tasks))


def test_a_setting_is_fitted_once_and_kept(fits, tmp_path):
    options = Options(fast=True, seeds=3, only=[TASK], folder=tmp_path)
    rows = reproduce("table-simulation", options=options)
    assert len(fits) == 2 * (3 + 2)
    assert reproduce("table-simulation", options=options) == rows and len(fits) == 10
    mse = rows_by(rows, model="masked-table", metric="mse", rule="mean", bins="train")
    assert mse[0].n_seeds == 3 and mse[0].sd > 0 and "standard error" in mse[0].note
    assert rows_by(rows, model="gone")[0].note == "not installed"
    # Of the data sets of both.
    apart = rows_by(rows, metric="minus-mse", against="ordered-probit", bins="pooled")
    assert apart[0].n_seeds == 2 and "standard errors" in apart[0].note


def test_cars_are_fitted_once_where_nothing_is_left_to_chance(fits, data_folder, tmp_path):
    rows = reproduce("table-autompg", options=Options(seeds=2, folder=tmp_path, fast=True))
    ours = rows_by(rows, model="masked-table", metric="accuracy", rule="argmax", bins="pooled")
    assert ours[0].value == pytest.approx(0.764, abs=5e-4) and ours[0].n_seeds == 2
    probit = rows_by(rows, model="ordered-probit", metric="mse", rule="mean", bins="pooled")
    assert probit[0].value == pytest.approx(0.236, abs=5e-4) and probit[0].n_seeds is None
    printed = rows_by(rows, model="reference", metric="accuracy")
    assert printed[0].value is None and printed[0].paper == 0.793


def test_each_fit_to_a_shifted_table_is_made_once_and_kept(fits, shifts, tmp_path):
    options = Options(seeds=2, folder=tmp_path)
    rows = reproduce("table-shifts", options=options)
    # Two seeds, and one fit for validation.
    assert len(fits) == 3 * (2 + 3) and {n for _, n, _ in fits} == {200, 160, 150, 120}
    assert reproduce("table-shifts", options=options) == rows and len(fits) == 15
    assert rows_by(rows, model="gone")[0].note == "not installed"
    assert not rows_by(rows, task="whole", model="ridge-dropped")
    assert "150 training rows" in rows_by(rows, task="whole", model="ridge")[0].note
    row = rows_by(rows, task="some", model="ridge", metric="mse", dropped=0.5, by="cell")[0]
    assert row.n_seeds == 2 and row.sd > 0 and row.validation > 0 and row.settings["error"] > 0
    for by in ("cell", "column"):
        few, many = (
            rows_by(rows, model="ridge", metric="mse", dropped=share, by=by)[0].value
            for share in (0.1, 0.7)
        )
        assert few < many
    # Where cells are dropped, only a model fitted to such rows is compared.
    for model, n in (("ridge", 1), ("ridge-dropped", 1 + 2 * len(SHARES[1:]))):
        same = rows_by(rows, task="some", metric="minus-mse", against=model, model="masked-table")
        assert len(same) == n and all(row.value == 0 for row in same)


def coded_result(model, number, mse, **losses):
    values = {**dict.fromkeys(CODED, mse), **losses}
    losses = {name: np.array([value], float) for name, value in values.items()}
    return Measured({}, losses, cpu_seconds=1.0, key=Key((TASK, "pooled", model), number))


def coded_task(bins="pooled"):
    return CodedTask(TASK, bins, lambda seed: coded(), 3, Options())


def test_differences_are_paired():
    ours = [coded_result(OURS[0], k, mse) for k, mse in enumerate([1.0, 2.0, 4.0])]
    results = {
        OURS[0]: ours,
        "other": [coded_result("other", k, mse) for k, mse in [(1, 3.0), (2, 6.0), (5, 0.0)]],
        "alone": [coded_result("alone", 9, 1.0)],
        "same": ours,
    }
    rows = [row for row in coded_task().further_rows(results) if row.metric.startswith("minus-")]
    assert [row.settings["against"] for row in rows] == ["other", "other", "same", "same"]
    assert rows[1].metric == "minus-mse" and rows[1].n_seeds == 2
    assert rows[1].value == pytest.approx(np.mean([2 - 3, 4 - 6]))
    assert rows[1].note == "-3.0 standard errors" and rows[3].note == ""


def test_the_paper_is_quoted_for_its_rule_and_bins_alone():
    result = [coded_result("logistic-regression", 0, 1.0)]
    for bins in ("pooled", "train"):
        rows = coded_task(bins).model_rows("logistic-regression", result)
        printed = {(row.metric, row.settings.get("rule")): row.paper for row in rows if row.paper}
        pooled = {("accuracy", "argmax"): 0.162, ("mse", "argmax"): 5.674}
        assert printed == (pooled if bins == "pooled" else {})
    assert PAPER["simulation-1-0.5-0.1"]["reference"] == {"accuracy": 0.359, "mse": 3.281}
    assert PAPER["autompg"]["reference"] == {"accuracy": 0.793, "mse": 0.207}


def shift_result(model, number, rows, *, part="test"):
    losses = {"0 | mse mean": np.array(rows, dtype=float)}
    return Measured({}, losses, cpu_seconds=1.0, key=Key(("wine", part, model), number))


def test_errors_are_over_rows_and_sds_over_fits():
    wine, ours = table_shifts._TASKS["wine"], OURS[0]
    results = [
        shift_result("ridge", 0, [7, 9], part="validation"),
        shift_result("ridge", 0, [1, 2, 6]),
        shift_result("ridge", 1, [3, 4, 8]),
    ]
    (row,) = wine.model_rows("ridge", results)
    assert (row.metric, row.value, row.validation, row.n_seeds) == ("mse", 4.0, 8.0, 2)
    assert row.sd == pytest.approx(np.sqrt(2))
    assert row.settings["error"] == pytest.approx(np.std([2, 3, 7], ddof=1) / 3**0.5, rel=1e-3)
    assert row.settings["dropped"] == 0 and row.settings["rule"] == "mean"
    # Differences are row by row, of the fits of both.
    results = {
        ours: [shift_result(ours, 0, [1, 2, 3]), shift_result(ours, 1, [3, 3, 3])],
        "ridge": [shift_result("ridge", 1, [2, 4, 6]), shift_result("ridge", 3, [0, 0, 0])],
    }
    (row,) = wine.further_rows(results)
    assert (row.model, row.metric, row.value, row.n_seeds) == (ours, "minus-mse", -1.0, 1)
    error = np.std([1, -1, -3], ddof=1) / 3**0.5
    assert row.note == f"{-1 / error:+.1f} standard errors" and row.settings["against"] == "ridge"


def test_what_is_infinite_has_no_figure():
    never = coded_result("random-forest", 0, 1.0, nats=np.inf, **{"nats-mixed": 2.5})
    row = coded_task().model_rows("random-forest", [never])[-1]
    assert row.metric == "nats" and row.value is None
    assert "infinite" in row.note and "2.500" in row.note
    never = [shift_result("ridge", 0, [np.inf, 1.0])]
    (row,) = table_shifts._TASKS["wine"].model_rows("ridge", never)
    assert row.value is None and "infinite" in row.note
    assert table_shifts._TASKS["wine"].further_rows({OURS[0]: never, "ridge": never}) == []
