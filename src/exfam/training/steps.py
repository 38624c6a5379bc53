"""The torch engine: batches of whole groups, AdamW steps, validation, states."""

import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.checks import ExfamError
from exfam.data.batching import epoch_batches, sequential_batches
from exfam.groups import TARGET, Batch, Groups
from exfam.training.checkpoints import Checkpoint, CheckpointFolder
from exfam.training.fingerprint import fit_fingerprint
from exfam.training.history import History
from exfam.training.optimizer import TrainingSettings, clip_gradients, make_optimizer
from exfam.training.progress import EpochProgress
from exfam.training.protocol import Run, Sums

__all__ = ["Objective", "TorchEngine", "Weighted", "choose_device", "fit"]

# Sum of the batch's nats (to minimize) and the sum of the weights they were summed with.
Objective = Callable[[Any, Batch], tuple[Tensor, Tensor]]


@dataclass(frozen=True, eq=False)
class Weighted:
    """Groups, and one weight for every row of their flat columns (None: all weigh 1)."""

    groups: Groups
    weight: Float[np.ndarray, "elements"] | None = None


def fit(
    model: nn.Module,
    *,
    objective: Objective,
    train: Groups | Weighted,
    validation: Groups | Weighted | None = None,
    settings: TrainingSettings,
    progress: bool = True,
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
) -> History:
    """Train `model` in place by minimizing `objective` a unit of weight; it ends in eval mode.

    With validation groups the weights of the best epoch are kept, else the last. Ctrl-C keeps the
    best so far. A fit that was killed and is called again with the same `checkpoint`, arguments and
    initial weights goes on to the same bits as one that was not; a finished one is returned.
    Dropout draws from torch's generator, which is set aside during the fit and put back after.
    Raises ExfamError if the loss stops being finite, CheckpointError if the checkpoint belongs to
    another fit.

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
    sample = _weighted(train)
    held_out = None if validation is None else _weighted(validation)
    engine = TorchEngine(
        model.to(device), objective, train=sample, validation=held_out, settings=settings
    )
    folder = None
    if checkpoint is not None:
        named = {"train": sample} | ({} if held_out is None else {"validation": held_out})
        fingerprint = fit_fingerprint(
            engine.weights(),
            parts={name: (part.groups, part.weight) for name, part in named.items()},
            settings=settings,
        )
        folder = _checkpoint_folder(checkpoint, fingerprint)
    run = Run(
        engine,
        max_epochs=settings.max_epochs,
        patience=settings.patience,
        progress=EpochProgress(shown=progress, max_epochs=settings.max_epochs),
        checkpoints=folder,
    )
    with _own_randomness(settings.seed, device):
        history = run.train()
    model.eval()
    return history


def choose_device(name: str) -> torch.device:
    """The device of that name; "auto" is CUDA where there is one, else the CPU.

    Raises ExfamError for a device that torch does not know or this machine does not have.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise ExfamError(
            f"`device` must be one that torch finds on this machine, got {name!r}. Use 'cpu'."
        ) from error


