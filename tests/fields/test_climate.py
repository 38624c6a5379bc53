"""Closed-form parts of fields: climates, Gaussian processes and kriging."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from torch.testing import assert_close

from exfam.checks import ExfamError
from exfam.fields.networks import covariances, places
from exfam.fields.networks.climate import Climate, ClimatologyPart, fit_climate
from exfam.fields.networks.covariances import (
    VARIOGRAMS,
    GaussianProcessPart,
    KrigingPart,
    fit_gaussian_process,
    fit_kriging,
    variogram,
)
from exfam.fields.networks.places import chord_distances
from map_cases import batch_of, field, make_maps, smooth_maps, with_map_value

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


FITS = {"gaussian process": fit_gaussian_process, "kriging": fit_kriging}
every_fit = pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
NAMES = ("variance", "length", "own", "noise", "memory", "own_memory")


def climate_of(groups, kind="site", metric="haversine"):
    return fit_climate(groups, kind=kind, metric=metric)


def no_climate(n_sites, *, metric="euclidean"):
    return Climate("none", n_sites=n_sites, n_dims=2, metric=metric, period=1.0, step=1.0)


def unseen(batch, site):
    return replace(batch, item=torch.where(batch.item == site, -1, batch.item))


def scattered(n_maps, n_sites, *, length, extent=10, **more):
    """Places at random, smooth maps of them, and the generator that drew both."""
    rng = np.random.default_rng(0)
    at = rng.uniform(0, extent, size=(n_sites, 2))
    return at, smooth_maps(n_maps, at, length=length, rng=rng, **more)


def parameters_of(groups):
    """Of a process without a climate, by name."""
    part = fit_gaussian_process(groups, no_climate(groups.n_items))
    return dict(zip(NAMES, part.log_parameters.exp().tolist(), strict=True))


@every_fit
def test_maps_without_values_have_the_climate(fit):
    groups = make_maps()
    part = fit(groups, climate_of(groups))
    none = np.zeros(groups.n_elements, dtype=bool)
    plain = ClimatologyPart(part.climate).eta(batch_of(groups))
    nothing = part.eta(batch_of(groups.with_(observed=none)))
    assert_close(nothing[..., 0], plain[..., 0], rtol=0.02, atol=0.1)
    assert_close(nothing[..., 1], plain[..., 1], rtol=0.0, atol=0.15)


def test_climatology_reads_no_values():
    groups = make_maps(lags=1)
    part, batch = ClimatologyPart(climate_of(groups)), batch_of(groups)
    assert torch.equal(part.eta(batch), part.eta(with_map_value(batch, 1, 2, 99.0)))
    normal = part.climate(unseen(batch, 2))
    mean, log_sd = part.eta(unseen(batch, 2)).unbind(-1)
    assert torch.equal(mean, normal.location)
    assert_close(log_sd.exp() ** 2, normal.scale**2 + normal.doubt**2)


@every_fit
def test_of_large_maps_some_are_looked_at_and_larger_ones_refused(fit, monkeypatch):
    at, maps = scattered(80, 30, length=4.0)
    groups = field(maps, at)
    climate, batch = climate_of(groups, metric="euclidean"), batch_of(groups)
    part = fit(groups, climate)
    monkeypatch.setattr(covariances, "MOST_SITES", 20)
    monkeypatch.setattr(covariances, "MOST_MAPS", 60)
    assert covariances.thinned(groups, climate).value.shape == (60, 20)
    apart = fit(groups, climate).eta(batch) - part.eta(batch)
    assert apart.abs().max() > 0 and apart.square().mean().sqrt() < 0.15
    monkeypatch.setattr(covariances, "MOST_ELEMENTS", 5)
    with pytest.raises(ExfamError, match="`groups` must have at most 5 elements a map"):
        part.eta(batch)


@pytest.mark.parametrize(("kernel", "nu"), [("exponential", 0.5), ("matern", 1.5)])
def test_the_process_agrees_with_scikit_learn(kernel, nu):
    rng = np.random.default_rng(0)
    at, value = rng.uniform(0, 5, size=(12, 2)), rng.normal(size=12)
    observed = np.arange(12) != 7
    groups = field(value[None], at, observed=observed[None])
    part = GaussianProcessPart(no_climate(12), kernel=kernel)
    part.log_parameters.copy_(torch.tensor([1.3, 2.0, 1e-12, 0.2, 1.0, 1.0]).double().log())
    mean, log_sd = part.eta(batch_of(groups))[0].unbind(-1)
    at = groups.attributes["coordinates"].astype(np.float32)
    kernel = ConstantKernel(1.3) * Matern(2.0, nu=nu) + WhiteKernel(0.2)
    for i in range(12):
        rest = observed & (np.arange(12) != i)
        peer = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None)
        expected, sd = peer.fit(at[rest], value[rest]).predict(at[i : i + 1], return_std=True)
        assert float(mean[i]) == pytest.approx(expected[0], abs=1e-5)
        assert float(log_sd[i].exp()) == pytest.approx(sd[0], rel=1e-5)


def test_parameters_of_a_process_are_recovered():
    at, maps = scattered(150, 40, length=3.0, memory=2.0)
    result = parameters_of(field(maps, at, lags=1))
    assert result["variance"] == pytest.approx(1.0, rel=0.25)
    assert result["length"] == pytest.approx(3.0, rel=0.15)
    assert result["memory"] == pytest.approx(2.0, rel=0.25)
    assert result["noise"] + result["own"] == pytest.approx(0.09, rel=0.25)
    assert result["own"] < 0.02


@pytest.mark.parametrize("kind", ["none", "site"])
def test_maps_with_one_earlier_map_know_how_early_it_is(kind):
    at, maps = scattered(60, 8, length=4.0, memory=1.0)
    groups = field(maps, at, lags=2)
    part = fit_gaussian_process(groups, climate_of(groups, kind, "euclidean"))
    stop = groups.context_stop.copy()
    stop[5, 0], stop[6, 1] = groups.context_start[5, 0], groups.context_start[6, 1]
    groups = groups.with_(context_stop=stop)
    together = part.eta(groups.pad([5, 6]))
    apart = [part.eta(groups.pad([g]))[0] for g in (5, 6)]
    assert_close(together, torch.stack(apart))


PLACES = {
    "haversine": np.random.default_rng(0).uniform([25, -120], [48, -70], size=(14, 2)),
    "euclidean": np.random.default_rng(0).uniform(0, 10, size=(14, 2)),
}


@pytest.mark.parametrize("metric", PLACES)
@pytest.mark.parametrize("kind", VARIOGRAMS)
def test_kriging_agrees_with_pykrige(kind, metric):
    peer = pytest.importorskip("pykrige.ok", reason="PyKrige is not installed").OrdinaryKriging
    at, value = (
        array.astype(np.float32).astype(float)
        for array in (PLACES[metric], np.random.default_rng(1).normal(size=14))
    )
    degrees = metric == "haversine"
    reach = 900.0 if degrees else 6.0
    observed = ~np.isin(np.arange(14), [4, 9])
    part = KrigingPart(no_climate(14, metric=metric), kind=kind)
    part.sill_range_nugget.copy_(torch.tensor([2.0, reach, 0.3]))
    batch = batch_of(field(value[None], at, observed=observed[None]))
    mean, log_sd = part.eta(batch)[0].unbind(-1)
    unit = math.degrees(1 / 6371.0) if degrees else 1.0
    model = {"psill": 2.0, "range": reach * unit, "nugget": 0.3}
    x, y = at.T[::-1] if degrees else at.T
    for i in range(14):
        rest = observed & (np.arange(14) != i)
        system = peer(
            x[rest],
            y[rest],
            value[rest],
            variogram_model=kind,
            variogram_parameters=model,
            coordinates_type="geographic" if degrees else "euclidean",
        )
        expected, variance = system.execute("points", x[i : i + 1], y[i : i + 1])
        assert float(mean[i]) == pytest.approx(float(expected[0]), abs=1e-6)
        assert float(log_sd[i]) == pytest.approx(0.5 * math.log(variance[0]), abs=1e-6)


@pytest.mark.parametrize("kind", VARIOGRAMS)
def test_a_variogram_is_recovered(kind):
    rng = np.random.default_rng(0)
    at = rng.uniform(0, 20, size=(60, 2))
    distance = torch.from_numpy(np.linalg.norm(at[:, None] - at[None], axis=-1))
    half = variogram(distance, torch.tensor([2.0, 5.0, 0.4]).double(), kind=kind).numpy()
    root = np.linalg.cholesky(2.4 - half + 0.4 * np.eye(60))
    part = fit_kriging(field(rng.normal(size=(400, 60)) @ root.T, at), no_climate(60), kind=kind)
    sill, reach, nugget = part.sill_range_nugget.tolist()
    assert sill == pytest.approx(2.0, rel=0.15)
    assert reach == pytest.approx(5.0, rel=0.15)
    assert nugget == pytest.approx(0.4, rel=0.4)


@every_fit
@pytest.mark.parametrize("n_sites", [1, 2, 5])
def test_places_and_values_that_never_differ_are_no_trouble(fit, n_sites):
    rng = np.random.default_rng(0)
    groups = field(rng.normal(size=(20, n_sites)), np.zeros((n_sites, 2)))
    assert fit(groups, climate_of(groups)).eta(batch_of(groups)).isfinite().all()
    groups = field(np.full((20, n_sites), 5.1), rng.normal(size=(n_sites, 2)))
    eta = fit(groups, climate_of(groups)).eta(batch_of(groups))
    assert_close(eta[..., 0], torch.full((20, n_sites), 5.1), rtol=0.0, atol=0.05)
