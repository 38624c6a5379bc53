"""Fields of known truth: the truth is that of the draws, and exact."""

import numpy as np
import pytest
from scipy.stats import kstest, norm

from exfam.checks import DataError, ExfamError
from exfam.families import NegativeBinomial, Poisson
from exfam.fields.data import has_history
from exfam.groups import Groups
from exfam.simulators import FieldSettings, simulate_counts, simulate_field
from exfam_studies.efa.temperature_data import true_conditional

CASES = {
    "same map": {},
    "euclidean": {"settings": FieldSettings(metric="euclidean")},
    "smooth, two maps before": {"settings": FieldSettings(smoothness=1.5), "lags": 2},
}


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
        (lambda: FieldSettings(metric="miles"), "`metric` must be one of 'haversine', 'eucl"),
        (lambda: FieldSettings(persistence=1.0), r"`persistence` must be a number in \[0, 1\)"),
        (lambda: simulate_field(0, 5, seed=0), "`n_sites` must be a number > 0, got 0"),
        (lambda: simulate_field(5, 0, seed=0), "`n_steps` must be a number > 0, got 0"),
        (lambda: simulate_field(5, 5, missing=1.0, seed=0), "`missing` must be a number in"),
    ):
        with pytest.raises(ExfamError, match=match):
            make()
