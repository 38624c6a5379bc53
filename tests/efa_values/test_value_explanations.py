"""What predictions of values are made of: parts that add up, of every family and ensemble."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch

import exfam
from exfam import EFA, ExfamError, LatentFactor
from exfam.efa.values.head_numbers import N_LOCATION, N_SCALE
from exfam.efa.values.pool import N_POOL
from exfam.efa.values.value_steps import value_steps
from exfam.families import (
    Beta,
    Gamma,
    Gaussian,
    Histogram,
    LogStudentT,
    NegativeBinomial,
    Ordinal,
    Poisson,
    RoundedStudentT,
    SinhStudentT,
    StudentT,
)
from exfam.report import write_report

N_MOVIES = 8


def frame(*, n_users=60, seed=0):
    """Movies with numbers z by level, taste and noise; one value is missing in every 13th row."""
    draw = np.random.default_rng(seed)
    level, loading = draw.normal(size=N_MOVIES), draw.normal(size=(N_MOVIES, 2))
    rows = []
    for user in range(n_users):
        taste, offset = draw.normal(size=2), 0.6 * draw.normal()
        movies = draw.permutation(N_MOVIES)[: draw.integers(2, N_MOVIES)]
        for day, movie in enumerate(movies):
            z = 0.7 * level[movie] + offset + loading[movie] @ taste + 0.4 * draw.normal()
            rows.append((f"u{user}", "abcdefgh"[movie], day, z))
    return pd.DataFrame(rows, columns=["user", "movie", "day", "z"])


RAW = frame()
MISSING = np.arange(len(RAW)) % 13 == 4
COUNTS = np.floor(np.exp(RAW["z"] + 1))
# Of each family its values.
CASES = {
    "gaussian": (Gaussian(), RAW["z"]),
    "student-t": (StudentT(), 1e-6 * RAW["z"] + 3e-6),
    "histogram": (Histogram((-1.0, -0.4, 0.1, 0.7, 1.5)), RAW["z"]),
    "gamma": (Gamma(), 1e4 * np.exp(RAW["z"])),
    "log-student-t": (LogStudentT(), np.exp(RAW["z"])),
    "sinh-student-t": (SinhStudentT(bend=2.0), 5 * RAW["z"]),
    "beta": (Beta(), 1 / (1 + np.exp(-RAW["z"]))),
    "ordinal": (Ordinal(5, start=1), np.clip(np.round(RAW["z"]) + 3, 1, 5)),
    "poisson": (Poisson(), COUNTS.clip(upper=20.0)),
    "negative-binomial": (NegativeBinomial(), COUNTS),
    "rounded-student-t": (RoundedStudentT(), COUNTS),
}
COLUMNS = {"group": "user", "item": "movie", "value": "y", "parts": "values", "progress": False}
SMALL = {"embed_dim": 4, "n_heads": 2, "head_dim": 2, "n_layers": 1, "head_hidden_dim": 4}
SHARED = {**COLUMNS, **SMALL, "max_epochs": 1}
every_direction = pytest.mark.parametrize("direction", ["bidirectional", "causal"])


def data_of(name):
    return RAW.assign(y=np.where(MISSING, np.nan, CASES[name][1]))


def corrected(model, *, gate=0.7):
    """The model with corrections that change something, weighed by a gate."""
    for number, member in enumerate(model.members_):
        generator, part = torch.Generator().manual_seed(number), member.value_part
        part.gate.fill_(gate)
        with torch.no_grad():
            weight = part.correction.outer.weight
            weight += 0.3 * torch.randn(weight.shape, generator=generator)
    return model


def fitted_to(data, family, direction="bidirectional", **more):
    order = {"order": "day"} if direction == "causal" else {}
    options = {**SHARED, **order, "family": family, "direction": direction, **more}
    return EFA(**options).fit(data)


def fitted(name, direction="bidirectional", **more):
    return fitted_to(data_of(name), CASES[name][0], direction, **more)


@cache
def model_of(name, direction):
    return corrected(fitted(name, direction, ensemble=1 + (name == "ordinal")))


def sums(why, name, *, parts=None):
    use = np.ones(len(why.part), dtype=bool) if parts is None else np.isin(why.part, parts)
    return np.bincount(why.element, getattr(why, name) * use, len(why.rows))


@every_direction
@pytest.mark.parametrize("name", CASES)
def test_parts_add_up_to_what_is_predicted(name, direction):
    model, data = model_of(name, direction), data_of(name)
    why = model.explain_value(data)
    assert why.rows.tolist() == list(range(len(data)))
    assert why.items.tolist() == data["movie"].tolist()
    assert why.groups.tolist() == data["user"].tolist()
    np.testing.assert_array_equal(why.values, data["y"])
    unit = np.abs(why.center).max()
    for part in ("location", "center"):
        np.testing.assert_allclose(sums(why, f"to_{part}"), getattr(why, part), atol=1e-9 * unit)
    # What `predict` shows was rounded to single precision before.
    np.testing.assert_allclose(why.center, model.predict(data), rtol=1e-4, atol=1e-5 * unit)
    np.testing.assert_allclose(why.nats, model.log_prob(data), atol=1e-9)
    np.testing.assert_array_equal(np.isnan(sums(why, "to_nats")), MISSING)
    np.testing.assert_allclose(sums(why, "to_nats")[~MISSING], why.nats[~MISSING], atol=1e-9)
    for added in (why.to_center, np.nan_to_num(why.to_nats)):
        every = [np.abs(added[why.part == part]).max() for part in ("overall", "item", "level")]
        assert min(every) > 0


@every_direction
@pytest.mark.parametrize("name", CASES)
def test_the_own_value_changes_nothing_but_the_nats(name, direction):
    model, data, row = model_of(name, direction), data_of(name), 11
    why = model.explain_value(data, rows=[row])
    other = data["y"].dropna().unique()
    other = other[other != data["y"][row]][:1]
    for value in (*other, np.nan):
        changed = data.assign(y=data["y"].where(np.arange(len(data)) != row, value))
        after = model.explain_value(changed, rows=row)
        assert after.part.tolist() == why.part.tolist()
        unit = np.abs(why.center).max()
        for part in ("by_level", "to_location", "to_center"):
            np.testing.assert_allclose(getattr(after, part), getattr(why, part), atol=1e-8 * unit)
        assert (after.nats != why.nats).all()


@pytest.mark.parametrize("name", ["gaussian", "ordinal"])
def test_attention_adds_nothing_where_it_is_switched_off(name):
    model = model_of(name, "bidirectional")
    data = data_of(name)
    on = model.explain_value(data)
    assert np.abs(on.to_center[on.part == "attention"]).min() > 0
    gates = [member.value_part.gate for member in model.members_]
    try:
        for gate in gates:
            gate.fill_(0.0)
        off = model.explain_value(data)
    finally:
        for gate in gates:
            gate.fill_(0.7)
    alone = fitted(name, attention="none").explain_value(data)
    for why in (off, alone):
        is_attention = why.part == "attention"
        assert is_attention.sum() == len(data) and not why.to_center[is_attention].any()
        assert not np.nan_to_num(why.to_nats[is_attention]).any()
    kept = on.part != "attention"
    np.testing.assert_array_equal(off.to_center[kept], on.to_center[kept])


@every_direction
def test_real_values_are_made_of_lines(direction):
    """Location is the factor model's mean, and twice a residual says twice as much."""
    model, data = model_of("gaussian", direction), data_of("gaussian")
    why = model.explain_value(data)
    # The head takes the mean, the item's level and neighbors with weights of their own.
    numbers = model.members_[0].value_part.columns[0].base().numbers
    for part in ("level", "value"):
        own = why.part == part
        np.testing.assert_allclose(why.to_center[own], numbers[1] * why.to_location[own], atol=1e-9)
    own = why.part == "item"
    slope = numbers[1] + numbers[2]
    np.testing.assert_allclose(why.to_center[own], slope * why.to_location[own], atol=1e-9)
    is_value = why.part == "value"
    by_level = np.bincount(why.element, why.by_level * is_value, len(data))
    np.testing.assert_allclose(by_level, why.to_location[why.part == "level"], atol=1e-9)
    for part in ("certainty", "scale"):
        assert np.abs(why.to_center[why.part == part]).max() < 1e-9
        assert np.nanmax(np.abs(why.to_nats[why.part == part])) > 1e-3
    has_neighbors = direction == "causal"
    assert ("neighbors" in why.part) == has_neighbors and "histogram" not in why.part


