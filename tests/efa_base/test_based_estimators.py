"""Fits of EFA with a base: alone, corrected, of old, large, saved."""

import numpy as np
import pytest
import torch

import exfam
from estimator_cases import ratings, same_bits
from exfam import EFA, ExfamError, UnknownItemError
from exfam.efa.base import fit_ridge, fit_transitions
from exfam.efa.defaults import N_SAMPLED_ITEMS, N_SAMPLED_OF_SETS
from exfam.efa.networks.based import TRAINED_SCALE
from exfam.efa.plan import log_frequencies
from exfam.families import Ordinal
from exfam.groups import Groups
from exfam.likelihoods.two_part import DIRECTIONS

FRAME = ratings(n_users=60, n_movies=8, least=2)
SIZES = {"embed_dim": 8, "n_heads": 2, "head_dim": 4, "n_layers": 1, "progress": False}
ITEMS = {"group": "user", "item": "movie", "order": "day", **SIZES}
every_direction = pytest.mark.parametrize("direction", DIRECTIONS)


def fit(data=FRAME, *, validation=None, **parameters):
    chosen = {**ITEMS, "base": "auto", "max_epochs": 2, "batch_size": 16, **parameters}
    return EFA(**chosen).fit(data, validation=validation)


@every_direction
def test_before_training_a_model_is_half_its_base_and_half_frequencies(direction):
    alone = fit(direction=direction, attention="none")
    start = fit(direction=direction, max_epochs=1, learning_rate=1e-30, tie="none")
    expected = alone.predict_proba(FRAME)
    assert start.gain_.gate == 0 and np.ptp(np.nan_to_num(expected)) > 0.3
    np.testing.assert_array_equal(start.predict_proba(FRAME), expected)
    start.members_[0].item_part.weigh(TRAINED_SCALE, 1.0)
    train, _ = start._read(FRAME).groups.split([0.9, 0.1], seed=0)
    bias = (1 - TRAINED_SCALE) * log_frequencies(train, start.schema_.n_items).numpy()
    half = expected**TRAINED_SCALE * np.exp(bias)
    half /= half.sum(1, keepdims=True)
    np.testing.assert_allclose(start.predict_proba(FRAME), half, atol=1e-6)


KINDS = {
    "alone": {"attention": "none"},
    "corrected": {},
    "two": {"ensemble": 2, "tie": "same"},
    "penalty": {"support": "penalty", "attention": "none", "n_sampled_items": 4},
    "reflection": {"tie": "reflection", "support": "none", "n_sampled_items": 5},
    "values": {"value": "stars"},
}


@pytest.mark.parametrize("kind", KINDS)
@every_direction
def test_saved_models_say_the_same(kind, direction, tmp_path):
    model = fit(direction=direction, **KINDS[kind])
    for member in model.members_:
        member.item_part.scale.fill_(0.9)
        member.item_part.gate.fill_(0.8)
    if direction == "causal":
        model.members_[-1].item_part.base.drop_contexts()
    model.save(tmp_path / "model")
    loaded = exfam.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.log_prob(FRAME), model.log_prob(FRAME))
    assert same_bits(loaded, model) and loaded.gain_ == model.gain_
    best, expected = loaded.recommend(FRAME, k=3), model.recommend(FRAME, k=3)
    np.testing.assert_array_equal(best.items, expected.items)
    np.testing.assert_array_equal(best.probabilities, expected.probabilities)


