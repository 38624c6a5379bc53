import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from exfam.checks import DataError, ExfamError
from exfam.fields.networks import surface
from exfam.fields.networks.climate import CLIMATES, Climate, fit_climate
from exfam.fields.networks.places import chord_distances, great_circle, to_points
from exfam.fields.networks.seasons import fit_courses
from fields.maps import everything, field

YEAR = 365.25


def places(n, rng):
    return rng.uniform([25, -120], [48, -70], size=(n, 2))


def levels(n_maps=40, n_sites=12, seed=0):
    """Maps whose level falls with the latitude, with spreads of their own at each site."""
    rng = np.random.default_rng(seed)
    at = places(n_sites, rng)
    values = 100 - at[:, 0] + (1 + rng.random(n_sites)) * rng.normal(size=(n_maps, n_sites))
    assert values.std(axis=0).std() > 0.1
    return values, at


def unseen(groups, sites):
    item = groups.item.copy()
    item[np.isin(item, sites)] = -1
    return groups.with_(item=item)


def cycle(times, site, n_sites):
    """A yearly course whose level, amplitude and phase differ between sites."""
    part = site / n_sites
    angle = 2 * np.pi * (times / YEAR - 0.05 * part)
    return 10 * part + (8 + 4 * part) * np.cos(angle) + np.sin(2 * angle)