@pytest.mark.parametrize("name", ["ordinal", "rounded-student-t"])
@pytest.mark.parametrize("number", ["nu", "beta"])
def test_numbers_of_a_scale_and_of_a_histogram_act_in_no_step_before(name, number):
    """Until then groups have a usual scale, and the histogram of all values."""
    model = model_of(name, "bidirectional")
    column = model.members_[0].value_part.columns[0]
    at_pool = N_LOCATION + N_SCALE + (name == "rounded-student-t")
    at = N_LOCATION + N_SCALE - 1 if number == "nu" else at_pool + N_POOL - 1
    # Weights that do not vanish.
    numbers = column.base().numbers.copy()
    numbers[at_pool : at_pool + 4], numbers[at] = (0.1, 1.0, 0.4, 0.3), 0.5
    batch = model._inputs(data_of(name)).groups.pad(np.arange(20))
    before, after = (
        value_steps(replace(column.base(), numbers=own), column.cells(batch), np.arange(30)).eta
        for own in (numbers, np.where(np.arange(len(numbers)) == at, 2.0, numbers))
    )
    first = "scale" if number == "nu" else "histogram"
    for step in list(before)[: list(before).index(first)]:
        torch.testing.assert_close(before[step], after[step], atol=1e-12, rtol=0.0)
    assert not torch.allclose(before[first], after[first], atol=1e-6)


