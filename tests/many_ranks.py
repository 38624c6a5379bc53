"""What torchrun starts in tests/test_distributed.py: fits of the toy model, one after the other.

    torchrun --nproc-per-node 2 many_ranks.py FOLDER PLAN

Each rank writes what it ended with to FOLDER/NAME.RANK.json and FOLDER/NAME.RANK.safetensors.
"""

import json
import os
import signal
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from exfam.checks import ExfamError
from exfam.reading.prepared import open_prepared
from exfam.training.checkpoints import Checkpoint
from toy_fit import ToyModel, counting, squares, toy_fit, toy_settings, without_times

RANK = int(os.environ.get("RANK", 0))
ESTIMATOR = {"embed_dim": 8, "n_layers": 1, "dropout": 0.0, "max_epochs": 2, "batch_tokens": 60}


class Fits:
    def __init__(self, folder):
        self.folder = folder
        self.train = open_prepared(folder / "train")
        self.validation = open_prepared(folder / "validation")

    def fit(self, name, *, model=None, objective=squares, **options):
        model = ToyModel() if model is None else model
        data = {"train": self.train, "validation": self.validation, "objective": objective}
        _, history = toy_fit(model, **{**data, **options})
        self.write(name, model, history)

    def write(self, name, model, history):
        tensors = {each: tensor.clone() for each, tensor in model.state_dict().items()}
        save_file(tensors, self.folder / f"{name}.{RANK}.safetensors")
        seconds = history.to_dict()["cpu_seconds"]
        text = json.dumps([*without_times(history), seconds])
        (self.folder / f"{name}.{RANK}.json").write_text(text)

    def plain(self):
        self.fit("plain", model=ToyModel(dropout=0.0))

    def budget(self):
        """Batches of a group or two: some shares are empty."""
        self.fit("budget", model=ToyModel(dropout=0.0), settings=toy_settings(batch_tokens=6))

    def dropout(self):
        self.fit("dropout")

    def interrupted(self):
        """Ctrl-C at rank 1 in the second epoch; then the fit goes on from its checkpoint."""
        kept = Checkpoint(self.folder / "checkpoint-interrupted")
        self.fit("interrupted", objective=self.signalled(at=8, rank=1), checkpoint=kept)
        self.fit("resumed", checkpoint=kept)

    def terminated(self):
        objective = self.signalled(at=12, rank=0, number=signal.SIGTERM)
        self.fit("terminated", model=ToyModel(dropout=0.0), objective=objective)

    def killed(self):
        kept = Checkpoint(self.folder / "checkpoint-killed", seconds=0.0)
        self.fit(
            "killed", objective=self.signalled(at=9, rank=1, number=signal.SIGKILL), checkpoint=kept
        )

    def revived(self):
        self.fit("revived", checkpoint=Checkpoint(self.folder / "checkpoint-killed", seconds=0.0))

    def estimator(self):
        """From a prepared folder to a saved model, as a user's script."""
        from exfam.efa.efa import EFA  # a second and a half that other plans need not wait

        efa = EFA(**ESTIMATOR).fit(self.folder / "train", validation=self.folder / "validation")
        self.write("estimator", efa.members_[0], efa.history_)
        efa.save(self.folder / "model")

    def refusals(self):
        """Every rank hears what no rank may do."""
        said = []
        for options in (
            {"model": ToyModel(seed=RANK)},
            {"train": self.train[: 30 + RANK]},
            {"settings": toy_settings(seed=RANK)},
            {"settings": toy_settings(batch_size=1)},
            {"settings": toy_settings(device="cuda")},
        ):
            try:
                self.fit("refused", **options)
            except ExfamError as error:
                said.append(str(error))
        (self.folder / f"refusals.{RANK}.json").write_text(json.dumps(said))

    def signalled(self, *, at, rank, number=signal.SIGINT):
        def act(model, batch):
            signal.raise_signal(number)
            return squares(model, batch)

        return counting(at=at, act=act) if rank == RANK else squares


if __name__ == "__main__":
    torch.set_num_threads(1)
    fits = Fits(Path(sys.argv[1]))
    for step in sys.argv[2:]:
        getattr(fits, step)()
