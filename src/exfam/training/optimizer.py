"""Steps as fits take them: settings, device, which parameters decay, the rate of every step."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.checks import ExfamError, check_choice, check_fraction, check_positive, check_whole
from exfam.embeddings import LARGE_PARAMETER
from exfam.training.adamw import AdamW, GradientDescent, Optimizer
from exfam.training.ranks import place_in_world


def choose_device(name: Any) -> torch.device:
    """The device of that name; "auto" is CUDA where there is one, else the CPU.

    Under torchrun, "cuda" is the GPU of the rank's number on its machine.
    Raises ExfamError for a device that torch does not know or this machine does not have, or if
    the ranks of a machine are more than its GPUs.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    process = place_in_world()
    if process.size > 1 and str(name).startswith("cuda"):
        if name != "cuda":
            raise ExfamError(
                f"`device` must be 'cpu', 'cuda' or 'auto' with several ranks, got {name!r}. With "
                "'cuda' each rank takes the GPU of its own number."
            )
        if process.local_size > (n_gpus := torch.cuda.device_count()):
            raise ExfamError(
                f"`device` must have a GPU for each of the {process.local_size} ranks of a "
                f"machine, got 'cuda' and {n_gpus}. Start fewer ranks, or use device='cpu'."
            )
        name = f"cuda:{process.local_rank}"
    try:
        device = torch.empty(0, device=name).device
        torch.Generator(device)  # "meta" has none, and holds no numbers
        return device
    except (AssertionError, RuntimeError, TypeError) as error:
        raise ExfamError(
            f"`device` must be one that torch finds on this machine, got {name!r}. Use 'cpu'."
        ) from error


@dataclass(frozen=True)
class TrainingSettings:
    """How to train. The same settings, data, weights and machine give the same bits.

    `optimizer`: "adamw", or "descent": plain gradient descent on the mean nats of each batch, whose
        rate is divided by 4 after every validation that is not the best so far
    `learning_rate`: the largest step size
    `betas`: decay of AdamW's two moments
    `weight_decay`: of matrices and embeddings; biases, norms and scalars have none
    `batch_size`: groups a step
    `batch_tokens`: padded elements a step at most, in place of `batch_size`: the number of groups
        times the longest of them; a longer group has a step of its own
    `max_epochs`, `patience`: epochs at most, and without a better validation before stopping
    `warmup`: fraction of all steps over which the learning rate rises from 0
    `clip`: largest norm of the gradient; None for no limit
    `schedule`: of AdamW, after the warm-up: "cosine" to 0, "constant", or "descending": see
        `Descent`
    `seed`: of the order of the batches and of dropout
    `device`: "cpu", "cuda", "cuda:1", or "auto" for CUDA where there is one
    """

    optimizer: str = "adamw"
    learning_rate: float = 3e-3
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.0
    batch_size: int = 64
    batch_tokens: int | None = None
    max_epochs: int = 60
    patience: int = 10
    warmup: float = 0.05
    clip: float | None = 1.0
    schedule: str = "cosine"
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)
        check_positive("weight_decay", self.weight_decay, zero=True)
        for name in ("batch_size", "max_epochs", "patience"):
            check_whole(name, getattr(self, name))
        if self.batch_tokens is not None:
            check_whole("batch_tokens", self.batch_tokens)
        check_whole("seed", self.seed, least=0)
        for beta in self.betas:
            check_fraction("betas", beta)
        check_fraction("warmup", self.warmup)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        if self.clip is not None:
            check_positive("clip", self.clip)

    def rate_factor(self, *, step: int, n_steps: int) -> float:
        """Learning rate of step `step` (from 0) of `n_steps`, as a fraction of the largest."""
        warmup = self.warmup * n_steps
        if step + 1 <= warmup:
            return (step + 1) / warmup
        return SCHEDULES[self.schedule](min(1.0, (step - warmup) / max(1.0, n_steps - warmup)))


OPTIMIZERS = ("adamw", "descent")
# Fraction of the steps after the warm-up that is done -> fraction of the largest learning rate.
SCHEDULES = {
    "constant": lambda done: 1.0,
    "descending": lambda done: 1.0,
    "cosine": lambda done: 0.5 * (1.0 + math.cos(math.pi * done)),
}