def test_what_other_values_say_is_named_and_the_largest_comes_first():
    model, data = model_of("ordinal", "causal"), data_of("ordinal")
    why, rows = model.explain_value(data), data["user"].to_numpy()
    table = pd.DataFrame(why.to_dict())
    for row in (3, 20, 40):
        own = table[table["row"] == row]
        values = own[own["part"] == "value"]
        earlier = data[(rows == rows[row]) & (data["day"] < data["day"][row])].dropna()
        expected = sorted(zip(earlier["movie"], earlier["y"], strict=True))
        assert sorted(zip(values["context"], values["context_value"], strict=True)) == expected
        assert (np.diff(values["location"].abs()) <= 0).all()
        assert own["part"].drop_duplicates().tolist()[:3] == ["overall", "item", "level"]
        assert own["part"].tolist()[-3:] == ["scale", "histogram", "attention"]
        assert set(own["group"]) == {rows[row]} and set(own["item"]) == {data["movie"][row]}
    first = next(k for k, part in enumerate(why.part) if part == "value")
    assert why.names[0] == "(overall)"
    assert why.names[first] == f"{why.context[first]} = {why.context_value[first]:g}"


def test_a_value_without_context_and_an_item_unknown_have_no_such_parts():
    model = model_of("ordinal", "bidirectional")
    alone = pd.DataFrame({"user": ["x"], "movie": ["a"], "y": [4.0], "day": [0]})
    why = model.explain_value(alone)
    parts = ["overall", "item", "level", "certainty", "scale", "histogram", "attention"]
    assert why.part.tolist() == parts
    for name in ("level", "certainty", "scale", "histogram"):
        assert np.abs(why.to_center[why.part == name]).max() < 1e-12
        assert np.abs(why.to_nats[why.part == name]).max() < 1e-12
    with pytest.warns(exfam.ExfamWarning, match="never seen"):
        new = model.explain_value(alone.assign(movie="zzz"))
    own = new.part == "item"
    assert new.items.tolist() == ["(unknown)"]
    assert not new.to_center[own].any() and not new.to_nats[own].any()
    # The first entry is that of every element, whatever the group.
    np.testing.assert_allclose(new.to_center[0], why.to_center[0], atol=1e-9)


def test_rows_are_those_named_in_that_order():
    model, data = model_of("gaussian", "bidirectional"), data_of("gaussian")
    every, some = model.explain_value(data), model.explain_value(data, rows=[30, 2, 31])
    assert some.rows.tolist() == [30, 2, 31]
    np.testing.assert_allclose(some.center, every.center[[30, 2, 31]], atol=1e-5)
    for number, row in enumerate(some.rows):
        for name in ("context", "to_location"):
            own, of_all = some.element == number, every.element == row
            left, right = getattr(some, name)[own], getattr(every, name)[of_all]
            if name == "context":
                assert left.tolist() == right.tolist()
            else:
                np.testing.assert_allclose(left, right)
    nothing = model.explain_value(data, rows=[])
    assert len(nothing.rows) == len(nothing.to_dict()["context"]) == 0
    shuffled = data.sample(frac=1, random_state=0)
    again = model.explain_value(shuffled, rows=[5])
    assert again.items.tolist() == [shuffled["movie"].iloc[5]]
    number = int(shuffled.index[5])
    np.testing.assert_allclose(again.center, every.center[number], atol=1e-5)
    groups = model._inputs(data).groups
    context = groups.with_(role=(np.arange(groups.n_rows) % 2).astype(np.int8))
    assert model.explain_value(context).rows.tolist() == list(range(0, groups.n_rows, 2))
    with pytest.raises(ExfamError, match="`rows` must be rows that the model predicts, got 3, wh"):
        model.explain_value(context, rows=[2, 3])


