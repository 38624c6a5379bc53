from dataclasses import replace

import numpy as np
import pytest

from exfam.efa.baselines import Marginal
from exfam.efa.efa import EFA
from exfam.families import Gaussian
from exfam.simulators import simulate_ratings
from exfam.training.history import History
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
from exfam_studies.common.harness import Options
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
