"""The torch engine: batches, steps, validation, states as NumPy arrays."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor, nn

from exfam.checks import ExfamError
from exfam.layers import LARGE_PARAMETER
from exfam.training.batching import Source
from exfam.training.optimizer import TrainingSettings, clip_gradients, make_optimizer
from exfam.training.protocol import Sums
from exfam.training.ranks import ONE_PROCESS, Ranks


def all_finite(tensors: Iterable[Tensor]) -> bool:
    """Whether no number is infinite or NaN; takes no memory of the tensors' size.

    >>> all_finite([torch.ones(2), torch.tensor([torch.nan, 1.0])])
    False
    """
    with torch.no_grad():
        ends = [torch.aminmax(tensor) for tensor in tensors if tensor.numel()]
        return all(math.isfinite(float(end)) for pair in ends for end in pair)


def as_array(tensor: Tensor) -> np.ndarray:
    """A tensor's numbers, in its own memory where that is possible.

    >>> as_array(torch.ones(2))
    array([1., 1.], dtype=float32)
    """
    tensor = tensor.detach().cpu()
    # NumPy has no bfloat16: its bits travel as integers.
    return (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy()


def as_tensor(array: np.ndarray, dtype: torch.dtype) -> Tensor:
    """The tensor that was the array, of the dtype that it had.

    >>> as_tensor(as_array(torch.ones(2, dtype=torch.bfloat16)), torch.bfloat16)
    tensor([1., 1.], dtype=torch.bfloat16)
    """
    # A copy: results may depend on alignment, and only torch's own memory is aligned as torch does.
    tensor = torch.tensor(array)
    return tensor.view(dtype) if dtype == torch.bfloat16 else tensor


def copy_into(tensors: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    """Write each tensor's value of the same name into it.

    >>> tensors = {"bias": torch.zeros(2)}
    >>> copy_into(tensors, {"bias": torch.ones(2)})
    >>> tensors["bias"]
    tensor([1., 1.])
    """
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(values[name])


def unpacked(
    state: Mapping[str, np.ndarray], kind: str, like: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """The tensors of one kind in a state whose names are "kind.name", typed and placed as `like`.

    >>> unpacked({"model.bias": np.ones(2)}, "model", {"bias": torch.zeros(2).double()})
    {'bias': tensor([1., 1.], dtype=torch.float64)}
    """
    return {
        name: as_tensor(state[f"{kind}.{name}"], tensor.dtype).to(tensor.device)
        for name, tensor in like.items()
        if f"{kind}.{name}" in state
    }


# Sum of the batch's nats (to minimize) and the sum of the weights they were summed with.
Objective = Callable[[Any, Any], tuple[Tensor, Tensor]]


@runtime_checkable
class Carrying(Protocol):
    """An objective that goes on where the last step stopped."""

    def carried(self) -> dict[str, Tensor]:
        """What the next step goes on from."""

    def carry(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `carried` returned."""


# Batches of training data that show whether a fit diverged.
_SAMPLED = 4
# Descent's rate is divided by this when validation does not improve.
_FACTOR = 4.0


