"""What estimators of one network of language share: parameters, and its fit."""

from abc import ABC
from os import PathLike
from typing import Any

import numpy as np
from torch import nn

from exfam.estimator.base import Estimator, attribute, parameter
from exfam.estimator.plain import identified
from exfam.estimator.precision import RoundedProducts
from exfam.estimator.rules import ANY_NUMBER, SEED, Choice, Flag, Fraction, OrNone, Positive, Text
from exfam.language.text_encoders import LONG_SENTENCES
from exfam.training.batching import Source
from exfam.training.checkpoints import Checkpoint
from exfam.training.history import History
from exfam.training.optimizer import TrainingSettings
from exfam.training.steps import fit
from exfam.training.torch_engine import Objective

CheckpointLike = Checkpoint | str | PathLike[str] | None


class LanguageEstimator(Estimator, ABC, section="Training"):
    """Estimators whose only member is a network."""

    dropout: float = parameter(Fraction(), "of tokens and of layers' outputs", default=0.1)
    batch_size: int = parameter(ANY_NUMBER, "stretches per step", default=32)
    learning_rate: float = parameter(
        Positive(), "the largest of AdamW; falls as a cosine", default=0.001
    )
    seed: int = parameter(SEED, "of initial weights, batches, masks and dropout", default=0)
    device: str = parameter(Text(), '"cpu", "cuda", "cuda:1" or "auto"', default="auto")
    progress: bool = parameter(Flag(), "whether to draw a line on terminals", default=True)

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
        self.vocabulary_ = vocabulary


class AdamTraining(RoundedProducts, section="Training"):
    """Training by AdamW."""

    weight_decay: float = parameter(Positive(zero=True), "of matrices", default=0.01)
    warmup: float = parameter(Fraction(), "share of the steps in which the rate rises", default=0.1)
    clip: float | None = parameter(
        OrNone(Positive()), "largest norm of the gradient; None for no limit", default=1.0
    )
    max_epochs: int = parameter(ANY_NUMBER, "passes over the text", default=10)
    patience: int = parameter(
        ANY_NUMBER, "epochs without a better validation before it stops", default=10
    )
    long_sentences: str = parameter(
        Choice(LONG_SENTENCES),
        '"error", or "cut" to leave out what is beyond the last position that the encoding '
        "knows, where sentences are scored after the fit",
        default="error",
    )
