"""The arena's tables: what tasks hide, heads that are distributions, and how rivals choose."""

from dataclasses import replace
from functools import cache, partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.integrate
from benchmarks.arena.contenders.tabular import averaged, boosters, ours
from benchmarks.arena.kind import Fitted
from benchmarks.arena.kinds.tables import KIND, simulated
from benchmarks.arena.results import fit_and_judge, read_rows
from benchmarks.arena.tables import describe, headers, table
from benchmarks.arena.tabular import choosing
from benchmarks.arena.tabular.choosing import held_out_rows, with_dropped
from benchmarks.arena.tabular.data import COLUMNS, COMPLETE, SHARES, TASKS, fifths, shown
from benchmarks.arena.tabular.heads import Labels, fit_label_head, fit_number_head
from benchmarks.arena.tabular.judge import TEST_SEED, errors, sums
from benchmarks.arena.tabular.read import Table, split_table
from benchmarks.arena.tabular.scales import possible_scales

DATA = {name: simulated(response=name) for name in ("labels", "ordered", "numbers")}
RIVALS = [
    pytest.param(name, response, id=f"{name}-{response}")
    for name, rival in KIND.contenders.items()
    for response, data in DATA.items()
    if not rival.ours and rival.unsuited(data) is None
    # Labels in order are labels to all but one.
    if response != "ordered" or name == "ordered-probit"
]


@pytest.fixture(autouse=True)
def small_fits(monkeypatch):
    monkeypatch.setattr(boosters, "MOST_TREES", 15)
    monkeypatch.setattr(choosing, "FEW_ROWS", 0)
    monkeypatch.setattr(averaged, "N_TREES", 15)
    monkeypatch.setattr(averaged, "MOST_EPOCHS", 10)


@pytest.mark.parametrize("task", SHARES)
def test_tasks_hide_shares_of_cells_and_more_hide_more(task):
    cells = pd.DataFrame(np.ones((400, 9)))
    hidden = shown(cells, task, seed=0).cells.isna().to_numpy()
    assert hidden.mean() == pytest.approx(SHARES[task], abs=0.02)
    most = shown(cells, "50 %", seed=0).cells.isna().to_numpy()
    assert not (hidden & ~most).any()


def test_the_last_task_hides_a_third_of_the_columns():
    data = DATA["labels"]
    cells = shown(data.test.cells, COLUMNS, seed=TEST_SEED).cells
    gone = cells.columns[cells.isna().all()].tolist()
    assert gone == data.missing and len(gone) == 1
    pd.testing.assert_frame_equal(cells.drop(columns=gone), data.test.cells.drop(columns=gone))


def test_a_random_fifth_is_in_the_test_part():
    data = DATA["labels"]
    n_test, n_train = len(data.test), len(data.train)
    assert n_test / (n_test + n_train) == pytest.approx(0.2, abs=0.01)
    shares = [np.bincount(part.response) / len(part) for part in (data.train, data.test)]
    np.testing.assert_allclose(shares[0], shares[1], atol=0.02)


def test_equal_groups_are_in_one_part_and_new_labels_are_left_out():
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"x": random.integers(0, 40, size=300).astype(float), "y": 1.0})
    data = split_table(Table(frame, "y", labels=False, groups=["x"]))
    assert not set(data.train.cells.x) & set(data.test.cells.x)
    names = pd.DataFrame({"x": [1.0, 2, 3, 4], "y": ["a", "b", "a", "c"]})
    by_x = split_table(Table(names, "y", labels=True), test=lambda frame: frame.x > 2)
    assert by_x.labels.tolist() == ["a", "b"] and by_x.test.response.tolist() == [0]
    assert by_x.left_out == 1