class TorchEngine:
    """Steps on random batches of whole groups; what a `Run` asks of an engine.

    With several ranks, each computes its share of a batch, and all take the same step. Raises
    ExfamError if batches have fewer groups than there are ranks.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        *,
        train: Source,
        validation: Source | None,
        settings: TrainingSettings,
        ranks: Ranks = ONE_PROCESS,
    ) -> None:
        _check_size(settings, ranks)
        self.model, self.objective, self.settings = model, objective, settings
        self.train, self.validate_on = train, validation
        self.optimizer = make_optimizer(model, settings)
        self.device = next(model.parameters()).device
        self.generator = torch.Generator(self.device).manual_seed(int(settings.seed))
        self._ranks = ranks
        self._parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        self._small = [p for p in self._parameters if p.numel() < LARGE_PARAMETER]
        self._large = [p for p in self._parameters if p.numel() >= LARGE_PARAMETER]
        self._tensors = model.state_dict()
        self._best: dict[str, Tensor] = {}
        self._lengths = train.lengths
        self._batches: list[np.ndarray] = []
        self._epoch = 0
        self._learning_rate = 0.0
        self._total_weight = _total_weight(train, ranks)
        self._typical_weight = 1.0
        self._by_descent = settings.optimizer == "descent"
        # Validations that were no better than the best before, and whether the last one was.
        self._n_stalls, self._stalled = 0, False

    @property
    def learning_rate(self) -> float:
        """Of the last step taken, before multipliers."""
        return self._learning_rate

    def begin_epoch(self, epoch: int) -> int:
        """Draw the epoch's batches, from the seed and the epoch's number alone."""
        settings = self.settings
        tokens = settings.batch_tokens
        size = None if tokens is not None else settings.batch_size
        generator = np.random.default_rng([settings.seed, epoch])
        self._batches = list(
            self.train.epoch_batches(generator=generator, batch_size=size, max_tokens=tokens)
        )
        # Batches are divided by one number, not by their own weights: then every element counts
        # alike, however many elements its batch happens to hold.
        n_batches = len(self._batches) if size is None else math.ceil(len(self._lengths) / size)
        self._typical_weight = max(self._total_weight / max(1, n_batches), 1e-12)
        self._epoch = epoch
        self._n_stalls, self._stalled = self._n_stalls + self._stalled, False
        self.model.train()
        return len(self._batches)

    def step(self, index: int) -> Sums:
        """One step on the epoch's batch `index`; none if the batch weighs nothing."""
        share = self._ranks.share(self._batches[index], self._lengths)
        nats, weight = self._ranks.sum(self._add_gradients(share, index), self._parameters)
        if weight == 0 or not math.isfinite(nats + weight):
            return nats, weight
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        if not math.isfinite(clip_gradients(gradients, self.settings.clip)):
            return math.nan, weight
        self._set_learning_rate(index)
        if self._learning_rate > torch.finfo(torch.float32).max:
            return math.nan, weight
        self.optimizer.step()
        return nats, weight

    def _add_gradients(self, share: Int64[np.ndarray, "share"], index: int) -> Sums:
        """Nats and weight of these groups, their gradients in place of the last step's."""
        # What zero_grad does, without the tenth of a millisecond that its bookkeeping takes.
        for parameter in self._small:
            parameter.grad = None
        for parameter in self._large:
            if parameter.grad is not None:
                parameter.grad.zero_()
        if not len(share):
            return 0.0, 0.0
        if self._ranks.size > 1:
            self._seed_step(index)
        nats, weight = self.objective(self.model, self._batch(self.train, share))
        sums = float(nats.item()), float(weight.item())
        if sums[1] != 0 and math.isfinite(sum(sums)):
            (nats / (sums[1] if self._by_descent else self._typical_weight)).backward()
        return sums

    def _seed_step(self, index: int) -> None:
        # Each rank's dropout depends on its number and on the step alone: then there are no states
        # of other ranks to be kept for the fit to go on from.
        place = [self.settings.seed, self._epoch, index, self._ranks.rank]
        seed = np.random.SeedSequence(place).generate_state(1, np.uint64)[0]
        self.generator.manual_seed(int(seed))

    def _set_learning_rate(self, index: int) -> None:
        factor = _FACTOR ** (-self._n_stalls) if self._by_descent else self._scheduled(index)
        self._learning_rate = self.settings.learning_rate * factor
        for group in self.optimizer.param_groups:
            group["lr"] = self._learning_rate * group["multiplier"]

    def _scheduled(self, index: int) -> float:
        # Epochs of token budgets may differ in their numbers of steps: counted as if all had this
        # one's, the fraction of the fit that is done is right at every epoch's start.
        n_steps = len(self._batches)
        return self.settings.rate_factor(
            step=self._epoch * n_steps + index, n_steps=self.settings.max_epochs * n_steps
        )

    def validation(self) -> Iterator[Sums] | None:
        """The validation groups, in batches as large as the largest training batch."""
        if self.validate_on is None:
            return None
        return self._validation_sums(self.validate_on)

    def _validation_sums(self, part: Source) -> Iterator[Sums]:
        yield from self._sums(part, part.sequential_batches(max_tokens=self._max_tokens))
        # Taken back by `keep_best`, which follows if it was the best. Not before the last part: a
        # fit stopped among the parts validates again.
        self._stalled = True

    def _sums(self, part: Source, batches: Iterable[np.ndarray]) -> Iterator[Sums]:
        self.model.eval()
        lengths = part.lengths
        for index in batches:
            share = self._ranks.share(index, lengths)
            sums = (0.0, 0.0)
            if len(share):
                with torch.inference_mode():
                    nats, weight = self.objective(self.model, self._batch(part, share))
                    sums = float(nats.item()), float(weight.item())
            nats_of_all, weight_of_all = self._ranks.sum(sums)
            yield nats_of_all, weight_of_all

    @property
    def _max_tokens(self) -> int:
        # Validation needs no gradients, so as many elements as the largest training batch has fit.
        tokens = self.settings.batch_tokens
        return tokens or self.settings.batch_size * int(self._lengths.max(initial=1))

    def _batch(self, part: Source, index: np.ndarray) -> Any:
        batch = part.pad(index)
        return batch if self.device.type == "cpu" else batch.to(self.device)

    def keep_best(self) -> None:
        """Copy the model's tensors."""
        self._stalled = False
        if not self._best:
            self._best = {name: tensor.clone() for name, tensor in self._tensors.items()}
        else:
            copy_into(self._best, self._tensors)

    def use_best(self) -> None:
        """Copy them back."""
        copy_into(self._tensors, self._best)

    def sample_nats(self) -> float:
        """Nats per unit of weight of a few batches; NaN if a parameter is not finite."""
        state = self.generator.get_state()  # later steps draw as if nothing was scored here
        batches = list(self.train.sequential_batches(max_tokens=self._max_tokens))
        # They are sorted by length: those from one end alone would be of one kind.
        spread = np.linspace(0, len(batches) - 1, _SAMPLED).round().astype(int)
        sums = list(self._sums(self.train, [batches[number] for number in np.unique(spread)]))
        self.generator.set_state(state)
        nats, weight = (sum(numbers) for numbers in zip(*sums, strict=True))
        return nats / max(weight, 1e-12) if all_finite(self._parameters) else math.nan

    def weights(self) -> dict[str, np.ndarray]:
        """The model's tensors as they are."""
        return {name: as_array(tensor) for name, tensor in self._tensors.items()}

    def state(self) -> dict[str, np.ndarray]:
        """The model's tensors, the best so far, all that later steps depend on."""
        tensors = {f"best.{name}": tensor for name, tensor in self._best.items()}
        for index, moments in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{name}": value for name, value in moments.items()}
        tensors[f"random.{self.device.type}"] = self.generator.get_state()
        if isinstance(self.objective, Carrying):
            carried = self.objective.carried().items()
            tensors |= {f"carried.{name}": tensor for name, tensor in carried}
        state = {name: as_array(tensor) for name, tensor in tensors.items()}
        if self._by_descent:
            state["stalls"] = np.array([self._n_stalls, self._stalled])
        return state | {f"model.{name}": array for name, array in self.weights().items()}

    def load_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Return to a state of the same model, copying into the tensors it has."""
        copy_into(self._tensors, unpacked(state, "model", self._tensors))
        self._best = unpacked(state, "best", self._tensors)
        if isinstance(self.objective, Carrying):
            self.objective.carry(_carried(state, like=self._parameters[0]))
        if "stalls" in state:
            self._n_stalls, self._stalled = int(state["stalls"][0]), bool(state["stalls"][1])
        moments: dict[int, dict[str, Tensor]] = {}
        for name, array in state.items():
            kind, _, rest = name.partition(".")
            if kind == "optimizer":
                index, _, moment = rest.partition(".")
                like = torch.float32 if moment == "step" else self._parameters[int(index)].dtype
                moments.setdefault(int(index), {})[moment] = as_tensor(array, like)
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": moments})
        self.generator.set_state(torch.tensor(state[f"random.{self.device.type}"]))


def _carried(state: Mapping[str, np.ndarray], *, like: Tensor) -> dict[str, Tensor]:
    return {
        name.removeprefix("carried."): as_tensor(array, like.dtype).to(like.device)
        for name, array in state.items()
        if name.startswith("carried.")
    }


def _check_size(settings: TrainingSettings, ranks: Ranks) -> None:
    name = "batch_size" if settings.batch_tokens is None else "batch_tokens"
    size = getattr(settings, name)
    if size < ranks.size:
        raise ExfamError(
            f"`{name}` must be at least the number of ranks, {ranks.size}, got {size}. It is that "
            "of all ranks together."
        )


def _total_weight(part: Source, ranks: Ranks) -> float:
    """Sum of the weights of all targets; each rank goes through its part of the groups."""
    n_groups = len(part.lengths)
    first, last = (n_groups * (ranks.rank + i) // ranks.size for i in range(2))
    return float(ranks.sum([part.total(first, last)])[0])
