"""What torchrun starts in tests/test_distributed.py: fits of the toy model, one after the other.

    torchrun --nproc-per-node 2 many_ranks.py FOLDER PLAN

Each rank saves the tensors, history and times that it ended with as FOLDER/NAME.RANK.
"""

import os
import signal
import sys
from pathlib import Path

import torch

from exfam.checks import ExfamError
from exfam.reading.prepared import open_prepared
from exfam.training.checkpoints import Checkpoint
from toy_fit import ToyModel, counting, squares, toy_fit, toy_settings, without_times

RANK = int(os.environ.get("RANK", 0))
ESTIMATOR = {"embed_dim": 8, "n_layers": 1, "dropout": 0.0, "max_epochs": 2, "batch_tokens": 60}


class Fits:
    def __init__(self, folder):
        self.folder = folder
        self.data = {name: open_prepared(folder / name) for name in ("train", "validation")}

    def fit(self, name, *, stop=None, model=None, **options):
        """A fit, with a signal to rank 1 in the middle of its second epoch."""

        def act(model, batch):
            signal.raise_signal(stop)
            return squares(model, batch)

        model = ToyModel() if model is None else model
        objective = squares if stop is None or RANK == 0 else counting(at=8, act=act)
        _, history = toy_fit(model, objective=objective, **{**self.data, **options})
        self.write(name, model, history)

    def write(self, name, model, history):
        seconds = history.to_dict()["cpu_seconds"]
        torch.save((model.state_dict(), without_times(history), seconds), self.path(name))

    def path(self, name):
        return self.folder / f"{name}.{RANK}"

    def kept(self, name):
        return Checkpoint(self.folder / f"checkpoint-{name}", seconds=0.0)

    def dropout(self):
        self.fit("dropout")

    def interrupted(self):
        """Ctrl-C; then the fit goes on from its checkpoint."""
        self.fit("interrupted", stop=signal.SIGINT, checkpoint=self.kept("interrupted"))
        self.fit("resumed", checkpoint=self.kept("interrupted"))

    def killed(self):
        self.fit("killed", stop=signal.SIGKILL, checkpoint=self.kept("killed"))

    def revived(self):
        self.fit("revived", checkpoint=self.kept("killed"))

    def estimator(self):
        """From a prepared folder to a saved model, as a user's script."""
        from exfam.efa.efa import EFA  # a second and a half that other plans need not wait

        efa = EFA(**ESTIMATOR).fit(self.folder / "train", validation=self.folder / "validation")
        self.write("estimator", efa.members_[0], efa.history_)
        efa.save(self.folder / "model")

    def refusals(self):
        """Every rank hears what no rank may do."""
        messages = []
        for options in (
            {"model": ToyModel(seed=RANK)},
            {"train": self.data["train"][: 30 + RANK]},
            {"settings": toy_settings(seed=RANK)},
            {"settings": toy_settings(batch_size=1)},
            {"settings": toy_settings(device="cuda")},
        ):
            try:
                self.fit("refused", **options)
            except ExfamError as error:
                messages.append(str(error))
        torch.save(messages, self.path("refusals"))


if __name__ == "__main__":
    torch.set_num_threads(1)
    fits = Fits(Path(sys.argv[1]))
    for step in sys.argv[2:]:
        getattr(fits, step)()
