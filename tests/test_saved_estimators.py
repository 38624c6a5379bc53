"""Fitted estimators saved and loaded, fits interrupted and killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import exfam
from estimator_cases import CASES, DIRECTIONS, KINDS, TRAINED, class_of, make, ratings, same_bits
from exfam import CheckpointError, ExfamError, ModelFileError
from exfam.families import Bernoulli, Gaussian, Ordinal, PerItem, Poisson

FRAME = ratings(least=2)
STORED = Path(__file__).parent / "stored" / "v1"

VARIANTS = {
    "ensemble": {"ensemble": 2},
    "reflection": {"tie": "reflection"},
    "causal, two_stream": {"direction": "causal", "conditional": "two_stream", "n_layers": 2},
    "items that see values": {"item_sees_values": True, "feed_forward_dim": 4},
    "concatenated": {"join": "concatenate", "value_embedding": "raw"},
    "own dispersions": {"dispersion": "item"},
    "attributes": {"attributes": ["genre", "gap"], "known": "gap", "group_attributes": ["age"]},
    "positions": {"position": "gap", "encoding": "distance"},
    "learned positions": {"order": "day", "encoding": "learned"},
    "penalty": {"support": "penalty"},
    "items": {"value": None},
    "values": {"parts": "values"},
    "no items": {"item": None},
    "a family an item": {"family": PerItem({"a": Poisson(shift=1)}, default=Gaussian())},
    "an ordinal family": {"family": Ordinal(5, start=1)},
    "two columns": {
        "value": ["stars", "seen"],
        "family": {"stars": "gaussian", "seen": Bernoulli()},
    },
}


def assert_same(loaded, estimator, frame=FRAME):
    assert type(loaded) is type(estimator)
    assert same_bits(loaded, estimator)
    for name, nats in estimator.log_prob_parts(frame).items():
        np.testing.assert_array_equal(loaded.log_prob_parts(frame)[name], nats)


@pytest.mark.parametrize(("kind", "direction"), CASES)
class TestRoundTrip:
    def test_same_bits(self, kind, direction, tmp_path):
        estimator = make(kind, direction=direction).fit(FRAME)
        estimator.save(tmp_path / "model")
        for loaded in (class_of(kind).load(tmp_path / "model"), exfam.load(tmp_path / "model")):
            assert_same(loaded, estimator)
            assert loaded.get_params() == estimator.get_params()
            assert loaded.support_ == estimator.support_
            if kind in TRAINED:
                assert loaded.history_.to_dict() == estimator.history_.to_dict()

    def test_parameters_set_after_the_fit(self, kind, direction, tmp_path):
        # They are for the next fit; members are built again by those of their own.
        changes = {
            "efa": {"embed_dim": 4, "encoding": "none", "family": "poisson"},
            "latent-factor": {"dim": 2},
            "marginal": {"smoothing": 5.0},
            "shrunk-offset": {"k": 9.0},
        }[kind]
        estimator = make(kind, direction=direction).fit(FRAME).set_params(**changes)
        estimator.save(tmp_path / "model")
        loaded = exfam.load(tmp_path / "model")
        assert_same(loaded, estimator)
        assert loaded.get_params() == estimator.get_params()
        loaded.save(tmp_path / "again")
        assert_same(exfam.load(tmp_path / "again"), estimator)

    def test_another_class(self, kind, direction, tmp_path):
        make(kind, direction=direction).fit(FRAME).save(tmp_path / "model")
        other = next(class_of(name) for name in KINDS if name != kind)
        own = class_of(kind).__name__
        with pytest.raises(
            ModelFileError, match=f"saved {other.__name__}, got {own} in .*exfam.lo"
        ):
            other.load(tmp_path / "model")


class TestSavedModels:
    @pytest.mark.parametrize("variant", VARIANTS)
    def test_variants_of_efa(self, variant, tmp_path):
        frame = FRAME.assign(seen=(np.arange(len(FRAME)) % 2).astype(float))
        estimator = make("efa", max_epochs=1, **VARIANTS[variant]).fit(frame)
        estimator.save(tmp_path / "model")
        assert_same(exfam.load(tmp_path / "model"), estimator, frame)

    @pytest.mark.parametrize(
        "parameters",
        [
            {"ensemble": 2, "dispersion": "item"},
            {"intercept": False, "mask_vector": True, "pooling": "sum"},
            {"parts": "values", "family": Ordinal(5, start=1)},
        ],
        ids=str,
    )
    def test_variants_of_latent_factors(self, parameters, tmp_path):
        estimator = make("latent-factor", max_epochs=1, **parameters).fit(FRAME)
        estimator.save(tmp_path / "model")
        assert_same(exfam.load(tmp_path / "model"), estimator)

    def test_variants_of_baselines(self, tmp_path):
        by_item = make("marginal", by_item=True, support="none").fit(FRAME)
        chosen = make("shrunk-offset", k=None, validation_fraction=0.3).fit(FRAME)
        for number, estimator in enumerate((by_item, chosen, make("marginal", item=None))):
            estimator.fit(FRAME).save(tmp_path / str(number))
            assert_same(exfam.load(tmp_path / str(number)), estimator)
        assert exfam.load(tmp_path / "1").k_ == chosen.k_

    def test_numpy_parameters(self, tmp_path):
        make("efa", embed_dim=8).set_params(seed=np.int64(3), clip=np.float64(2.0)).fit(FRAME).save(
            tmp_path / "model"
        )
        assert exfam.load(tmp_path / "model").get_params()["seed"] == 3

    def test_loaded_models_do_everything(self, tmp_path):
        estimator = make("efa", attributes=["genre"], direction="causal").fit(FRAME)
        estimator.save(tmp_path / "model")
        loaded = exfam.load(tmp_path / "model")
        np.testing.assert_array_equal(loaded.predict(FRAME), estimator.predict(FRAME))
        recommended, there = estimator.recommend(FRAME), loaded.recommend(FRAME)
        np.testing.assert_array_equal(recommended.items, there.items)
        np.testing.assert_array_equal(loaded.transform(FRAME), estimator.transform(FRAME))
        np.testing.assert_array_equal(loaded.item_vectors_, estimator.item_vectors_)
        assert len(loaded.explain(FRAME)) == 12
        np.testing.assert_array_equal(
            loaded.fit(FRAME).log_prob(FRAME), estimator.fit(FRAME).log_prob(FRAME)
        )

    def test_overwrite(self, tmp_path):
        make("marginal").fit(FRAME).save(tmp_path / "model")
        other = make("shrunk-offset").fit(FRAME)
        with pytest.raises(ExfamError, match="`path` must be free, .*Pass overwrite=True"):
            other.save(tmp_path / "model")
        other.save(tmp_path / "model", overwrite=True)
        assert_same(exfam.load(tmp_path / "model"), other)

    def test_shared_tensors_are_stored_once(self, tmp_path):
        sizes = []
        for tie in ("none", "reflection"):
            make("efa", tie=tie, value=None).fit(FRAME).save(tmp_path / tie)
            sizes.append((tmp_path / tie / "model.safetensors").stat().st_size)
        # Signs take room, the centers none of their own.
        assert sizes[1] < sizes[0]

    def test_unknown_kinds(self, tmp_path):
        from exfam.estimator.storage import save_folder

        save_folder(tmp_path / "model", tensors={}, config={"estimator": "GAM"}, vocabulary={})
        with pytest.raises(ModelFileError, match="an estimator of this version, got 'GAM' in"):
            exfam.load(tmp_path / "model")

    def test_truncated_models(self, tmp_path):
        make("marginal").fit(FRAME).save(tmp_path / "model")
        file = tmp_path / "model" / "model.safetensors"
        file.write_bytes(file.read_bytes()[:-4])
        with pytest.raises(ModelFileError, match="must be as it was saved, got a damaged"):
            exfam.load(tmp_path / "model")

    def test_nothing_there(self, tmp_path):
        with pytest.raises(ModelFileError, match="got nothing at"):
            exfam.EFA.load(tmp_path / "model")


class TestInterruption:
    @pytest.mark.parametrize("kind", TRAINED)
    def test_ctrl_c_keeps_the_best_so_far(self, kind, monkeypatch):
        from exfam.training.steps import TorchEngine

        step, count = TorchEngine.step, []

        def pressed(self, index):
            count.append(index)
            if len(count) == 8:
                signal.raise_signal(signal.SIGINT)
            return step(self, index)

        monkeypatch.setattr(TorchEngine, "step", pressed)
        estimator = make(kind, max_epochs=50, ensemble=2, validation_fraction=0.25).fit(FRAME)
        assert estimator.history_.stopped == "interrupted"
        assert len(estimator.members_) == 1 and 0 < len(estimator.history_) < 50
        assert len(count) < 10
        best = estimator.history_.best
        again = make(kind, max_epochs=50, validation_fraction=0.25)
        monkeypatch.setattr(TorchEngine, "step", step)
        assert again.fit(FRAME).history_.rows[best.epoch - 1].validation_nats == pytest.approx(
            best.validation_nats
        )
        assert np.isfinite(estimator.score(FRAME))


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from estimator_cases import make, ratings
make({kind!r}, **{parameters!r}).fit(ratings(least=2), checkpoint={folder!r})
"""


