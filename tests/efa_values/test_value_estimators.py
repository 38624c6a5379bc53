"""EFA of values: a base inside, what attention adds to it, families by what values look like."""

import numpy as np
import pandas as pd
import pytest
import torch

import exfam
from exfam import EFA, ExfamError, ExfamWarning
from exfam.efa.networks.based_values import BasedValues
from exfam.efa.value_fits import LEAST_GROUPS, set_value_gate
from exfam.families import (
    Categorical,
    Ordinal,
    PerItem,
    Poisson,
    RoundedStudentT,
    Scaled,
    StudentT,
)
from exfam.groups import Groups

COLUMNS = {"group": "user", "item": "movie", "value": "stars"}
SMALL = {"embed_dim": 8, "head_dim": 4, "n_layers": 1, "progress": False}


def drawn(form="stars", *, n_users=60, seed=0):
    """Values of 10 items by levels of items and users, and a taste."""
    draw = np.random.default_rng(seed)
    level, taste = np.linspace(-1.5, 1.5, 10), np.resize([1.0, -1.0], 10)
    rows = []
    for user in range(n_users):
        own, likes = draw.normal(), draw.normal()
        for day, item in enumerate(draw.permutation(10)[: draw.integers(2, 9)]):
            z = level[item] + own + taste[item] * likes + 0.5 * draw.normal()
            rows.append((f"u{user}", f"m{item}", z, day))
    frame = pd.DataFrame(rows, columns=["user", "movie", "z", "day"])
    frame["stars"] = (frame.z + 3).round().clip(1, 5)
    frame["count"] = np.floor(np.exp(frame.z + 1))
    return frame.rename(columns={form: "value"}) if form != "stars" else frame


FRAME = drawn()
OTHER = drawn(n_users=20, seed=1)


def fit(frame=FRAME, **parameters):
    return EFA(**{**COLUMNS, **SMALL, "parts": "values", **parameters}).fit(frame)


def bases(model):
    part = model.members_[0].value_part
    assert isinstance(part, BasedValues)
    return [column.base() for column in part.columns]


@pytest.mark.parametrize("parameters", [{}, {"direction": "causal", "order": "day"}], ids=str)
def test_a_base_alone_is_ahead_of_marginals_and_offsets(parameters):
    base = fit(attention="none", **parameters)
    common = {**COLUMNS, **parameters}
    marginal = exfam.Marginal(**common, parts="values", by_item=True, family=Ordinal(5, start=1))
    assert base.score(OTHER) > marginal.fit(FRAME).score(OTHER) + 0.1
    assert base.gain_ is None and not hasattr(base, "histories_")
    assert base.members_[0].families == {"stars": Categorical(5, start=1)}
    probs = base.predict_proba(OTHER, of="stars")
    np.testing.assert_allclose(probs.sum(1), 1, atol=1e-6)
    np.testing.assert_allclose(base.predict(OTHER), probs @ np.arange(1, 6), atol=1e-5)


def test_a_gate_of_zero_is_the_base_exactly_and_every_gain_is_reported():
    model = fit(max_epochs=3)
    part = model.members_[0].value_part
    part.gate.fill_(0.0)
    base = model.log_prob(OTHER)
    noise = torch.Generator().manual_seed(0)
    for parameter in part.correction.parameters():
        torch.nn.init.normal_(parameter, generator=noise)
    np.testing.assert_array_equal(model.log_prob(OTHER), base)
    part.gate.fill_(1.0)
    assert np.abs(model.log_prob(OTHER) - base).max() > 0.01
    assert str(model.gain_) in repr(model) and model.value_gain_ is None


def test_what_spoils_the_base_is_switched_off():
    model = fit(max_epochs=1)
    held_out = Groups.from_frame(OTHER, **COLUMNS).with_(vocabulary={})
    part = model.members_[0].value_part
    noise = torch.Generator().manual_seed(0)
    torch.nn.init.normal_(part.correction.outer.weight, std=5.0, generator=noise)
    gain = set_value_gate([(model.members_, held_out)])
    assert gain.gate == float(part.gate) == 0 and "switched off" in str(gain)


def twins(n_users, *, seed=0):
    """Items come in twins whose values are a product: no factor model knows that."""
    draw = np.random.default_rng(seed)
    sign = draw.choice([-1.0, 1.0], size=(n_users, 2))
    noise = 0.1 * draw.normal(size=(n_users, 3))
    value = np.column_stack([sign[:, 0], sign[:, 1], sign.prod(1)]) + noise
    user, movie = np.repeat(np.arange(n_users), 3), np.tile([0, 1, 2], n_users)
    return pd.DataFrame({"user": user, "movie": movie, "stars": value.ravel()})


