"""What estimators of one network of language share: its fit, and what a saved one takes back."""

from abc import ABC
from os import PathLike
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from torch import nn

from exfam.estimator.base import Estimator, attribute
from exfam.estimator.plain import identified
from exfam.language.declarations import NetworkTraining
from exfam.training.batching import Source
from exfam.training.checkpoints import Checkpoint
from exfam.training.history import History
from exfam.training.optimizer import TrainingSettings
from exfam.training.steps import Objective, fit

CheckpointLike = Checkpoint | str | PathLike[str] | None


class LanguageEstimator(NetworkTraining, Estimator, BaseEstimator, ABC):
    """Estimators whose only member is a network."""

    members_: list[Any] = attribute()
    histories_: list[History] = attribute()
    vocabulary_: dict[str, np.ndarray] = attribute()

    @property
    def model_(self) -> Any:
        """The fitted network."""
        self._check_fitted()
        return self.members_[0]

    def _start_fit(self) -> None:
        """Note the parameters; a fit that fails must not leave the last one's network behind."""
        self.__dict__.pop("members_", None)
        self.parameters_ = self.get_params(deep=False)

    def _train(
        self,
        network: nn.Module,
        *,
        objective: Objective,
        train: Source,
        validation: Source | None,
        settings: TrainingSettings,
        checkpoint: CheckpointLike = None,
        irrelevant: tuple[str, ...] = ("progress",),
        shared: bool = True,
    ) -> None:
        """Train the network; see `fit`. `irrelevant`: parameters that make no other fit of it."""
        history = fit(
            network,
            objective=objective,
            train=train,
            validation=validation,
            settings=settings,
            progress=self.progress,
            checkpoint=identified(checkpoint, self, irrelevant=irrelevant),
            shared=shared,
        )
        self.histories_, self.members_ = [history], [network]

    def _restore(self, config: Any, tensors: Any, vocabulary: dict[str, np.ndarray]) -> None:
        """Take back what was saved."""
        self.vocabulary_ = vocabulary