def test_large_tables_are_cut():
    frame = pd.DataFrame({"x": np.arange(100.0), "flag": True, "y": np.arange(100.0)})
    data = split_table(Table(frame, "y", labels=False), most=(30, 10), n_train=20, drop=["flag"])
    assert (len(data.train), len(data.test)) == (20, 10)
    assert data.train.cells.x.is_monotonic_increasing and list(data.train.cells) == ["x"]
    whole = split_table(Table(frame, "y", labels=False), most=None)
    assert len(whole.train) + len(whole.test) == 100 and whole.train.cells.flag.unique() == "True"


def test_fifths_are_equal_within_labels():
    response = np.repeat(["a", "b"], [50, 20])
    fifth = fifths(response, by_label=True, seed=3)
    for label in ("a", "b"):
        assert len(set(np.bincount(fifth[response == label]))) == 1


def test_rows_are_held_out_once_where_they_are_few(monkeypatch):
    assert len(held_out_rows(DATA["labels"])) == 1
    monkeypatch.setattr(choosing, "FEW_ROWS", 1_000)
    parts = held_out_rows(DATA["labels"])
    np.testing.assert_array_equal(np.sum(parts, axis=0), 1)


def test_dropped_cells_are_of_copies_of_rows():
    rows = DATA["numbers"].train
    dropped = with_dropped(rows, copies=3, seed=0)
    np.testing.assert_array_equal(dropped.response, np.tile(rows.response, 3))
    again, whole = dropped.cells.to_numpy(), np.tile(rows.cells.to_numpy(), (3, 1))
    kept = dropped.cells.notna().to_numpy()
    np.testing.assert_array_equal(again[kept], whole[kept])
    assert 0.2 < 1 - kept.mean() < 0.45


@pytest.mark.parametrize("name", ["identity", "sqrt", "log"])
def test_densities_on_a_scale_sum_to_one(name):
    random = np.random.default_rng(0)
    response = np.exp(random.normal(size=400))
    scale = next(scale for scale in possible_scales(response) if scale.name == name)
    head = fit_number_head(np.log(response) + random.normal(size=400), response, scale)
    given = head.distribution(np.zeros(1))
    low = -50 if name == "identity" else 1e-9

    def density(y):
        return float(np.exp(given.log_prob(np.array([y])))[0])

    total, _ = scipy.integrate.quad(density, low, 60, limit=400, points=[0.1, 1, 5])
    assert total == pytest.approx(1, abs=0.02)
    assert head.nats == pytest.approx(
        -head.distribution(np.log(response)).log_prob(response).mean(), abs=1
    )


def test_scales_are_their_own_inverse_and_need_positive_numbers():
    response = np.random.default_rng(0).gamma(2.0, size=50)
    for scale in possible_scales(response):
        np.testing.assert_allclose(scale.back(scale.to(response)), response)
        step = 1e-6
        slope = (scale.to(response + step) - scale.to(response - step)) / (2 * step)
        np.testing.assert_allclose(scale.log_slope(response), np.log(slope), atol=1e-4)
    assert [scale.name for scale in possible_scales(response - 1)] == ["identity"]


def test_a_head_of_numbers_learns_line_and_spread():
    random = np.random.default_rng(0)
    outputs = random.normal(size=3_000)
    response = 2 + 3 * outputs + 0.5 * np.exp(0.4 * outputs) * random.normal(size=3_000)
    head = fit_number_head(outputs, response, possible_scales(response)[0])
    assert head.line[3] == pytest.approx(0.4, abs=0.05) and head.df >= 10
    assert head.line[4] == 0
    assert head.distribution(np.array([1.0])).center() == pytest.approx(5.0, abs=0.1)
    spread = random.normal(size=3_000)
    response = outputs + np.exp(0.5 * spread) * random.normal(size=3_000)
    both = np.stack([outputs, spread], axis=1)
    assert fit_number_head(both, response, possible_scales(response)[0]).line[4] == pytest.approx(
        0.5, abs=0.05
    )


