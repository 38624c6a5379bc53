"""What is normal at a site and a time, and surfaces between sites."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from torch.testing import assert_close

from exfam.checks import ExfamError
from exfam.fields.networks import places
from exfam.fields.networks.climate import Climate, fit_climate
from exfam.fields.networks.places import chord_distances
from map_cases import batch_of, field

YEAR = 365.25


def levels(n_maps=40, n_sites=12, seed=0):
    """Maps whose level falls with the latitude, with spreads of their own at each site."""
    rng = np.random.default_rng(seed)
    at = rng.uniform([25, -120], [48, -70], size=(n_sites, 2))
    values = 100 - at[:, 0] + (1 + rng.random(n_sites)) * rng.normal(size=(n_maps, n_sites))
    assert values.std(axis=0).std() > 0.1
    return values, at


def normal_of(groups, kind="site", metric="haversine", *, at=None, **more):
    """What is normal on the maps `at`, or on those that it is fitted to."""
    return fit_climate(groups, kind=kind, metric=metric, **more)(batch_of(at or groups))


def cycle(times, site, n_sites):
    """A yearly course whose level, amplitude and phase differ between sites."""
    part = site / n_sites
    angle = 2 * np.pi * (times / YEAR - 0.05 * part)
    return 10 * part + (8 + 4 * part) * np.cos(angle) + np.sin(2 * angle)


def test_means_and_spreads_are_those_of_the_kind():
    values, at = levels(n_maps=4000)
    groups = field(values, at)
    first = groups[:1]
    normal = normal_of(groups, at=first)
    assert_allclose(normal.location[0], values.mean(0), atol=1e-2)
    assert_allclose(normal.scale[0], values.std(0), rtol=1e-2)
    assert_allclose(normal.doubt[0], values.std(0) / 4000**0.5, rtol=0.4)
    normal = normal_of(groups, "global", at=first)
    assert_close(normal.location, torch.full((1, 12), float(values.mean())))
    assert_close(normal.scale, torch.full((1, 12), float(values.std())))
    normal = normal_of(groups, "none", at=first)
    assert (normal.location == 0).all() and (normal.scale == 1).all() and (normal.doubt == 0).all()


@pytest.mark.parametrize("kind", ["site", "seasonal"])
def test_other_groups_and_hidden_values_do_not_count(kind):
    values, at = levels()
    observed = np.random.default_rng(1).random(values.shape) < 0.8
    changed = np.where(observed, values, 1e4)
    changed[25:] = -1e4
    whole, other = (field(v, at, observed=observed) for v in (values, changed))
    kept = [
        fit_climate(groups, kind=kind, metric="haversine")
        for groups in (whole[:25], other[:25], whole)
    ]
    for name, buffer in kept[0].state_dict().items():
        assert torch.equal(buffer, kept[1].state_dict()[name]), name
    assert not torch.equal(kept[0].coefficient, kept[2].coefficient)


def test_doubts_of_new_sites_are_as_large_as_the_errors():
    rng = np.random.default_rng(3)
    at = rng.uniform(0, 10, size=(150, 2))
    level = 5 * np.sin(at[:, 0]) + 5 * np.cos(at[:, 1]) + rng.normal(size=150)
    groups = field(level + 0.5 * rng.normal(size=(30, 150)), at)
    hidden = np.arange(150) % 3 == 0
    seen = groups.with_(observed=~np.tile(hidden, 30))
    normal = normal_of(seen, metric="euclidean", at=groups[:1])
    error = (normal.location[0].numpy() - level)[hidden]
    ratio = error / normal.doubt[0].numpy()[hidden]
    assert 0.7 < np.sqrt(np.mean(ratio**2)) < 1.4
    assert error.std() < 0.5 * level[hidden].std()


@pytest.mark.parametrize("kind", ["global", "site", "seasonal"])
def test_values_that_never_differ_have_a_spread_of_one(kind):
    normal = normal_of(field(np.full((5, 4), 5.1), np.zeros((4, 2))), kind, "euclidean")
    assert_close(normal.scale, torch.ones(5, 4))
    assert_close(normal.location, torch.full((5, 4), 5.1))


def yearly_field(times, n_sites, rng, lags=0):
    site = np.arange(n_sites)
    truth = cycle(times[:, None], site, n_sites)
    at, values = np.stack([site, site], 1) / 4, truth + rng.normal(size=truth.shape)
    return truth, field(values, at, times=times, lags=lags)


def test_a_yearly_course_is_recovered_at_known_and_new_sites():
    rng = np.random.default_rng(0)
    truth, groups = yearly_field(15_000 + np.arange(0, 1400, 2.0), 16, rng)
    normal = normal_of(groups, "seasonal", "euclidean")
    error = normal.location.numpy() - truth
    assert np.sqrt((error**2).mean()) < 0.15
    assert_allclose(normal.scale, 1.0, atol=0.1)
    seen = groups.with_(observed=~np.isin(groups.item, [5, 9]))
    normal = normal_of(seen, "seasonal", "euclidean")
    error = (normal.location.numpy() - truth)[:, [5, 9]]
    apart = truth[:, [5, 9]] - truth[:, [6, 10]]
    assert np.sqrt((error**2).mean()) < 0.4 * np.sqrt((apart**2).mean())


def test_parts_of_a_year_imply_nothing_wild_of_the_rest():
    rng = np.random.default_rng(0)
    month = np.arange(273, 304.0)
    times = np.concatenate([14_000 + round(YEAR * year) + month for year in range(6)])
    truth, groups = yearly_field(times, 16, rng)
    normal = normal_of(groups, "seasonal", "euclidean")
    error = normal.location.numpy() - truth
    assert np.sqrt((error**2).mean()) < 0.3
    year = 20_000 + np.arange(0, 365.0, 5)
    whole = field(np.zeros((len(year), 16)), np.zeros((16, 2)), times=year)
    outside = normal_of(groups, "seasonal", "euclidean", at=whole)
    far = np.abs(outside.location.numpy() - truth.mean()).max()
    assert far < 4 * np.abs(truth - truth.mean()).max()
    assert float(outside.doubt.max()) > 3 * float(normal.doubt.mean())
    values, at = levels()  # a single day of the year has no course
    groups = field(values, at, times=np.arange(40) * YEAR)
    course, level = normal_of(groups, "seasonal"), normal_of(groups)
    assert_close(course.location, level.location, rtol=0.0, atol=0.05)


@pytest.mark.parametrize("step", [1.0, 30.0])
def test_elements_of_earlier_maps_have_the_climate_of_their_own_day(step):
    times = 17_000.25 + step * np.arange(48)
    _, lagged = yearly_field(times, 6, np.random.default_rng(0), lags=2)
    climate = fit_climate(lagged, kind="seasonal", metric="euclidean", step=step)
    batch = lagged.pad([10])
    now, before = climate(batch), climate(lagged.pad([8]))
    own = lagged.pad([8]).steps_back == 0
    assert batch.steps_back[0, :6].eq(2).all()
    assert_close(now.location[:, :6], before.location[own][None])
    assert (now.location[:, :6] - now.location[:, -6:]).abs().max() > 0.01


def test_what_is_no_climate_is_refused():
    sizes = {"n_sites": 1, "n_dims": 2, "metric": "euclidean", "period": 1.0, "step": 1.0}
    with pytest.raises(ExfamError, match="`kind` must be"):
        Climate(kind="sites", **sizes)


def test_surfaces_at_new_places_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    at, new_sites = rng.normal(size=(30, 2)), rng.normal(size=(5, 2))
    value, noise = rng.normal(size=(30, 1)), 0.1 * rng.random((30, 1))
    mean, variance, length, nugget = 0.7, 2.0, 1.5, 0.3
    kernel = ConstantKernel(variance) * Matern(length, nu=1.5)
    peer = GaussianProcessRegressor(kernel, alpha=nugget + noise[:, 0], optimizer=None)
    expected, sd = peer.fit(at, value[:, 0] - mean).predict(new_sites, return_std=True)
    tensors = [torch.from_numpy(array) for array in (new_sites, at, value, noise)]
    row = torch.tensor([[mean, variance, length, nugget]], dtype=torch.float64)
    location, spread = places.at_places(
        tensors[0], tensors[1], value=tensors[2], noise=tensors[3], surfaces=row
    )
    assert_allclose(location[:, 0], expected + mean, rtol=1e-6)
    assert_allclose(spread[:, 0], sd**2 + nugget, rtol=1e-6)


def test_surfaces_are_recovered():
    rng = np.random.default_rng(0)
    at = torch.from_numpy(rng.uniform(0, 10, size=(300, 2)))
    covariance = 4.0 * places.matern_3_2(chord_distances(at, at), 2.0)
    covariance = covariance + 0.25 * torch.eye(300).double()
    z = 7 + torch.linalg.cholesky(covariance) @ torch.from_numpy(rng.normal(size=300))
    surface = places.fit_surface(at, z, noise=torch.zeros(300).double(), unknown=0.0)
    assert surface.mean == pytest.approx(7.0, abs=2.0)
    assert surface.variance == pytest.approx(4.0, rel=0.6)
    assert surface.length == pytest.approx(2.0, rel=0.4)
    assert surface.nugget == pytest.approx(0.25, rel=0.4)