def test_what_the_base_lacks_is_learned_and_kept_if_groups_enough_show_it():
    model = fit(twins(400), family="gaussian", max_epochs=60, learning_rate=0.01, n_layers=2)
    gain = model.gain_
    assert gain.low > 0.05 and gain.gate > 0
    assert f"added {gain.nats:.3f} nats an element to its base" in repr(model)
    for n_groups in (LEAST_GROUPS - 1, LEAST_GROUPS):
        held_out = Groups.from_frame(twins(n_groups, seed=1), **COLUMNS).with_(vocabulary={})
        gain = set_value_gate([(model.members_, held_out)])
        assert (gain.gate > 0) == (n_groups == LEAST_GROUPS)


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_the_size_of_weights_does_not_matter(factor):
    weight = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 3.0], len(FRAME))
    models = [
        EFA(**COLUMNS, **SMALL, parts="values", max_epochs=3).fit(FRAME, sample_weight=some)
        for some in (weight, factor * weight)
    ]
    for model in models:
        model.members_[0].value_part.gate.fill_(1.0)
    nats = [model.log_prob(OTHER) for model in models]
    np.testing.assert_allclose(nats[1], nats[0], rtol=0, atol=1e-6)


def test_values_in_single_precision_are_the_same_and_gaps_are_predicted():
    single = FRAME.assign(stars=FRAME.z.astype(np.float32))
    both = [fit(single, max_epochs=2), fit(single.astype({"stars": float}), max_epochs=2)]
    np.testing.assert_array_equal(*[model.log_prob(single) for model in both])
    gaps = FRAME.assign(stars=FRAME.stars.where(np.arange(len(FRAME)) % 7 > 0))
    model = fit(gaps, max_epochs=2)
    np.testing.assert_array_equal(np.isnan(model.log_prob(gaps)), gaps.stars.isna())
    assert np.isfinite(model.predict(gaps)).all()


@pytest.mark.parametrize("attention", ["none", "softmax"])
def test_saved_and_loaded(attention, tmp_path):
    frame = FRAME.assign(seen=(FRAME.z > 0) * 1.0)
    chosen = {"value": ["stars", "seen", "count"], "max_epochs": 2, "attention": attention}
    model = fit(frame, **chosen)
    assert list(model.family_) == ["stars", "seen", "count"]
    assert isinstance(model.members_[0].families["count"], RoundedStudentT)
    model.save(tmp_path / "model")
    loaded = exfam.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.log_prob(frame), model.log_prob(frame))
    assert loaded.gain_ == model.gain_ and loaded.family_ == model.family_
    for one, other in zip(bases(model), bases(loaded), strict=True):
        assert one.rank_scores == other.rank_scores and one.options == other.options


def test_a_base_that_is_alone_knows_validation_groups():
    """They choose nothing, and enter it."""
    whole, none = fit(attention="none"), fit(attention="none", validation_fraction=0.0)
    counts = [bases(model)[0].model.count.sum() for model in (whole, none)]
    assert counts == [len(FRAME), len(FRAME)]


def test_values_without_a_base_have_the_network_alone():
    of_items = PerItem({"m0": Poisson()}, default=Ordinal(5, start=1))
    for family in (of_items, Ordinal(65)):
        model = fit(family=family, max_epochs=1)
        assert not isinstance(model.members_[0].value_part, BasedValues)
        with pytest.raises(ExfamError, match="`attention` must not be 'none' without a base"):
            fit(family=family, attention="none")


def test_items_and_values_have_gains_of_their_own():
    model = fit(parts="both", max_epochs=1)
    text = repr(model)
    assert f"Items: {model.gain_}" in text and f"Values: {model.value_gain_}" in text


@pytest.mark.parametrize(("scale", "shift"), [(1e-8, 0.0), (1e10, -3e10)])
def test_units_move_densities_alone(scale, shift):
    model = fit(FRAME.assign(stars=FRAME.z), max_epochs=3)
    assert isinstance(model.schema_.families["stars"], Scaled)
    assert model.family_ == {"stars": StudentT()}
    moved = fit(FRAME.assign(stars=scale * FRAME.z + shift), max_epochs=3)
    nats = model.log_prob(OTHER.assign(stars=OTHER.z))
    found = moved.log_prob(OTHER.assign(stars=scale * OTHER.z + shift))
    np.testing.assert_allclose(found + np.log(scale), nats, atol=1e-4)


def test_unknown_items_and_groups_are_predicted_by_priors():
    model = fit(attention="none", unknown="unk", family="student-t")
    movies = ["m1", "?", "m2", "m3", "m1"]
    new = pd.DataFrame({"user": list("xxxxy"), "movie": movies, "stars": [5.0, 4, 5, 4, 5]})
    with pytest.warns(ExfamWarning, match="1 row of items never seen"):
        low, high = model.predict(new, interval=0.8).T
    # Among the same others an unknown item is less certain; alone in its group a known one is.
    known, unknown, *_, alone = high - low
    assert unknown > 1.1 * known and alone > 2 * known
