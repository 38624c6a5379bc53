"""Checkpoints: a fit cut, killed or stopped anywhere goes on to the same bits."""

import errno
import re
import signal

import numpy as np
import pytest
import torch
from torch import nn

from exfam.checks import CheckpointError, ExfamError
from exfam.estimator.rules import checkpoint_path
from exfam.training.checkpoints import Checkpoint, CheckpointFolder
from toy_fit import (
    N_SAMPLED,
    ToyModel,
    run_python,
    same_bits,
    squares,
    toy_fit,
    toy_groups,
    toy_settings,
    without_times,
)

# Of the objective in an uninterrupted toy fit: 4 epochs of 5 steps and 2 validations.
N_CALLS = 28 + 2 * N_SAMPLED
MIDDLE = 17 + N_SAMPLED


class PowerCut(Exception):
    pass


def failing(at=None):
    """The objective, failing at its call number `at`."""
    calls = []

    def objective(model, batch):
        calls.append(model.training)
        if len(calls) == at:
            raise PowerCut("the lights went out")
        return squares(model, batch)

    objective.calls = calls
    return objective


def never(model, batch):
    raise AssertionError("a finished fit trains no more")


def cut_at(folder, at=MIDDLE, **options):
    with pytest.raises(PowerCut, match="lights"):
        toy_fit(objective=failing(at), checkpoint=folder, **options)


def every_step(folder):
    return Checkpoint(folder, seconds=0.0)


def assert_same(fit, other):
    assert same_bits(fit[0], other[0])
    assert without_times(fit[1]) == without_times(other[1])


@pytest.fixture(scope="module")
def uninterrupted():
    objective = failing()
    fit = toy_fit(objective=objective)
    assert len(objective.calls) == N_CALLS
    return fit


def test_checkpoints_change_nothing(tmp_path, uninterrupted):
    assert_same(toy_fit(checkpoint=every_step(tmp_path)), uninterrupted)


# Saved after every step, and at epoch ends only.
CUTS = [(at, 0.0) for at in range(1, N_CALLS + 1)] + [(at, 1000.0) for at in range(3, N_CALLS, 6)]


@pytest.mark.parametrize(("at", "seconds"), CUTS)
def test_a_fit_cut_anywhere_resumes_to_the_same_bits(tmp_path, uninterrupted, at, seconds):
    checkpoint = Checkpoint(tmp_path, seconds=seconds)
    cut_at(checkpoint, at)
    objective = failing()
    assert_same(toy_fit(objective=objective, checkpoint=checkpoint), uninterrupted)
    if seconds == 0.0:
        calls = [False] * N_SAMPLED + ([True] * 5 + [False] * 2) * 4
        assert sum(objective.calls) == 20 - sum(calls[: at - 1])


@pytest.mark.parametrize("share", [0.2, 0.4, 0.6, 0.7, 0.8, 0.9])
def test_the_best_epoch_and_patience_outlive_a_cut(tmp_path, share):
    settings = toy_settings(max_epochs=30, patience=4, learning_rate=0.3, warmup=0.0)
    objective = failing()
    whole = toy_fit(objective=objective, settings=settings)
    assert whole[1].stopped == "patience"
    cut_at(every_step(tmp_path), int(share * len(objective.calls)), settings=settings)
    assert_same(toy_fit(settings=settings, checkpoint=tmp_path), whole)
    # A finished fit is returned.
    again = toy_fit(objective=never, settings=settings, checkpoint=tmp_path)
    assert_same(again, whole)


def test_a_fit_may_be_cut_again_and_again_and_stopped_by_ctrl_c(tmp_path, uninterrupted):
    for at in (N_SAMPLED + 4, *[4] * 8):
        cut_at(every_step(tmp_path / "cut"), at)
    assert_same(toy_fit(checkpoint=tmp_path / "cut"), uninterrupted)
    objective, rest = failing(), failing()

    def pressed(model, batch):
        if len(objective.calls) == 9 + N_SAMPLED:
            signal.raise_signal(signal.SIGINT)
        return objective(model, batch)

    _, history = toy_fit(objective=pressed, checkpoint=tmp_path / "stopped")
    assert history.interrupted
    assert_same(toy_fit(objective=rest, checkpoint=tmp_path / "stopped"), uninterrupted)
    assert len(objective.calls) + len(rest.calls) == N_CALLS