class TorchEngine:
    """Steps of AdamW on random batches of whole groups; what a `Run` asks of an engine."""

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        *,
        train: Weighted,
        validation: Weighted | None,
        settings: TrainingSettings,
    ) -> None:
        self.model, self.objective, self.settings = model, objective, settings
        self.train, self.validate_on = train, validation
        self.optimizer = make_optimizer(model, settings)
        self.device = next(model.parameters()).device
        self._parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        self._tensors = model.state_dict()
        self._best: dict[str, Tensor] = {}
        self._batches: list[np.ndarray] = []
        self._epoch = 0
        self._learning_rate = 0.0
        # Batches are divided by one number, not by their own weights: then every element counts
        # alike, however many elements its batch happens to hold.
        n_batches = max(1, math.ceil(len(train.groups) / settings.batch_size))
        self._typical_weight = max(_total_weight(train) / n_batches, 1e-12)
        # Validation needs no gradients, so as many elements as the largest training batch has fit.
        self._max_tokens = settings.batch_size * int(train.groups.lengths.max(initial=1))

    @property
    def learning_rate(self) -> float:
        """Of the last step taken, before multipliers."""
        return self._learning_rate

    def begin_epoch(self, epoch: int) -> int:
        """Draw the epoch's batches, from the seed and the epoch's number alone."""
        generator = np.random.default_rng([self.settings.seed, epoch])
        size = self.settings.batch_size
        self._batches = list(epoch_batches(self.train.groups, batch_size=size, generator=generator))
        self._epoch = epoch
        self.model.train()
        return len(self._batches)

    def step(self, index: int) -> Sums:
        """One step on the epoch's batch `index`; none if the batch weighs nothing."""
        nats, weight = self.objective(self.model, self._batch(self.train, self._batches[index]))
        sums = float(nats.item()), float(weight.item())
        if sums[1] == 0 or not math.isfinite(sum(sums)):
            return sums
        # What zero_grad does, without the tenth of a millisecond that its bookkeeping takes.
        for parameter in self._parameters:
            parameter.grad = None
        (nats / self._typical_weight).backward()
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        if not math.isfinite(clip_gradients(gradients, self.settings.clip)):
            return math.nan, sums[1]
        self._set_learning_rate(index)
        self.optimizer.step()
        return sums

    def _set_learning_rate(self, index: int) -> None:
        n_steps = len(self._batches)
        factor = self.settings.rate_factor(
            step=self._epoch * n_steps + index, n_steps=self.settings.max_epochs * n_steps
        )
        self._learning_rate = self.settings.learning_rate * factor
        for group in self.optimizer.param_groups:
            group["lr"] = self._learning_rate * group["multiplier"]

    def validation(self) -> Iterator[Sums] | None:
        """The validation groups, in batches as large as the largest training batch."""
        return None if self.validate_on is None else self._validation_sums(self.validate_on)

    def _validation_sums(self, part: Weighted) -> Iterator[Sums]:
        self.model.eval()
        for index in sequential_batches(part.groups, max_tokens=self._max_tokens):
            with torch.inference_mode():
                nats, weight = self.objective(self.model, self._batch(part, index))
                sums = float(nats.item()), float(weight.item())
            yield sums

    def _batch(self, part: Weighted, index: np.ndarray) -> Batch:
        batch = part.groups.pad(index, weight=part.weight)
        return batch if self.device.type == "cpu" else batch.to(self.device)

    def keep_best(self) -> None:
        """Copy the model's tensors."""
        if not self._best:
            self._best = {name: tensor.clone() for name, tensor in self._tensors.items()}
        else:
            _copy_into(self._best, self._tensors)

    def use_best(self) -> None:
        """Copy them back."""
        _copy_into(self._tensors, self._best)

    def weights(self) -> dict[str, np.ndarray]:
        """The model's tensors as they are."""
        return {name: _to_numpy(tensor) for name, tensor in self._tensors.items()}

    def state(self) -> dict[str, np.ndarray]:
        """The model's tensors, the best so far, AdamW's moments and torch's random state."""
        tensors = {f"best.{name}": tensor for name, tensor in self._best.items()}
        for index, moments in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{name}": value for name, value in moments.items()}
        tensors["random.cpu"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["random.cuda"] = torch.cuda.get_rng_state(self.device)
        state = {name: _to_numpy(tensor) for name, tensor in tensors.items()}
        return state | {f"model.{name}": array for name, array in self.weights().items()}

    def load_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Return to a state of the same model, copying into the tensors it has."""
        _copy_into(self._tensors, _unpacked(state, "model", self._tensors))
        self._best = _unpacked(state, "best", self._tensors)
        moments: dict[int, dict[str, Tensor]] = {}
        for name, array in state.items():
            kind, _, rest = name.partition(".")
            if kind == "optimizer":
                index, _, moment = rest.partition(".")
                like = torch.float32 if moment == "step" else self._parameters[int(index)].dtype
                moments.setdefault(int(index), {})[moment] = _to_torch(array, like)
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": moments})
        torch.set_rng_state(torch.tensor(state["random.cpu"]))
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(torch.tensor(state["random.cuda"]), self.device)


def _total_weight(part: Weighted) -> float:
    """Sum of the weights of all targets."""
    groups = part.groups
    if part.weight is None:
        return float(groups.n_targets)
    own = groups.elements()
    own = own if groups.role is None else own[groups.role[own] == TARGET]
    return float(part.weight[own].sum())


def _weighted(part: Groups | Weighted) -> Weighted:
    return Weighted(part) if isinstance(part, Groups) else part


def _checkpoint_folder(
    checkpoint: Checkpoint | str | os.PathLike[str], fingerprint: dict[str, Any]
) -> CheckpointFolder:
    if not isinstance(checkpoint, Checkpoint):
        checkpoint = Checkpoint(checkpoint)
    return CheckpointFolder(
        checkpoint.folder,
        fingerprint={**fingerprint, **checkpoint.identity},
        seconds=checkpoint.seconds,
    )


@contextmanager
def _own_randomness(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's generators for the fit and put their states back after it.

    Dropout modules draw from torch's default generators and take no other.
    """
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            torch.cuda.default_generators[device.index].manual_seed(seed)
        yield


def _copy_into(tensors: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(values[name])


def _unpacked(
    state: Mapping[str, np.ndarray], kind: str, like: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    return {
        name: _to_torch(state[f"{kind}.{name}"], tensor.dtype).to(tensor.device)
        for name, tensor in like.items()
        if f"{kind}.{name}" in state
    }


def _to_numpy(tensor: Tensor) -> np.ndarray:
    tensor = tensor.detach().cpu()
    # NumPy has no bfloat16: its bits travel as integers.
    return (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _to_torch(array: np.ndarray, dtype: torch.dtype) -> Tensor:
    # A copy: results may depend on alignment, and only torch's own memory is aligned as torch does.
    tensor = torch.tensor(array)
    return tensor.view(dtype) if dtype == torch.bfloat16 else tensor
