"""Field estimators saved and loaded, ensembles, checkpoints, and what training does."""

import signal

import numpy as np
import pytest
import torch

import exfam
from exfam.checks import CheckpointError
from exfam.estimator.saving import load
from exfam.training.steps import TorchEngine
from fields.field_cases import (
    BOUND,
    COUNTS,
    FRAME,
    FULL,
    GROUPS,
    KINDS,
    PLACES,
    TRAINED,
    class_of,
    fitted,
    make,
)

VARIANTS = {
    "ensemble": {"ensemble": 2},
    "counts": {"family": "negative-binomial", "frame": COUNTS, "lags": 1},
    "an instance": {"family": exfam.families.Gaussian(scale=2.0)},
    "all": {
        "lags": 2,
        "step": 1.0,
        "n_neighbors": 2,
        "site_embedding": True,
        "null_token": True,
        "scale": "global",
        "standardize": "seasonal",
        "family": "student-t",
        "n_layers": 2,
        "missing": [-99],
    },
    "bare": {"read_out_heads": 0, "encoding": "none", "standardize": "none"},
}
CASES = [(kind, {}) for kind in KINDS] + [("field-efa", more) for more in VARIANTS.values()]


@pytest.mark.parametrize(("kind", "more"), CASES)
def test_a_saved_model_says_what_it_said(kind, more, tmp_path):
    frame = more.get("frame", FRAME)
    estimator = fitted(kind, **more)
    estimator.save(tmp_path / "model")
    for loaded in (class_of(kind).load(tmp_path / "model"), load(tmp_path / "model")):
        assert type(loaded) is class_of(kind)
        np.testing.assert_array_equal(loaded.predict(frame), estimator.predict(frame))
        np.testing.assert_array_equal(loaded.log_prob(frame), estimator.log_prob(frame))
        at = None if kind in BOUND else [[1.0, 7.0]]
        np.testing.assert_array_equal(loaded.predict(frame, at=at), estimator.predict(frame, at=at))
        np.testing.assert_array_equal(loaded.site_coordinates_, PLACES)
        assert loaded.vocabulary_["item"].tolist() == estimator.vocabulary_["item"].tolist()
        some = frame[frame.day <= frame.day.min() + np.timedelta64(2, "D")]
        assert some.v.isna().any()
        np.testing.assert_array_equal(loaded.sample(some, seed=3), estimator.sample(some, seed=3))


def test_parameters_set_after_the_fit_are_for_the_next_one(tmp_path):
    estimator = class_of("field-efa")(**make("field-efa").get_params()).fit(FRAME)
    estimator.set_params(embed_dim=4, encoding="none").save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.log_prob(FRAME), estimator.log_prob(FRAME))
    assert (loaded.embed_dim, loaded.encoding) == (4, "none")


def test_a_site_that_only_held_out_maps_observe_is_saved_with_its_place(tmp_path):
    late = FULL[(FULL.site != "s3") | (FULL.day == FULL.day.max())]
    for kind in TRAINED:
        estimator = make(kind).fit(late)
        estimator.save(tmp_path / kind)
        loaded = load(tmp_path / kind)
        np.testing.assert_array_equal(loaded.predict(FRAME), estimator.predict(FRAME))


def same_bits(one, other):
    pairs = zip(one.members_, other.members_, strict=True)
    states = [(a.state_dict(), b.state_dict()) for a, b in pairs]
    return all(
        a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a) for a, b in states
    )


@pytest.mark.parametrize("kind", TRAINED)
def test_an_ensemble_is_the_mean_of_its_members(kind):
    both = make(kind, ensemble=2, seed=4).fit(FULL)
    ones = [make(kind, seed=seed).fit(FULL) for seed in (4, 5)]
    assert len(both.members_) == len(both.histories_) == 2
    seen = FRAME.v.notna().to_numpy()
    nats = [one.log_prob(FRAME)[seen] for one in ones]
    assert np.abs(nats[0] - nats[1]).max() > 1e-4
    mean = np.logaddexp(*nats) - np.log(2)
    np.testing.assert_allclose(both.log_prob(FRAME)[seen], mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        both.predict(FRAME), np.mean([one.predict(FRAME) for one in ones], 0), rtol=1e-5
    )
    assert np.isfinite(both.sample(FRAME)).all()
    assert np.isfinite(both.next_site(FRAME, n=1).variance[FRAME.v.isna()]).all()


@pytest.mark.parametrize("kind", TRAINED)
def test_seeds_are_obeyed(kind):
    first = make(kind).fit(FULL)
    torch.rand(3)  # what others draw meanwhile
    assert same_bits(make(kind).fit(FULL), first)
    assert not same_bits(make(kind, seed=1).fit(FULL), first)
    assert first.history_ is first.histories_[0] and len(first.history_.rows) == 2


class PowerCut(Exception):
    pass


