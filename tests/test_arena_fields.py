"""The arena's fields: tasks without leaks, contenders that do not see what they predict, blocks."""

import gzip
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
import torch
from benchmarks.arena.contenders.fields import gaussian, local_processes, ours, trees
from benchmarks.arena.fields.calibration import Scores, calibrated
from benchmarks.arena.fields.data import plain
from benchmarks.arena.fields.judge import blocks, judge, refitted
from benchmarks.arena.fields.normals import fit_normals
from benchmarks.arena.fields.read import suite_field
from benchmarks.arena.fields.tasks import HIDDEN, N_FOLDS, TASKS
from benchmarks.arena.kind import Fitted
from benchmarks.arena.kinds.fields import KIND, simulated
from benchmarks.arena.results import fit_and_judge, read_rows
from benchmarks.arena.tables import describe, headers, table

from exfam.fields import FieldClimatology, FieldGaussianProcess

FIELD = simulated()
FOLDS = TASKS["_new"](FIELD).splits
DATA = {
    "same map": TASKS[""](FIELD),
    "lag": TASKS["_lag"](FIELD),
    "gaps": TASKS["_gaps"](FIELD),
    "new sites": FOLDS[0],
}
FITS = {name: contender.fit for name, contender in KIND.contenders.items()}
FITS["field-efa-network"] = ours.default("FieldEFA", base="none", max_epochs=1)
# They take a while for each pattern of missing values, and are fitted as all of exfam's are.
SLOW = ("field-efa", "field-gaussian", "field-ridge", "field-ridge-covariance")
CASES = [
    pytest.param(task, name, id=f"{task}-{name}")
    for task, data in DATA.items()
    for name, contender in KIND.contenders.items()
    if contender.unsuited(data) is None and name not in SLOW
]


@pytest.fixture(autouse=True)
def small_fits(monkeypatch):
    monkeypatch.setattr(trees, "MOST_TREES", 5)
    monkeypatch.setattr(local_processes, "MOST_STEPS", 2)
    monkeypatch.setattr(local_processes, "N_LEARNED", 100)


def test_values_are_predicted_from_others_of_test_maps():
    data, there = DATA["same map"], ~np.isnan(FIELD.value)
    assert 0 < (~there).mean() < 0.2
    parts = (data.train, data.validation, data.test)
    for number, maps in enumerate(parts):
        rows = FIELD.part == number
        np.testing.assert_array_equal(maps.target, there[rows])
        np.testing.assert_array_equal(maps.shown, there[rows])
        assert np.isnan(maps.before).all()
    np.testing.assert_array_equal(data.both.value, FIELD.value[FIELD.part < 2])


def test_a_lag_shows_the_map_one_step_before():
    late = replace(FIELD, time=FIELD.time + (np.arange(len(FIELD.time)) >= 80))
    maps = TASKS["_lag"](late).test
    before = FIELD.value[69:89].copy()
    # Nothing is one step before the map after a missing day.
    before[80 - 70] = np.nan
    np.testing.assert_array_equal(maps.before, before)


def test_new_sites_are_never_in_training():
    there = ~np.isnan(FIELD.value[FIELD.part == 2])
    times = np.zeros(there.shape, dtype=int)
    for data in FOLDS:
        new, chosen_by = (maps.target.any(0) for maps in (data.test, data.validation))
        assert new.any() and chosen_by.any() and not (new & chosen_by).any()
        assert np.isnan(data.both.value[:, new]).all()
        assert np.isnan(data.train.value[:, new | chosen_by]).all()
        assert np.isnan(data.validation.value[:, new]).all()
        assert not (data.test.shown[:, new] | data.validation.shown[:, new]).any()
        assert not data.validation.shown[:, chosen_by].any()
        np.testing.assert_array_equal(data.test.shown, there & ~new)
        times += data.test.target
    assert len(FOLDS) == N_FOLDS
    np.testing.assert_array_equal(times, there)


def test_gaps_are_shares_of_the_values_and_never_shown():
    data, there = DATA["gaps"], ~np.isnan(FIELD.value)
    for number, maps in ((1, data.validation), (2, data.test)):
        assert not (maps.shown & maps.target).any()
        twice = np.concatenate([there[FIELD.part == number]] * 2)
        np.testing.assert_array_equal(maps.shown | maps.target, twice)
        for share in HIDDEN:
            rows = maps.hidden_share == share
            assert maps.target[rows].sum() / twice[rows].sum() == pytest.approx(share, abs=0.08)
    assert not data.train.hidden_share.any()


