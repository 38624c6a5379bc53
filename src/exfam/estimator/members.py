"""From a fit's plan to trained members."""

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float

from exfam.estimator.declared import settings_from
from exfam.estimator.plain import identified
from exfam.groups import Groups
from exfam.likelihoods.terms import likelihood_for
from exfam.likelihoods.two_part import TwoPartModel
from exfam.training.batching import Weighted
from exfam.training.history import History
from exfam.training.optimizer import TrainingSettings, choose_device
from exfam.training.steps import fit

# Parameters that a fit may change between two runs of the same checkpoint.
_IRRELEVANT = {"ensemble", "progress", "unknown"} | {
    field.name for field in fields(TrainingSettings)
}


@runtime_checkable
class Training(Protocol):
    """What training needs of a plan: groups, weights of their elements, a folder to go on from."""

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


def train_members(
    estimator: Any, build: Callable[[torch.Generator], TwoPartModel], plan: Training
) -> tuple[list[TwoPartModel], list[History]]:
    """Members with seeds `seed`, + 1, … for initial weights and batches; one split for all.

    Ctrl-C ends the member at hand with its best weights, and the ensemble with it.
    """
    settings = settings_from(estimator, TrainingSettings)
    held_out = None
    if plan.validation is not None:
        held_out = Weighted(plan.validation, plan.validation_weight)
    members: list[TwoPartModel] = []
    histories: list[History] = []
    for seed in range(settings.seed, settings.seed + int(estimator.ensemble)):
        checkpoint = None
        if plan.checkpoint is not None:
            folder = plan.checkpoint / str(seed)
            checkpoint = identified(folder, estimator, irrelevant=_IRRELEVANT)
        model = build(torch.Generator().manual_seed(seed)).to(choose_device(settings.device))
        history = fit(
            model,
            objective=likelihood_for(model.direction),
            train=Weighted(plan.train, plan.weight),
            validation=held_out,
            settings=replace(settings, seed=seed),
            progress=estimator.progress,
            checkpoint=checkpoint,
        )
        members.append(model)
        histories.append(history)
        if history.interrupted:
            break
    return members, histories
