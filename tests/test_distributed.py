"""Fits of the toy model by three ranks, which torchrun's agent starts: this file is what they run.

python test_distributed.py FOLDER PLAN

is `torchrun --nproc-per-node 3 --max-restarts 3` of it, but that ranks are forked from a process
that has imported all they need. The last fit is killed twice, whereupon all ranks start again: then
they do it alone.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.testing import assert_close

from exfam import EFA, load
from exfam.checks import CheckpointError, ExfamError
from exfam.reading.prepared import open_prepared, prepare
from exfam.training import rows
from exfam.training.checkpoints import Checkpoint
from toy_fit import (
    RowModel,
    ToyModel,
    counting,
    squares,
    toy_fit,
    toy_groups,
    toy_settings,
    without_times,
)

N_RANKS = 3
ROWS = {"n_rows": 20_000, "dropout": 0.0}
ESTIMATOR = {"embed_dim": 8, "n_layers": 1, "dropout": 0.0, "max_epochs": 2, "batch_tokens": 60}


class Fits:
    """Each rank saves the tensors, history and times that it ended with as FOLDER/NAME.RANK."""

    def __init__(self, folder):
        self.folder = folder
        self.data = opened_toys(folder)
        self.rank = int(os.environ["RANK"])
        self.restarts = int(os.environ["TORCHELASTIC_RESTART_COUNT"])

    def fit(self, name, *, stop=None, rank=1, step=8, model=None, **options):
        """A fit, with a signal to a rank before a step; all make one before, to learn the rates."""

        def act(model, batch):
            signal.raise_signal(stop)
            return squares(model, batch)

        model = ToyModel() if model is None else model
        objective = counting(at=step, act=act) if stop and rank == self.rank else squares
        _, history = toy_fit(model, objective=objective, **{**self.data, **options})
        self.write(name, model, history)

    def write(self, name, model, history):
        seconds = history.to_dict()["cpu_seconds"]
        torch.save((model.state_dict(), without_times(history), seconds), self.path(name))

    def path(self, name):
        return self.folder / f"{name}.{self.rank}"

    def kept(self, name):
        return Checkpoint(self.folder / f"checkpoint-{name}", seconds=0.0)

    def dropout(self):
        self.fit("dropout")

    def interrupted(self):
        """Ctrl-C; then the fit goes on from its checkpoint."""
        self.fit("interrupted", stop=signal.SIGINT, checkpoint=self.kept("interrupted"))
        self.fit("resumed", checkpoint=self.kept("interrupted"))

    def killed(self):
        """Rank 1 is killed in its second epoch, then rank 2 soon after; then the fit ends."""
        options = {"checkpoint": self.kept("killed")}
        for restarts, step in enumerate((8, 2)):
            if restarts == self.restarts:
                self.fit("killed", stop=signal.SIGKILL, rank=1 + restarts, step=step, **options)
        model, objective = ToyModel(), counting()
        _, history = toy_fit(model, objective=objective, **self.data, **options)
        self.write("revived", model, history)
        torch.save((self.restarts, sum(objective.calls)), self.path("restarts"))

    def estimator(self):
        """From a prepared folder to a saved model, as a user's script."""
        efa = EFA(**ESTIMATOR)
        efa.fit(self.folder / "train", validation=self.folder / "validation")
        self.write("estimator", efa.members_[0], efa.history_)
        efa.save(self.folder / "model")

    def rows(self):
        """A table of many rows of which a batch reads a few, and the bytes of each message."""
        rows.ROWS_FROM_OF_RANKS, sizes = 1, []
        for name in ("all_reduce", "all_gather"):
            setattr(torch.distributed, name, weighed(getattr(torch.distributed, name), sizes))
        self.fit("rows", model=RowModel(**ROWS))
        torch.save(sizes, self.path("sizes"))

    def refusals(self):
        """Every rank hears what no rank may do."""
        messages = []
        for options in (
            {"model": ToyModel(seed=self.rank)},
            {"train": self.data["train"][: 30 + self.rank]},
            {"settings": toy_settings(seed=self.rank)},
            {"settings": toy_settings(batch_size=1)},
            {"settings": toy_settings(device="cuda")},
        ):
            try:
                self.fit("refused", **options)
            except ExfamError as error:
                messages.append(str(error))
        torch.save(messages, self.path("refusals"))


def prepared_toys(folder):
    """Toy groups to fit to and to validate with, from folders within `folder`."""
    prepare(toy_groups(), folder / "train")
    prepare(toy_groups(seed=1, n_groups=15), folder / "validation")
    return opened_toys(folder)


def opened_toys(folder):
    return {name: open_prepared(folder / name) for name in ("train", "validation")}


def weighed(send, sizes):
    """The same, noting the bytes that this rank sends."""

    def weigh(*arguments, **options):
        sizes.append(arguments[-1].nbytes)
        return send(*arguments, **options)

    return weigh


def run_rank(folder, *plan):
    """What each rank does, when it is started again the last fit alone."""
    torch.set_num_threads(1)
    fits = Fits(Path(folder))
    for step in plan[-1:] if fits.restarts else plan:
        getattr(fits, step)()