def test_a_head_of_labels_finds_the_temperature():
    random = np.random.default_rng(0)
    outputs = random.normal(size=(4_000, 3))
    probs = np.exp(outputs) / np.exp(outputs).sum(1, keepdims=True)
    response = (random.random((4_000, 1)) > probs.cumsum(1)).sum(1)
    head = fit_label_head(4 * outputs, response)
    assert head.temperature == pytest.approx(0.25, abs=0.03) and head.mixed < 0.05
    np.testing.assert_allclose(head.distribution(outputs).probs.sum(1), 1)


@cache
def constant_of(response):
    return KIND.contenders["no-columns"].fit(DATA[response], 0)


@pytest.mark.parametrize(("name", "response"), RIVALS)
def test_rivals_are_distributions_ahead_of_the_constant_one(name, response):
    data, rival = DATA[response], KIND.contenders[name]
    if rival.needs is not None:
        pytest.importorskip(rival.needs)
    fitted = rival.fit(data, 0)
    constant = constant_of(response)
    for task in (COMPLETE, COLUMNS):
        given = shown(data.test.cells, task, seed=TEST_SEED)
        predicted = fitted.predict(given)
        if isinstance(predicted, Labels):
            np.testing.assert_allclose(predicted.probs.sum(1), 1)
        nats, other = (
            -fit.predict(given).log_prob(data.test.response).mean() for fit in (fitted, constant)
        )
        assert np.isfinite(nats) and nats <= other + (0.1 if task == COLUMNS else 0)
    assert set(fitted.settings["training"]) == set(TASKS)


@pytest.mark.parametrize(
    ("name", "response"), [("ordered-probit", "labels"), ("catboost-normal", "ordered")]
)
def test_rivals_say_what_they_are_not_for(name, response):
    assert KIND.contenders[name].unsuited(DATA[response]) is not None


def test_sums_are_of_rows_and_tasks():
    data = DATA["labels"]
    fair = Fitted(lambda given: Labels(np.full((len(given.cells), 3), 1 / 3)))
    found = sums(fair, data)
    assert found["nats"] == found[f"nats_{COMPLETE}"] == found["nats_30 %"]
    assert found["nats"] == [round(np.log(3), 5)] * len(data.test)
    assert found["error"] == (data.test.response != 0).astype(float).tolist()


def test_errors_of_numbers_are_in_units_of_the_training_mean():
    data = DATA["numbers"]
    mean = np.full(len(data.test), data.train.response.mean())
    constant = SimpleNamespace(center=lambda: mean)
    assert errors(constant, data).mean() == pytest.approx(1)
    assert not errors(SimpleNamespace(center=lambda: data.test.response), data).any()


@pytest.mark.parametrize("response", DATA)
def test_ours_are_judged_by_their_own_scores(response):
    data = DATA[response]
    fitted = ours.default(base="none", max_epochs=1, ordinal=False, extra_masking=0.5)(data, 0)
    predicted = fitted.predict(shown(data.test.cells, COMPLETE, seed=0))
    assert np.isfinite(predicted.log_prob(data.test.response)).all()
    if data.labels is not None:
        assert predicted.center().dtype.kind == "i"
    assert data.ordered == (response == "ordered")


def test_tables_have_columns_for_each_task(tmp_path, monkeypatch):
    read = partial(simulated, n_rows=120)
    source = replace(KIND.sources["simulated_tables"], read=read)
    kind = replace(KIND, sources={"simulated_tables": source})
    for contender in ("no-columns", "histogram-trees"):
        fit_and_judge(kind, "simulated_tables", contender, 0, folder=tmp_path)
    rows = read_rows(tmp_path)
    names = headers(kind)
    assert all(task in names for task in TASKS if task != COMPLETE)
    cells = table(rows, kind, "simulated_tables")
    assert all(len(row) == len(names) for row in cells)
    text = describe(rows, kind, "simulated_tables")
    assert "one of 3 labels" in text and "Left out" not in text
    rows[0]["data"]["new_labels"] = 5
    assert "5 test rows with labels" in describe(rows, kind, "simulated_tables")