def pairs_of(n_items, *, n_groups, seed=0):
    """Baskets of items 2 k, 2 k + 1 that go together, frequent ones first."""
    random = np.random.default_rng(seed)
    n = random.integers(1, 6, n_groups)
    share = 1 / np.arange(1, n_items // 2 + 1)
    item = [random.choice(n_items // 2, k, replace=False, p=share / share.sum()) for k in n]
    both = np.concatenate([np.stack([2 * k, 2 * k + 1], 1).ravel() for k in item])
    stop = 2 * np.cumsum(n)
    groups = Groups(
        start=stop - 2 * n,
        stop=stop,
        item=both.astype(np.int32),
        vocabulary={"item": np.arange(n_items)},
        ordered=True,
    )
    return groups


@pytest.fixture
def few_targets(monkeypatch):
    """The numbers of bases are fitted to few targets, in little time."""
    monkeypatch.setattr(fit_ridge, "MOST_COVERED", 300)
    monkeypatch.setattr(fit_ridge, "MOST_OUTPUTS", 500_000)
    monkeypatch.setattr(fit_transitions, "MOST_NUMBERS", 4_000_000)


@every_direction
def test_sampled_items_of_a_large_catalog(direction, few_targets):
    groups, new = pairs_of(600, n_groups=150), pairs_of(600, n_groups=40, seed=1)
    parameters = {"group": None, "item": None, "order": None, "encoding": "none"}
    model = fit(groups, direction=direction, n_sampled_items=100, **parameters)
    assert model.members_[0].has_large_catalog
    alone = fit(groups, direction=direction, attention="none", **parameters)
    assert model.score(new) >= alone.score(new) - 0.05
    frequent = fit(groups, direction=direction, base="none", max_epochs=1, **parameters)
    assert alone.score(new) > frequent.score(new) + 0.5
    best = alone.recommend(new, k=4)
    np.testing.assert_array_less(np.diff(best.probabilities), 1e-9)


@every_direction
def test_steps_sum_over_some_items_of_more_than_2000(direction, few_targets):
    groups = pairs_of(2_002, n_groups=60)
    columns = {"group": None, "item": None, "order": None, "encoding": "none"}
    model = fit(groups, direction=direction, max_epochs=1, **columns)
    n_sampled = N_SAMPLED_ITEMS if direction == "causal" else N_SAMPLED_OF_SETS
    assert model.resolved_["n_sampled_items"] == model.members_[0].sampler.n == n_sampled
    assert len(model.members_) == 1 and np.isfinite(model.score(groups))


@every_direction
def test_a_catalog_of_thousands(direction, tmp_path, few_targets):
    groups = pairs_of(12_000, n_groups=120)
    model = EFA(base="auto", attention="none", encoding="none", direction=direction).fit(groups)
    scores = model.log_prob(groups[:20])
    assert np.isfinite(scores[groups[:20].elements()]).all()
    assert model.recommend(groups[:5], k=4).items.shape == (5, 4)
    model.save(tmp_path / "model")
    size = sum(path.stat().st_size for path in (tmp_path / "model").iterdir())
    assert size < 2e6
    np.testing.assert_array_equal(exfam.load(tmp_path / "model").log_prob(groups[:20]), scores)


@every_direction
@pytest.mark.parametrize("is_loaded", [False, True])
def test_groups_can_join_a_base(direction, is_loaded, tmp_path):
    parameters = {"direction": direction, "attention": "none", "ensemble": 2}
    user = FRAME["user"].str[1:].astype(int)
    first, others = FRAME[user < 40], FRAME[user >= 40]
    assert len(others) > 30 and set(others["movie"]) <= set(first["movie"])
    model = fit(first, validation_fraction=0, **parameters)
    before = model.predict_proba(FRAME)
    if is_loaded:
        model.save(tmp_path / "model")
        model = exfam.load(tmp_path / "model")
    assert model.partial_fit(others) is model
    everything = fit(FRAME, validation_fraction=0, **parameters)
    for member, expected in zip(model.members_, everything.members_, strict=True):
        torch.testing.assert_close(member.item_part.base.count, expected.item_part.base.count)
    after = model.predict_proba(FRAME)
    assert np.nanmax(np.abs(after - before)) > 1e-3
    np.testing.assert_allclose(np.nansum(after, 1), 1, atol=1e-5)
    seen, of_all = model.seen_in_fit(FRAME), everything.seen_in_fit(FRAME)
    np.testing.assert_array_equal(seen.seen, of_all.seen)
    assert seen.expected == of_all.expected and seen.n_seen > 0.9 * len(seen.seen)
    model.save(tmp_path / "grown")
    np.testing.assert_array_equal(exfam.load(tmp_path / "grown").predict_proba(FRAME), after)


def test_what_cannot_join_is_refused():
    model = EFA(**ITEMS, base="auto", attention="none").partial_fit(FRAME)
    assert model.score(FRAME) == fit(attention="none").score(FRAME)
    with pytest.raises(UnknownItemError, match=r"got 'zzz' at row 1 .*rows.\. Fit anew, to all"):
        model.partial_fit({"user": [1, 1], "movie": ["a", "zzz"], "day": [0, 1]})
    for parameters in ({}, {"base": "none", "max_epochs": 1}, {"value": "stars"}):
        with pytest.raises(ExfamError, match="`attention` must be 'none' for partial_fit, which"):
            fit(**parameters).partial_fit(FRAME)


def test_attention_can_be_left_out_where_a_base_is_left():
    for parameters in ({"base": "none"}, {"value": "stars", "family": Ordinal(65)}):
        with pytest.raises(ExfamError, match="`attention` must not be 'none' without a base"):
            fit(attention="none", **parameters)