def test_without_validation_a_finished_fit_returns_the_last_weights(tmp_path):
    fit = toy_fit(validation=None, checkpoint=tmp_path)
    assert_same(toy_fit(validation=None, checkpoint=tmp_path, objective=never), fit)


class Normed(ToyModel):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        with torch.no_grad():
            self.norm.weight.fill_(1.0)

    def forward(self, batch):
        tokens = self.item(batch.item)
        return self.out(self.norm(tokens.flatten(0, 1)).view_as(tokens))[..., 0]


@pytest.mark.parametrize("make", [Normed, lambda: ToyModel(dropout=0.0).to(torch.bfloat16)])
def test_buffers_and_bfloat16_resume_to_the_same_bits(tmp_path, make):
    settings = toy_settings(learning_rate=0.1)
    cut_at(every_step(tmp_path), model=make(), settings=settings)
    resumed = toy_fit(make(), settings=settings, checkpoint=tmp_path)
    assert_same(resumed, toy_fit(make(), settings=settings))
    assert not same_bits(resumed[0], make())


KILLED = """
import os, pathlib, random, signal, sys, time
import torch
from safetensors.torch import save_file
from exfam.training.checkpoints import Checkpoint
from toy_fit import squares, toy_fit, toy_settings

torch.set_num_threads(1)
folder = pathlib.Path(sys.argv[1])
settings = toy_settings(max_epochs=12)

def slow(model, batch):
    # Long enough beside the naps below that a fast machine is killed more than three times.
    time.sleep(0.008)
    return squares(model, batch)

def fit_and_write(name, checkpoint):
    model, history = toy_fit(objective=slow, settings=settings, checkpoint=checkpoint)
    save_file(model.state_dict(), folder / name)

fit_and_write("whole", None)
chance = random.Random(0)
kills = 0
while True:
    child = os.fork()
    if child == 0:
        # Saves after every step, or now and then.
        seconds = chance.choice([0.0, 0.01])
        fit_and_write("resumed", Checkpoint(folder / "checkpoint", seconds=seconds))
        os._exit(0)
    # Ever later, so that a slow machine gets somewhere.
    time.sleep(chance.uniform(0.02, 0.12) * (1 + kills / 10))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) == 0:
        break
    kills += 1
print(kills)
"""


def test_a_fit_killed_again_and_again_ends_with_the_same_bits(tmp_path):
    assert int(run_python(KILLED, tmp_path)) >= 3, "hardly killed while training"
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "resumed").read_bytes()


# Files


def test_two_generations_stay_and_nothing_else(tmp_path):
    (tmp_path / ".generation-000001-half").write_bytes(b"half")
    (tmp_path / "notes.txt").write_text("mine")
    cut_at(every_step(tmp_path))
    names = [re.sub("-[0-9a-f]{64}", "", path.name) for path in sorted(tmp_path.iterdir())]
    generations = [f"generation-0000{number}.safetensors" for number in (13, 14)]
    assert names == [*generations, "notes.txt"]


def flip(data, at):
    changed = bytearray(data)
    changed[at] ^= 0xFF
    return bytes(changed)