@dataclass
class Descent:
    """From strong decay to less of it, then to a lower rate, whenever validation does not improve.

    Three validations in a row that gain less than `LEAST_GAIN` nats end a stage, or, after the
    first stage, one that loses `CLEARLY_WORSE` nats before any has gained; and the best weights so
    far are taken up again. The next stage has a fifth of the decay, which starts at 50 times the
    setting; where that does not help, the decay before it and a third of the rate, and then a third
    again, `N_RATES` times. Few data keep much decay, many lose it, and validation says which are
    many.
    """

    decay_level: int = 0
    rate_level: int = 0
    stalls: int = 0
    helped: int = 0

    LEAST_GAIN: ClassVar[float] = 1e-4
    CLEARLY_WORSE: ClassVar[float] = 0.01
    MOST_DECAY: ClassVar[float] = 50.0
    N_LEVELS: ClassVar[int] = 4
    N_RATES: ClassVar[int] = 3

    @property
    def decay(self) -> float:
        """Times the setting."""
        return self.MOST_DECAY * 5.0**-self.decay_level

    @property
    def rate(self) -> float:
        """Times the setting."""
        return 3.0**-self.rate_level

    @property
    def is_over(self) -> bool:
        """Whether no stage is left: steps would change little."""
        return self.rate_level > self.N_RATES

    def after(self, *, gain: float) -> bool:
        """Take in what a validation gained on the best before; whether a stage ends with it."""
        improved = gain > self.LEAST_GAIN
        self.stalls = 0 if improved else self.stalls + 1
        self.helped |= improved
        is_first = not self.decay_level and not self.rate_level
        is_lost = gain < -self.CLEARLY_WORSE and not self.helped and not is_first
        if self.stalls < 3 and not is_lost:
            return False
        self.stalls = 0
        if self.rate_level:
            self.rate_level += 1
        elif (self.helped or not self.decay_level) and self.decay_level + 1 < self.N_LEVELS:
            self.decay_level += 1
        else:
            self.decay_level -= not self.helped
            self.rate_level = 1
        self.helped = False
        return True


def parameter_groups(model: nn.Module, settings: TrainingSettings) -> list[dict[str, Any]]:
    """Trainable parameters by weight decay and learning rate, as torch's optimizers take them.

    A parameter of fewer than two dimensions (bias, norm, scalar) has no weight decay, nor has one
    that its module names in `no_decay_parameters`. A module's `learning_rate_multipliers` maps
    names of its parameters to factors. A model with a `parameter_groups(settings)` of its own
    decides for itself; each of its groups may have a "multiplier".
    Raises ExfamError if nothing is trainable.
    """
    own = getattr(model, "parameter_groups", None)
    groups = _default_groups(model, settings) if own is None else own(settings)
    if not any(group["params"] for group in groups):
        raise ExfamError(
            f"`model` must have a trainable parameter, got {type(model).__name__} with none."
        )
    return [{"multiplier": 1.0, **group} for group in groups]


def _default_groups(model: nn.Module, settings: TrainingSettings) -> list[dict[str, Any]]:
    by_kind: dict[tuple[float, float], list[nn.Parameter]] = {}
    seen: set[nn.Parameter] = set()
    for module in model.modules():
        no_decay = getattr(module, "no_decay_parameters", ())
        multipliers: Mapping[str, float] = getattr(module, "learning_rate_multipliers", {})
        for name, parameter in module.named_parameters(recurse=False):
            if parameter in seen or not parameter.requires_grad:
                continue
            seen.add(parameter)
            plain = parameter.ndim < 2 or name in no_decay
            kind = (0.0 if plain else settings.weight_decay, multipliers.get(name, 1.0))
            by_kind.setdefault(kind, []).append(parameter)
    return [
        {"params": parameters, "weight_decay": decay, "multiplier": multiplier}
        for (decay, multiplier), parameters in by_kind.items()
    ]


def make_optimizer(model: nn.Module, settings: TrainingSettings) -> Optimizer:
    """AdamW over the model's parameter groups, one compiled loop over all of them; or descent."""
    groups = parameter_groups(model, settings)
    if settings.schedule == "descending":
        groups = [group | {"own_decay": group["weight_decay"]} for group in groups]
        for group in groups:
            group["weight_decay"] *= Descent.MOST_DECAY
    if settings.optimizer == "descent":
        return GradientDescent(groups, lr=settings.learning_rate)
    return AdamW(groups, lr=settings.learning_rate, betas=settings.betas)


def gradient_norm(gradients: list[Tensor]) -> Float[Tensor, ""]:
    """Of all of them together."""
    # One copy and one norm: less work for many small tensors than a norm of each.
    small = [g.reshape(-1) for g in gradients if g.numel() < LARGE_PARAMETER]
    large = [g for g in gradients if g.numel() >= LARGE_PARAMETER]
    norms = [torch.cat(small).norm()] if small else []
    norms += [g.norm() for g in large]
    return torch.stack(norms).norm() if large else norms[0]


def clip_gradients(gradients: list[Tensor], limit: float | None) -> float:
    """Scale the gradients together to a norm of at most `limit`; their norm before that."""
    norm = gradient_norm(gradients).item()
    if limit is not None and limit < norm < math.inf:
        torch._foreach_mul_(gradients, limit / norm)
    return norm


@contextmanager
def processor_threads(n: int) -> Iterator[None]:
    """Within it, torch computes with `n` threads; after it, with as many as before.

    Networks of a few thousand parameters gain nothing from a second thread, and on a busy machine
    threads that wait for each other burn many times the processor time. The same number of threads
    also gives the same bits.
    """
    check_positive("n", n)
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)
