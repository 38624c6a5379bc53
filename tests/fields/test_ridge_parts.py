"""The two closed-form normal baselines of fields."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from exfam.checks import DataError, ExfamError
from exfam.fields.networks.climate import Climate, fit_climate
from exfam.fields.networks.ridge import (
    RidgeCovariancePart,
    RidgeSitePart,
    fit_ridge_covariance,
    fit_ridge_site,
)
from exfam.fields.networks.slots import n_lags_of, slot_table, time_folds
from map_cases import (
    LEVEL,
    N_SITES,
    SCALE,
    assert_leave_one_out,
    batch_of,
    make_maps,
    true_covariance,
)

FITS = {"covariance": fit_ridge_covariance, "site": fit_ridge_site}
PARTS = {"covariance": RidgeCovariancePart, "site": RidgeSitePart}
FEW = (0.01, 0.1, 1.0)
every_kind = pytest.mark.parametrize("kind", FITS)
every_lag = pytest.mark.parametrize("lags", [0, 2])


def plain():
    """A climate of 0 and 1: anomalies are the values themselves."""
    sizes = {"n_sites": N_SITES, "n_dims": 2, "metric": "haversine", "period": 365.25, "step": 1.0}
    return Climate("none", **sizes)


def fitted(kind, groups, **choices):
    climate = choices.pop("climate", None) or fit_climate(groups, kind="site", metric="haversine")
    choices.setdefault("ridges", FEW)
    return FITS[kind](groups, climate=climate, **choices)


@every_kind
@every_lag
def test_conditionals_leave_the_element_out(kind, lags):
    part = fitted(kind, make_maps(lags=lags))
    assert_leave_one_out(part, batch_of(make_maps(12, seed=1, lags=lags, missing=0.3)))


@every_kind
def test_earlier_maps_inform_and_are_not_targets(kind):
    groups = make_maps(lags=1)
    part, batch = fitted(kind, groups), batch_of(groups)
    assert batch.steps_back[1, 0] == 1 and batch.steps_back[0].max() == 0
    values = batch.values["value"].clone()
    values[1, 0] += 5.0
    batch.values["value"].copy_(values)
    moved = part.eta(batch)[..., 0] - part.eta(batch_of(groups))[..., 0]
    own = batch.present & (batch.steps_back == 0)
    assert moved[1][own[1]].abs().max() > 0.01
    assert moved[2:][own[2:]].abs().max() == 0


@every_lag
def test_regressions_are_those_of_scikit_learn(lags):
    groups = make_maps(lags=lags)
    groups = groups[(groups.context_stop > groups.context_start).all(1)] if lags else groups
    part = fitted("site", groups, climate=plain(), ridges=[0.1])
    table = slot_table(groups, plain(), n_sites=N_SITES, n_lags=n_lags_of(groups))
    assert table.known.all()
    z = table.value.numpy()
    for i in range(N_SITES):
        others = np.delete(np.arange(z.shape[1]), i)
        peer = Ridge(alpha=len(z) * part.ridge[i].item()).fit(z[:, others], z[:, i])
        np.testing.assert_allclose(part.coefficients[i, others], peer.coef_, atol=1e-9)
        own = part.eta(batch_of(groups))[..., 0][:, -N_SITES + i]
        np.testing.assert_allclose(own, peer.predict(z[:, others]), rtol=1e-6)
    assert part.coefficients[:, :N_SITES].diagonal().abs().max() == 0
    joint = fitted("covariance", groups, climate=plain(), ridges=[0.1])
    one, two = (each.eta(batch_of(groups))[:, -N_SITES:, 0] for each in (part, joint))
    torch.testing.assert_close(one, two)


@every_kind
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_intervals_hold_what_they_promise(kind, missing):
    part = fitted(kind, make_maps(90, lags=1, missing=missing))
    batch = batch_of(make_maps(400, seed=5, lags=1, missing=missing))
    own = batch.target & batch.observed
    mean, log_scale = part.eta(batch).unbind(-1)
    z = ((batch.values["value"] - mean) / log_scale.exp())[own]
    assert 0.86 < (z.abs() < 1.6449).double().mean() < 0.94
    site = batch.item[own]
    for i in range(N_SITES):
        assert 0.7 < z[site == i].std() < 1.3


def test_the_law_of_known_truth_is_nearly_as_good_as_the_truth():
    train, test = make_maps(500, memory=0.0), make_maps(300, seed=9, memory=0.0)
    part = fitted("covariance", train, ridges=[1e-4, 1e-3, 1e-2, 0.1])
    batch = batch_of(test)
    precision = np.linalg.inv(true_covariance())
    z = (batch.values["value"].numpy() - LEVEL) / SCALE
    truth = z - z @ precision / np.diag(precision)
    best = np.mean((z - truth) ** 2)
    own = (batch.values["value"].double() - part.eta(batch)[..., 0]).numpy() / SCALE
    assert best < np.mean(own**2) < 1.05 * best


@every_kind
def test_the_ridge_follows_the_data(kind):
    random = np.random.default_rng(0)
    groups = make_maps(90)
    noise = groups.with_(values={"value": random.normal(size=groups.n_elements)})
    common = np.repeat(random.normal(size=len(groups)), N_SITES)
    alike = groups.with_(values={"value": common + 0.01 * random.normal(size=groups.n_elements)})
    strong, weak = (
        fitted(kind, each, climate=plain(), ridges=[1e-4, 1e-2, 1.0, 100.0])
        for each in (noise, alike)
    )
    assert strong.ridge.median() > 100 * weak.ridge.max()


@every_kind
def test_validation_maps_choose_in_place_of_folds(kind):
    train = make_maps(40)
    wider = make_maps(40, seed=2)
    value = wider.values["value"]
    wide = wider.with_(
        values={"value": value + 3 * np.random.default_rng(0).normal(size=len(value))}
    )
    calm = fitted(kind, train, validation=make_maps(40, seed=2))
    wild = fitted(kind, train, validation=wide)
    assert wild.inflation.mean() > 1.5 * calm.inflation.mean()


def test_missing_predictors_widen_by_what_they_would_have_said():
    groups = make_maps()
    part = fitted("site", groups, climate=plain())
    batch = batch_of(groups, [0])
    hidden = batch.observed.clone()
    hidden[0, [1, 4]] = False
    mean, log_scale = part.eta(replace(batch, observed=hidden))[0].unbind(-1)
    b = part.coefficients[:, [1, 4]]
    added = ((b @ part.moments[[1, 4]][:, [1, 4]]) * b).sum(-1)
    torch.testing.assert_close((2 * log_scale).exp(), part.inflation * (part.residual + added))
    z = batch.values["value"][0].double() - part.mean
    z[[1, 4]] = 0.0
    torch.testing.assert_close(mean, part.mean + part.coefficients @ z)
    assert added[[0, 2]].min() > 0


@every_kind
def test_a_site_that_training_never_saw_has_the_climate_alone(kind):
    groups = make_maps(40)
    unseen = groups.item == 2
    part = fitted(kind, groups.with_(observed=~unseen))
    batch = batch_of(groups)
    location, scale, doubt = (each.double() for each in part.climate(batch))
    mean, log_scale = part.eta(batch).unbind(-1)
    torch.testing.assert_close(mean[:, 2], location[:, 2])
    expected = (scale.square() + doubt.square()).sqrt()
    torch.testing.assert_close(log_scale.exp()[:, 2], expected[:, 2])
    assert doubt[:, 2].min() > doubt[:, 1].max()
    without = part.eta(batch_of(groups.with_(observed=~unseen)))
    torch.testing.assert_close(without, part.eta(batch))


def test_seasons_are_held_out_whole_and_blocks_where_there_are_none():
    time = np.array([5.0, 1, 2, 3, 4, 101, 102, 103, 201, 202])
    folds = time_folds(time, n_folds=6)
    assert [time[fold].tolist() for fold in folds] == [[5, 1, 2, 3, 4], [101, 102, 103], [201, 202]]
    blocks = time_folds(np.arange(10.0), n_folds=4)
    assert np.sum(blocks, 0).tolist() == [1] * 10 and len(blocks) == 4
    assert all(np.ptp(np.flatnonzero(block)) == block.sum() - 1 for block in blocks)
    assert len(time_folds(np.arange(3.0), n_folds=6)) == 3


def test_what_cannot_be_fitted_is_refused():
    with pytest.raises(DataError, match="`groups` must hold at least 2 maps, got 1"):
        fitted("site", make_maps(6)[:1])
    part = fitted("site", make_maps())
    with pytest.raises(ExfamError, match="`item` must be given for a model of known sites"):
        part.eta(batch_of(make_maps(3).with_(item=None)))


@every_kind
@pytest.mark.parametrize("value", [0.0, 0.1])
def test_values_that_never_vary_are_refused(kind, value):
    maps = make_maps()
    constant = np.full(len(maps.item), value)
    with pytest.raises(DataError, match="must vary around .*, got values that never do, such as"):
        fitted(kind, maps.with_(values={"value": constant}))