DAMAGES = {
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "a byte short": lambda data: data[:-1],
    "first byte": lambda data: flip(data, 0),
    "a byte in the middle": lambda data: flip(data, len(data) // 2),
    "last byte": lambda data: flip(data, -1),
    "foreign": lambda data: b"no tensors here",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_after_damage_the_generation_before_goes_on_to_the_same_bits(
    tmp_path, uninterrupted, damage
):
    cut_at(every_step(tmp_path))
    newest = max(tmp_path.iterdir())
    newest.write_bytes(DAMAGES[damage](newest.read_bytes()))
    with pytest.warns(UserWarning, match=f"Checkpoint .*{newest.name} is damaged"):
        model, _ = toy_fit(checkpoint=tmp_path)
    assert same_bits(model, uninterrupted[0])


def test_when_all_generations_are_damaged_nothing_is_guessed(tmp_path):
    cut_at(every_step(tmp_path))
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    match = r"`checkpoint` must hold an intact checkpoint.*Delete the folder to start anew"
    with pytest.warns(UserWarning, match="damaged"), pytest.raises(CheckpointError, match=match):
        toy_fit(checkpoint=tmp_path)


def test_a_damaged_generation_is_not_kept_as_the_one_before(tmp_path):
    folder = CheckpointFolder(tmp_path, fingerprint={})
    folder.save({}, {"epoch": 1})
    for epoch in (2, 3):
        folder.save({}, {"epoch": epoch})
        max(tmp_path.iterdir()).write_bytes(b"")
        with pytest.warns(UserWarning, match="is damaged"):
            assert folder.load() == ({}, {"epoch": 1})


@pytest.mark.parametrize("name", ["", "a" * 300, "\ud800", "\0"])
def test_what_no_checkpoint_can_be_is_refused(tmp_path, name):
    for use in (checkpoint_path, Checkpoint):
        with pytest.raises(ExfamError, match="`checkpoint` must be a path"):
            use(name)
    with pytest.raises(ExfamError, match="`seconds` must be a number >= 0"):
        Checkpoint(tmp_path, seconds=-1.0)
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"must be a folder, got a file at .*file"):
        toy_fit(checkpoint=tmp_path / "file")


def test_a_full_disk_is_named_with_the_remedy(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("exfam.training.checkpoints.write_atomically", full)
    message = "can be written, got .*fit: No space left on device. Free some space, or use"
    with pytest.raises(CheckpointError, match=message):
        CheckpointFolder(tmp_path / "fit", fingerprint={}).save({}, {})


def test_facts_and_arrays_come_back_exactly(tmp_path):
    arrays = {
        "float": np.array([0.1, np.inf, np.nan]),
        "bytes": np.arange(5, dtype=np.uint8),
        "scalar": np.array(2.5, dtype=np.float32),
        "none": np.zeros((0, 3)),
        "turned": np.arange(6.0).reshape(2, 3).T,
    }
    facts = {"large": 2**200, "float": 0.1 + 0.2, "none": None, "rows": [{"best": True}]}
    folder = CheckpointFolder(tmp_path, fingerprint={})
    assert folder.load() is None
    folder.save(arrays, facts)
    loaded, facts_loaded = CheckpointFolder(tmp_path, fingerprint={}).load()
    assert facts_loaded == facts
    for name, array in arrays.items():
        np.testing.assert_array_equal(loaded[name], array)
        assert loaded[name].dtype == array.dtype


def test_epoch_ends_save_only_while_that_is_cheap(tmp_path, monkeypatch):
    now = [0.0]

    def slow_disk(path, data):
        now[0] += 0.1
        path.write_bytes(data)
        return path

    monkeypatch.setattr("exfam.training.checkpoints.time.monotonic", lambda: now[0])
    monkeypatch.setattr("exfam.training.checkpoints.write_atomically", slow_disk)
    folder = CheckpointFolder(tmp_path, fingerprint={}, seconds=30.0)
    assert (folder.due(epoch_end=True), folder.due()) == (True, False)
    folder.save({}, {})
    for waited, due in ((1.9, (False, False)), (0.2, (True, False)), (30.0, (True, True))):
        now[0] += waited
        assert (folder.due(epoch_end=True), folder.due()) == due


# Another fit

OTHERS = {
    "settings": ({"settings": toy_settings(learning_rate=0.5)}, r"learning_rate is 0\.003 there"),
    "seed": ({"settings": toy_settings(seed=9)}, "seed is 3 there and 9 here"),
    "shape": ({"model": ToyModel(dim=6)}, r"shape of item\.weight is \[5, 4\] there and \[5, 6\]"),
    "weights": ({"model": ToyModel(seed=7)}, "initial weights is '"),
    "data": ({"train": toy_groups(seed=5)}, "train is '"),
    "validation": ({"validation": None}, "validation is '.* there and absent here"),
    "many": (
        {"settings": toy_settings(learning_rate=0.5, batch_size=9, patience=1, warmup=0.2, seed=1)},
        "and 2 more",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_checkpoint_of_another_fit_is_refused(tmp_path, name):
    options, message = OTHERS[name]
    cut_at(tmp_path)
    match = f"`checkpoint` must belong to this fit.*{message}.*Use another folder"
    with pytest.raises(CheckpointError, match=match):
        toy_fit(checkpoint=tmp_path, **options)


def test_identity_holds_what_shapes_do_not_show(tmp_path):
    cut_at(Checkpoint(tmp_path, identity={"dropout": 0.2, "heads": (1, 2)}))
    with pytest.raises(CheckpointError, match=r"dropout is 0\.2 there and 0\.5 here"):
        toy_fit(checkpoint=Checkpoint(tmp_path, identity={"dropout": 0.5, "heads": (1, 2)}))
    toy_fit(checkpoint=Checkpoint(tmp_path, identity={"dropout": 0.2, "heads": (1, 2)}))