def test_heights_are_a_covariate_where_there_are_some():
    data = DATA["new sites"]
    height = np.random.default_rng(0).normal(size=(data.n_items, 1))
    high = replace(data, coordinates=np.c_[data.coordinates, height], metric="euclidean")
    contender = ours.CONTENDERS["field-gaussian-height"]
    assert contender.unsuited(high) is None and "no height" in contender.unsuited(data)
    groups = ours.with_heights(high.test, high)
    np.testing.assert_array_equal(groups.attributes["covariates"], height[groups.item])
    assert np.isfinite(contender.fit(high, 0).predict(high.test).log_prob(high.test.truth)).all()


@pytest.mark.parametrize("task", DATA)
def test_groups_hold_what_is_shown(task):
    data = DATA[task]
    maps = data.test
    groups = ours.groups_of(maps, data)
    (value,) = groups.values.values()
    own = maps.shown | maps.target
    site = groups.item[groups.elements()]
    np.testing.assert_array_equal(groups.stop - groups.start, own.sum(1))
    np.testing.assert_array_equal(groups.observed, ~np.isnan(value))
    np.testing.assert_array_equal(value[groups.elements()], maps.visible[own])
    np.testing.assert_array_equal(site, own.nonzero()[1])
    np.testing.assert_array_equal(groups.position, data.coordinates[groups.item])
    if data.lags:
        start, stop = groups.context_start[3, 0], groups.context_stop[3, 0]
        seen = ~np.isnan(maps.before[3])
        np.testing.assert_array_equal(value[start:stop], maps.before[3][seen])
        np.testing.assert_array_equal(groups.item[start:stop], np.flatnonzero(seen))


def outputs(fitted, maps):
    """Numbers that say what is predicted of each cell, 0 of others."""
    predicted = fitted.predict(maps)
    number = predicted.log_prob(np.full(maps.target.sum(), 1.0)) if fitted.exact else None
    cells = np.zeros(maps.target.shape)
    cells[maps.target] = predicted.center if number is None else number
    return cells


def moved(maps, cell):
    value = maps.value.copy()
    value[cell] += 3.0
    return replace(maps, value=value)


@pytest.mark.parametrize(("task", "name"), CASES)
def test_predictions_see_others_that_are_shown_alone(task, name):
    if KIND.contenders[name].needs is not None:
        pytest.importorskip(KIND.contenders[name].needs)
    data = DATA[task]
    maps = data.test
    fitted = FITS[name](data, 0)
    before = outputs(fitted, maps)
    target = tuple(np.argwhere(maps.target)[5])
    after = outputs(fitted, moved(maps, target))
    assert before[target] == pytest.approx(after[target], abs=1e-5)
    if not maps.shown[target]:
        np.testing.assert_allclose(before, after, atol=1e-5)
    # Another of the map that is shown, the nearest one.
    others = np.flatnonzero(maps.shown[target[0]])
    nearest = others[np.argmin(data.distance[target[1], others])]
    change = np.abs(before - outputs(fitted, moved(maps, (target[0], nearest))))
    assert (change[target] > 1e-5) == (name != "field-climatology")
    assert not np.delete(change, np.flatnonzero(maps.time == maps.time[target[0]]), 0).any()
    if data.lags and name not in ("field-climatology", "field-kriging", "inverse-distances"):
        earlier = outputs(fitted, replace(maps, before=maps.before[::-1]))
        assert not np.allclose(before, earlier)


def test_a_contender_that_cheats_is_found_out():
    maps = DATA["same map"].test
    cheat = Fitted(lambda maps: Scores(maps.truth, maps.truth[:, None]), exact=False)
    cell = tuple(np.argwhere(maps.target)[5])
    change = np.abs(outputs(cheat, maps) - outputs(cheat, moved(maps, cell)))
    assert np.argwhere(change > 1e-5).tolist() == [list(cell)]


@pytest.mark.parametrize("name", ["field-climatology", "gaussian-ledoit-wolf"])
def test_refitted_contenders_see_validation_maps(name):
    data = DATA["same map"]
    fitted = KIND.contenders[name].fit(data, 0)
    again = refitted(fitted, data)
    assert again.settings == fitted.settings and len(fitted.settings["tried"]) == 2
    assert not np.allclose(outputs(fitted, data.test), outputs(again, data.test))
    other = data.with_train(moved(data.train, (0, np.argmax(data.train.shown[0]))))
    np.testing.assert_allclose(
        outputs(refitted(fitted, other), data.test), outputs(again, data.test)
    )


def test_probabilities_of_an_estimator_are_its_own():
    data = DATA["same map"]
    fitted = ours.closed_form("FieldClimatology", choices=({"standardize": "site"},))(data, 0)
    judged = judge(fitted, data.test)
    model = FieldClimatology(standardize="site").fit(ours.groups_of(data.train, data))
    test = ours.groups_of(data.test, data)
    np.testing.assert_allclose(-judged.nats, model.log_prob(test), rtol=1e-5)
    error = (data.test.truth - model.predict(test)) ** 2
    np.testing.assert_allclose(judged.error, error, rtol=1e-4, atol=1e-6)


