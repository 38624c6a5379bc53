"""Several value columns of an element, each given those before it."""

import json
from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch

import exfam
from crafted_cases import changed, craft, paths
from exfam import EFA, Groups
from exfam.efa.networks.assemble import EFASettings, build_efa
from exfam.estimator.gain import gain_sentences
from exfam.estimator.schema import Schema
from exfam.families import Family, Histogram, NegativeBinomial, Ordinal, StudentT
from exfam.likelihoods.earlier_columns import (
    EarlierColumns,
    GivenEarlier,
    column_numbers,
    inputs_of,
)
from exfam.likelihoods.two_part import TwoPartModel
from model_cases import generator, randomize

FAMILIES: dict[str, Family] = {
    "stars": Ordinal(3, start=1),
    "size": StudentT(),
    "count": NegativeBinomial(),
    "bin": Histogram((-2.0, -1.0, 0.0, 0.5, 1.0, 2.0)),
}
COLUMNS = {"group": "g", "item": "i", "value": ["a", "b"], "parts": "values", "progress": False}
SMALL = {"embed_dim": 4, "n_heads": 1, "head_dim": 4, "n_layers": 1, "max_epochs": 2}


def groups(seed=0, *, lengths=(3, 4, 2)):
    draw, n = np.random.default_rng(seed), sum(lengths)
    stop = np.cumsum(lengths)
    values = {
        "stars": draw.integers(1, 4, n).astype(float),
        "size": draw.normal(size=n),
        "count": draw.poisson(3.0, n).astype(float),
        "bin": draw.uniform(-1.9, 1.9, n),
    }
    observed = np.arange(n) != 4
    return Groups(start=stop - lengths, stop=stop, values=values, observed=observed)


@pytest.fixture(params=["bidirectional", "causal"])
def model(request) -> TwoPartModel:
    """Random weights everywhere, those of earlier columns too."""
    data, source = groups(), generator(0)
    schema = Schema.of(data, families=FAMILIES, attributes=())
    sizes = {"embed_dim": 8, "head_dim": 4, "head_hidden_dim": 4, "encoding": "none"}
    settings = EFASettings(direction=request.param, items=False, **sizes)
    built = randomize(build_efa(schema, settings, generator=source), source)
    numbers = {
        name: column_numbers(family, torch.from_numpy(data.values[name]), None)
        for name, family in schema.families.items()
    }
    etas, seen = built.part_eta(data.pad(np.arange(len(data))))
    parts = {
        name: part_of(inputs_of(numbers, name, etas, seen.values, None), schema.families[name])
        for name in list(FAMILIES)[1:]
    }
    built.earlier = randomize(EarlierColumns(numbers, parts), source)
    return built.eval()


def part_of(inputs, family):
    zeros = torch.zeros(inputs.shape[-1], dtype=torch.float64)
    return GivenEarlier(family, zeros, zeros + 1, hidden=3, generator=generator(0))


def etas_of(model, data):
    batch = data.pad(np.arange(len(data)))
    return {name: eta.detach()[batch.present] for name, eta in model.value_eta(batch).items()}


def test_a_column_sees_earlier_ones_of_its_element_and_no_other(model):
    """Of element 2, the last of its group: a causal model shows it to no one else."""
    data, names = groups(), list(FAMILIES)
    before = etas_of(model, data)
    others = {"stars": 3.0, "size": 9.0, "count": 11.0, "bin": -1.5}
    for number, column_moved in enumerate(names):
        values = {name: column.copy() for name, column in data.values.items()}
        assert values[column_moved][2] != others[column_moved]
        values[column_moved][2] = others[column_moved]
        after = etas_of(model, data.with_(values=values))
        for k, name in enumerate(names):
            moved = not torch.equal(after[name][2], before[name][2])
            assert moved == (k > number), (column_moved, name)
            if model.direction == "causal":
                torch.testing.assert_close(after[name][:2], before[name][:2], rtol=0, atol=0)


def test_where_values_were_not_observed_nothing_is_given(model):
    """Whatever stands in their place."""
    data = groups()
    given, earlier = etas_of(model, data), model.earlier
    model.earlier = None
    alone = etas_of(model, data)
    model.earlier = earlier
    for name in FAMILIES:
        same = (given[name] == alone[name]).all(-1)
        assert same[4]
        assert same.all() == (name == "stars")


