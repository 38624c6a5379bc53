import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import exfam
from exfam.checks import CheckpointError
from exfam.reading.prepared import open_prepared, prepare
from exfam.training.checkpoints import Checkpoint
from many_ranks import ESTIMATOR
from toy_fit import ToyModel, toy_fit, toy_groups, without_times

SCRIPT = Path(__file__).with_name("many_ranks.py")


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
    status, text = torchrun(folder, "dropout", "interrupted", "estimator", "refusals", "killed")
    assert status != 0 and "exitcode  : -9" in text, text
    assert (folder / "refusals.1").exists(), text
    for _ in range(3):
        status, text = torchrun(folder, "revived")
        # On a busy machine gloo may end a process while the ranks connect.
        if "terminate called" not in text:
            break
    assert (status, text) == (0, "")
    return folder


def left(folder, name, rank=0):
    """Tensors, the history but for its times, and its times."""
    return torch.load(folder / f"{name}.{rank}")


def assert_same_bits(left_behind, other):
    assert_close(left_behind[0], other[0], rtol=0, atol=0)
    assert left_behind[1] == other[1]


@pytest.mark.parametrize("name", ["dropout", "interrupted", "resumed", "revived", "estimator"])
def test_all_ranks_end_with_the_same_bits_and_the_same_history(folder, name):
    first, second = left(folder, name, 0), left(folder, name, 1)
    assert_same_bits(first, second)
    assert first[2] == second[2] and len(first[2]) == len(first[1][0]["epoch"])


@pytest.mark.parametrize("name", ["resumed", "revived"])
def test_a_fit_that_was_stopped_or_killed_goes_on_to_the_same_bits(folder, name):
    assert_same_bits(left(folder, name), left(folder, "dropout"))
    assert not list(folder.glob("killed.*")), "a killed rank ends the fit of all"


def test_ctrl_c_at_one_rank_stops_all(folder):
    tensors, (columns, stopped), _ = left(folder, "interrupted")
    assert stopped == "interrupted" and columns["epoch"] == [1]
    for other in (ToyModel().state_dict(), left(folder, "dropout")[0]):
        assert not torch.equal(tensors["item.weight"], other["item.weight"])


def test_a_checkpoint_of_another_number_of_ranks_is_refused(folder):
    data = {name: open_prepared(folder / name) for name in ("train", "validation")}
    with pytest.raises(CheckpointError, match="ranks is 2 there and 1 here"):
        toy_fit(**data, checkpoint=Checkpoint(folder / "checkpoint-killed"))


def test_ranks_train_the_estimator_that_one_process_trains_and_one_saves_it(folder):
    alone = exfam.EFA(**ESTIMATOR, progress=False)
    alone.fit(folder / "train", validation=folder / "validation")
    tensors, (columns, stopped), _ = left(folder, "estimator")
    expected, expected_stopped = without_times(alone.history_)
    assert stopped == expected_stopped and columns.keys() == expected.keys()
    for name, column in columns.items():
        assert column == pytest.approx(expected[name], rel=1e-5), name
    assert_close(tensors, dict(alone.members_[0].state_dict()), rtol=1e-5, atol=1e-5)
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
    for message, expected in zip(left(folder, "refusals", rank), REFUSED, strict=True):
        assert message.startswith(expected)
