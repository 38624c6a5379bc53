import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import exfam
from exfam.checks import CheckpointError
from exfam.reading.prepared import open_prepared, prepare
from exfam.training.checkpoints import Checkpoint
from many_ranks import ESTIMATOR
from toy_fit import ToyModel, counting, squares, toy_fit, toy_groups, toy_settings, without_times

SCRIPT = Path(__file__).with_name("many_ranks.py")
CALM = ("plain", "budget", "dropout", "interrupted", "terminated", "estimator", "refusals")


def torchrun(folder, *plan):
    """Two ranks on this machine: exit status and what they printed."""
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
        + ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
        + [str(SCRIPT), str(folder), *plan],
        capture_output=True,
        text=True,
        timeout=600,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(SCRIPT.parent), *sys.path]),
            "OMP_NUM_THREADS": "1",
            "PYTHONWARNINGS": "error",
        },
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What two ranks left behind: fits, the last one killed, and the same once more."""
    folder = tmp_path_factory.mktemp("ranks")
    prepare(toy_groups(), folder / "train")
    prepare(toy_groups(seed=1, n_groups=15), folder / "validation")
    status, text = torchrun(folder, *CALM, "killed")
    assert status != 0 and "exitcode  : -9" in text, text
    assert (folder / "refusals.1.json").exists(), text
    for _ in range(3):
        status, text = torchrun(folder, "revived")
        # On a busy machine gloo may end a process while the ranks connect.
        if "terminate called" not in text:
            break
    assert (status, text) == (0, "")
    return folder


def left(folder, name, rank=0):
    """Tensors, the history but for its times, and its times."""
    *history, seconds = json.loads((folder / f"{name}.{rank}.json").read_text())
    return load_file(folder / f"{name}.{rank}.safetensors"), history, seconds


def assert_same_bits(tensors, others):
    assert tensors.keys() == others.keys()
    assert all(torch.equal(tensors[name], others[name]) for name in tensors)


def assert_close(left_behind, model, history):
    tensors, (columns, stopped), _ = left_behind
    expected, expected_stopped = without_times(history)
    assert stopped == expected_stopped
    for name, column in columns.items():
        assert column == pytest.approx(expected[name], rel=1e-5), name
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(tensors[name], tensor, rtol=1e-5, atol=1e-5)


NAMES = ("plain", "budget", "dropout", "interrupted", "resumed", "terminated", "revived")


@pytest.mark.parametrize("name", [*NAMES, "estimator"])
def test_all_ranks_end_with_the_same_bits_and_the_same_history(folder, name):
    first, second = left(folder, name, 0), left(folder, name, 1)
    assert_same_bits(first[0], second[0])
    assert first[1:] == second[1:]
    assert len(first[2]) == len(first[1][0]["epoch"])


@pytest.mark.parametrize(("name", "options"), [("plain", {}), ("budget", {"batch_tokens": 6})])
def test_two_ranks_train_the_model_that_one_process_trains(folder, name, options):
    model, history = toy_fit(ToyModel(dropout=0.0), settings=toy_settings(**options))
    assert history.best.epoch > 1
    assert_close(left(folder, name), model, history)


def test_dropout_trains_another_model_than_one_process(folder):
    model, _ = toy_fit()
    tensors = left(folder, "dropout")[0]
    assert not torch.allclose(tensors["item.weight"], model.item.weight, atol=1e-3)


@pytest.mark.parametrize("name", ["resumed", "revived"])
def test_a_fit_that_was_stopped_or_killed_goes_on_to_the_same_bits(folder, name):
    whole, resumed = left(folder, "dropout"), left(folder, name)
    assert_same_bits(resumed[0], whole[0])
    assert resumed[1] == whole[1]


def test_ctrl_c_at_one_rank_stops_all(folder):
    tensors, (columns, stopped), _ = left(folder, "interrupted")
    assert stopped == "interrupted"
    assert columns["epoch"] == [1]
    assert not torch.equal(tensors["item.weight"], ToyModel().item.weight)
    assert not torch.equal(tensors["item.weight"], left(folder, "dropout")[0]["item.weight"])


def test_a_signal_to_end_at_one_rank_leaves_all_with_the_best_weights(folder):
    def press(model, batch):
        signal.raise_signal(signal.SIGINT)
        return squares(model, batch)

    model, history = toy_fit(ToyModel(dropout=0.0), objective=counting(at=12, act=press))
    assert history.interrupted and history.best.epoch == 2
    assert_close(left(folder, "terminated"), model, history)


def test_a_killed_rank_ends_the_fit_of_all(folder):
    assert not list(folder.glob("killed.*"))


def test_a_checkpoint_of_another_number_of_ranks_is_refused(folder):
    data = {name: open_prepared(folder / name) for name in ("train", "validation")}
    with pytest.raises(CheckpointError, match="ranks is 2 there and 1 here"):
        toy_fit(**data, checkpoint=Checkpoint(folder / "checkpoint-killed"))


def test_an_estimator_trains_on_all_ranks_and_is_saved_by_one(folder):
    alone = exfam.EFA(**ESTIMATOR, progress=False)
    alone.fit(folder / "train", validation=folder / "validation")
    assert_close(left(folder, "estimator"), alone.members_[0], alone.history_)
    saved = exfam.load(folder / "model")
    assert saved.score(folder / "train") == pytest.approx(alone.score(folder / "train"), rel=1e-5)


REFUSED = (
    "`initial weights` must be the same on all ranks, got 1 of 2 that differ from the first",
    "`train` must be the same on all ranks",
    "`settings` must be the same on all ranks",
    "`batch_size` must be at least the number of ranks, 2, got 1",
    "`device` must have a GPU for each of the 2 ranks of a machine, got 'cuda' and ",
)


@pytest.mark.parametrize("rank", [0, 1])
def test_what_no_rank_may_do_is_known_to_all(folder, rank):
    said = json.loads((folder / f"refusals.{rank}.json").read_text())
    assert len(said) == len(REFUSED)
    for message, expected in zip(said, REFUSED, strict=True):
        assert message.startswith(expected)