def test_a_killed_fit_goes_on_to_the_same_bits(tmp_path):
    kind, ensemble = "efa", 2
    parameters = {
        "max_epochs": 12,
        "patience": 12,
        "ensemble": ensemble,
        "validation_fraction": 0.2,
    }
    folder = tmp_path / "checkpoint"
    script = SCRIPT.format(
        tests=str(Path(__file__).parent), kind=kind, parameters=parameters, folder=str(folder)
    )
    source = str(Path(exfam.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": source}
    )
    deadline = time.monotonic() + 60
    # Kill it in the last member, as soon as that has left a checkpoint.
    while not list(folder.glob(f"{ensemble - 1}/generation-*")) and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    resumed = make(kind, **parameters).fit(FRAME, checkpoint=folder)
    whole = make(kind, **parameters).fit(FRAME)
    assert len(resumed.members_) == ensemble and same_bits(resumed, whole)
    np.testing.assert_array_equal(resumed.log_prob(FRAME), whole.log_prob(FRAME))


class TestCheckpoints:
    def test_a_finished_fit_is_returned(self, tmp_path):
        first = make("efa", ensemble=2).fit(FRAME, checkpoint=tmp_path)
        again = make("efa", ensemble=2, progress=False).fit(FRAME, checkpoint=str(tmp_path))
        assert same_bits(first, again)
        assert again.history_.to_dict() == first.history_.to_dict()
        more = make("efa", ensemble=3).fit(FRAME, checkpoint=tmp_path)
        assert all(np.isfinite(history.rows[-1].train_nats) for history in more.histories_)
        assert len(more.members_) == 3

    @pytest.mark.parametrize(
        "change",
        [{"dropout": 0.5}, {"max_epochs": 9}, {"connection": "none"}, {"family": Poisson()}],
        ids=str,
    )
    def test_another_fit_is_refused(self, change, tmp_path):
        make("efa").fit(FRAME, checkpoint=tmp_path)
        (name,) = change
        with pytest.raises(CheckpointError, match=f"must belong to this fit.*{name} is"):
            make("efa", **change).fit(FRAME, checkpoint=tmp_path)

    def test_other_data_are_refused(self, tmp_path):
        make("efa").fit(FRAME, checkpoint=tmp_path)
        with pytest.raises(CheckpointError, match="must belong to this fit"):
            make("efa").fit(FRAME.assign(stars=1.0), checkpoint=tmp_path)

    @pytest.mark.parametrize("direction", DIRECTIONS)
    def test_closed_forms_need_none(self, direction, tmp_path):
        make("marginal", direction=direction).fit(FRAME, checkpoint=tmp_path / "none")
        assert not (tmp_path / "none").exists()


def test_a_configuration_nested_too_deep_is_one_clear_error(tmp_path):
    make("efa", max_epochs=1).fit(FRAME).save(tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text('{"format": ' + "[" * 200_000)
    with pytest.raises(ModelFileError, match="cannot be built .RecursionError"):
        exfam.load(tmp_path / "model")
    with pytest.raises(ExfamError, match="`path` must be free or a saved model"):
        make("efa", max_epochs=1).fit(FRAME).save(tmp_path / "model", overwrite=True)


def test_what_could_not_be_loaded_again_is_not_saved(tmp_path):
    estimator = make("efa", max_epochs=1).fit(FRAME).set_params(embed_dim=-3)
    with pytest.raises(ExfamError, match="`embed_dim` must be an integer >= 1, got -3"):
        estimator.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
