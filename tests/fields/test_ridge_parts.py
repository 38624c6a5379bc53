"""The two closed-form normal baselines of fields, and moments from incomplete rows."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from sklearn.linear_model import Ridge
from torch.testing import assert_close

from exfam.checks import DataError, ExfamError
from exfam.fields.networks.climate import Climate, fit_climate
from exfam.fields.networks.joint_normal import JointNormal, SlotRows, fit_normal, leave_one_out
from exfam.fields.networks.ridge import RidgeCovariancePart, RidgeSitePart, fit_ridge, time_folds
from map_cases import N_SITES, batch_of, make_maps, true_covariance

PARTS = {"covariance": RidgeCovariancePart, "site": RidgeSitePart}
every_kind = pytest.mark.parametrize("kind", PARTS)
RIDGES = [1e-4, 1e-2, 1.0, 100.0]


def plain():
    """A climate of 0 and 1: anomalies are the values themselves."""
    sizes = {"n_sites": N_SITES, "n_dims": 2, "metric": "haversine", "period": 365.25, "step": 1.0}
    return Climate("none", **sizes)


def fitted(kind, groups, *, climate=None, ridges=(0.01, 0.1, 1.0), validation=None):
    climate = climate or fit_climate(groups, kind="site", metric="haversine")
    n_lags = 0 if groups.context_start is None else groups.context_start.shape[1]
    part = PARTS[kind](climate, n_sites=N_SITES, n_lags=n_lags)
    return fit_ridge(part, groups, validation=validation, ridges=ridges)


@pytest.mark.parametrize("lags", [0, 2])
def test_regressions_are_those_of_scikit_learn(lags):
    groups = make_maps(lags=lags)
    groups = groups[(groups.context_stop > groups.context_start).all(1)] if lags else groups
    part = fitted("site", groups, climate=plain(), ridges=[0.1])
    table = part.table(groups)
    assert table.known.all()
    z = table.value.numpy()
    for i in range(N_SITES):
        others = np.delete(np.arange(z.shape[1]), i)
        peer = Ridge(alpha=len(z) * part.ridge[i].item()).fit(z[:, others], z[:, i])
        assert_allclose(part.coefficients[i, others], peer.coef_, atol=1e-9)
        own = part.eta(batch_of(groups))[..., 0][:, -N_SITES + i]
        assert_allclose(own, peer.predict(z[:, others]), rtol=1e-6)
    joint = fitted("covariance", groups, climate=plain(), ridges=[0.1])
    ours, theirs = (fit.eta(batch_of(groups))[:, -N_SITES:, 0] for fit in (part, joint))
    assert_close(ours, theirs)


@every_kind
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_intervals_hold_what_they_promise(kind, missing):
    part = fitted(kind, make_maps(90, lags=1, missing=missing))
    batch = batch_of(make_maps(400, seed=5, lags=1, missing=missing))
    own = batch.target & batch.observed
    mean, log_scale = part.eta(batch).unbind(-1)
    z = ((batch.values["value"] - mean) / log_scale.exp())[own]
    assert 0.86 < (z.abs() < 1.6449).double().mean() < 0.94
    for i in range(N_SITES):
        assert 0.7 < z[batch.item[own] == i].std() < 1.3


@every_kind
def test_the_ridge_follows_the_data(kind):
    random = np.random.default_rng(0)
    groups = make_maps(90)
    noise, common = random.normal(size=groups.n_elements), random.normal(size=len(groups))
    alike = np.repeat(common, N_SITES) + 0.01 * noise
    strong, weak = (
        fitted(kind, groups.with_(values={"value": value}), climate=plain(), ridges=RIDGES)
        for value in (noise, alike)
    )
    assert strong.ridge.median() > 100 * weak.ridge.max()


@every_kind
def test_validation_maps_choose_instead_of_folds(kind):
    train, calm = make_maps(40), make_maps(40, seed=2)
    noise = 3 * np.random.default_rng(0).normal(size=calm.n_elements)
    wild = calm.with_(values={"value": calm.values["value"] + noise})
    inflation = [fitted(kind, train, validation=maps).inflation.mean() for maps in (wild, calm)]
    assert inflation[0] > 1.5 * inflation[1]


def test_missing_predictors_widen_by_their_own_variance():
    groups = make_maps()
    part = fitted("site", groups, climate=plain())
    batch = batch_of(groups, [0])
    hidden = batch.observed.clone()
    hidden[0, [1, 4]] = False
    mean, log_scale = part.eta(replace(batch, observed=hidden))[0].unbind(-1)
    b = part.coefficients[:, [1, 4]]
    added = ((b @ part.moments[[1, 4]][:, [1, 4]]) * b).sum(-1)
    assert_close((2 * log_scale).exp(), part.inflation * (part.residual + added))
    z = batch.values["value"][0].double() - part.mean
    z[[1, 4]] = 0.0
    assert_close(mean, part.mean + part.coefficients @ z)
    assert added[[0, 2]].min() > 0


@every_kind
def test_a_site_that_training_never_saw_has_the_climate_alone(kind):
    groups = make_maps(40)
    seen = groups.with_(observed=groups.item != 2)
    part, batch = fitted(kind, seen), batch_of(groups)
    location, scale, doubt = (column.double() for column in part.climate(batch))
    mean, log_scale = part.eta(batch).unbind(-1)
    assert_close(mean[:, 2], location[:, 2])
    expected = (scale.square() + doubt.square()).sqrt()
    assert_close(log_scale.exp()[:, 2], expected[:, 2])
    assert doubt[:, 2].min() > doubt[:, 1].max()


def test_seasons_are_held_out_whole_and_blocks_where_there_are_none():
    time = np.array([5.0, 1, 2, 3, 4, 101, 102, 103, 201, 202])
    folds = time_folds(time, n_folds=6)
    assert [time[fold].tolist() for fold in folds] == [[5, 1, 2, 3, 4], [101, 102, 103], [201, 202]]
    blocks = time_folds(np.arange(10.0), n_folds=4)
    assert np.sum(blocks, 0).tolist() == [1] * 10 and len(blocks) == 4
    assert all(np.ptp(np.flatnonzero(block)) == block.sum() - 1 for block in blocks)
    assert len(time_folds(np.arange(3.0), n_folds=6)) == 3


@every_kind
def test_what_cannot_be_fitted_is_refused(kind):
    maps = make_maps()
    with pytest.raises(DataError, match="`groups` must hold at least 2 maps, got 1"):
        fitted(kind, maps[:1])
    with pytest.raises(ExfamError, match="`item` must be given for a model of known sites"):
        fitted(kind, maps).eta(batch_of(maps.with_(item=None)))
    constant = maps.with_(values={"value": np.full(maps.n_elements, 0.1)})
    with pytest.raises(DataError, match="must vary around .*, got values that never do, such"):
        fitted(kind, constant)


P = 5
JOINT = JointNormal(torch.arange(P, dtype=torch.float64), torch.from_numpy(true_covariance(P)))


def draw(n, *, missing, seed=0):
    random = np.random.default_rng(seed)
    value = random.multivariate_normal(np.arange(P), true_covariance(P), size=n)
    known = random.random(value.shape) >= missing
    return SlotRows(torch.from_numpy(value), torch.from_numpy(known))


def test_conditionals_are_ratios_of_joint_densities():
    rows = draw(12, missing=0.4)
    mean, variance = leave_one_out(JOINT, rows)
    for value, known, m, v in zip(rows.value, rows.known, mean, variance, strict=True):

        def log_density(at, value=value):
            if not at:
                return 0.0
            part = JOINT.covariance[at][:, at].numpy()
            return multivariate_normal(JOINT.mean[at].numpy(), part).logpdf(value[at].numpy())

        for i in range(P):
            others = [j for j in range(P) if known[j] and j != i]
            expected = log_density([*others, i]) - log_density(others)
            normal = torch.distributions.Normal(m[i], v[i].sqrt())
            assert normal.log_prob(value[i]).item() == pytest.approx(expected)


def test_values_that_are_not_known_do_not_matter():
    rows = draw(20, missing=0.2)
    garbage = SlotRows(torch.where(rows.known, rows.value, 1e6), rows.known)
    assert_close(leave_one_out(JOINT, garbage), leave_one_out(JOINT, rows))
    assert_close(fit_normal(garbage, ridge=0.1), fit_normal(rows, ridge=0.1))


def test_em_ends_where_the_penalized_likelihood_of_what_is_known_is_highest():
    rows, ridge = draw(60, missing=0.3), 0.2
    joint = fit_normal(rows, ridge=ridge)
    for _ in range(3):
        joint = fit_normal(rows, ridge=ridge, start=joint)

    def objective(mean, covariance):
        total = -0.5 * len(rows.value) * ridge * torch.linalg.inv(covariance).trace()
        for value, known in zip(*rows, strict=True):
            if known.any():
                part = covariance[known][:, known]
                normal = torch.distributions.MultivariateNormal(mean[known], part)
                total = total + normal.log_prob(value[known])
        return total

    mean, covariance = (moment.clone().requires_grad_() for moment in joint)
    best = objective(mean, covariance)
    best.backward()
    # Of what 60 rows weigh: a gradient of 60 / 2 is the pull of one standard error or more.
    assert mean.grad.abs().max() < 0.05 and covariance.grad.abs().max() < 0.05
    with torch.no_grad():
        assert objective(joint.mean, joint.covariance + 0.05 * torch.eye(P)) < best
        assert objective(joint.mean + 0.1, joint.covariance) < best


def test_a_slot_that_no_row_knows_stays_apart():
    rows = draw(30, missing=0.2)
    joint = fit_normal(SlotRows(rows.value, rows.known & (torch.arange(P) != 2)), ridge=0.1)
    assert joint.mean[2] == 0 and joint.covariance[2, 2] == pytest.approx(1.1)
    assert joint.covariance[2].count_nonzero() == 1