@pytest.mark.parametrize("kind", [kind for kind in CLIMATES if kind != "none"])
def test_values_in_another_unit_have_the_climate_in_that_unit(kind):
    values, at = levels()
    times = np.arange(40) * 9.0
    values = values + 5 * np.cos(2 * np.pi * times / YEAR)[:, None]
    one = unseen(field(values, at, times=times), [3, 7])
    other = unseen(field(32 + 1.8 * values, at, times=times), [3, 7])
    a = fit_climate(one, kind=kind, metric="haversine")(everything(one))
    b = fit_climate(other, kind=kind, metric="haversine")(everything(other))
    torch.testing.assert_close(b.location, 32 + 1.8 * a.location, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(b.scale, 1.8 * a.scale, rtol=1e-3, atol=0.0)
    torch.testing.assert_close(b.doubt, 1.8 * a.doubt, rtol=1e-2, atol=1e-4)


def test_sites_have_their_own_means_and_spreads():
    values, at = levels(n_maps=4000)
    groups = field(values, at)
    normal = fit_climate(groups, kind="site", metric="haversine")(groups.pad([0]))
    np.testing.assert_allclose(normal.location[0], values.mean(0), atol=1e-2)
    np.testing.assert_allclose(normal.scale[0], values.std(0), rtol=1e-2)
    np.testing.assert_allclose(normal.doubt[0], values.std(0) / 4000**0.5, rtol=0.4)


def test_without_a_climate_values_stay_as_they_are():
    values, at = levels()
    groups = field(values, at)
    normal = fit_climate(groups, kind="none", metric="haversine")(everything(groups))
    assert (normal.location == 0).all() and (normal.scale == 1).all() and (normal.doubt == 0).all()


def test_one_climate_for_all_is_the_mean_and_spread_of_all():
    values, at = levels()
    groups = field(values, at)
    normal = fit_climate(groups, kind="global", metric="haversine")(groups.pad([0]))
    torch.testing.assert_close(normal.location, torch.full((1, 12), float(values.mean())))
    torch.testing.assert_close(normal.scale, torch.full((1, 12), float(values.std())))


def test_a_site_with_one_observation_has_the_common_spread():
    values, at = levels()
    observed = np.ones(values.shape, dtype=bool)
    observed[1:, 4] = False
    groups = field(values, at, observed=observed)
    normal = fit_climate(groups, kind="site", metric="haversine")(groups.pad([0]))
    others = [site for site in range(12) if site != 4]
    common = values[:, others].std(0).mean()
    assert float(normal.scale[0, 4]) == pytest.approx(common, rel=0.25)
    assert float(normal.doubt[0, 4]) > 4 * float(normal.doubt[0, others].max())


@pytest.mark.parametrize("kind", ["site", "seasonal"])
def test_other_groups_and_hidden_values_do_not_count(kind):
    values, at = levels()
    observed = np.random.default_rng(1).random(values.shape) < 0.8
    changed = np.where(observed, values, 1e4)
    changed[25:] = -1e4
    one = field(values, at, observed=observed)
    other = field(changed, at, observed=observed)
    kept = [fit_climate(groups[:25], kind=kind, metric="haversine") for groups in (one, other)]
    all_of_it = fit_climate(one, kind=kind, metric="haversine")
    for name, buffer in kept[0].state_dict().items():
        assert torch.equal(buffer, kept[1].state_dict()[name]), name
    assert not torch.equal(kept[0].coefficient, all_of_it.coefficient)


def test_a_new_site_lies_between_its_neighbors_and_is_doubted_with_the_distance():
    rng = np.random.default_rng(0)
    at = np.linspace(0, 10, 15)[:, None]
    groups = field(3 * at[:, 0] + rng.normal(size=(50, 15)), at)
    climate = fit_climate(groups, kind="site", metric="euclidean")
    new_sites = np.array([[4.6], [5.3], [10.5], [13.0], [17.0]])
    new = field(np.zeros((1, 5)), new_sites, item=np.full(5, -1))
    normal = climate(everything(new))
    np.testing.assert_allclose(normal.location[0, :2], 3 * new_sites[:2, 0], atol=1.0)
    doubt = normal.doubt[0]
    assert (doubt[1:].diff() > 0).all()
    assert float(doubt[-1]) > 3 * float(climate(groups.pad([0])).doubt.max())


def test_doubts_of_new_sites_are_as_large_as_the_errors():
    rng = np.random.default_rng(3)
    at = rng.uniform(0, 10, size=(150, 2))
    level = 5 * np.sin(at[:, 0]) + 5 * np.cos(at[:, 1]) + rng.normal(size=150)
    groups = field(level + 0.5 * rng.normal(size=(30, 150)), at)
    hidden = np.arange(150) % 3 == 0
    seen = groups.with_(observed=~np.tile(hidden, 30))
    normal = fit_climate(seen, kind="site", metric="euclidean")(groups.pad([0]))
    error = (normal.location[0].numpy() - level)[hidden]
    ratio = error / normal.doubt[0].numpy()[hidden]
    assert 0.7 < np.sqrt(np.mean(ratio**2)) < 1.4
    assert error.std() < 0.5 * level[hidden].std()


def test_a_site_without_an_observed_value_is_as_one_never_seen():
    values, at = levels()
    groups = field(values, at)
    observed = np.tile(np.arange(12) != 5, 40)
    climate = fit_climate(groups.with_(observed=observed), kind="site", metric="haversine")
    as_new = climate(unseen(groups, [5]).pad([0]))
    for known, new in zip(climate(groups.pad([0])), as_new, strict=True):
        torch.testing.assert_close(known, new, rtol=0.0, atol=0.0)


def test_few_sites_stand_for_all_places():
    rng = np.random.default_rng(0)
    groups = field(np.array([1.0, 5.0, 9.0]) + 0.01 * rng.normal(size=(99, 3)), np.eye(3))
    climate = fit_climate(groups, kind="site", metric="euclidean")
    normal = climate(everything(field(np.zeros((1, 1)), np.zeros((1, 3)), item=[-1])))
    assert float(normal.location) == pytest.approx(5.0, abs=0.05)
    assert float(normal.doubt) == pytest.approx(4.0, rel=0.05)


def test_one_site_is_enough():
    values = np.random.default_rng(0).normal(size=(50, 1))
    groups = field(np.hstack([values, values]), np.zeros((2, 2)), item=[0, -1])
    normal = fit_climate(groups, kind="site", metric="euclidean")(groups.pad([0]))
    np.testing.assert_allclose(normal.location, values.mean(), atol=1e-5)
    assert float(normal.doubt[0, 1]) == pytest.approx(values.std(), rel=0.05)


def test_values_that_never_differ_have_a_spread_of_one():
    groups = field(np.full((5, 4), 5.1), np.zeros((4, 2)))
    for kind in ("global", "site", "seasonal"):
        normal = fit_climate(groups, kind=kind, metric="euclidean")(groups.pad([0]))
        torch.testing.assert_close(normal.scale, torch.ones(1, 4))
        torch.testing.assert_close(normal.location, torch.full((1, 4), 5.1))


def yearly_field(times, n_sites, rng, noise=1.0):
    site = np.arange(n_sites)
    truth = cycle(times[:, None], site, n_sites)
    return truth, field(
        truth + noise * rng.normal(size=truth.shape), np.stack([site, site], 1) / 4, times=times
    )


def test_a_yearly_course_is_recovered_at_known_and_new_sites():
    rng = np.random.default_rng(0)
    truth, groups = yearly_field(15_000 + np.arange(0, 1400, 2.0), 16, rng)
    climate = fit_climate(groups, kind="seasonal", metric="euclidean")
    normal = climate(everything(groups))
    error = normal.location.numpy() - truth
    assert np.sqrt((error**2).mean()) < 0.15
    np.testing.assert_allclose(normal.scale, 1.0, atol=0.1)
    hidden = np.isin(groups.item, [5, 9])
    seen = groups.with_(observed=~hidden)
    normal = fit_climate(seen, kind="seasonal", metric="euclidean")(everything(groups))
    error = (normal.location.numpy() - truth)[:, [5, 9]]
    apart = truth[:, [5, 9]] - truth[:, [6, 10]]
    assert np.sqrt((error**2).mean()) < 0.4 * np.sqrt((apart**2).mean())


def test_a_month_per_year_gives_its_own_course_and_nothing_wild_elsewhere():
    rng = np.random.default_rng(0)
    month = np.arange(273, 304.0)
    times = np.concatenate([14_000 + round(YEAR * year) + month for year in range(6)])
    truth, groups = yearly_field(times, 16, rng)
    climate = fit_climate(groups, kind="seasonal", metric="euclidean")
    error = climate(everything(groups)).location.numpy() - truth
    assert np.sqrt((error**2).mean()) < 0.3
    year = 20_000 + np.arange(0, 365.0, 5)
    whole = field(np.zeros((len(year), 16)), np.zeros((16, 2)), times=year)
    normal = climate(everything(whole))
    outside = normal.location.numpy() - truth.mean()
    assert np.abs(outside).max() < 4 * np.abs(truth - truth.mean()).max()
    inside = climate(everything(groups)).doubt.mean()
    assert float(normal.doubt.max()) > 3 * float(inside)


def test_a_few_days_say_nothing_wild_of_the_rest_of_the_year():
    rng = np.random.default_rng(0)
    at = np.zeros((4, 2))
    days = field(rng.normal(size=(5, 4)), at, times=14_273 + np.arange(5.0))
    climate = fit_climate(days, kind="seasonal", metric="euclidean")
    year = field(np.zeros((73, 4)), at, times=14_273 + np.arange(0, 365.0, 5))
    assert climate(everything(year)).location.abs().max() < 10


def test_a_single_day_of_the_year_has_no_course():
    values, at = levels()
    groups = field(values, at, times=np.arange(40) * YEAR)
    course = fit_climate(groups, kind="seasonal", metric="haversine")(everything(groups))
    level = fit_climate(groups, kind="site", metric="haversine")(everything(groups))
    torch.testing.assert_close(course.location, level.location, rtol=0.0, atol=0.05)


@pytest.mark.parametrize("step", [1.0, 30.0])
def test_elements_of_earlier_maps_have_the_climate_of_their_own_day(step):
    rng = np.random.default_rng(0)
    times = 17_000.25 + step * np.arange(48)
    truth, _ = yearly_field(times, 6, rng)
    at = np.arange(6.0)[:, None]
    lagged = field(truth, at, times=times, lags=2)
    climate = fit_climate(lagged, kind="seasonal", metric="euclidean", step=step)
    batch = lagged.pad([10])
    now, before = climate(batch), climate(lagged.pad([8]))
    own = lagged.pad([8]).steps_back == 0
    assert batch.steps_back[0, :6].eq(2).all()
    torch.testing.assert_close(now.location[:, :6], before.location[own][None])
    assert (now.location[:, :6] - now.location[:, -6:]).abs().max() > 0.01


def test_padding_moves_nothing():
    values, at = levels()
    groups = field(values, at, lags=1)
    climate = fit_climate(groups, kind="seasonal", metric="haversine")
    short, long = climate(groups.pad([0])), climate(groups.pad([0, 1]))
    for one, other in zip(short, long, strict=True):
        torch.testing.assert_close(one[0], other[0, :12])
        assert other.isfinite().all()


def test_a_climate_needs_observed_values():
    values, at = levels()
    groups = field(values, at, observed=np.zeros(values.shape, dtype=bool))
    with pytest.raises(DataError, match="`groups` must have an observed value to fit a climate"):
        fit_climate(groups, kind="site", metric="haversine")


@pytest.mark.parametrize(
    ("wrong", "value"), [("kind", "sites"), ("metric", "miles"), ("period", 0.0), ("step", -1.0)]
)
def test_sizes_that_are_none_are_refused(wrong, value):
    sizes = {"n_sites": 1, "n_dims": 2, "metric": "euclidean", "period": 1.0, "step": 1.0}
    sizes = {"kind": "site", **sizes, wrong: value}
    with pytest.raises(ExfamError, match=f"`{wrong}` must be"):
        Climate(sizes.pop("kind"), **sizes)


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
    found, spread = surface.at_places(
        tensors[0], tensors[1], value=tensors[2], noise=tensors[3], surfaces=row
    )
    np.testing.assert_allclose(found[:, 0], expected + mean, rtol=1e-6)
    np.testing.assert_allclose(spread[:, 0], sd**2 + nugget, rtol=1e-6)


def test_a_surface_is_found_again():
    rng = np.random.default_rng(0)
    at = torch.from_numpy(rng.uniform(0, 10, size=(300, 2)))
    covariance = (
        4.0 * surface.matern_3_2(chord_distances(at, at), 2.0) + 0.25 * torch.eye(300).double()
    )
    z = 7 + torch.linalg.cholesky(covariance) @ torch.from_numpy(rng.normal(size=300))
    found = surface.fit_surface(at, z, noise=torch.zeros(300).double(), unknown=0.0)
    assert found.mean == pytest.approx(7.0, abs=2.0)
    assert found.variance == pytest.approx(4.0, rel=0.6)
    assert found.length == pytest.approx(2.0, rel=0.4)
    assert found.nugget == pytest.approx(0.25, rel=0.4)


def test_spreads_of_sites_and_errors_are_found_again():
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(300), 8)
    level = 5 + 2.0 * rng.normal(size=300)
    courses = fit_courses(
        level[site] + 3.0 * rng.normal(size=len(site)), site, np.zeros((2400, 0)), n_sites=300
    )
    assert courses.within == pytest.approx(3.0, rel=0.05)
    kept = 4 / (4 + 9 / 8)
    np.testing.assert_allclose(courses.covariance.mean(), kept * 9 / 8, rtol=0.15)
    slope = np.polyfit(level, courses.coefficient[:, 0], 1)[0]
    assert slope == pytest.approx(kept, abs=0.08)


def test_points_of_the_globe_have_great_circle_distances():
    new_sites = torch.tensor([[0.0, 0.0], [90.0, 0.0], [0.0, 179.0], [0.0, -179.0]])
    at = to_points(new_sites, "haversine")
    along = great_circle(chord_distances(at, at))
    assert float(along[0, 1]) == pytest.approx(6371 * np.pi / 2)
    assert float(along[2, 3]) == pytest.approx(6371 * np.radians(2))