def test_a_missing_value_is_no_target_and_moves_nothing_while_the_others_of_its_element_do(model):
    """Element 2 lacks its size: its count is given none of the values before it."""
    data, names = groups(), list(FAMILIES)
    values = {name: column.copy() for name, column in data.values.items()}
    values["size"][2] = np.nan
    gappy = data.with_(values=values)
    batch = gappy.pad(np.arange(len(data)))
    nats, before = model.log_prob(batch), etas_of(model, gappy)
    for name in names:
        assert (nats.value[name][0, 2] != 0) == (name != "size")
        assert before[name].isfinite().all()
    for number, (column_moved, to) in enumerate({"stars": 3.0, "count": 11.0}.items()):
        moved_values = values | {
            column_moved: np.where(np.arange(9) == 2, to, values[column_moved])
        }
        after = etas_of(model, gappy.with_(values=moved_values))
        moved = [not torch.equal(after[name][2], before[name][2]) for name in names]
        assert moved == [number == 0 and name == "size" for name in names]
    # What another element of the group sees of it has changed, unless it comes earlier.
    whole = etas_of(model, data)
    assert torch.equal(whole["stars"][0], before["stars"][0]) == (model.direction == "causal")


def test_all_values_of_an_element_together_sum_to_one():
    families = {"a": Ordinal(3, start=1), "b": Ordinal(4)}
    etas = {name: torch.randn(1, own.n_params).double() for name, own in families.items()}
    numbers = {
        name: column_numbers(own, torch.tensor(own.categories).double(), None)
        for name, own in families.items()
    }
    inputs = inputs_of(numbers, "b", etas, {"a": torch.ones(1)}, None)
    part = randomize(part_of(inputs, families["b"]), generator(0))
    earlier, total = EarlierColumns(numbers, {"b": part}), 0.0
    for a, b in product(families["a"].categories, families["b"].categories):
        values = {"a": torch.tensor([float(a)]), "b": torch.tensor([float(b)])}
        given = earlier(etas, values, None, torch.ones(1, dtype=torch.bool), {})
        nats = sum(own.log_prob(values[name], given[name]) for name, own in families.items())
        total += float(nats.detach().exp())
    assert total == pytest.approx(1.0, abs=1e-12)


def frame(kind, *, seed=0, n_groups=60):
    """Two columns: nearly the same number in two units, counts of which some are kept, or apart."""
    draw, level = np.random.default_rng(seed), np.random.default_rng(9).normal(size=8)
    rows = []
    for g in range(n_groups):
        own = draw.normal()
        rows += [(g, i, level[i] + own + 0.5 * draw.normal()) for i in draw.permutation(8)[:4]]
    data = pd.DataFrame(rows, columns=["g", "i", "a"])
    if kind == "same":
        return data.assign(b=30 * data.a + 100 + 0.6 * draw.normal(size=len(data)))
    if kind == "counts":
        counts = draw.poisson(np.exp(data.a + 1.5))
        return data.assign(a=counts, b=draw.binomial(counts, 0.7))
    return data.assign(b=level[data.i.to_numpy()[::-1] % 8] + draw.normal(size=len(data)))


def fitted(kind, **choices):
    return EFA(**COLUMNS | {"attention": "none"} | choices).fit(frame(kind))


@pytest.fixture(scope="module")
def same():
    return fitted("same", family="gaussian")


def test_nearly_equal_columns_cost_one_density_and_a_little(same):
    """b has a noise of 0.6 about a line in a: 0.91 nats, and the base's one is 4.8."""
    new = frame("same", seed=1)
    alone = fitted("same", family="gaussian", values_given_each_other=False)
    parts, without = same.score_parts(new), alone.score_parts(new)
    assert parts["a"] == without["a"]
    assert -parts["b"] == pytest.approx(np.log(0.6) + 0.5 * np.log(2 * np.pi * np.e), abs=0.2)
    assert -without["b"] > 4.0
    assert alone.column_gain_ is None
    assert same.column_gain_.low > 2.0


def test_columns_apart_are_left_as_they_are():
    model = fitted("apart", family="gaussian")
    alone = fitted("apart", family="gaussian", values_given_each_other=False)
    new = frame("apart", seed=1)
    assert model.score(new) == alone.score(new)
    assert "What earlier columns say added nothing" in gain_sentences(model)[-1]
    assert model.members_[0].earlier is None