def start_ranks(folder, *plan):
    """As torchrun does, on this machine."""
    multiprocessing.set_forkserver_preload([Path(__file__).stem])
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=N_RANKS,
        max_restarts=3,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        start_method="forkserver",
    )
    elastic_launch(config, run_rank)(folder, *plan)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the ranks left behind: fits, the last of which was killed and went on."""
    folder = tmp_path_factory.mktemp("ranks")
    prepared_toys(folder)
    plan = "dropout", "interrupted", "estimator", "refusals", "rows", "killed"
    done = subprocess.run(
        [sys.executable, __file__, str(folder), *plan],
        capture_output=True,
        text=True,
        timeout=300,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
            "OMP_NUM_THREADS": "1",
            "PYTHONWARNINGS": "error",
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def left(folder, name, rank=0):
    """Tensors, the history but for its times, and its times."""
    return torch.load(folder / f"{name}.{rank}")


def assert_same_bits(left_behind, other):
    assert_close(left_behind[0], other[0], rtol=0, atol=0)
    assert left_behind[1] == other[1]


NAMES = ["dropout", "interrupted", "resumed", "revived", "estimator", "rows"]


@pytest.mark.parametrize("name", NAMES)
def test_all_ranks_end_with_the_same_bits_and_the_same_history(folder, name):
    first, *others = (left(folder, name, rank) for rank in range(N_RANKS))
    for other in others:
        assert_same_bits(first, other)
        assert first[2] == other[2] and len(first[2]) == len(first[1][0]["epoch"])


@pytest.mark.parametrize("name", ["resumed", "revived"])
def test_a_fit_that_was_stopped_or_killed_goes_on_to_the_same_bits(folder, name):
    assert_same_bits(left(folder, name), left(folder, "dropout"))
    assert not list(folder.glob("killed.*")), "a killed rank ends the fit of all"


def test_a_restart_takes_only_the_steps_that_were_left(folder):
    steps = left(folder, "dropout")[1][0]["steps"]
    restarts, calls = left(folder, "restarts")
    assert restarts == 2 and 0 < calls < steps[-1] - steps[0]


def test_ctrl_c_at_one_rank_stops_all(folder):
    tensors, (columns, stopped), _ = left(folder, "interrupted")
    assert stopped == "interrupted" and columns["epoch"] == [1]
    for other in (ToyModel().state_dict(), left(folder, "dropout")[0]):
        assert not torch.equal(tensors["item.weight"], other["item.weight"])


def test_a_checkpoint_of_another_number_of_ranks_is_refused(folder):
    data = opened_toys(folder)
    with pytest.raises(CheckpointError, match=f"ranks is {N_RANKS} there and 1 here"):
        toy_fit(**data, checkpoint=Checkpoint(folder / "checkpoint-killed"))


def test_ranks_train_the_estimator_that_one_process_trains_and_one_saves_it(folder):
    alone = EFA(**ESTIMATOR, progress=False)
    alone.fit(folder / "train", validation=folder / "validation")
    tensors, (columns, stopped), _ = left(folder, "estimator")
    expected, expected_stopped = without_times(alone.history_)
    assert stopped == expected_stopped and columns.keys() == expected.keys()
    for name, column in columns.items():
        assert column == pytest.approx(expected[name], rel=1e-5), name
    # A step of AdamW is as large for a slope that is all rounding.
    assert_close(tensors, dict(alone.members_[0].state_dict()), rtol=1e-5, atol=1e-4)
    saved = load(folder / "model")
    assert saved.score(folder / "train") == pytest.approx(alone.score(folder / "train"), rel=1e-5)


@pytest.mark.parametrize("least", [1, 10**9])
def test_ranks_send_only_rows_that_were_read_and_end_as_one_process(folder, least, monkeypatch):
    monkeypatch.setattr(rows, "ROWS_FROM", least)
    data = opened_toys(folder)
    model, history = toy_fit(RowModel(**ROWS), **data)
    tensors, (columns, _), _ = left(folder, "rows")
    assert_close(tensors, dict(model.state_dict()), rtol=1e-5, atol=1e-5)
    nats = history.to_dict()["validation_nats"]
    assert columns["validation_nats"] == pytest.approx(nats, rel=1e-5)
    assert model.item.weight.nbytes > 300_000
    for rank in range(N_RANKS):
        assert max(torch.load(folder / f"sizes.{rank}")) < 1_000


REFUSED = (
    "`initial weights` must be the same on all ranks, got 2 of 3 that differ from the first",
    "`train` must be the same on all ranks",
    "`settings` must be the same on all ranks",
    "`batch_size` must be at least the number of ranks, 3, got 1",
    "`device` must have a GPU for each of the 3 ranks of a machine, got 'cuda' and ",
)


@pytest.mark.parametrize("rank", range(N_RANKS))
def test_what_no_rank_may_do_is_known_to_all(folder, rank):
    for message, expected in zip(left(folder, "refusals", rank), REFUSED, strict=True):
        assert message.startswith(expected)


if __name__ == "__main__":
    # Whoever starts ranks by other means than this file's names each in its environment.
    (run_rank if "RANK" in os.environ else start_ranks)(*sys.argv[1:])
