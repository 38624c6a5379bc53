"""What is killed: fits with checkpoints of every engine, saves, preparing, `exfam fit -o`."""

import contextlib
import functools
import hashlib
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import exfam
from exfam import cli
from exfam.training.checkpoints import Checkpoint
from fuzz.samples import fit, make, sample_of


@dataclass(frozen=True)
class Victim:
    """Work on a folder that may be killed at any moment.

    `before(folder)` is done first, and not killed. `work(folder)` is killed, then done again.
    `state(folder)` names what is on disk, or raises if that is not whole. After a kill that must be
    one of the states before and after; done again, it must be the one after.
    """

    before: Callable[[Path], None]
    work: Callable[[Path], None]
    state: Callable[[Path], str]


# Engine -> kind, and what differs from the small estimators of the samples.
_FITS: dict[str, tuple[str, dict[str, Any]]] = {
    "fit efa": ("efa", {"max_epochs": 4}),
    "fit efa ensemble": ("efa", {"max_epochs": 2, "ensemble": 3}),
    "fit latent-factor": ("latent-factor", {"max_epochs": 6}),
    "fit field-efa": ("field-efa", {"max_epochs": 4}),
    "fit field-latent-factor": ("field-latent-factor", {"max_epochs": 6}),
    "fit table": ("masked-table", {"max_epochs": 4}),
    "fit table ensemble": ("masked-table-classifier", {"max_epochs": 2, "ensemble": 3}),
    "fit skip-gram": ("skip-gram", {"epochs": 6}),
    "fit cbow": ("cbow", {"epochs": 6}),
    "fit cbow softmax": ("cbow", {"epochs": 3, "likelihood": "softmax", "batch_size": 16}),
    "fit pmi": ("pmi-factorization", {}),
    "fit lstm": ("lstm-language-model", {"epochs": 3, "bptt": 5}),
    "fit masked-lm": ("masked-language-model", {"max_epochs": 3}),
    "fit sentences": ("sentence-classifier", {"max_epochs": 3}),
}
_COMMAND = (
    "fit ratings.csv --group user --item movie --value stars --embed-dim 4 --head-dim 2 "
    "--n-layers 1 --head-hidden-dim 2 --max-epochs 3 --checkpoint checkpoint -o model --overwrite"
)


def _fit(kind: str, changes: dict[str, Any]) -> Victim:
    def work(folder: Path) -> None:
        estimator, sample = make(kind, **changes), sample_of(kind)
        option: dict[str, Any] = {"checkpoint": str(folder / "checkpoint")}
        parameters = inspect.signature(estimator.fit).parameters
        if "folder" in parameters:
            option = {"folder": str(folder / "counts")}
        elif "Checkpoint" in str(parameters["checkpoint"].annotation):
            # After every step, not only where it is cheap.
            option = {"checkpoint": Checkpoint(folder / "checkpoint", seconds=0.0)}
        response = () if sample.y is None else (sample.y,)
        estimator.fit(sample.X, *response, **sample.more, **option)
        estimator.save(folder / "model", overwrite=True)

    return Victim(lambda folder: None, work, _model)


def _model(folder: Path) -> str:
    """The bits of the model in a folder, or that there is none."""
    model = folder / "model"
    names = {entry.name for entry in folder.iterdir()} - {"checkpoint", "counts"}
    if not any("model" in name for name in names):
        return "none"
    try:
        return _bits(exfam.load(model))
    except exfam.ModelFileError:
        # Nothing of that name, but what an unfinished first save left beside it.
        if model.exists() or any(name.endswith(".old") for name in names):
            raise
        return "none"


def _bits(estimator: Any) -> str:
    """A digest of all numbers of a fitted estimator."""
    digest = hashlib.sha256()
    members = getattr(estimator, "members_", [])
    arrays = [tensor.numpy() for member in members for tensor in member.state_dict().values()]
    if hasattr(estimator, "matrices_"):
        arrays += estimator.matrices_.stored().values()
    elif hasattr(estimator, "vectors_") and estimator.kind == "pmi-factorization":
        arrays += [estimator.vectors_.center, estimator.frequencies_]
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


@functools.cache
def _fitted(seed: int) -> Any:
    """Fitted before processes are forked: kills are to meet the save."""
    return fit(make("efa", seed=seed), sample_of("efa"))


def _saved(seed: int, path: Path) -> None:
    _fitted(seed).save(path, overwrite=True)


def _save_again(folder: Path) -> None:
    _saved(1, folder / "model")


def _two_saves(folder: Path) -> None:
    """Two processes save the same model to one path; the second ends with the first."""
    other = os.fork()
    if other == 0:
        _die_with_parent()
        _saved(1, folder / "model")
        os._exit(0)
    _saved(1, folder / "model")
    os.waitpid(other, 0)


def _die_with_parent() -> None:
    """Linux: this process is killed when its parent is, at that very moment."""
    import ctypes
    import signal

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _prepared(n_rows: int) -> Callable[[Path], None]:
    def work(folder: Path) -> None:
        frame = sample_of("efa").X.iloc[:n_rows]
        columns = {"group": "user", "item": "movie", "value": "stars"}
        exfam.prepare(frame, folder / "prepared", overwrite=True, **columns)

    return work


def _groups(folder: Path) -> str:
    groups = exfam.open_prepared(folder / "prepared", verify=True)
    return hashlib.sha256(np.asarray(groups.values["stars"]).tobytes()).hexdigest()


def _write_ratings(folder: Path) -> None:
    sample_of("efa").X.to_csv(folder / "ratings.csv", index=False)


def _command(folder: Path) -> None:
    with contextlib.chdir(folder):
        if cli.main(_COMMAND.split()):
            raise RuntimeError("exfam fit failed")


VICTIMS: dict[str, Victim] = {
    **{name: _fit(*chosen) for name, chosen in _FITS.items()},
    "save": Victim(lambda folder: _saved(0, folder / "model"), _save_again, _model),
    "two saves": Victim(lambda folder: _saved(0, folder / "model"), _two_saves, _model),
    "prepare": Victim(_prepared(12), _prepared(24), _groups),
    "exfam fit -o": Victim(_write_ratings, _command, _model),
}
