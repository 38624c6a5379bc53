"""Fits of experiments, and the program that runs them."""

import importlib
import json
import sys
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from exfam.checks import ExfamError
from exfam.efa.baselines import Marginal
from exfam.efa.efa import EFA
from exfam.families import Gaussian
from exfam.simulators import simulate_ratings
from exfam.training.history import History
from exfam_studies.common.experiments import EXPERIMENTS, title
from exfam_studies.common.fits import (
    Contender,
    Fit,
    Job,
    ensemble_of,
    fit_seeds,
    fitter,
    gather,
    rows_of,
    smaller,
    training_of,
)
from exfam_studies.common.harness import Options, reproduce
from exfam_studies.common.rows import Row
from exfam_studies.common.splits import Splits

SMALL = {"family": Gaussian(scale=1.0), "parts": "values"}
SIZES = {"embed_dim": 4, "head_dim": 4, "n_layers": 1, "batch_size": 64, "dropout": 0.0}
EFA_FIT = fitter(EFA, {**SMALL, **SIZES, "max_epochs": 2, "progress": False})
CONTENDER = Contender(
    model="efa", settings={"draw": "x"}, fit=EFA_FIT, ensemble=True, n_configurations=3,
    paper={"nats": 1.5},
)  # fmt: skip


@pytest.fixture(scope="module")
def splits():
    groups = simulate_ratings(90, seed=7)
    return Splits(groups[:60], groups[60:75], groups[75:])


@pytest.fixture(scope="module")
def fits(splits):
    return fit_seeds(CONTENDER, splits, seeds=3)


def rows_by(contender, fits, splits):
    def nats(estimator, groups):
        return {"nats": -estimator.score(groups)}

    return rows_of(contender, fits, splits, task="t", measure=nats)


def test_a_fit_without_chance_is_made_once(splits):
    marginal = Contender(model="marginal", fit=fitter(Marginal, SMALL), chance=False)
    (fit,) = fit_seeds(marginal, splits, seeds=5)
    (row,) = rows_by(marginal, [fit], splits)
    assert fit.steps is None and (row.n_seeds, row.steps, row.paper) == (None, None, None)


def test_rows_hold_means_over_seeds_and_the_cost_of_one_fit(fits, splits):
    assert [fit.estimator.seed for fit in fits] == [0, 1, 2]
    assert len({fit.estimator.history_.best.validation_nats for fit in fits}) == 3
    row, ensemble = rows_by(CONTENDER, fits, splits)
    of_seeds = [-fit.estimator.score(splits.test) for fit in fits]
    assert row.value == pytest.approx(np.mean(of_seeds))
    assert row.sd == pytest.approx(np.std(of_seeds, ddof=1))
    of_validation = [-fit.estimator.score(splits.validation) for fit in fits]
    assert row.validation == pytest.approx(np.mean(of_validation))
    assert (row.n_seeds, row.n_configurations, row.paper, row.steps) == (3, 3, 1.5, 2)
    assert row.cpu_seconds == pytest.approx(np.mean([fit.cpu_seconds for fit in fits]))
    assert (ensemble.model, ensemble.settings) == ("efa-ensemble", {"draw": "x", "members": 3})
    assert ensemble.value < row.value  # Jensen
    assert (ensemble.n_seeds, ensemble.sd, ensemble.paper, ensemble.steps) == (1, None, None, 6)
    assert ensemble.cpu_seconds == pytest.approx(3 * row.cpu_seconds)


def test_an_ensemble_leaves_its_members_alone(fits):
    assert len(ensemble_of(fits * 2).estimator.members_) == 4
    assert [len(fit.estimator.members_) for fit in fits] == [1, 1, 1]
    assert ensemble_of(fits[:1]) is None


def test_the_ratio_says_how_many_times_faster_a_fit_is(splits):
    fits = [Fit(EFA(), 2.0, 1), Fit(EFA(), 4.0, 1)]
    fitted = replace(CONTENDER, reference_seconds=40.0, ensemble=False)
    *_, row = rows_of(fitted, fits, splits, task="t", measure=lambda *_: {"nats": 1.0})
    assert (row.metric, row.value, row.cpu_seconds) == ("cpu-ratio-to-reference", 15.0, 3.0)


