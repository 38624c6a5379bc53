"""The arena's ratings and counts: distributions, no leaks of own values, and judging."""

from functools import partial

import numpy as np
import pytest
import scipy.stats
from benchmarks.arena.contenders.values import additive, ours, trees
from benchmarks.arena.kind import Fitted, Folds
from benchmarks.arena.kinds import all_kinds, counts, ratings
from benchmarks.arena.results import fit_and_judge, read_rows
from benchmarks.arena.tables import describe, headers, table
from benchmarks.arena.values.calibration import calibrated
from benchmarks.arena.values.data import flat
from benchmarks.arena.values.distributions import (
    Atoms,
    Cells,
    Mixed,
    NegativeBinomial,
    RoundedT,
    Steps,
    StudentT,
    mean_log1p,
)
from benchmarks.arena.values.judge import covered, judge, refitted
from benchmarks.arena.values.read import as_values, folds

from exfam import EFA

KINDS = all_kinds()
DATA = {
    "ordinal": ratings.simulated,
    "real": partial(ratings.simulated, form="real"),
    "count": counts.simulated,
    "causal": partial(ratings.simulated, direction="causal"),
}
RIVALS = [
    pytest.param(form, name, id=f"{form}-{name}")
    for form in DATA
    for name, rival in KINDS["counts" if form == "count" else "ratings"].contenders.items()
    if not rival.ours and not (form == "real" and name == "ordinal-factors")
]


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    monkeypatch.setattr(trees, "MOST_TREES", 5)


def outputs(fitted, groups, probe):
    """Scores, or log-probabilities of the same value at every element."""
    predicted = fitted.predict(groups)
    return predicted.log_prob(np.full(groups.n_elements, probe)) if fitted.exact else predicted


def moved(fitted, group, position, *, by):
    """At which elements of a group outputs change with the value at a position."""
    value = group.values["value"].copy()
    probe = value[0]
    before = outputs(fitted, group, probe)
    value[position] += by
    after = outputs(fitted, group.with_(values={"value": value}), probe)
    return ~np.isclose(before, after, rtol=1e-7, atol=1e-9)


def largest(data):
    group = data.test[int(np.argmax(data.test.lengths))].compact()
    middle = np.clip(group.values["value"], data.limits[0] + 1, data.limits[1] - 1)
    return group.with_(values={"value": middle})


@pytest.mark.parametrize(("form", "name"), RIVALS)
def test_predictions_do_not_see_their_own_values(form, name):
    data = DATA[form]()
    rival = KINDS["counts" if form == "count" else "ratings"].contenders[name]
    if rival.needs is not None:
        pytest.importorskip(rival.needs)
    fitted = rival.fit(data, 0)
    group = largest(data)
    changes = moved(fitted, group, 3, by=1.0)
    allowed = np.arange(len(changes)) > 3 if data.causal else np.arange(len(changes)) != 3
    assert not changes[~allowed].any()
    assert name in ("marginal", "items") or changes[allowed].any()


def test_a_contender_that_cheats_is_found_out():
    data = ratings.simulated()
    cheat = Fitted(lambda groups: flat(groups).value + 0.0, exact=False)
    group = largest(data)
    assert moved(cheat, group, 3, by=1.0).tolist() == [n == 3 for n in range(group.n_elements)]


@pytest.mark.parametrize("name", ["histogram", "als-values", "ordinal-factors"])
def test_the_order_of_sets_says_nothing(name):
    data = ratings.simulated()
    fitted = KINDS["ratings"].contenders[name].fit(data, 0)
    group = largest(data)
    order = np.random.default_rng(1).permutation(group.n_elements)
    turned = group.with_(item=group.item[order], values={"value": group.values["value"][order]})
    before, after = outputs(fitted, group, 3.0), outputs(fitted, turned, 3.0)
    np.testing.assert_allclose(after, before[order], rtol=1e-6)


