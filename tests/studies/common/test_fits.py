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
TINY = {**SMALL, **SIZES, "max_epochs": 2, "progress": False}


@pytest.fixture(scope="module")
def splits():
    groups = simulate_ratings(90, seed=7)
    return Splits(groups[:60], groups[60:75], groups[75:])


@pytest.fixture(scope="module")
def efa():
    return Contender(
        model="efa",
        settings={"draw": "x"},
        fit=fitter(EFA, TINY),
        ensemble=True,
        n_configurations=3,
        paper={"nats": 1.5},
    )


@pytest.fixture(scope="module")
def fits(efa, splits):
    return fit_seeds(efa, splits, seeds=3)


def nats(estimator, groups):
    return {"nats": -estimator.score(groups)}


def test_seeds_differ_and_are_counted_from_0(fits):
    assert [fit.estimator.seed for fit in fits] == [0, 1, 2]
    assert len({fit.estimator.history_.best.validation_nats for fit in fits}) == 3
    assert all(fit.cpu_seconds > 0 and fit.steps == 2 for fit in fits)


def test_a_fit_without_chance_is_made_once(splits):
    marginal = Contender(model="marginal", fit=fitter(Marginal, SMALL), chance=False)
    (fit,) = fit_seeds(marginal, splits, seeds=5)
    assert fit.steps is None
    (row,) = rows_of(marginal, [fit], splits, task="t", measure=nats)
    assert (row.n_seeds, row.steps, row.n_configurations, row.paper) == (None, None, None, None)


def test_rows_hold_means_over_seeds_and_the_cost_of_one_fit(efa, fits, splits):
    row, _ = rows_of(efa, fits, splits, task="t", measure=nats)
    of_seeds = [-fit.estimator.score(splits.test) for fit in fits]
    assert row.value == pytest.approx(np.mean(of_seeds))
    assert row.sd == pytest.approx(np.std(of_seeds, ddof=1))
    assert row.validation == pytest.approx(
        np.mean([-fit.estimator.score(splits.validation) for fit in fits])
    )
    assert (row.n_seeds, row.n_configurations, row.paper, row.steps) == (3, 3, 1.5, 2)
    assert row.cpu_seconds == pytest.approx(np.mean([fit.cpu_seconds for fit in fits]))


def test_an_ensemble_costs_its_members_and_loses_no_more_than_they_do_on_average(efa, fits, splits):
    single, ensemble = rows_of(efa, fits, splits, task="t", measure=nats)
    assert (ensemble.model, ensemble.settings) == ("efa-ensemble", {"draw": "x", "members": 3})
    assert ensemble.value < single.value  # Jensen
    assert (ensemble.n_seeds, ensemble.sd, ensemble.paper, ensemble.steps) == (1, None, None, 6)
    assert ensemble.cpu_seconds == pytest.approx(3 * single.cpu_seconds)


def test_an_ensemble_leaves_its_members_alone(fits):
    together = ensemble_of(fits * 2)
    assert len(together.estimator.members_) == 4
    assert [len(fit.estimator.members_) for fit in fits] == [1, 1, 1]
    assert ensemble_of(fits[:1]) is None


def test_the_ratio_says_how_many_times_faster_a_fit_is(efa, splits):
    fits = [Fit(EFA(), 2.0, 1), Fit(EFA(), 4.0, 1)]
    fitted = replace(efa, reference_seconds=40.0, ensemble=False)
    *_, row = rows_of(fitted, fits, splits, task="t", measure=lambda *_: {"nats": 1.0})
    assert (row.metric, row.value, row.cpu_seconds) == ("cpu-ratio-to-reference", 15.0, 3.0)


class Interrupted(EFA):
    """An estimator whose fit Ctrl-C has ended."""

    def fit(self, X, y=None, *, validation=None, sample_weight=None, checkpoint=None):
        self.histories_ = [History((), "interrupted")]
        return self


def test_a_fit_that_was_cut_short_gives_no_figures(splits):
    with pytest.raises(KeyboardInterrupt, match="cut short"):
        fit_seeds(Contender(model="efa", fit=fitter(Interrupted, {})), splits, seeds=2)


def job(label):
    return Job(label, lambda: [Row(task="t", model=label, metric="nats")])


def interrupt():
    raise KeyboardInterrupt


def test_ctrl_c_leaves_the_rows_that_are_done(capsys):
    rows = gather([job("a"), job("b"), Job("c", interrupt), job("d")])
    assert [row.model for row in rows] == ["a", "b"]
    assert "interrupted at c" in capsys.readouterr().err
    with pytest.raises(KeyboardInterrupt):
        gather([Job("c", interrupt), job("d")])


def test_a_smoke_run_is_small(splits):
    options = Options(fast=True)
    assert len(smaller(splits, options).train) == 48 < len(splits.train)
    assert smaller(splits, Options()) is splits
    settings = {"max_epochs": 60, "dropout": 0.1}
    assert training_of(settings, Options()) == {**settings, "progress": False}
    assert training_of(settings, options)["max_epochs"] < 60