def test_a_fit_that_was_cut_short_gives_no_figures(splits, monkeypatch):
    monkeypatch.setattr(History, "interrupted", property(lambda history: True))
    with pytest.raises(KeyboardInterrupt, match="cut short"):
        fit_seeds(CONTENDER, splits, seeds=2)


def test_ctrl_c_leaves_the_rows_that_are_done(capsys):
    def interrupt():
        raise KeyboardInterrupt

    row = Row(task="t", model="a", metric="nats")
    a, b = Job("a", lambda: [row]), Job("b", interrupt)
    assert gather([a, a, b, a]) == [row, row]
    assert "interrupted at b" in capsys.readouterr().err
    with pytest.raises(KeyboardInterrupt):
        gather([b, a])


def test_a_smoke_run_is_small(splits):
    options = Options(fast=True)
    assert len(smaller(splits, options).train) == 48 < len(splits.train)
    assert smaller(splits, Options()) is splits
    settings = {"max_epochs": 60, "dropout": 0.1}
    assert training_of(settings, Options()) == {**settings, "progress": False}
    assert training_of(settings, options)["max_epochs"] < 60


@pytest.fixture
def toy(monkeypatch):
    """An experiment whose rows say what was requested."""
    module = ModuleType("exfam_studies.toy")
    module.TASKS, module.PLOTTED = ("one", "two"), {"nats": None}

    def run(options):
        row = Row(task="", model="efa", metric="nats", value=1.0, n_seeds=options.n_seeds(5))
        tasks = [task for task in module.TASKS if options.wants(task)]
        return [Row(**{**vars(row), "task": task}) for task in tasks]

    module.run = run
    monkeypatch.setitem(sys.modules, "exfam_studies.toy", module)
    monkeypatch.setitem(EXPERIMENTS, "toy", "toy")
    return module


def test_rows_are_printed_written_and_plotted(toy, tmp_path, capsys):
    json_file, out = tmp_path / "rows.json", tmp_path / "new" / "plots"
    rows = reproduce("toy", options=Options(seeds=3, out=out), json=json_file)
    assert [row.task for row in rows] == ["one", "two"]
    printed = capsys.readouterr().out
    assert "toy: one" in printed and "toy: two" in printed
    assert {path.name for path in out.glob("*.png")} == {"toy-one-nats.png", "toy-two-nats.png"}
    assert json_file.read_text() == (out / "toy.json").read_text()
    assert [row["n_seeds"] for row in json.loads(json_file.read_text())["rows"]] == [3, 3]


def test_only_the_named_tasks_run(toy):
    rows = reproduce("toy", options=Options(only=["two"], fast=True))
    assert [(row.task, row.n_seeds) for row in rows] == [("two", 1)]
    assert not Options().wants("a", is_long=True) and Options(only=["a"]).wants("a", is_long=True)
    with pytest.raises(ExfamError, match="`name` must be one of 'efa-synthetic', .*, got 'none'"):
        reproduce("none", options=Options())
    with pytest.raises(ExfamError, match="`only` must be one of 'one', 'two', got 'three'"):
        reproduce("toy", options=Options(only=["one", "three"]))
    with pytest.raises(ExfamError, match="`seeds` must be a number > 0, got 0"):
        Options(seeds=0)


def test_every_experiment_has_the_agreed_face_and_is_listed(capsys):
    from exfam.cli import main

    assert main(["reproduce", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, line in zip(EXPERIMENTS, lines, strict=True):
        module = importlib.import_module(f"exfam_studies.{EXPERIMENTS[name]}")
        assert module.TASKS and len(set(module.TASKS)) == len(module.TASKS)
        assert callable(module.run) and title(name).endswith(".")
        assert line.split()[0] == name and line.endswith(title(name))