def test_estimators_that_choose_by_themselves_get_all_but_the_test_maps():
    data = DATA["lag"]
    fitted = ours.default("FieldGaussianProcess")(data, 0)
    model = FieldGaussianProcess(lags=1).fit(ours.groups_of(data.both, data))
    own = model.log_prob(ours.groups_of(data.test, data))
    np.testing.assert_allclose(-judge(fitted, data.test).nats, own, rtol=1e-5)


def test_blocks_are_of_consecutive_times():
    time = np.array([0.0, 1, 9, 10, 19, 365, 369, 370])
    assert blocks(time, 10.0).tolist() == [0, 0, 0, 1, 1, 2, 2, 3]
    assert blocks(np.array([5.0, 6, 5, 6]), 1.0).tolist() == [0, 1, 0, 1]


def test_sums_of_blocks_are_of_all_targets():
    data = DATA["gaps"]
    judged = judge(KIND.contenders["gaussian-ledoit-wolf"].fit(data, 0), data.test)
    sums = judged.by_block(5.0)
    assert sums["nats"] == pytest.approx(np.add(sums["nats_0.3"], sums["nats_0.6"]), abs=1e-4)
    assert sum(sums["elements"]) == data.test.target.sum()
    first = data.test.time[data.test.targets[0]] < data.test.time[0] + 5
    assert len(sums["nats"]) == 4
    assert sums["nats"][0] == pytest.approx(judged.nats[first].sum(), abs=1e-4)


def test_blocks_of_all_folds_are_the_same(tmp_path):
    names = ("inverse-distances", "field-climatology", "field-ridge")
    name = "simulated_fields_new"
    rows = [fit_and_judge(KIND, name, contender, 0, folder=tmp_path) for contender in names]
    for row in rows[:2]:
        assert len(row["by_group"]["nats"]) == 4
        n_values = (~np.isnan(FIELD.value[FIELD.part == 2])).sum()
        assert sum(row["by_group"]["elements"]) == n_values
    assert rows[2]["missing"] == "knows the sites of training alone"
    cells = table(read_rows(tmp_path), KIND, name)
    assert all(len(row) == len(headers(KIND)) for row in cells)
    text = describe(read_rows(tmp_path), KIND, name)
    assert "Every site is new once" in text and "by blocks of 5 days" in text


def test_the_head_finds_scale_and_shift_of_the_truth():
    data = DATA["same map"]
    random = np.random.default_rng(0)
    scale = np.exp(random.normal(size=data.test.value.shape[1]))

    def predict(maps):
        noise = scale[maps.targets[1]] * random.standard_t(5, maps.target.sum())
        return Scores(maps.truth - noise - 2.0, np.log(scale[maps.targets[1]])[:, None])

    fitted = calibrated(Fitted(predict, exact=False), data)
    nats = np.mean([judge(fitted, data.test).nats.mean() for _ in range(20)])
    site = data.test.targets[1]
    truth = float(scipy.stats.t(5).entropy()) + np.log(scale[site]).mean()
    assert truth - 0.05 < nats < truth + 0.1
    assert fitted.settings["nats_from"] == "scores, Student t"


def test_normals_elsewhere_do_not_know_their_own_site():
    data = DATA["same map"]
    other = data.with_train(plain(data.train.time, data.train.value + 10.0 * (np.arange(18) == 4)))
    first, second = (fit_normals(own, kind="site").elsewhere for own in (data, other))
    moves = np.abs(first.coefficients - second.coefficients)[:, 0]
    # All sites share a level, to which each is drawn.
    assert moves[4] < 0.1 < moves.max()
    same = fit_normals(FOLDS[0], kind="site")
    new = FOLDS[0].test.target.any(0)
    np.testing.assert_array_equal(same.coefficients[new], same.elsewhere.coefficients[new])