LEVELS = Atoms(np.arange(1.0, 6), np.full(5, 0.2))
SMOOTH = RoundedT(1.2, 0.8, 5.0, 0.5)
ATOMS = Atoms(np.array([0.0, 6, 12]), np.array([0.2, 0.5, 0.3]))
TWO_CELLS = np.array([[0.3, 0.7], [0.9, 0.1]])
DISCRETE = {
    "rounded": RoundedT(np.array([0.3, 2.0]), np.array([0.5, 1.5]), 4.0, 0.5),
    "rounded-from-1": RoundedT(np.array([0.3, 2.0]), np.array([0.5, 1.5]), 4.0, 0.0),
    "negative-binomial": NegativeBinomial(np.array([2.0, 30.0]), 0.7, 1),
    "cells": Cells(TWO_CELLS, np.array([6.0]), Mixed(0.8, ATOMS, SMOOTH), np.array([1.0, 3.0])),
    "levels": Cells(np.full((2, 5), 0.2), np.arange(1.0, 5), LEVELS, np.arange(1.0, 6)),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_masses_are_the_steps_of_the_distribution(name):
    given = DISCRETE[name]
    total = np.zeros(2)
    for count in range(400):
        value = np.full(2, float(count))
        impossible = count < 1 and name != "rounded" and name != "cells"
        if impossible or (name == "levels" and count > 5):
            continue
        mass = np.exp(given.log_prob(value))
        total = total + mass
        np.testing.assert_allclose(given.at_most(value) - given.below(value), mass, atol=1e-12)
        np.testing.assert_allclose(given.at_most(value), total, atol=1e-9)
    assert (total > 0.95).all() and (total <= 1 + 1e-9).all()
    np.testing.assert_allclose(given.at_most(np.full(2, 1e200)), 1, atol=1e-6)


CONTINUOUS = {
    "student": StudentT(np.array([0.3, 2.0]), np.array([0.5, 1.5]), 4.0),
    "cells": Cells(
        TWO_CELLS,
        np.array([1.0]),
        Mixed(0.9, Steps(np.linspace(-2, 4, 7), np.full(6, 1 / 6)), StudentT(1.0, 2.0, 5.0)),
        np.array([0.0, 2.0]),
    ),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_densities_integrate_to_the_distribution(name):
    given = CONTINUOUS[name]
    edges = np.linspace(-3, 5, 8_001)
    middle = (edges[1:] + edges[:-1]) / 2
    mass = np.array([np.exp(given.log_prob(np.full(2, y))) for y in middle]) * np.diff(edges)[0]
    span = given.at_most(np.full(2, 5.0)) - given.at_most(np.full(2, -3.0))
    np.testing.assert_allclose(mass.sum(0), span, atol=1e-5)


def test_means_of_logarithms_are_those_of_all_counts():
    for true in (scipy.stats.poisson(3.0), scipy.stats.nbinom(0.8, 0.01)):
        values = np.arange(20_000)
        exact = float((np.log1p(values) * true.pmf(values)).sum())
        mean = mean_log1p(true.cdf, 1)[0]
        assert mean == pytest.approx(exact, abs=2e-3)


def test_the_truth_holds_four_fifths_of_values():
    random = np.random.default_rng(0)
    value = random.poisson(2.0, 100_000)
    true = scipy.stats.poisson(2.0)
    share = covered(true.cdf(value - 1), true.cdf(value))
    assert share.mean() == pytest.approx(0.8, abs=0.005)
    assert len(np.unique(share)) > 2
    uniform = random.random(100_000)
    assert covered(uniform, uniform).mean() == pytest.approx(0.8, abs=0.005)


@pytest.mark.parametrize("causal", [False, True])
def test_leaving_one_out_is_a_regression_without_it(causal):
    random = np.random.default_rng(0)
    elements = flat(ratings.simulated().test)
    n = len(elements.item)
    design, rest = random.normal(size=(n, 3)), random.normal(size=n)
    ridge = np.array([2.0, 1.0, 3.0])
    fast = additive.leave_one_out(design, rest, elements, ridge, causal=causal)
    slow = np.zeros(n)
    for row in range(n):
        own = elements.group == elements.group[row]
        own &= np.arange(n) < row if causal else np.arange(n) != row
        products = design[own].T @ design[own] + np.diag(ridge)
        slow[row] = design[row] @ np.linalg.solve(products, design[own].T @ rest[own])
    np.testing.assert_allclose(fast, slow, atol=1e-9)


@pytest.mark.parametrize("form", ["ordinal", "real", "count"])
def test_calibration_does_not_see_the_unit_of_scores(form):
    data = DATA[form]()
    scores = additive.fit_offsets(data, 0)
    other = Fitted(lambda groups: 1e3 * scores.predict(groups) - 50, exact=False)
    nats = [judge(calibrated(own, data), data.test, data).nats for own in (scores, other)]
    np.testing.assert_allclose(*nats, atol=1e-2)
    settings = calibrated(scores, data).settings
    assert settings["nats_from"].startswith("scores") and "calibration" in settings


def test_refitted_contenders_see_validation_groups():
    data = counts.simulated()
    rival = KINDS["counts"].contenders["items"]
    fitted = rival.fit(data, 0)
    again = refitted(fitted, data)
    before, after = (judge(own, data.test, data).nats for own in (fitted, again))
    assert again.settings == fitted.settings and not np.allclose(before, after)


@pytest.mark.parametrize("form", ["ordinal", "real", "count", "causal"])
def test_probabilities_of_an_estimator_are_its_own(form):
    data = DATA[form]()
    options = {"parts": "values", "max_epochs": 1, "progress": False}
    judged = judge(ours.fitting(EFA, **options)(data, 0), data.test, data)
    model = EFA(direction=data.direction, family={"value": ours.family_of(data)}, **options)
    model.fit(_both(data))
    np.testing.assert_allclose(-judged.nats, model.log_prob(data.test), rtol=1e-3, atol=1e-4)
    if form != "count":
        error = (data.test.values["value"] - model.predict(data.test)) ** 2
        np.testing.assert_allclose(judged.error, error, rtol=1e-3, atol=1e-4)


def _both(data):
    seen = {}
    refitted(Fitted(lambda groups: None, refit=lambda both: Fitted(seen.update(it=both))), data)
    return seen["it"].train


def test_every_group_is_in_a_test_fold_once():
    frame = _frame(counts.simulated())
    splits = folds(frame, form="count", n_folds=5).splits
    assert sum(len(split.test) for split in splits) == frame.group.nunique()
    assert all(
        len(split.train) + len(split.validation) + len(split.test) == 120 for split in splits
    )


def _frame(data):
    import pandas as pd

    parts, first = [], 0
    for part in (data.train, data.validation, data.test):
        own = flat(part)
        columns = {"group": own.group + first, "item": own.item, "value": own.value}
        parts.append(pd.DataFrame(columns))
        first += len(part)
    return pd.concat(parts, ignore_index=True)


def test_items_that_training_lacks_are_left_out():
    frame = _frame(counts.simulated())
    parts = [frame[frame.item < 5], frame[frame.group == 3], frame[frame.group == 4]]
    data = as_values(parts, form="count")
    assert data.n_items == 5 and data.left_out["train"] == 0
    assert data.left_out["test"] == (parts[2].item >= 5).sum() > 0


def test_folds_and_their_tables_hold_all_groups(tmp_path, monkeypatch):
    kind = KINDS["counts"]
    frame = _frame(counts.simulated())
    source = type(kind.sources["bci_trees"])(
        read=lambda: folds(frame, form="count", n_folds=3), remark="for tests"
    )
    monkeypatch.setitem(kind.sources, "simulated_counts", source)
    for name in ("marginal", "items", "offsets"):
        row = fit_and_judge(kind, "simulated_counts", name, 0, folder=tmp_path)
        assert len(row["by_group"]["nats"]) == 120
        assert sum(row["by_group"]["elements"]) == len(frame)
    rows = read_rows(tmp_path)
    cells = table(rows, kind, "simulated_counts")
    assert len(cells) == 3 and all(len(row) == len(headers(kind)) for row in cells)
    assert {row[-1] for row in cells} == {"model", "scores, rounded t"}
    text = describe(rows, kind, "simulated_counts")
    assert "the first of 3 folds" in text and "all other values" in text
    assert isinstance(source.read(), Folds)


def test_a_contender_says_what_it_cannot_take(tmp_path, monkeypatch):
    kind = KINDS["ratings"]
    source = type(kind.sources["bfi"])(read=DATA["real"], remark="for tests")
    monkeypatch.setitem(kind.sources, "simulated_ratings", source)
    row = fit_and_judge(kind, "simulated_ratings", "ordinal-factors", 0, folder=tmp_path)
    assert row["missing"] == "values have no levels"
