"""From a fit's plan to trained members."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from exfam.checks import check_positive
from exfam.estimators.base import FitPlan
from exfam.likelihoods import likelihood_for
from exfam.models.two_part import TwoPartModel
from exfam.training.checkpoints import Checkpoint
from exfam.training.history import History
from exfam.training.optimizer import TrainingSettings
from exfam.training.steps import Weighted, choose_device, fit

__all__ = ["train_members", "training_settings"]

TRAINING_FIELDS = (
    "learning_rate",
    "weight_decay",
    "batch_size",
    "max_epochs",
    "patience",
    "warmup",
    "clip",
    "seed",
    "device",
)


def training_settings(estimator: Any) -> TrainingSettings:
    """The training choices among an estimator's parameters."""
    return TrainingSettings(**{name: getattr(estimator, name) for name in TRAINING_FIELDS})


def train_members(
    build: Callable[[torch.Generator], TwoPartModel],
    plan: FitPlan,
    settings: TrainingSettings,
    *,
    ensemble: int,
    progress: bool,
) -> tuple[list[TwoPartModel], list[History]]:
    """Members with seeds `settings.seed`, + 1, …, each trained from its own initial weights.

    Ctrl-C ends the member at hand with its best weights, and the ensemble with it.
    """
    check_positive("ensemble", ensemble)
    members: list[TwoPartModel] = []
    histories: list[History] = []
    for seed in range(settings.seed, settings.seed + int(ensemble)):
        model = build(torch.Generator().manual_seed(seed)).to(choose_device(settings.device))
        history = fit(
            model,
            objective=likelihood_for(model.direction),
            train=Weighted(plan.train, plan.weight),
            validation=None if plan.validation is None else Weighted(plan.validation),
            settings=replace(settings, seed=seed),
            progress=progress,
            checkpoint=None if plan.checkpoint is None else Checkpoint(plan.checkpoint / str(seed)),
        )
        members.append(model)
        histories.append(history)
        if history.interrupted:
            break
    return members, histories
