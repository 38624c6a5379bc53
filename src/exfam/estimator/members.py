"""From a fit's plan to trained members."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float

from exfam.estimator.parameters import identified
from exfam.estimator.rules import python_number
from exfam.groups import Groups
from exfam.likelihoods.terms import likelihood_for
from exfam.likelihoods.two_part import TwoPartModel
from exfam.training.checkpoints import Checkpoint
from exfam.training.history import History
from exfam.training.optimizer import TrainingSettings, choose_device
from exfam.training.steps import Weighted, fit

__all__ = ["Training", "train_members", "training_settings"]

# Parameters that a fit may change between two runs of the same checkpoint.
IRRELEVANT = ("ensemble", "progress", "unknown")
TRAINING_FIELDS = (
    "learning_rate",
    "weight_decay",
    "batch_size",
    "batch_tokens",
    "max_epochs",
    "patience",
    "warmup",
    "clip",
    "seed",
    "device",
)


@runtime_checkable
class Training(Protocol):
    """What training asks of a plan: groups, weights of their elements, a folder to go on from."""

    @property
    def train(self) -> Groups: ...

    @property
    def validation(self) -> Groups | None: ...

    @property
    def weight(self) -> Float[np.ndarray, "elements"] | None: ...

    @property
    def validation_weight(self) -> Float[np.ndarray, "elements"] | None: ...

    @property
    def checkpoint(self) -> Path | None: ...


def training_settings(estimator: Any) -> TrainingSettings:
    """The training choices among an estimator's parameters."""
    return TrainingSettings(
        **{
            name: python_number(getattr(estimator, name))
            for name in TRAINING_FIELDS
            if hasattr(estimator, name)
        }
    )


def train_members(
    estimator: Any, build: Callable[[torch.Generator], TwoPartModel], plan: Training
) -> tuple[list[TwoPartModel], list[History]]:
    """Members with seeds `seed`, + 1, … for initial weights and batches; one split for all.

    Ctrl-C ends the member at hand with its best weights, and the ensemble with it.
    """
    settings = training_settings(estimator)
    members: list[TwoPartModel] = []
    histories: list[History] = []
    for seed in range(settings.seed, settings.seed + int(estimator.ensemble)):
        model = build(torch.Generator().manual_seed(seed)).to(choose_device(settings.device))
        history = fit(
            model,
            objective=likelihood_for(model.direction),
            train=Weighted(plan.train, plan.weight),
            validation=_held_out(plan),
            settings=replace(settings, seed=seed),
            progress=estimator.progress,
            checkpoint=_checkpoint(estimator, plan, seed),
        )
        members.append(model)
        histories.append(history)
        if history.interrupted:
            break
    return members, histories


def _held_out(plan: Training) -> Weighted | None:
    if plan.validation is None:
        return None
    return Weighted(plan.validation, plan.validation_weight)


def _checkpoint(estimator: Any, plan: Training, seed: int) -> Checkpoint | None:
    """Where member `seed` keeps its checkpoints."""
    folder = None if plan.checkpoint is None else plan.checkpoint / str(seed)
    return identified(folder, estimator, irrelevant=(*TRAINING_FIELDS, *IRRELEVANT))
