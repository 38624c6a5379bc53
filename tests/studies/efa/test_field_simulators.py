"""Simulated fields, and the parts of the temperatures that they stand for."""

import numpy as np
import pytest
import torch
from scipy.stats import kstest, norm

from exfam.checks import DataError, ExfamError
from exfam.families import Gaussian, NegativeBinomial, Poisson
from exfam.families.mixtures import Mixture
from exfam.fields import FieldKriging
from exfam.fields.data import has_history
from exfam.groups import Groups
from exfam.scores.prediction import Prediction
from exfam.simulators import simulate_counts, simulate_field
from exfam_studies.efa.temperature import new_site_figures, prediction_figures
from exfam_studies.efa.temperature_data import (
    draw_sites,
    field_splits,
    new_sites,
    read_temperatures,
    simulated_temperatures,
    true_conditional,
)

CASES = {"same map": {}, "two maps before": {"lags": 2}}


def expected(field):
    process, time = field.truth, field.groups.group_attributes["time"]
    site = np.tile(np.arange(process.n_sites), (len(time), 1))
    return process.expected(site, time[:, None])


@pytest.mark.parametrize("case", CASES)
def test_the_true_conditional_is_calibrated(case):
    field = simulate_field(15, **{"n_steps": 500, **CASES[case]}, seed=1)
    groups = field.groups[has_history(field.groups)]
    groups = groups[: len(groups) // 10 * 10]
    exact, value = true_conditional(field.truth, groups), field.complete.ravel()[groups.elements()]
    square = ((value - exact.mean) ** 2).reshape(len(groups), -1).mean(axis=1)
    promised = exact.variance.reshape(square.shape[0], -1).mean(axis=1)
    # Maps depend on each other a little: blocks of ten do not.
    gap = (square - promised).reshape(-1, 10).mean(axis=1)
    assert abs(gap.mean()) < 3 * gap.std() / np.sqrt(len(gap))
    assert square.std() > 0.1 * square.mean()
    alone = np.diag(field.truth.covariance()).mean()
    assert square.mean() < 0.9 * alone, "others say more than the site alone"
    # Neighbors' integrals hang together: the distance is of fewer draws than there are values.
    integral = exact.cdf(value)
    assert kstest(integral, "uniform").statistic < 2.5 / np.sqrt(len(integral))


def test_means_and_covariances_are_those_of_the_draws():
    field = simulate_field(6, 20_000, seed=0)
    apart = field.complete - expected(field)
    np.testing.assert_allclose(apart.mean(axis=0), 0, atol=0.6)
    for lag in (0, 1, 3):
        seen = apart[lag:].T @ apart[: len(apart) - lag] / (len(apart) - lag)
        np.testing.assert_allclose(seen, field.truth.covariance(lag), atol=4.0)
    assert np.diag(field.truth.covariance()).min() > 20
    west = np.argsort(field.truth.coordinates[:, 1])
    ahead = field.truth.covariance(1)[np.ix_(west, west)]
    assert np.tril(ahead, -1).sum() > np.triu(ahead, 1).sum() + 1, "weather comes from the west"


def test_conditionals_with_lags_are_those_of_the_joint_normal():
    """Mean and covariance of each window, entry by entry, by definition of the process."""
    field = simulate_field(5, 6, lags=2, seed=3)
    groups, process, value = field.groups[2:], field.truth, field.complete.ravel()
    exact = true_conditional(process, groups)
    nats = exact.log_prob(value[groups.elements()])
    lagged = {lag: process.covariance(lag) for lag in range(3)}
    cells = [(back, site) for back in range(3) for site in range(5)]
    joint = np.empty((15, 15))
    for i, (back_i, site_i) in enumerate(cells):
        for j, (back_j, site_j) in enumerate(cells):
            lag = back_j - back_i
            late, early = (site_i, site_j) if lag >= 0 else (site_j, site_i)
            joint[i, j] = lagged[abs(lag)][late, early]
    for group in range(4):
        rows = [groups.start[group] - 5 * back + site for back, site in cells]
        time = groups.group_attributes["time"][group]
        mean = process.expected(
            np.array([site for _, site in cells]), np.array([time - back for back, _ in cells])
        )
        for index in range(5):
            given = [i for i in range(15) if i != index]
            pull = np.linalg.solve(joint[np.ix_(given, given)], joint[given, index])
            at = 5 * group + index
            expected = mean[index] + pull @ (value[rows] - mean)[given]
            assert exact.mean[at] == pytest.approx(expected)
            left = joint[index, index] - pull @ joint[given, index]
            assert exact.variance[at] == pytest.approx(left)
            assert nats[at] == pytest.approx(
                norm(expected, np.sqrt(left)).logpdf(value[rows][index])
            )


def test_a_view_has_the_conditionals_of_its_own_groups_and_gaps_are_refused():
    field = simulate_field(6, 8, lags=1, seed=0)
    exact = true_conditional(field.truth, field.groups[1:])
    view = true_conditional(field.truth, field.groups[[5, 2]])
    rows = [*range(24, 30), *range(6, 12)]
    np.testing.assert_allclose(view.mean, exact.mean[rows])
    np.testing.assert_allclose(view.variance, exact.variance[rows])
    for gaps in (field.groups, simulate_field(6, 8, missing=0.3, seed=0).groups):
        with pytest.raises(DataError, match="`groups` must have all 6 sites on every map, all of"):
            true_conditional(field.truth, gaps)


def test_the_frame_holds_what_the_groups_hold():
    field = simulate_field(4, 5, missing=0.3, seed=0)
    frame = field.frame.to_pydict()
    assert [str(day) for day in frame["time"][::4]] == field.groups.group_names.tolist()
    value = np.array(frame["value"], dtype=float)[field.groups.source_row]
    np.testing.assert_array_equal(value, field.groups.values["value"])
    assert np.isnan(value).sum() == (~field.groups.observed).sum() > 0
    read = Groups.from_frame(
        field.frame, group="time", item="site", value="value", position=["latitude", "longitude"]
    )
    assert read.item.tolist() == field.groups.item.tolist()
    np.testing.assert_array_equal(read.position, field.groups.attributes["coordinates"])
    in_days = np.array(frame["time"][::4], dtype="datetime64[D]").astype(float)
    np.testing.assert_array_equal(field.groups.group_attributes["time"], in_days)


def test_seeds_decide_and_gaps_and_lags_change_no_value():
    groups = simulate_field(3, 4, lags=2, seed=0).groups
    assert groups.context_start.tolist() == [[0, 0], [0, 0], [0, 3], [3, 6]]
    assert groups.context_stop.tolist() == [[0, 0], [0, 3], [3, 6], [6, 9]]
    one, same, other = (simulate_field(5, 20, seed=seed) for seed in (1, 1, 2))
    assert one.complete.tolist() == same.complete.tolist() != other.complete.tolist()
    gaps = simulate_field(5, 20, seed=1, missing=0.5)
    assert gaps.complete.tolist() == one.complete.tolist()
    assert (~gaps.groups.observed).mean() == pytest.approx(0.5, abs=0.2)
    assert one.groups.observed is None


@pytest.mark.parametrize("family", [Poisson(), NegativeBinomial()], ids=lambda family: family.name)
def test_counts_follow_their_rates(family):
    field = simulate_counts(40, 400, family=family, seed=0, missing=0.1)
    rate = np.exp(field.eta[..., 0])
    extra = 0.0 if family.n_params == 1 else np.exp(-field.eta[..., 1])
    deviation = (field.complete - rate) / np.sqrt(rate + extra * rate**2)
    assert abs(deviation.mean()) < 0.03
    assert (deviation**2).mean() == pytest.approx(1, abs=0.06)
    assert np.log(rate).mean() == pytest.approx(1.0, abs=0.4)
    assert np.log(rate).std() == pytest.approx(0.7, abs=0.25)
    near = np.corrcoef(np.log(rate).T)
    assert near[~np.eye(40, dtype=bool)].mean() > 0.1
    seen = field.groups.observed
    np.testing.assert_array_equal(field.groups.values["value"][seen], field.complete.ravel()[seen])


def test_what_no_field_can_be_is_refused():
    for make, match in (
        (
            lambda: simulate_field(5, 5, season=-1.0, seed=0),
            "`season` must be a number >= 0, got -1",
        ),
        (lambda: simulate_field(0, 5, seed=0), "`n_sites` must be a number > 0, got 0"),
        (lambda: simulate_field(5, 0, seed=0), "`n_steps` must be a number > 0, got 0"),
        (lambda: simulate_field(5, 5, missing=1.0, seed=0), "`missing` must be a number in"),
    ):
        with pytest.raises(ExfamError, match=match):
            make()


SITES = ("Akron Canton, Ohio", "Seattle, Washington")


@pytest.fixture(scope="module")
def groups(data_folder):
    return read_temperatures()


def years(groups):
    return {int(str(day)[:4]) for day in groups.group_names}


def test_parts_are_the_papers_years_and_targets(groups):
    splits = field_splits(groups)
    parts = (splits.train, splits.validation, splits.test)
    assert [part.n_elements for part in parts] == [8184, 5456, 4092]
    assert [(min(years(part)), max(years(part))) for part in parts] == [
        (2007, 2012), (2013, 2016), (2017, 2019)
    ]  # fmt: skip


@pytest.mark.parametrize(("lags", "targets"), [(1, 3960), (2, 3828)])
def test_lags_see_the_days_before_and_lose_the_first_of_october(groups, lags, targets):
    test = field_splits(groups, lags=lags, history=lags).test
    assert test.n_elements == targets
    day = np.array([int(str(name)[-2:]) for name in test.group_names])
    assert day.min() == lags + 1
    plain = field_splits(groups).test
    of_day = {str(name): plain.start[g] for g, name in enumerate(plain.group_names)}
    for g, name in enumerate(test.group_names):
        before = [of_day[str(name - k)] for k in range(lags, 0, -1)]
        assert test.context_start[g].tolist() == before
    same_days = field_splits(groups, history=lags).test
    assert same_days.context_start is None
    assert same_days.group_names.tolist() == test.group_names.tolist()


def test_simulated_fields_have_the_layout_of_the_real_one(groups):
    field, truth = simulated_temperatures(1)
    other, _ = simulated_temperatures(2)
    assert (len(field), field.n_elements) == (len(groups), groups.n_elements)
    assert [str(name)[5:] for name in field.group_names] == [
        str(name)[5:] for name in groups.group_names
    ]
    sizes = [len(part) for part in vars(field_splits(field)).values()]
    assert sizes == [len(part) for part in vars(field_splits(groups)).values()]
    assert not np.allclose(field.values["value"], other.values["value"])
    exact = true_conditional(truth, field)
    error = (field.values["value"] - exact.mean) / np.sqrt(exact.variance)
    assert np.std(error) == pytest.approx(1.0, abs=0.03)


def test_no_fit_sees_a_new_site_and_all_are_drawn_before_any_is_drawn_again(groups):
    labels = [f"site {n}" for n in range(44)]
    draws = draw_sites(labels, draws=12, size=4, seed=3)
    assert [len(set(draw)) for draw in draws] == [4] * 12
    assert len({site for draw in draws[:11] for site in draw}) == 44
    known, scored = new_sites(SITES)
    for part in (known.train, known.validation):
        assert len(part.vocabulary["item"]) == 42
        assert not set(SITES) & set(part.vocabulary["item"])
    for part in (scored.test, scored.validation):
        hidden = np.flatnonzero(~part.observed)
        assert set(part.vocabulary["item"][part.item[hidden]]) == set(SITES)
        own = np.intersect1d(hidden, part.elements())
        assert len(own) == 2 * len(part)


def test_new_sites_are_scored_by_values_that_no_prediction_saw(groups):
    known, scored = new_sites(SITES)
    model = FieldKriging().fit(known.train)
    test = scored.test[:10]
    hidden = ~test.observed
    warmer = test.with_(values={"temperature_f": test.values["temperature_f"] + 50.0 * hidden})
    np.testing.assert_array_equal(model.predict(test), model.predict(warmer))
    plain, moved = (new_site_figures(model, part) for part in (test, warmer))
    assert 0 < plain["rmse"] < 20 and moved["rmse"] > 30
    own = test.elements()
    error = (model.predict(test) - test.values["temperature_f"][own])[hidden[own]]
    assert plain["rmse"] == pytest.approx(np.sqrt((error**2).mean()))


def test_figures_are_means_of_what_scipy_has():
    random = np.random.default_rng(0)
    value = random.standard_normal(400) * 3
    exact = Prediction(Mixture(Gaussian(2.0), torch.zeros(1, 400, 1)), np.arange(400), 400)
    reported = prediction_figures(exact, value)
    assert reported["mse"] == pytest.approx((value**2).mean())
    assert reported["nats"] == pytest.approx(-norm(0, 2).logpdf(value).mean())
    low, high = norm(0, 2).interval(0.9)
    share = ((value >= low) & (value <= high)).mean()
    assert reported["coverage-90"] == share and 0.6 < share < 0.85
    z = value / 2
    crps = 2 * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    assert reported["crps"] == pytest.approx(crps.mean())
