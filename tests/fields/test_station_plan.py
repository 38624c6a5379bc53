"""Where one more station helps most: as a pseudo-station there says."""

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose

from exfam.checks import ExfamError
from exfam.fields import station_plan
from exfam.fields.base.conditionals import MOST_DF
from fields.field_cases import FULL, make

PLACES = np.array([[0.5, 0.2], [1.5, 0.2], [2.5, 0.6], [3.5, 0.5]])
CANDIDATES = np.array([[0.7, 0.2], [2.6, 0.7], [3.4, 0.4]])


def gaussian(**parameters):
    """A fitted base whose tails are those of a Gaussian: variances do not depend on values."""
    model = make("field-gaussian", **parameters).fit(FULL)
    chosen = model.members_[0].value_part.chosen
    stretch = float(chosen[-6])
    chosen[-9:-3] = torch.tensor([MOST_DF, 0.0, MOST_DF, stretch, MOST_DF, 0.0]).double()
    return model


def last_maps(frame, n):
    return frame[frame.day.isin(sorted(frame.day.unique())[:n])]


@pytest.mark.parametrize("lags", [0, 1])
def test_a_pseudo_station_lowers_variances_as_said(lags):
    model, data = gaussian(lags=lags), last_maps(FULL, 1 + lags)
    plan = station_plan(model, CANDIDATES, places=PLACES)

    def variances(rows):
        return model.predict_dist(rows, at=PLACES).variance.reshape(-1, len(PLACES))[-1]

    before = variances(data)
    assert_allclose(plan.spread**2, before, rtol=1e-3)
    assert_allclose(plan.variance, before.mean(), rtol=1e-3)
    lowered = []
    for x, y in CANDIDATES:
        station = data.iloc[:1].assign(site="new", x=x, y=y, v=12.0, day=data.day.max())
        lowered.append(before.mean() - variances(pd.concat([data, station])).mean())
    assert_allclose(plan.reduction, lowered, atol=1e-3 * before.mean())
    assert np.ptp(plan.reduction) > 0.01 * before.mean(), "candidates differ"
    assert plan.best == int(np.argmax(lowered))
    assert_allclose(plan.share, plan.reduction / before.mean(), rtol=1e-3)


def test_a_measurement_at_a_place_of_the_map_makes_that_place_known():
    model = gaussian(lags=0)
    plan = station_plan(model, PLACES[:1], places=PLACES[:1])
    assert_allclose(plan.share, 1.0)


def test_candidates_are_the_grid_between_the_sites_unless_given():
    plan = station_plan(gaussian(lags=0), n_places=60)
    assert np.array_equal(plan.candidates, plan.places)
    assert 20 < len(plan.places) < 200
    assert (plan.reduction > 0).all() and plan.reduction.max() <= plan.variance
    low, high = plan.places.min(0), plan.places.max(0)
    assert (low >= [0.0, 0.0]).all() and (high <= [4.5, 1.0]).all()


def test_models_without_a_base_and_too_many_places_are_refused():
    with pytest.raises(ExfamError, match="`model` must be a FieldGaussian, or a FieldEFA with a"):
        station_plan(make("field-kriging").fit(FULL))
    model = gaussian(lags=0)
    with pytest.raises(ExfamError, match="`candidates` and `places` must be 3,000 together at"):
        station_plan(model, np.random.default_rng(0).random((3000, 2)), places=PLACES)
    near = FULL.assign(x=1.0, y=2.0)
    with pytest.raises(ExfamError, match="`places` must be given where all sites are at one pla"):
        station_plan(make("field-gaussian").fit(near))
    high = FULL.assign(high=FULL.x)
    with pytest.raises(ExfamError, match="`places` must be given with their covariates"):
        station_plan(make("field-gaussian", covariates="high").fit(high))


def test_many_sites_are_refused(monkeypatch):
    monkeypatch.setattr("exfam.fields.field_base.MOST_COLUMNS", 3)
    with pytest.raises(ExfamError, match="`model` must hold the covariance of all of its sites"):
        station_plan(make("field-gaussian", lags=0).fit(FULL))
