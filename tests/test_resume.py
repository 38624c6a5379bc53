"""Checkpoints: a fit cut, killed or stopped anywhere goes on to the same bits."""

import re
import shutil
import signal

import pytest

from exfam.checks import CheckpointError, ExfamError
from exfam.estimator.rules import checkpoint_path
from exfam.training.checkpoints import Checkpoint, CheckpointFolder
from toy_fit import N_SAMPLED, ToyModel, same_bits, squares, toy_fit, toy_settings, without_times

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


def cut_at(checkpoint, at=MIDDLE, **options):
    with pytest.raises(PowerCut, match="lights"):
        toy_fit(objective=failing(at), checkpoint=checkpoint, **options)


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


class MovingModel(ToyModel):
    """Its weights move to other memory in its first step, as a GPU moves an LSTM's."""

    moved = False

    def forward(self, batch):
        if self.training and not self.moved:
            self.out.weight.data, self.moved = self.out.weight.data.clone(), True
        return super().forward(batch)


def test_weights_that_move_in_the_first_step_are_kept_and_resumed(tmp_path, uninterrupted):
    checkpoint = Checkpoint(tmp_path, seconds=1000.0)
    assert_same(toy_fit(MovingModel()), uninterrupted)
    cut_at(checkpoint, model=MovingModel())
    assert_same(toy_fit(MovingModel(), checkpoint=checkpoint), uninterrupted)


@pytest.mark.parametrize("share", [0.2, 0.6, 0.9])
def test_the_best_epoch_and_patience_outlive_a_cut(tmp_path, share):
    settings = toy_settings(max_epochs=30, patience=4, learning_rate=0.3, warmup=0.0)
    objective = failing()
    whole = toy_fit(objective=objective, settings=settings)
    assert whole[1].stopped == "patience"
    cut_at(every_step(tmp_path), int(share * len(objective.calls)), settings=settings)
    assert_same(toy_fit(settings=settings, checkpoint=tmp_path), whole)
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
    "a byte short": lambda data: data[:-1],
    "first byte": lambda data: flip(data, 0),
    "a byte in the middle": lambda data: flip(data, len(data) // 2),
    "last byte": lambda data: flip(data, -1),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_after_damage_the_generation_before_goes_on_and_nothing_is_guessed(
    tmp_path, uninterrupted, damage
):
    folder = tmp_path / "fit"
    cut_at(every_step(folder))
    shutil.copytree(folder, tmp_path / "all")
    newest = max(folder.iterdir())
    newest.write_bytes(damage(newest.read_bytes()))
    with pytest.warns(UserWarning, match=f"Checkpoint .*{newest.name} is damaged"):
        model, _ = toy_fit(checkpoint=folder)
    assert same_bits(model, uninterrupted[0])
    for path in (tmp_path / "all").iterdir():
        path.write_bytes(damage(path.read_bytes()))
    match = r"`checkpoint` must hold an intact checkpoint.*Delete the folder to start anew"
    with pytest.warns(UserWarning, match="damaged"), pytest.raises(CheckpointError, match=match):
        toy_fit(checkpoint=tmp_path / "all")


def test_a_damaged_generation_is_not_kept_as_the_one_before(tmp_path):
    folder = CheckpointFolder(tmp_path, fingerprint={})
    folder.save({}, {"epoch": 1})
    for epoch in (2, 3):
        folder.save({}, {"epoch": epoch})
        max(tmp_path.iterdir()).write_bytes(b"")
        with pytest.warns(UserWarning, match="is damaged"):
            assert folder.load() == ({}, {"epoch": 1})


def test_what_no_checkpoint_can_be_is_refused(tmp_path):
    for use in (checkpoint_path, Checkpoint):
        with pytest.raises(ExfamError, match="`checkpoint` must be a path"):
            use("\0")
    with pytest.raises(ExfamError, match="`seconds` must be a number >= 0"):
        Checkpoint(tmp_path, seconds=-1.0)
    (tmp_path / "file").write_text("")
    with pytest.raises(ExfamError, match="`checkpoint` must be a folder, got the file .*file"):
        checkpoint_path(tmp_path / "file")
    with pytest.raises(CheckpointError, match=r"must be a folder, got a file at .*file"):
        toy_fit(checkpoint=tmp_path / "file")


def test_a_full_disk_is_named_with_the_remedy(tmp_path, monkeypatch, full_disk):
    monkeypatch.setattr("exfam.training.checkpoints.write_atomically", full_disk)
    message = "can be written, got .*fit: No space left on device. Free some space, or use"
    with pytest.raises(CheckpointError, match=message):
        CheckpointFolder(tmp_path / "fit", fingerprint={}).save({}, {})


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


OTHERS = {
    "settings": ({"settings": toy_settings(learning_rate=0.5)}, r"learning_rate is 0\.003 there"),
    "shape": ({"model": ToyModel(dim=6)}, r"shape of item\.weight is \[5, 4\] there and \[5, 6\]"),
    "weights": ({"model": ToyModel(seed=7)}, "initial weights is '"),
    "validation": ({"validation": None}, "validation is '.* there and absent here"),
    "many": (
        {"settings": toy_settings(learning_rate=0.5, batch_size=9, patience=1, warmup=0.2, seed=1)},
        "and 2 more",
    ),
}


@pytest.mark.parametrize(("options", "message"), OTHERS.values(), ids=OTHERS)
def test_a_checkpoint_of_another_fit_is_refused(tmp_path, options, message):
    cut_at(tmp_path)
    match = f"`checkpoint` must belong to this fit.*{message}.*Use another folder"
    with pytest.raises(CheckpointError, match=match):
        toy_fit(checkpoint=tmp_path, **options)