@pytest.mark.parametrize(
    "choices",
    [
        {"base": "none", "attention": "softmax", "family": "poisson", **SMALL},
        {"family": "poisson", "validation_fraction": 0.0},
        {"direction": "causal", "order": "rows", "family": "negative-binomial"},
        {"attention": "softmax", "ensemble": 2, "family": "poisson", **SMALL},
    ],
    ids=["no base", "no validation", "causal", "ensemble"],
)
def test_every_way_of_fitting_gains(choices):
    model = fitted("counts", **choices)
    assert model.column_gain_.low > 0.1
    assert gain_sentences(model)[-1].startswith("What earlier columns say added")


@pytest.mark.parametrize("n_groups", [1, 4])
def test_few_groups_choose_nothing(n_groups):
    few = frame("same", seed=0, n_groups=n_groups)
    for fraction in (0.0, 0.2):
        choices = {"attention": "none", "validation_fraction": fraction}
        model = EFA(**COLUMNS | choices).fit(few)
        assert model.column_gain_ is None
        assert np.isfinite(model.score(few))


def test_a_saved_model_predicts_the_same(same, tmp_path):
    new = frame("same", seed=2, n_groups=10)
    loaded = exfam.load(same.save(tmp_path / "model") or tmp_path / "model")
    np.testing.assert_array_equal(loaded.log_prob(new), same.log_prob(new))
    assert loaded.column_gain_ == same.column_gain_


def test_draws_have_the_columns_go_together(same):
    new = frame("same", seed=3, n_groups=40)
    new.loc[new.index % 3 == 0, ["a", "b"]] = np.nan
    drawn = same.sample(new, sweeps=1)
    a, b = drawn.values["a"], drawn.values["b"]
    filled = new["a"].isna().to_numpy()
    residual = (b - 30 * a - 100)[filled]
    assert filled.sum() > 40
    assert np.std(residual) == pytest.approx(0.6, rel=0.4)


def test_elements_that_lack_a_value_are_learned_from_and_predicted(same):
    train, new = frame("same"), frame("same", seed=4, n_groups=20)
    for data, names in ((train, "ab"), (new, "a")):
        for k, name in enumerate(names):
            data.loc[np.arange(len(data)) % 3 == k, name] = np.nan
    model = EFA(**COLUMNS, attention="none", family="gaussian").fit(train)
    parts, full = model.score_parts(new), same.score_parts(frame("same", seed=4, n_groups=20))
    assert parts["a"] == pytest.approx(full["a"], abs=0.25)
    assert -3.5 < parts["b"] < full["b"]  # of a third of them a is not known
    lacks = new["a"].isna().to_numpy()
    same_value = new.assign(b=np.where(lacks, new.b + 100.0, new.b))
    for name in "ab":  # its own value moves none of an element's predictions
        before, after = model.predict(new)[name], model.predict(same_value)[name]
        alone = np.flatnonzero(lacks & (new.g.map(new.g[lacks].value_counts()) == 1).to_numpy())
        np.testing.assert_allclose(after[alone], before[alone], rtol=1e-12)
    drawn = model.sample(new, sweeps=0)
    np.testing.assert_array_equal(drawn.values["b"], new["b"])
    np.testing.assert_array_equal(drawn.values["a"][~lacks], new["a"][~lacks])
    assert drawn.observed.all() and np.isfinite(drawn.values["a"]).all()


def test_explanations_have_a_part_for_earlier_columns_and_add_up(same):
    new = frame("same", seed=4, n_groups=3)
    for name, has in (("a", False), ("b", True)):
        why = same.explain_value(new, column=name)
        total = np.bincount(np.searchsorted(np.unique(why.element), why.element), why.to_center)
        np.testing.assert_allclose(total, why.center, rtol=1e-6)
        np.testing.assert_allclose(why.center, same.predict(new)[name][why.rows], rtol=1e-6)
        assert ("columns" in why.part) == has


def test_a_file_that_says_something_else_is_refused(same, tmp_path):
    folder = tmp_path / "model"
    same.save(folder)
    file = folder / "config.json"
    document = json.loads(file.read_text())
    earlier = (*next(path for path in paths(document) if path[-1] == "earlier_columns"), 0)
    working = next(path for path in paths(document) if path[-1] == "working")
    wrong = {
        (*earlier, "floors", "a"): "x",
        (*earlier, "parts", "b"): [3],
        (*earlier, "parts", "b", 0): 2**40,
        (*working, "sd"): "1.0 m",
    }
    for path, value in wrong.items():
        craft(file, changed(document, path, value))
        with pytest.raises(exfam.ModelFileError, match="`path` must"):
            exfam.load(folder)
