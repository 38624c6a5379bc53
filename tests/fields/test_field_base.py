"""Laws of the base of fields: exact conditionals, kernels, courses, new sites."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy import stats

from exfam.families import StudentT
from exfam.fields.base.choose import choose
from exfam.fields.base.columns import fit_frame, map_columns
from exfam.fields.base.conditionals import OfMatrix, given_all, given_near, nearest_columns
from exfam.fields.base.courses import CHOICES, Clock, CourseChoice, plane_terms, site_courses
from exfam.fields.base.fit import fit_base, sites_of
from exfam.fields.base.kernel import (
    JITTER,
    RIDGE,
    KernelSearch,
    MovingKernel,
    fit_kernel,
    most_of,
    n_numbers,
    start_numbers,
)
from exfam.fields.base.levels import SiteNumber
from exfam.fields.base.likelihood import CompleteRows
from exfam.fields.base.limits import Evidence
from exfam.fields.base.maps import Maps, blocks, kernel_of
from exfam.fields.base.moments import mean_products, pairwise_products
from exfam.fields.base.new_sites import TAILS, Calibration, extend
from exfam.fields.base.panel import Panel
from exfam.fields.base.trials import DEGREES, HeldOutMaps, nats_by_df


def random_covariance(n, seed=0):
    random = np.random.default_rng(seed)
    root = random.normal(size=(n, 2 * n))
    return torch.from_numpy(root @ root.T / (2 * n))


def rows(n_rows, n, *, missing=0.0, seed=1):
    random = np.random.default_rng(seed)
    shown = random.random((n_rows, n)) >= missing
    return torch.from_numpy(random.normal(size=(n_rows, n)) * shown), torch.from_numpy(shown)


def by_definition(x, shown, covariance, target):
    """Mean, variance and squares of one value given the others shown."""
    others = [j for j in range(len(x)) if shown[j] and j != target]
    if not others:
        return 0.0, float(covariance[target, target]), 0.0, 0
    block, shared = covariance[others][:, others], covariance[others, target]
    solved = torch.linalg.solve(block, torch.stack([shared, x[others]], 1))
    mean, squares = x[others] @ solved[:, 0], x[others] @ solved[:, 1]
    variance = covariance[target, target] - shared @ solved[:, 0]
    return float(mean), float(variance), float(squares), len(others)


@pytest.mark.parametrize("missing", [0.0, 0.4, 0.9])
def test_conditionals_are_those_of_the_definition(missing):
    covariance, (values, shown) = random_covariance(6), rows(9, 6, missing=missing)
    targets = torch.arange(4)
    near = nearest_columns(covariance, targets, most=6)
    found = [
        given_all(values, shown, covariance, targets),
        given_near(values, shown, OfMatrix(covariance, targets, near), n_used=5),
    ]
    for r in range(len(values)):
        for t in range(4):
            wanted = by_definition(values[r], shown[r], covariance, t)
            for given in found:
                assert_allclose([float(part[r, t]) for part in given], wanted, atol=1e-9)


@pytest.mark.parametrize("noisy", [False, True])
def test_hidden_targets_are_predicted_as_among_shown_ones(noisy):
    covariance, (values, _) = random_covariance(6), rows(3, 6, missing=0.0)
    shown = torch.tensor([True, False, True, True, False, True]).expand(3, 6)
    noise = torch.rand(1, 6).double().expand(3, 6) if noisy else None
    hidden = torch.tensor([1, 4])
    alone = given_all(values, shown, covariance, hidden, noise=noise)
    among = given_all(values, shown, covariance, torch.arange(6), noise=noise)
    for part, whole in zip(alone, among, strict=True):
        assert_allclose(part, whole[:, hidden], atol=1e-10)


def test_near_columns_are_the_first_that_are_shown():
    covariance, (values, shown) = random_covariance(6), rows(8, 6, missing=0.3)
    targets = torch.arange(6)
    near = nearest_columns(covariance, targets, most=6)
    spread = covariance.diagonal().sqrt()
    for t in range(6):
        strength = (covariance[t] / spread[t] / spread).abs()[near[t]]
        assert t not in near[t] and bool((strength.diff() <= 0).all())
    found = given_near(values, shown, OfMatrix(covariance, targets, near), n_used=2)
    for r in range(8):
        for t in range(6):
            first = [j for j in near[t].tolist() if shown[r, j]][:2]
            some = torch.zeros(6, dtype=torch.bool)
            some[first] = True
            wanted = by_definition(values[r], some, covariance, t)
            assert_allclose([float(part[r, t]) for part in found], wanted, atol=1e-9)


def test_student_t_is_the_conditional_of_a_joint_student_t():
    covariance, df = random_covariance(3), 7.0
    values, shown = rows(1, 3)
    joint = stats.multivariate_t(shape=covariance.numpy() * (df - 2) / df, df=df)
    others = stats.multivariate_t(shape=covariance[1:, 1:].numpy() * (df - 2) / df, df=df)
    given = given_all(values, shown, covariance, torch.tensor([0]))
    location, log_scale, log_excess = given.student_t(df)[0, 0].tolist()
    nats = stats.t.logpdf(float(values[0, 0]), 2 + np.exp(log_excess), location, np.exp(log_scale))
    assert nats == pytest.approx(joint.logpdf(values[0]) - others.logpdf(values[0, 1:]))


def test_nats_of_many_degrees_are_those_of_the_family():
    covariance, (values, shown) = random_covariance(5), rows(30, 5, missing=0.3)
    log_scale = torch.linspace(-1, 1, 4).double()
    targets, row = torch.arange(4), torch.arange(30)
    prior = OfMatrix(covariance, targets, nearest_columns(covariance, targets, most=4))
    fold = HeldOutMaps(Evidence(values, shown), covariance, log_scale, row, prior)
    given = given_all(values, shown, covariance, targets)
    for df, nats in zip(DEGREES, nats_by_df(fold, given), strict=True):
        wanted = StudentT().log_prob(values[:, :4], given.student_t(df)) - log_scale
        assert_allclose(nats, wanted[shown[:, :4]].sum(), rtol=1e-6)


def random_kernel(n_flat, seed=0):
    numbers = start_numbers(n_flat)
    noise = torch.randn(len(numbers), generator=torch.Generator().manual_seed(seed))
    return MovingKernel(numbers + 0.5 * noise.double(), n_flat)


@pytest.mark.parametrize(("space", "n_flat"), [(1, 1), (2, 2), (3, 2), (3, 3)])
def test_kernels_that_move_are_positive_definite(space, n_flat):
    points = torch.from_numpy(np.random.default_rng(0).normal(size=(12, space)))
    covariance = random_kernel(n_flat).of(map_columns(points, 2))
    assert_allclose(covariance, covariance.T, atol=1e-12)
    assert float(torch.linalg.eigvalsh(covariance).min()) > 0


def test_a_kernel_in_a_plane_has_seventeen_numbers_and_depends_on_ways_alone():
    assert n_numbers(2) == len(start_numbers(2)) == 17
    points = torch.from_numpy(np.random.default_rng(0).normal(size=(5, 2)))
    kernel = random_kernel(2)
    moved = kernel.of(map_columns(points + torch.tensor([3.0, -1.0]), 1))
    assert_allclose(moved, kernel.of(map_columns(points, 1)), atol=1e-9)


@pytest.mark.parametrize(("space", "n_flat"), [(1, 1), (3, 2), (3, 3)])
@pytest.mark.parametrize("n_lags", [0, 2])
def test_slopes_of_a_search_are_those_of_automatic_differentiation(space, n_flat, n_lags):
    points = torch.from_numpy(np.random.default_rng(0).normal(size=(5, space)))
    columns, numbers = map_columns(points, n_lags), random_kernel(n_flat).numbers
    moments = random_covariance(len(columns.lag))

    def nats(free, some):
        covariance = MovingKernel(free, n_flat).of(columns)[some][:, some]
        covariance = covariance + JITTER * torch.eye(len(covariance))
        solved = torch.linalg.solve(covariance, moments[some][:, some])
        return 0.5 * solved.trace() + 0.5 * covariance.logdet()

    def loss(free):
        ridge = RIDGE * (free - start_numbers(n_flat)).square().sum()
        return (nats(free, columns.lag >= 0) - nats(free, columns.lag > 0)) / 5 + ridge

    rows = CompleteRows(moments, columns.lag)
    found = KernelSearch(rows, columns, n_flat=n_flat).of(numbers)
    assert found.nats == pytest.approx(float(loss(numbers)))
    assert_allclose(found.slope, torch.func.grad(loss)(numbers), rtol=1e-6, atol=1e-9)
    assert found.slope.abs().min() > 1e-6 or not n_lags


def test_a_field_carried_along_is_found_to_move():
    random = np.random.default_rng(0)
    x = np.linspace(0, 3, 8)
    points = torch.from_numpy(x[:, None])
    columns = map_columns(points, 1)
    gap = x[:, None] - x[None]
    # Each map is the one before, half a unit further on.
    way = np.block([[gap, gap - 0.5], [gap + 0.5, gap]])
    covariance = np.exp(-((way) ** 2)) + 0.05 * np.eye(16)
    z = random.multivariate_normal(np.zeros(16), covariance, size=4000)
    products = torch.from_numpy(z.T @ z / len(z))
    rows = CompleteRows(products, columns.lag)
    fitted = fit_kernel(rows, columns, n_flat=1, variance=products.diagonal().mean())
    fitted = fitted.of(columns).numpy()
    # What differs between this site now and that one before, and the other way about.
    ours, wanted = ((block - block.T).ravel() for block in (fitted[:8, 8:], covariance[:8, 8:]))
    assert np.corrcoef(ours, wanted)[0, 1] > 0.9
    assert np.abs(ours).max() > 0.5 * np.abs(wanted).max()


@pytest.mark.parametrize(("n_sites", "n_lags"), [(3, 0), (44, 3), (5000, 0), (5000, 7), (90, 20)])
def test_kernels_are_fitted_to_few_columns(n_sites, n_lags):
    chosen = most_of(n_sites, n_lags)
    assert 0 < len(chosen) <= 450 and int(chosen.max()) < n_sites * (n_lags + 1)
    assert len(chosen.unique()) == len(chosen)


def test_moments_of_complete_rows_are_plain_and_gaps_are_filled_by_what_is_known():
    covariance, shown = random_covariance(5), rows(400, 5, missing=0.3)[1]
    values = rows(400, 5)[0] @ torch.linalg.cholesky(covariance).T
    everything = torch.ones_like(shown)
    plain = values.T @ values / len(values)
    assert_allclose(mean_products(values, everything, covariance), plain)
    gaps = mean_products(torch.where(shown, values, torch.nan), shown, covariance)
    assert torch.linalg.eigvalsh(gaps).min() > 0
    zeros = torch.where(shown, values, 0.0)
    naive = zeros.T @ zeros / len(values)
    assert (gaps - plain).abs().max() < 0.5 * (naive - plain).abs().max()
    pairs = pairwise_products(torch.where(shown, values, torch.nan), shown)
    assert torch.linalg.eigvalsh(pairs).min() > -1e-12


def test_courses_find_a_year_and_shrink_to_a_plane():
    clock, time = Clock(365.25, 1.0), torch.arange(1000.0).double()
    points = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.5, 0.5]]).double()
    waves = clock.waves(time, 1)
    amplitude = 2 + points[:, 0]
    values = 5 + points[:, 1] + waves[:, :1] * amplitude
    shown = torch.ones_like(values, dtype=torch.bool)
    shown[::3, 2] = False
    for own in (0.0, 1.0):
        courses = site_courses(values, shown, waves, plane_terms(points, 2), own=own)
        assert_allclose(courses.location(waves)[shown], values[shown], atol=0.05)
    # Of a new site: what the plane says.
    terms = torch.tensor([1.0, 2.0, 0.0]).double()
    assert_allclose((terms @ courses.plane)[0], 4.0, atol=0.05)


def test_a_site_seen_for_a_part_of_the_year_has_the_waves_of_those_around_it():
    random, points = np.random.default_rng(0), torch.rand(12, 2).double()
    time = torch.arange(730.0).double()
    waves = Clock(365.25, 1.0).waves(time, 1)
    values = 5 * waves[:, :1] + torch.from_numpy(random.normal(size=(730, 12)))
    shown = torch.ones(730, 12, dtype=torch.bool)
    terms = plane_terms(points, 2)
    whole = site_courses(values, shown, waves, terms, own=0.5)
    shown[60:, 0] = False
    found = site_courses(values, shown, waves, terms, own=0.5)
    assert_allclose(found.wave, whole.wave, atol=0.3)
    assert_allclose(found.wave[1:], whole.wave[1:], atol=0.05)


def test_kernels_have_the_variance_of_what_they_are_fitted_to():
    maps = field_maps(n_maps=200)
    # What a sum of all sites adds is more than a kernel of distances wants.
    values = (
        maps.panel.values
        + 3 * torch.randn(200, 1, generator=torch.Generator().manual_seed(1)).double()
    )
    maps = maps.with_values(values)
    rows_, shown = maps.rows(maps.courses(CHOICES[0]))
    kernel = kernel_of(rows_, shown, maps.sites)
    variance = rows_.square().mean(0)[: len(maps.sites.own)].mean()
    assert kernel.of(maps.sites.columns).diagonal().mean() >= variance - 0.05
    alone = MovingKernel(kernel.numbers, kernel.n_flat)
    more = kernel.of(maps.sites.columns) - alone.of(maps.sites.columns)
    assert_allclose(more[:9, :9], kernel.common, atol=1e-9)
    assert (more[:9, 9:] <= more[:9, :9] + 1e-9).all()


def test_a_month_of_each_year_has_a_line():
    clock = Clock(365.25, 1.0)
    year = torch.arange(6).repeat_interleave(31) * 365.25
    time = (274 + torch.arange(31).repeat(6) + year).double()
    points = torch.zeros(1, 1).double()
    values = 0.3 * (torch.remainder(time, 365.25) - 289)[:, None]
    shown = torch.ones_like(values, dtype=torch.bool)
    courses = site_courses(values, shown, clock.waves(time, 2), plane_terms(points, 1), own=1.0)
    assert_allclose(courses.location(clock.waves(time)), values, atol=0.4)


def field_maps(*, n_maps=60, n_sites=9, n_lags=1, missing=0.0, seed=0):
    random = np.random.default_rng(seed)
    coordinates = torch.from_numpy(random.uniform(0, 10, (n_sites, 2)))
    frame = fit_frame(coordinates, metric="euclidean")
    points = frame.points(coordinates, metric="euclidean")
    apart = torch.cdist(points, points).numpy()
    root = np.linalg.cholesky(np.exp(-apart) + 1e-9 * np.eye(n_sites))
    z, values = np.zeros(n_sites), []
    for _ in range(n_maps):
        z = 0.7 * z + 0.7 * root @ random.standard_normal(n_sites)
        values.append(z)
    shown = torch.from_numpy(random.random((n_maps, n_sites)) >= missing)
    values = torch.where(shown, torch.from_numpy(np.array(values)), 0.0)
    time = torch.arange(float(n_maps)).double()
    earlier = torch.arange(n_maps)[:, None] - torch.arange(1, n_lags + 1)
    panel = Panel(time, values, shown, earlier.clamp_min(-1))
    return Maps(panel, Clock(365.25, 1.0), sites_of(points, frame, n_lags=n_lags))


@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_choices_are_among_what_is_offered_and_beat_the_kernel_alone(missing):
    base = fit_base(field_maps(missing=missing))
    assert base.settings.courses in CHOICES and 0 < base.settings.shrinkage <= 1
    assert 0.2 < base.calibration.stretch < 5
    assert torch.linalg.eigvalsh(base.numbers["products"]).min() > 0


def test_a_season_is_normal_even_where_neighbors_say_all_of_it():
    maps = field_maps(n_maps=160, n_lags=0)._replace(clock=Clock(20.0, 1.0))
    season = 5 * torch.cos(2 * torch.pi * maps.panel.time / 20)[:, None]
    values = torch.where(maps.panel.shown, maps.panel.values + season, 0.0)
    warm = maps._replace(panel=maps.panel._replace(values=values))
    assert choose(warm).settings.courses.n_harmonics > 0
    # A tenth of a cycle has no wave: one would be a trend that turns.
    short = warm._replace(clock=Clock(1600.0, 1.0))
    assert choose(short).settings.courses.n_harmonics == 0


def test_a_single_map_is_enough():
    assert choose(field_maps(n_maps=1)).settings.courses == CourseChoice(0, 1.0)


def test_blocks_of_time_hold_out_each_row_once():
    for n in (1, 3, 5, 23):
        assert_allclose(torch.stack(blocks(n)).sum(0), 1)


def test_levels_between_sites_are_kriged_with_honest_variances():
    random = np.random.default_rng(0)
    points = torch.from_numpy(random.uniform(-1, 1, (60, 2)))
    value = 2 + 3 * points[:, 0] + 0.1 * torch.from_numpy(random.standard_normal(60))
    number = SiteNumber.of(points, value, 2)
    assert float(number.weights.sum()) == pytest.approx(1)
    places = torch.from_numpy(random.uniform(-1, 1, (200, 2)))
    found = number.at(places)
    wanted = 2 + 3 * places[:, 0] + 0.1 * torch.from_numpy(random.standard_normal(200))
    error = (found.mean - wanted) / found.variance.sqrt()
    assert 0.8 < float(error.square().mean()) < 1.3
    sites = torch.tensor([3, 40])
    alone = number.of_others(sites)
    for k, site in enumerate(sites.tolist()):
        keep = torch.arange(60) != site
        others = number._replace(points=points[keep], value=value[keep], more=number.more[keep])
        one = others.at(points[site : site + 1])
        assert float(alone.mean[k]) == pytest.approx(float(one.mean[0]), abs=1e-6)
        assert float(alone.variance[k]) == pytest.approx(float(one.variance[0]), rel=0.2)


def test_few_sites_have_a_mean_and_a_spread():
    points, value = torch.zeros(2, 2).double(), torch.tensor([1.0, 3.0]).double()
    found = SiteNumber.of(points, value, 2).at(torch.ones(1, 2).double())
    assert found.mean.tolist() == [2.0] and found.variance.tolist() == [2.0]


def test_new_columns_are_kriged_from_known_ones():
    points = torch.from_numpy(np.random.default_rng(0).normal(size=(7, 2)))
    kernel, known = random_kernel(2), map_columns(points[:5], 0)
    new = map_columns(points[5:], 0)._replace(site=torch.tensor([5, 6]))
    prior, covariance = kernel.of(known), random_covariance(5)
    both = extend(covariance, prior, kernel, known, new, torch.zeros(2).double())
    values, shown = rows(4, 7)
    shown[:, 5:] = False
    given = given_all(values, shown, both.covariance, torch.tensor([5, 6]))
    weights = torch.linalg.solve(prior, kernel.between(known, new))
    assert_allclose(given.mean, values[:, :5] @ weights, atol=1e-6)
    wanted = (kernel.of(new) - weights.T @ kernel.between(known, new)).diagonal()
    assert_allclose(given.variance[0], wanted, atol=1e-6)
    # The kernel's own covariance is continued by the kernel.
    same = extend(prior, prior, kernel, known, new, torch.zeros(2).double())
    assert_allclose(same.covariance, same.prior, atol=1e-6)


def test_the_globe_has_no_edges():
    coordinates = torch.tensor([[10.0, 179.9], [10.0, -179.9], [-5.0, 170.0]]).double()
    frame = fit_frame(coordinates, metric="haversine")
    points = frame.points(coordinates, metric="haversine")
    assert torch.dist(points[0], points[1]) < 0.1 * torch.dist(points[0], points[2])
    # Up is the third axis: sites near each other differ along the first two.
    assert float((points[0] - points[1])[2].abs()) < 0.1 * float(torch.dist(points[0], points[1]))
    around = torch.tensor([[0.0, 0.0], [0.0, 90.0], [0.0, 180.0], [0.0, -90.0]]).double()
    everywhere = fit_frame(around, metric="haversine")
    assert torch.isfinite(everywhere.points(around, metric="haversine")).all()


def test_tails_of_new_sites_keep_the_variance_but_for_its_stretch():
    eta = torch.randn(9, 3, generator=torch.Generator().manual_seed(0)).double()
    found = Calibration(80.0, 1.7, 5.0).of(eta)
    assert_allclose(StudentT().variance(found), 1.7 * StudentT().variance(eta))
    assert_allclose(StudentT().parameters(found)[2], 5.0)
    assert_allclose(found[:, 0], eta[:, 0])


def test_tails_of_new_sites_are_as_heavy_as_sites_are_different():
    random = np.random.default_rng(0)
    maps = field_maps(n_sites=60, n_lags=0)
    usual = random.normal(size=60)
    odd = np.where(np.arange(60) % 12 == 0, 8.0, 0.2) * usual
    tails = []
    for level in (usual, odd / odd.std()):
        moved = maps.panel.values + 3 * torch.from_numpy(level)
        tails.append(fit_base(maps.with_values(moved)).calibration.tails)
    assert tails[1] < tails[0] and tails[1] in TAILS
