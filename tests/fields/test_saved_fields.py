"""Field estimators saved and loaded, ensembles, checkpoints, and what training does."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from estimator_cases import same_bits
from exfam.checks import CheckpointError
from exfam.estimator.saving import load
from exfam.families import Gaussian
from exfam.training.steps import TorchEngine
from fields.field_cases import (
    BOUND,
    COUNTS,
    FRAME,
    FULL,
    GROUPS,
    KINDS,
    PLACES,
    SEEN,
    TRAINED,
    class_of,
    every_kind,
    fitted,
    make,
)
from toy_fit import cut_step

every_trained_kind = pytest.mark.parametrize("kind", TRAINED)
ALL = {
    "lags": 2, "step": 1.0, "n_neighbors": 2, "site_embedding": True, "null_token": True,
    "scale": "global", "standardize": "seasonal", "family": "student-t", "n_layers": 2,
    "missing": [-99],
}  # fmt: skip
VARIANTS = [
    {"ensemble": 2},
    {"family": "negative-binomial", "frame": COUNTS, "lags": 1},
    {"family": Gaussian(scale=2.0)},
    {"read_out_heads": 0, "encoding": "none", "standardize": "none"},
    ALL,
]
CASES = [(kind, {}) for kind in KINDS] + [("field-efa", more) for more in VARIANTS]


@pytest.mark.parametrize(("kind", "more"), CASES)
def test_a_saved_model_predicts_the_same_bits(kind, more, tmp_path):
    frame = more.get("frame", FRAME)
    estimator = fitted(kind, **more)
    # What is set after a fit is for the next one.
    estimator.set_params(standardize="global").save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert type(loaded) is class_of(kind) and loaded.standardize == "global"
    at = None if kind in BOUND else [[1.0, 7.0]]
    some = frame[frame.day <= frame.day.min() + np.timedelta64(2, "D")]
    assert_array_equal(loaded.log_prob(frame), estimator.log_prob(frame))
    assert_array_equal(loaded.predict(frame, at=at), estimator.predict(frame, at=at))
    assert_array_equal(loaded.sample(some, seed=3), estimator.sample(some, seed=3))
    assert_array_equal(loaded.site_coordinates_, PLACES)
    assert loaded.vocabulary_["item"].tolist() == estimator.vocabulary_["item"].tolist()


@every_trained_kind
def test_an_ensemble_is_the_mean_of_its_members(kind):
    both = make(kind, ensemble=2, seed=4).fit(FULL)
    alone = [make(kind, seed=seed).fit(FULL) for seed in (4, 5)]
    assert len(both.members_) == len(both.histories_) == 2
    nats = [model.log_prob(FRAME)[SEEN] for model in alone]
    assert np.abs(nats[0] - nats[1]).max() > 1e-4
    mean = np.logaddexp(*nats) - np.log(2)
    assert_allclose(both.log_prob(FRAME)[SEEN], mean, rtol=1e-4, atol=1e-5)
    means = np.mean([model.predict(FRAME) for model in alone], 0)
    assert_allclose(both.predict(FRAME), means, rtol=1e-5)
    assert np.isfinite(both.next_site(FRAME, n=1).variance[~SEEN]).all()


@every_trained_kind
def test_a_fit_that_was_cut_goes_on_to_the_same_bits(kind, tmp_path, monkeypatch):
    more = {"max_epochs": 4, "ensemble": 2, "dropout": 0.2} if kind == "field-efa" else {}
    whole = make(kind, **more).fit(FULL)
    with monkeypatch.context() as patch:
        cut_step(patch, TorchEngine, 5)
        with pytest.raises(OSError, match="lights"):
            make(kind, **more).fit(FULL, checkpoint=tmp_path)
    assert list(tmp_path.iterdir())
    assert same_bits(make(kind, **more).fit(FULL, checkpoint=tmp_path), whole)
    with pytest.raises(CheckpointError, match="checkpoint"):
        make(kind, **{**more, "standardize": "global"}).fit(FULL, checkpoint=tmp_path)


@every_kind
def test_maps_to_choose_by_may_be_given(kind):
    days = FULL.day <= FULL.day.min() + np.timedelta64(8, "D")
    early, late = FULL[days], FULL[~days]
    estimator = make(kind).fit(early, validation=late)
    assert np.isfinite(estimator.score(late))
    if kind in TRAINED:
        by_early = make(kind).fit(early, validation=early).history_
        assert estimator.history_.rows[-1].validation_nats != by_early.rows[-1].validation_nats


def test_scales_are_calibrated_on_maps_held_out():
    early, late = FULL[FULL.day < FULL.day.median()], FULL[FULL.day >= FULL.day.median()]
    plain = make("field-efa", calibrate=False).fit(early, validation=late)
    wide = make("field-efa").fit(early, validation=late)
    assert wide.score(late) > plain.score(late)
    assert_allclose(wide.predict(FRAME), plain.predict(FRAME), rtol=1e-6)


@pytest.mark.parametrize(
    "more", [{}, {"n_neighbors": 2}, {"null_token": False}, {"read_out_heads": 0}], ids=str
)
def test_what_a_map_attends_to(more):
    explained = fitted("field-efa", lags=1, **more).explain(FRAME)
    assert len(explained) == len(GROUPS) and explained[5].steps_back.max() == 1
    assert (explained[5].read_out is None) == ("read_out_heads" in more)
    for g, of_map in enumerate(explained):
        own, centers = np.arange(GROUPS.start[g], GROUPS.stop[g]), of_map.own
        assert of_map.time == GROUPS.group_names[g] and of_map.steps_back[centers].max() == 0
        labels = GROUPS.vocabulary["item"][GROUPS.item[own]]
        assert of_map.site[centers].tolist() == labels.tolist()
        read_out = [] if of_map.read_out is None else [of_map.read_out]
        for weights in [*of_map.attention, *read_out]:
            assert weights.shape[1:] == (len(own), len(of_map.site)) and (weights >= 0).all()
            assert np.abs(np.diagonal(weights[:, :, centers], axis1=1, axis2=2)).max() == 0
            hidden = centers.copy()
            hidden[centers] = ~GROUPS.observed[own]
            assert not hidden.any() or weights[..., hidden].max() == 0
        for weights, null in zip(of_map.attention, of_map.null, strict=True):
            whole = weights.sum(-1) + null
            assert_allclose(whole[:, (whole > 1e-6).all(0)], 1, atol=1e-5)
        if "n_neighbors" in more:
            assert (of_map.attention[0] > 0).sum(-1).max() <= 2 * 2
