"""Effects of attributes in the base of values: a broken line of numbers, a level of categories."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import exfam
from exfam import EFA
from exfam.efa.values import effects
from exfam.efa.values.cells import ValueCells
from exfam.efa.values.effects import fit_effects
from exfam.efa.values.factor_em import effects_of, fit_factors
from exfam.efa.values.given import GivenColumn, GivenNumbers
from exfam.efa.values.values_base import ValueOptions, fit_and_keep
from exfam.families import Gaussian, Histogram, Ordinal

COLUMNS = (
    GivenColumn("x", False),
    GivenColumn("kind", False, 4),
    GivenColumn("age", True),
    GivenColumn("noise", False),
    GivenColumn("same", False),
)


def drawn(n_groups=120, *, seed=0):
    """Values by levels of groups and items, sin(2 x), a category and a number of the group."""
    draw = np.random.default_rng(seed)
    n = 12 * n_groups
    group, item, x = np.repeat(np.arange(n_groups), 12), draw.integers(0, 9, n), draw.normal(size=n)
    kind, age = draw.integers(0, 4, n), draw.normal(size=n_groups)
    effect = np.sin(2 * x) + np.array([0.0, 1.0, 0.0, -1.0])[kind] + 0.5 * age[group]
    levels = draw.normal(size=9)[item] + draw.normal(size=n_groups)[group]
    return pd.DataFrame(
        {
            "user": group,
            "item": item,
            "x": x,
            "kind": kind,
            "age": age[group],
            "noise": draw.normal(size=n),
            "same": 7.0,
            "effect": effect - effect.mean(),
            "value": effect + levels + 0.5 * draw.normal(size=n),
        }
    )


FRAME = drawn()
OTHER = drawn(60, seed=1)
# Attributes as labels and numbers.
READ = {
    "group": "user",
    "value": "value",
    "attributes": ["x", "kind", "noise"],
    "group_attributes": "age",
}


def given(frame):
    return GivenNumbers(
        COLUMNS, frame[[column.name for column in COLUMNS]].to_numpy(dtype=np.float64)
    )


def fitted(frame):
    columns = (frame[name].to_numpy() for name in ("value", "item", "user"))
    return fit_effects(given(frame), *columns)


def labelled(frame):
    return frame.assign(kind=[f"k{code}" for code in frame.kind])


def test_effects_are_those_that_values_were_drawn_by():
    found = fitted(FRAME)
    error = found.of(given(FRAME)) - FRAME.effect
    assert error.std() < 0.25 < 0.9 < FRAME.effect.std()
    assert abs(found.of(given(FRAME)).mean()) < 1e-9
    # Of no use, or the same everywhere.
    for name in ("noise", "same"):
        change = found.of(given(FRAME.assign(**{name: 2.0}))) - found.of(given(FRAME))
        assert np.abs(change).max() < 0.05
    # A category that was not there has none; beyond the numbers seen lines go on.
    unknown = found.of(given(FRAME.assign(kind=-1)))
    assert unknown.std() < found.of(given(FRAME)).std()
    far = found.of(given(FRAME[:3].assign(x=[8.0, 9.0, 10.0], kind=0, age=0.0, noise=0.0)))
    assert far[2] - far[1] == pytest.approx(far[1] - far[0])


def test_effects_of_many_cells_are_those_of_some_groups(monkeypatch):
    whole = fitted(FRAME)
    monkeypatch.setattr(effects, "MOST_CELLS", 700)
    some = fitted(FRAME)
    half = fitted(FRAME[FRAME.user % 3 == 0].assign(user=lambda part: part.user // 3))
    np.testing.assert_allclose(some.weight, half.weight, atol=1e-9)
    assert not np.array_equal(some.weight, whole.weight)
    one = fitted(FRAME.assign(user=1))
    assert np.isfinite(one.weight).all() and one.weight.any()


def test_without_values_there_are_no_effects():
    n = len(FRAME)
    cells = ValueCells(np.array([0, n]), np.zeros(n, dtype=np.int64), np.full(n, np.nan))
    cells = replace(cells, given=given(FRAME))
    assert effects_of(cells) is None
    assert np.isfinite(fit_factors(cells, 1, rank=0).model.level).all()


@pytest.mark.parametrize("direction", ["bidirectional", "causal"])
def test_the_base_knows_attributes_and_says_what_they_add(direction, tmp_path):
    options = {"parts": "values", "attention": "none", "progress": False, "direction": direction}
    if direction == "causal":
        options["order"] = "rows"
    frame, other = labelled(FRAME), labelled(OTHER)
    model = EFA(**READ, **options, family="gaussian").fit(frame)
    without = EFA(group="user", value="value", **options, family="gaussian").fit(frame)
    assert model.score(other) > without.score(other) + 0.25
    model.save(tmp_path / "model")
    loaded = exfam.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.log_prob(other), model.log_prob(other))
    found = model.explain_value(other[:24])
    table = pd.DataFrame(found.to_dict())
    added = table[table.part == "attributes"].groupby("row").location.sum()
    truth = OTHER.effect[:24] - OTHER.effect[:24].mean()
    assert np.corrcoef(added, truth)[0, 1] > 0.95
    np.testing.assert_allclose(table.groupby("row").location.sum(), found.location)
    np.testing.assert_allclose(table.groupby("row").nats.sum(), found.nats, atol=1e-9)
    assert "attributes" not in without.explain_value(other[:24]).part


def test_positions_have_a_course_that_all_groups_share():
    draw = np.random.default_rng(0)
    time = np.concatenate([np.sort(draw.uniform(0, 10, 6)) for _ in range(150)])
    frame = pd.DataFrame({"user": np.repeat(np.arange(150), 6), "time": time})
    level = np.repeat(draw.normal(size=150), 6)
    frame["value"] = 2 * np.sin(time) + level + 0.3 * draw.normal(size=900)
    options = {"group": "user", "value": "value", "order": "time", "attention": "none"}
    model = EFA(**options, parts="values", position="time", progress=False).fit(frame)
    apart = frame[:6].assign(time=[1.5, 4.7, 7.8, 10.0, 20.0, 40.0], value=None)
    predicted = model.predict(apart)
    assert predicted[0] - predicted[1] > 3 and predicted[2] - predicted[1] > 3
    # Beyond the last position nothing is known of it.
    np.testing.assert_allclose(predicted[4:], predicted[3], atol=0.1)


def test_what_items_have_in_common_is_the_same_in_all_folds():
    draw = np.random.default_rng(0)
    offset = np.arange(0, 201, 10)
    value = np.round(3 + np.repeat(draw.normal(size=20), 10) + draw.normal(size=200)).clip(1, 5)
    cells = ValueCells(offset, np.zeros(200, dtype=np.int64), value)
    for family in (Gaussian(), Ordinal(5, start=1)):
        base, kept = fit_and_keep(cells, 1, family, ValueOptions())
        known = base.features(cells)
        for name in ("level", "item_count", "share"):
            whole, left_out = (getattr(f, name) for f in (known, kept.features))
            np.testing.assert_allclose(left_out, np.broadcast_to(whole[0], left_out.shape))


def test_the_family_is_chosen_given_attributes_and_bins_lie_between_values():
    draw = np.random.default_rng(0)
    group = np.repeat(np.arange(250), 10)
    side = draw.integers(0, 2, 2500)
    frame = pd.DataFrame({"user": group, "side": [f"s{code}" for code in side]})
    frame["value"] = np.round(8.0 * side + draw.normal(size=2500), 1)
    options = {"group": "user", "parts": "values", "attention": "none", "progress": False}
    with_side = EFA(**options, value="value", attributes="side").fit(frame)
    without = EFA(**options, value="value").fit(frame)
    families = [model.members_[0].families["value"] for model in (with_side, without)]
    assert not isinstance(families[0], Histogram) and isinstance(families[1], Histogram)
    assert not np.isin(np.float32(families[1].edges), np.float32(frame.value)).any()
    assert with_side.score(frame) > without.score(frame) + 0.3