def cut(monkeypatch, at, *, how):
    """Have the objective call `how` at its call number `at`."""
    plain, calls = TorchEngine.step, []

    def step(self, *args, **options):
        calls.append(1)
        if len(calls) == at:
            how()
        return plain(self, *args, **options)

    monkeypatch.setattr(TorchEngine, "step", step)


def power_cut():
    raise PowerCut("the lights went out")


@pytest.mark.parametrize("kind", TRAINED)
def test_a_fit_that_was_cut_goes_on_to_the_same_bits(kind, tmp_path, monkeypatch):
    more = {"max_epochs": 4, "ensemble": 2, "dropout": 0.2} if kind == "field-efa" else {}
    whole = make(kind, **more).fit(FULL)
    with monkeypatch.context() as patch:
        cut(patch, 5, how=power_cut)
        with pytest.raises(PowerCut, match="lights"):
            make(kind, **more).fit(FULL, checkpoint=tmp_path)
    assert list(tmp_path.iterdir())
    resumed = make(kind, **more).fit(FULL, checkpoint=tmp_path)
    assert same_bits(resumed, whole)
    with pytest.raises(CheckpointError, match="checkpoint"):
        make(kind, **{**more, "standardize": "global"}).fit(FULL, checkpoint=tmp_path)


@pytest.mark.parametrize("kind", TRAINED)
def test_an_interrupted_fit_keeps_what_it_has(kind, monkeypatch):
    with monkeypatch.context() as patch:
        cut(patch, 4, how=lambda: signal.raise_signal(signal.SIGINT))
        estimator = make(kind, max_epochs=50, ensemble=3).fit(FULL)
    assert len(estimator.members_) == 1 and estimator.history_.interrupted
    assert np.isfinite(estimator.predict(FRAME)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_maps_to_choose_by_may_be_given(kind):
    days = FULL.day <= FULL.day.min() + np.timedelta64(8, "D")
    early, late = FULL[days], FULL[~days]
    estimator = make(kind).fit(early, validation=late)
    assert np.isfinite(estimator.score(late))
    # New sites among them are new ones, and known ones are where they were.
    renamed = late.assign(site=late.site.where(late.site != "s0", "elsewhere"))
    assert make(kind).fit(early, validation=renamed).vocabulary_["item"].tolist()[0] == "s0"
    if kind in TRAINED:
        by_early = make(kind).fit(early, validation=early).history_
        assert estimator.history_.rows[-1].validation_nats != by_early.rows[-1].validation_nats


@pytest.mark.parametrize("family", ["gaussian", "student-t"])
def test_scales_are_calibrated_on_maps_held_out(family):
    early, late = FULL[FULL.day < FULL.day.median()], FULL[FULL.day >= FULL.day.median()]
    plain = make("field-efa", family=family, calibrate=False).fit(early, validation=late)
    wide = make("field-efa", family=family).fit(early, validation=late)
    assert wide.score(late) > plain.score(late)
    if family == "gaussian":
        np.testing.assert_allclose(wide.predict(FRAME), plain.predict(FRAME), rtol=1e-6)


def test_what_a_map_attends_to():
    for more in ({}, {"n_neighbors": 2}, {"null_token": True}, {"read_out_heads": 0}):
        estimator = fitted("field-efa", lags=1, **more)
        explained = estimator.explain(FRAME)
        assert len(explained) == len(GROUPS)
        for g, one in enumerate(explained):
            own = np.arange(GROUPS.start[g], GROUPS.stop[g])
            n = len(own)
            assert one.time == GROUPS.group_names[g]
            assert one.own.sum() == n and one.steps_back[one.own].max() == 0
            labels = GROUPS.vocabulary["item"][GROUPS.item[own]]
            assert one.site[one.own].tolist() == labels.tolist()
            np.testing.assert_array_equal(
                one.coordinates[one.own], GROUPS.attributes["coordinates"][own]
            )
            every = [*one.attention, *([] if one.read_out is None else [one.read_out])]
            for weights in every:
                assert weights.shape[1:] == (n, len(one.site)) and (weights >= 0).all()
                assert (weights.sum(-1) <= 1 + 1e-5).all()
                assert np.abs(np.diagonal(weights[:, :, one.own], axis1=1, axis2=2)).max() == 0
            for weights, null in zip(one.attention, one.null, strict=True):
                whole = weights.sum(-1) + null
                seen = (whole > 1e-6).all(0)
                np.testing.assert_allclose(whole[:, seen], 1, atol=1e-5)
                hidden = one.own.copy()
                hidden[one.own] = ~GROUPS.observed[own]
                assert not hidden.any() or weights[..., hidden].max() == 0
            if "n_neighbors" in more:
                there = (one.attention[0] > 0).sum(-1)
                assert there.max() <= 2 * 2
        assert explained[5].steps_back.max() == 1
        assert (explained[5].read_out is None) == ("read_out_heads" in more)
