"""Climatology, Gaussian process and kriging as value parts."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from torch.testing import assert_close

from exfam.checks import ExfamError
from exfam.fields.networks import anomalies
from exfam.fields.networks.climate import Climate, ClimatologyPart, fit_climate
from exfam.fields.networks.covariances import (
    VARIOGRAMS,
    GaussianProcessPart,
    KrigingPart,
    fit_gaussian_process,
    fit_kriging,
    variogram,
)
from map_cases import batch_of, field, make_maps, smooth_maps, with_map_value

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
    monkeypatch.setattr(anomalies, "MOST_SITES", 20)
    monkeypatch.setattr(anomalies, "MOST_MAPS", 60)
    assert anomalies.thinned(groups, climate).value.shape == (60, 20)
    apart = fit(groups, climate).eta(batch) - part.eta(batch)
    assert apart.abs().max() > 0 and apart.square().mean().sqrt() < 0.15
    monkeypatch.setattr(anomalies, "MOST_ELEMENTS", 5)
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