@pytest.mark.parametrize("smoothness", local_processes.SMOOTHNESS)
def test_a_local_process_conditions_on_what_is_there(smoothness):
    random = np.random.default_rng(0)
    step, anomaly = random.normal(size=(2, 5, 2)), random.normal(size=(2, 5))
    there = np.array([[True] * 5, [True, False, True, False, True]])
    lag = np.array([0.0, 0, 0, 1, 1])
    near = local_processes.Around(*map(torch.from_numpy, (anomaly, step, lag, there)))
    # Variance 2, noise 1/2, correlation 1/4 of maps, no stretch, a way of (0.3, 0) from map to map.
    given = [np.log(2), np.log(0.5), np.log(1 / 3), 3.0, 0, 0, 0, 0.3, 0]
    numbers = torch.tensor(given, dtype=torch.float64)
    mean, variance = local_processes.conditionals(numbers, near, smoothness=smoothness)
    for row in range(2):
        at = np.vstack([np.zeros(2), step[row] + lag[:, None] * [0.3, 0.0]])[[True, *there[row]]]
        time = np.array([0, *lag])[[True, *there[row]]]
        apart = np.sqrt(((at[:, None] - at) ** 2).sum(-1)) * (3**0.5 if smoothness == 1.5 else 1)
        shape = (1 + apart if smoothness == 1.5 else 1) * np.exp(-apart)
        covariance = 2 * 0.25 ** np.abs(time[:, None] - time) * shape + 0.5 * np.eye(len(time))
        weights = np.linalg.solve(covariance[1:, 1:], covariance[0, 1:])
        expected = weights @ anomaly[row][there[row]]
        assert float(mean[row]) == pytest.approx(expected, abs=1e-4)
        left = covariance[0, 0] - weights @ covariance[1:, 0]
        assert float(variance[row]) == pytest.approx(left, abs=1e-4)


def test_conditionals_are_those_of_a_normal_distribution():
    random = np.random.default_rng(0)
    factor = random.normal(size=(6, 6))
    covariance = factor @ factor.T + np.eye(6)
    rows = random.normal(size=(3, 6))
    rows[0, 1] = rows[2, 5] = np.nan
    target = np.ones((3, 4), dtype=bool)
    mean, variance = gaussian.conditionals(rows, target, covariance)
    for index, (row, own) in enumerate(np.argwhere(target)):
        seen = ~np.isnan(rows[row]) & (np.arange(6) != own)
        weights = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[seen, own])
        assert mean[index] == pytest.approx(weights @ rows[row, seen])
        left = covariance[own, own] - weights @ covariance[seen, own]
        assert variance[index] == pytest.approx(left)


def test_covariances_survive_missing_values():
    random = np.random.default_rng(0)
    truth = np.array([[2.0, 1.5, 0.5], [1.5, 2.0, 0.8], [0.5, 0.8, 1.0]])
    rows = random.multivariate_normal(np.zeros(3), truth, size=4_000)
    whole, shrinkage = gaussian.shrunk_covariance(rows)
    rows[random.random(rows.shape) < 0.3] = np.nan
    holed, _ = gaussian.shrunk_covariance(rows)
    assert 0 < shrinkage < 0.05
    np.testing.assert_allclose(whole, truth, atol=0.1)
    np.testing.assert_allclose(holed, truth, atol=0.2)


def test_a_field_of_the_suite_is_a_matrix(tmp_path, monkeypatch):
    (tmp_path / "suite" / "fields").mkdir(parents=True)
    monkeypatch.setenv("EXFAM_DATA", str(tmp_path))
    split = {"train_below": "2000-02-01", "test_from": "2000-03-01"}
    names = {"file": "fields/x.csv.gz", "kind": "fields", "site": ["station"], "order": ["month"]}
    places = {"coordinates_file": "fields/s.csv.gz", "coordinates": ["lon", "lat", "height"]}
    row = {**names, **places, "value": "rain", "split": split}
    monkeypatch.setattr("benchmarks.arena.fields.read.suite_rows", lambda: [row])
    cells = ["01,a,1", "01,b,2", "02,a,3", "03,b,4", "03,c,", "03,a,6"]
    lines = [f"2000-{cell[:2]}-01{cell[2:]}" for cell in cells]
    files = {
        "x": ["month,station,rain", *lines],
        "s": ["station,lon,lat,height", "a,10,50,1000", "b,10,51,0", "c,10,52,0"],
    }
    for name, text in files.items():
        with gzip.open(tmp_path / "suite" / "fields" / f"{name}.csv.gz", "wt") as file:
            file.write("\n".join(text) + "\n")
    field = suite_field("fields/x.csv.gz", "rain", block=3, transform=lambda y: 10 * y)
    np.testing.assert_array_equal(field.value, [[10, 20], [30, np.nan], [60, 40]])
    assert field.time.tolist() == [360, 361, 362] and field.part.tolist() == [0, 1, 2]
    assert (field.unit, field.period, field.metric) == ("month", 12, "euclidean")
    north, _, up = np.abs(np.diff(field.coordinates, axis=0))[0]
    assert north == pytest.approx(111.195) and up == pytest.approx(100)
    jittered = suite_field("fields/x.csv.gz", "rain", block=3, resolution=0.1)
    rest = (jittered.value - field.value / 10)[~np.isnan(field.value)]
    assert (rest > 0).all() and (rest < 0.1).all() and len(np.unique(rest)) == 5
    assert suite_field("fields/x.csv.gz", "rain", block=3, every=2).value.shape == (3, 1)
