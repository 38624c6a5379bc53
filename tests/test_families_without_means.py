"""Families without a mean, in estimators, tables and reports: medians stand for predictions."""

import numpy as np
import pandas as pd
import pytest
import torch

import exfam
from estimator_cases import KINDS, make, ratings, same_bits
from exfam import MaskedTableRegressor
from exfam.efa.networks.assemble import _location_slopes
from exfam.estimator.schema import ValueSpec
from exfam.families import LogStudentT, PerItem, Poisson, RoundedStudentT
from exfam.families.mixtures import Mixture
from exfam.groups import Groups
from exfam.report.evaluation import evaluate
from exfam.tables.answers.decisions import decide
from exfam.tables.data import Column

FRAME = ratings(least=2)
FAMILIES = {
    "rounded": RoundedStudentT(start=1, atoms=(5,)),
    "logarithms": LogStudentT(df=4.0),
    "by item": PerItem({"d": RoundedStudentT()}, default=Poisson()),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FAMILIES)
def test_estimators_predict_medians_of_families_without_a_mean(kind, name, tmp_path):
    fitted = make(kind, family=FAMILIES[name], parts="values").fit(FRAME)
    predicted = fitted.predict(FRAME)
    median = fitted.predict(FRAME, quantiles=[0.5])[:, 0]
    infinite = np.isinf(fitted.predict_variance(FRAME))
    of_d = (FRAME["movie"] == "d").to_numpy()
    assert np.isfinite(predicted).all() and np.isfinite(fitted.score(FRAME))
    np.testing.assert_array_equal(infinite, of_d if name == "by item" else True)
    np.testing.assert_array_equal(predicted[infinite], median[infinite])
    fitted.save(tmp_path / "model")
    assert same_bits(exfam.load(tmp_path / "model"), fitted)


def test_reports_take_the_medians_too():
    groups = Groups.from_frame(FRAME, group="user", item="movie", value="stars")
    fitted = make("marginal", family=FAMILIES["rounded"], parts="values").fit(groups)
    mean = evaluate(fitted, groups).mean["stars"]
    np.testing.assert_array_equal(mean, fitted.predict(groups))
    assert np.isfinite(mean).all()


@pytest.mark.parametrize("family", [RoundedStudentT(), LogStudentT()], ids=str)
def test_location_slopes_are_those_of_the_median(family):
    eta = torch.tensor([3.0, -1.0, 1.0])
    spec = ValueSpec("value", family, 0.0, 1.0, tuple(eta.tolist()))
    (slope,) = _location_slopes(spec)[0]
    shift = 0.5 if isinstance(family, RoundedStudentT) else 0.0
    expected = 1 / (float(family.quantile(0.5, eta)) + shift)
    assert float(slope) == pytest.approx(expected, rel=1e-5)


def test_tables_decide_by_the_median():
    column = Column("y", "numeric", knots=np.array([0.0, 5.0]))
    distribution = Mixture(LogStudentT(), torch.tensor([[[1.3, 0.1, 0.0]]]).double())
    decided = [decide(distribution, column, rule=rule).item() for rule in ("mean", "median")]
    assert decided == pytest.approx([np.exp(1.3)] * 2)
    random = np.random.default_rng(0)
    table = pd.DataFrame({"x": random.normal(size=60)})
    price = np.exp(table["x"].to_numpy() + random.standard_t(4, 60))
    model = MaskedTableRegressor(base="none", max_epochs=2, family="log-student-t", progress=False)
    predicted = model.fit(table, price).predict(table)
    np.testing.assert_allclose(predicted, model.predict_dist(table).quantile(0.5))
    assert np.isfinite(model.score(table, price)) and np.isfinite(model.log_score(table, price))
