"""From texts as codes to a trained language model."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64

from exfam.estimator.parameters import identified
from exfam.language.engine import Descent, LanguageEngine
from exfam.language.networks.lstm import LSTMNetwork
from exfam.randomness import lend_generator
from exfam.training.checkpoints import Checkpoint, CheckpointFolder
from exfam.training.fingerprint import digest
from exfam.training.history import EpochProgress, History
from exfam.training.optimizer import choose_device
from exfam.training.protocol import Run

__all__ = ["PRECISIONS", "train_language_model"]

# Precision -> what the factors of the outputs' products are rounded to.
PRECISIONS: dict[str, torch.dtype | None] = {"float32": None, "bfloat16": torch.bfloat16}

# Parameters that do not make a fit another one.
_IRRELEVANT = ("progress", "validation_fraction")


def train_language_model(
    estimator: Any,
    model: LSTMNetwork,
    *,
    train: Int64[np.ndarray, "tokens"],
    validation: Int64[np.ndarray, "more"] | None,
    start: int,
    checkpoint: Checkpoint | str | Path | None,
) -> History:
    """Train `model` in place by an estimator's parameters; it ends in eval mode.

    The best epoch's weights by validation are kept, the last ones without.
    Raises ExfamError if the nats stop being finite; CheckpointError if the checkpoint belongs to
    another fit.
    """
    device = choose_device(estimator.device)
    engine = LanguageEngine(
        model.to(device),
        train=train,
        validation=validation,
        start=start,
        descent=Descent(
            batch_size=int(estimator.batch_size),
            bptt=int(estimator.bptt),
            learning_rate=float(estimator.learning_rate),
            clip=None if estimator.clip is None else float(estimator.clip),
            factors=PRECISIONS[estimator.precision],
        ),
        seed=int(estimator.seed),
    )
    epochs = int(estimator.epochs)
    data = {"train": digest([train]), "validation": digest([validation])}
    run = Run(
        engine,
        max_epochs=epochs,
        patience=epochs,
        progress=EpochProgress(shown=estimator.progress, max_epochs=epochs),
        checkpoints=_folder(estimator, engine, data, checkpoint),
    )
    with lend_generator(engine.generator, model):
        history = run.train()
    model.eval().zero_grad()
    return history


def _folder(
    estimator: Any,
    engine: LanguageEngine,
    data: dict[str, str],
    checkpoint: Checkpoint | str | Path | None,
) -> CheckpointFolder | None:
    named = identified(checkpoint, estimator, irrelevant=_IRRELEVANT)
    if named is None:
        return None
    weights = {f"model.{name}" for name, _ in engine.model.named_parameters()}
    state = engine.state()
    initial = digest([state[name] for name in sorted(weights)])
    return CheckpointFolder(
        named.folder,
        fingerprint={**data, "initial weights": initial, **named.identity},
        seconds=named.seconds,
    )
