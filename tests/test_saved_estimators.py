"""Fitted estimators saved and loaded, fits interrupted and gone on with."""

import signal

import numpy as np
import pytest

import exfam
from estimator_cases import CASES, KINDS, TRAINED, class_of, make, ratings, same_bits
from exfam import CheckpointError, ExfamError, ModelFileError
from exfam.estimator.storage import save_folder
from exfam.families import Poisson
from exfam.training.torch_engine import TorchEngine
from same_numbers import VARIANTS

FRAME = ratings(least=2)
ALL = [(kind, more) for kind in KINDS for more in VARIANTS[kind].values()] + [
    ("efa", {"position": "gap", "encoding": "distance"}),
    ("efa", {"embed_dim": np.int64(8), "clip": np.float64(2.0)}),
    ("latent-factor", {"ensemble": 2, "dispersion": "item", "base": "none"}),
    ("latent-factor", {"ensemble": 2}),
]


def assert_same(loaded, estimator, frame=FRAME):
    assert type(loaded) is type(estimator) and same_bits(loaded, estimator)
    for name, nats in estimator.log_prob_parts(frame).items():
        np.testing.assert_array_equal(loaded.log_prob_parts(frame)[name], nats)


@pytest.mark.parametrize(("kind", "direction"), CASES)
def test_a_loaded_estimator_has_the_same_bits(kind, direction, tmp_path):
    estimator = make(kind, direction=direction).fit(FRAME)
    estimator.save(tmp_path / "model")
    for loaded in (class_of(kind).load(tmp_path / "model"), exfam.load(tmp_path / "model")):
        assert_same(loaded, estimator)
        assert loaded.get_params() == estimator.get_params()
        assert loaded.support_ == estimator.support_
        if kind in TRAINED:
            assert loaded.history_.to_dict() == estimator.history_.to_dict()
    other = next(class_of(name) for name in KINDS if name != kind)
    match = f"saved {other.__name__}, got {class_of(kind).__name__} in .*exfam.lo"
    with pytest.raises(ModelFileError, match=match):
        other.load(tmp_path / "model")
    # Parameters set after the fit are for the next one; members are built by those of their own.
    changes = {
        "efa": {"embed_dim": 4, "encoding": "none", "family": "poisson"},
        "latent-factor": {"dim": 2},
        "marginal": {"smoothing": 5.0},
    }[kind]
    estimator.set_params(**changes).save(tmp_path / "changed")
    exfam.load(tmp_path / "changed").save(tmp_path / "again")
    loaded = exfam.load(tmp_path / "again")
    assert_same(loaded, estimator)
    assert loaded.get_params() == estimator.get_params()


@pytest.mark.parametrize(("kind", "parameters"), ALL, ids=str)
def test_so_have_variants(kind, parameters, tmp_path):
    frame = FRAME.assign(seen=(np.arange(len(FRAME)) % 2).astype(float))
    fewer = {"max_epochs": 1} if kind in TRAINED else {}
    estimator = make(kind, **fewer, **parameters).fit(frame)
    estimator.save(tmp_path / "model")
    loaded = exfam.load(tmp_path / "model")
    assert_same(loaded, estimator, frame)


def test_what_is_no_saved_model_is_one_clear_error(tmp_path):
    save_folder(tmp_path / "foreign", tensors={}, config={"estimator": "GAM"}, vocabulary={})
    with pytest.raises(ModelFileError, match="an estimator of this version, got 'GAM' in"):
        exfam.load(tmp_path / "foreign")
    make("marginal").fit(FRAME).save(tmp_path / "deep")
    (tmp_path / "deep" / "config.json").write_text('{"format": ' + "[" * 200_000)
    with pytest.raises(ModelFileError, match=r"config\.json must be as it was written"):
        exfam.load(tmp_path / "deep")


def test_what_could_not_be_loaded_again_is_not_saved(tmp_path):
    estimator = make("marginal").fit(FRAME).set_params(smoothing=-3)
    with pytest.raises(ExfamError, match="`smoothing` must be a number .*, got -3"):
        estimator.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("kind", TRAINED)
def test_ctrl_c_ends_the_ensemble_with_the_best_so_far(kind, monkeypatch):
    step, count = TorchEngine.step, []

    def pressed(self, index):
        count.append(index)
        if len(count) == 8:
            signal.raise_signal(signal.SIGINT)
        return step(self, index)

    monkeypatch.setattr(TorchEngine, "step", pressed)
    estimator = make(kind, max_epochs=50, ensemble=2, validation_fraction=0.25).fit(FRAME)
    assert estimator.history_.stopped == "interrupted" and len(count) < 10
    assert len(estimator.members_) == 1 and 0 < len(estimator.history_) < 50
    assert np.isfinite(estimator.score(FRAME))


def test_a_finished_fit_is_returned_from_its_checkpoint(tmp_path):
    first = make("efa", ensemble=2).fit(FRAME, checkpoint=tmp_path)
    again = make("efa", ensemble=2, progress=False).fit(FRAME, checkpoint=str(tmp_path))
    assert same_bits(first, again)
    assert again.history_.to_dict() == first.history_.to_dict()
    more = make("efa", ensemble=3).fit(FRAME, checkpoint=tmp_path)
    assert len(more.members_) == 3
    assert same_bits(more, make("efa", ensemble=3).fit(FRAME))
    make("marginal").fit(FRAME, checkpoint=tmp_path / "none")
    assert not (tmp_path / "none").exists(), "closed forms need none"


def test_a_checkpoint_of_another_fit_is_refused(tmp_path):
    make("efa").fit(FRAME, checkpoint=tmp_path)
    changes = {"dropout": 0.5, "max_epochs": 9, "connection": "none", "family": Poisson()}
    for name, value in changes.items():
        with pytest.raises(CheckpointError, match=f"must belong to this fit.*{name} is"):
            make("efa", **{name: value}).fit(FRAME, checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="must belong to this fit"):
        make("efa").fit(FRAME.assign(stars=1.0), checkpoint=tmp_path)