@pytest.mark.parametrize(
    "rows", [[0, 0], [-1], [len(RAW)], [0.5], [[1]], [True], "a", [[0], [1, 2]]]
)
def test_rows_that_are_none_are_refused(rows):
    model, data = model_of("gaussian", "bidirectional"), data_of("gaussian")
    with pytest.raises(ValueError, match="`rows` must be different numbers of rows of `X`, 0 .."):
        model.explain_value(data, rows=rows)


def test_models_without_such_a_base_are_refused():
    data = data_of("gaussian")
    for options in ({"base": "none"}, {"parts": "items"}):
        model = EFA(**{**SHARED, **options}).fit(data)
        with pytest.raises(ExfamError, match="`explain_value` needs a model with a base of values"):
            model.explain_value(data)
    with pytest.raises(ExfamError, match="`explain_value` needs EFA, got LatentFactor"):
        LatentFactor().explain_value(data)
    with pytest.raises(ExfamError, match="`column` must be one of 'y', got 'z'"):
        model_of("gaussian", "bidirectional").explain_value(data, column="z")


def test_columns_are_explained_one_by_one_and_explanations_have_all(tmp_path):
    data = data_of("ordinal").assign(z=np.where(MISSING, np.nan, RAW["z"]))
    family = {"y": CASES["ordinal"][0], "z": "gaussian"}
    model = EFA(**{**SHARED, "parts": "both"}, family=family).set_params(value=["y", "z"])
    model.fit(data)
    with pytest.raises(ExfamError, match="`column` must be one of 'y', 'z', got None"):
        model.explain_value(data)
    explanations = model.explain(data)
    for column in ("y", "z"):
        why = model.explain_value(data, column=column)
        np.testing.assert_allclose(why.nats, model.log_prob_parts(data)[column], atol=1e-9)
        np.testing.assert_allclose(sums(why, "to_center"), why.center, atol=1e-9)
        centers = np.concatenate([own.values[column].center for own in explanations])
        np.testing.assert_allclose(np.sort(centers), np.sort(why.center), atol=1e-9)
    model.save(tmp_path / "model")
    loaded = exfam.load(tmp_path / "model").explain_value(data, column="y")
    np.testing.assert_array_equal(loaded.to_center, model.explain_value(data, column="y").to_center)
    page = write_report(model, data, path=tmp_path / "page.html").read_text()
    for column in ("y", "z"):
        assert f"What predictions of “{column}” are made of" in page


def test_a_base_alone_is_explained_without_attention(tmp_path):
    model, data = fitted("ordinal", attention="none"), data_of("ordinal")
    explanations = model.explain(data)
    assert not any(own.weights for own in explanations)
    assert [own.values["y"].items.tolist() for own in explanations] == [
        own.centers for own in explanations
    ]
    page = write_report(model, data, path=tmp_path / "page.html").read_text()
    assert "The model is its base alone" in page and "are made of" in page


def test_values_without_items_are_named_by_number():
    data = data_of("gaussian")
    model = EFA(**{**SHARED, "item": None}).fit(data)
    why = model.explain_value(data, rows=[1])
    assert why.items.tolist() == ["1"] and why.transform == "identity"
    assert "1" not in why.context[why.part == "value"]
    np.testing.assert_allclose(why.to_center.sum(), model.predict(data)[1], rtol=1e-5)


def test_locations_of_amounts_are_logarithms():
    """In the unit of values: another unit moves the overall location alone."""
    model, data = fitted("gamma", attention="none"), data_of("gamma")
    why = model.explain_value(data)
    assert why.transform == "log"
    smaller = fitted_to(data.assign(y=data["y"] / 1e4), CASES["gamma"][0], attention="none")
    other = smaller.explain_value(data.assign(y=data["y"] / 1e4))
    gap = why.to_location - other.to_location
    np.testing.assert_allclose(gap, np.where(why.part == "overall", np.log(1e4), 0.0), atol=1e-4)
    np.testing.assert_allclose(
        why.to_nats + np.where(why.part == "overall", np.log(1e4), 0.0), other.to_nats, atol=1e-3
    )
