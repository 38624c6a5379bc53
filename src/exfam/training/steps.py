"""One fit of a torch module: from a model, an objective and groups to trained weights."""

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict

from torch import nn

from exfam.groups import Groups
from exfam.layers import lend_generator
from exfam.training.batching import Source, Weighted, digest
from exfam.training.checkpoints import Checkpoint, CheckpointFolder
from exfam.training.history import History
from exfam.training.optimizer import TrainingSettings, choose_device
from exfam.training.precision import slow_products
from exfam.training.progress import EpochProgress
from exfam.training.protocol import Run
from exfam.training.ranks import ONE_PROCESS, Ranks, check_agreement, join_ranks
from exfam.training.torch_engine import Objective, TorchEngine


def fit(
    model: nn.Module,
    *,
    objective: Objective,
    train: Groups | Source,
    validation: Groups | Source | None = None,
    settings: TrainingSettings,
    progress: bool = True,
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
    shared: bool = True,
) -> History:
    """Train `model` in place by minimizing `objective` a unit of weight; it ends in eval mode.

    With validation groups the weights of the best epoch are kept, else the last. Ctrl-C keeps the
    best so far. A fit that was killed and is called again with the same `checkpoint`, arguments and
    initial weights goes on to the same bits as one that was not; a finished one is returned.
    Dropout and all else that is random draws from a generator of the fit's own.
    Started by torchrun, all ranks train the one model, each on its share of every batch, or, unless
    `shared`, each by itself.
    Raises ExfamError if the loss stops being finite, CheckpointError if the checkpoint belongs to
    another fit.

    >>> import torch
    >>> model = nn.Embedding.from_pretrained(torch.zeros(1, 1), freeze=False)
    >>> def squares(model, batch):
    ...     center = model(torch.zeros_like(batch.position))[..., 0]
    ...     distance = batch.values["value"] - center
    ...     return (distance**2)[batch.present].sum(), batch.present.sum()
    >>> groups = Groups(start=[0, 1], stop=[1, 3], values={"value": [1.0, 2.0, 3.0]})
    >>> settings = TrainingSettings(learning_rate=0.1, max_epochs=100)
    >>> history = fit(model, objective=squares, train=groups, settings=settings)
    >>> round(model.weight.item(), 1), len(history)
    (2.0, 100)
    """
    device = choose_device(settings.device)
    ranks = join_ranks(device) if shared else ONE_PROCESS
    parts: dict[str, Source] = {
        name: Weighted(part) if isinstance(part, Groups) else part
        for name, part in (("train", train), ("validation", validation))
        if part is not None
    }
    engine = TorchEngine(
        model.to(device),
        objective,
        train=parts["train"],
        validation=parts.get("validation"),
        settings=settings,
        ranks=ranks,
    )
    if ranks.size > 1:
        facts = {"settings": repr(asdict(settings))}
        facts |= {name: digest([part.lengths]) for name, part in parts.items()}
        facts["initial weights"] = digest(engine.weights().values())
        check_agreement(ranks, facts)
    shown = EpochProgress(shown=progress and ranks.rank == 0, max_epochs=settings.max_epochs)
    if slow := slow_products(objective, device):
        shown.say(slow)
    run = Run(
        engine,
        max_epochs=settings.max_epochs,
        patience=settings.patience,
        progress=shown,
        checkpoints=_checkpoint_folder(checkpoint, engine, parts, ranks),
        ranks=ranks,
    )
    with (
        closing(engine.rows),
        lend_generator(engine.generator, model),
        parts["train"].read_at_random(),
    ):
        history = run.train()
    model.eval()
    return history


def _checkpoint_folder(
    checkpoint: Checkpoint | str | os.PathLike[str] | None,
    engine: TorchEngine,
    parts: Mapping[str, Source],
    ranks: Ranks,
) -> CheckpointFolder | None:
    """Where the main rank keeps checkpoints, of this fit: its settings, data, initial weights."""
    if checkpoint is None or ranks.rank != 0:
        return None
    weights, facts = engine.weights(), asdict(engine.settings)
    # Fits that began when AdamW was the only optimizer go on.
    if engine.settings.optimizer == "adamw":
        del facts["optimizer"]
    facts |= {f"shape of {name}": list(array.shape) for name, array in weights.items()}
    facts["initial weights"] = digest(weights.values())
    facts |= {f"steps of {name}": "by row" for name in engine.rows.names}
    for name, part in parts.items():
        facts |= {f"{what} of {name}": text for what, text in part.fingerprint().items()}
    return CheckpointFolder.of(checkpoint, fingerprint=facts | {"ranks": ranks.size})
