"""Steps of a torch module on random batches of whole groups: the engine of a `Run`."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor, nn

from exfam.checks import ExfamError
from exfam.embeddings import LARGE_PARAMETER
from exfam.training.ahead import StepsAhead
from exfam.training.batching import Source
from exfam.training.optimizer import Descent, TrainingSettings, clip_gradients, make_optimizer
from exfam.training.protocol import Sums
from exfam.training.ranks import ONE_PROCESS, Ranks
from exfam.training.rows import RowTables
from exfam.training.tensors import as_array, as_tensor, copy_into, tensors_like

# Sum of the batch's nats (to minimize) and the sum of the weights they were summed with.
Objective = Callable[[Any, Any], tuple[Tensor, Tensor]]

# Batches of training data that show whether a fit diverged.
_SAMPLED = 4
_FACTOR = 4.0  # divides Descent's rate when validation does not improve
# Steps in which a descending schedule reaches its rate: it does not know how long it will be.
_WARMUP_STEPS = 50


@runtime_checkable
class Carrying(Protocol):
    """An objective that goes on where the last step stopped."""

    def carried(self) -> dict[str, Tensor]:
        """What the next step goes on from."""

    def carry(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `carried` returned."""


class TorchEngine:
    """Steps on random batches of whole groups: the engine of a `Run`.

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
        name = "batch_size" if settings.batch_tokens is None else "batch_tokens"
        if (size := getattr(settings, name)) < ranks.size:
            raise ExfamError(
                f"`{name}` must be at least the number of ranks, {ranks.size}, got {size}. It is "
                "that of all ranks together."
            )
        self.model, self.objective, self.settings = model, objective, settings
        self.train, self.validate_on = train, validation
        self.optimizer = make_optimizer(model, settings)
        self.rows = RowTables(model, self.optimizer, n_ranks=ranks.size)
        self.device = next(model.parameters()).device
        self.generator = torch.Generator(self.device).manual_seed(int(settings.seed))
        self.learning_rate = 0.0  # of the last step taken, before multipliers
        self._ranks = ranks
        alone_on_gpu = self.device.type == "cuda" and ranks.size == 1
        self._ahead = StepsAhead(self.optimizer, clip=settings.clip) if alone_on_gpu else None
        self._parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        self._small = [p for p in self._parameters if p.numel() < LARGE_PARAMETER]
        self._large = [p for p in self._parameters if p.numel() >= LARGE_PARAMETER]
        self._best: dict[str, Tensor] = {}
        self._lengths = train.lengths
        self._batches: list[np.ndarray] = []
        self._epoch = 0
        # Each rank goes through its part of the groups.
        n_groups = len(self._lengths)
        first, last = (n_groups * (ranks.rank + i) // ranks.size for i in range(2))
        self._total_weight = float(ranks.sum([train.total(first, last)])[0])
        self._typical_weight = 1.0
        self._by_descent = settings.optimizer == "descent"
        self._descent = Descent() if settings.schedule == "descending" else None
        # Nats that the next validation must beat by enough, and those of the last one.
        self._mark, self._last = math.inf, math.nan
        # Validations that were no better than the best before, and whether the last one was.
        self._n_stalls, self._stalled = 0, False

    @property
    def _tensors(self) -> dict[str, Tensor]:
        """The model's, in the memory they have now: a GPU moves those of an LSTM."""
        return self.model.state_dict()

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
        self.rows.begin_epoch(epoch)
        self._n_stalls, self._stalled = self._n_stalls + self._stalled, False
        self._descend()
        self.model.train()
        return len(self._batches)

    def _descend(self) -> None:
        """Go on to the next stage of the schedule, if one has ended."""
        descent, nats = self._descent, self._last
        if descent is None:
            return
        if not math.isnan(nats):
            gain = self._mark - nats
            self._mark = nats if gain > descent.LEAST_GAIN else self._mark
            self._last = math.nan
            if descent.after(gain=gain) and self._best:
                self.use_best()
        # Also in an epoch that is taken up again in its middle.
        for group in self.optimizer.param_groups:
            group["weight_decay"] = descent.decay * group["own_decay"]

    def is_over(self) -> bool:
        """Whether the schedule ends with the last validation."""
        if self._descent is None or math.isnan(self._last):
            return False
        following = replace(self._descent)
        following.after(gain=self._mark - self._last)
        return following.is_over

    def step(self, index: int) -> Sums:
        """One step on the epoch's batch `index`; none if the batch weighs nothing."""
        if self._ahead is not None:
            return self._step_ahead(index, self._ahead)
        share = self._ranks.share(self._batches[index], self._lengths)
        own = self._add_gradients(share, index)
        sums = [*own, *self.rows.collect(self._ranks)]
        nats, weight, *counts = self._ranks.sum(sums, self._parameters)
        if weight == 0 or not math.isfinite(nats + weight):
            return nats, weight
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        gradients += self.rows.gradients(self._ranks, counts)
        if not math.isfinite(clip_gradients(gradients, self.settings.clip)):
            return math.nan, weight
        if not self._set_learning_rate(index):
            return math.nan, weight
        self.optimizer.step()
        self.rows.step()
        return nats, weight

    def _step_ahead(self, index: int, ahead: StepsAhead) -> Sums:
        for parameter in self._parameters:
            parameter.grad = None
        batch = self._batch(self.train, self._batches[index])
        nats, weight = self.objective(self.model, batch)
        if not self._set_learning_rate(index):
            return math.nan, 1.0
        unit = None if self._by_descent else self._typical_weight
        return ahead.take(nats, weight, self._parameters, unit=unit)

    def outstanding(self) -> Sums:
        """Of the step that a GPU may still be at."""
        return (0.0, 0.0) if self._ahead is None else self._ahead.outstanding()

    def _add_gradients(self, share: Int64[np.ndarray, "share"], index: int) -> Sums:
        """Nats and weight of these groups, their gradients in place of the last step's."""
        self.rows.clear()
        # What zero_grad does, without the tenth of a millisecond that its bookkeeping takes.
        for parameter in self._small:
            parameter.grad = None
        for parameter in self._large:
            if parameter.grad is not None:
                parameter.grad.zero_()
        if not len(share):
            return 0.0, 0.0
        if self._ranks.size > 1:
            # Each rank's dropout depends on its number and on the step alone: then there are no
            # states of other ranks to be kept for the fit to go on from.
            position = [self.settings.seed, self._epoch, index, self._ranks.rank]
            seed = np.random.SeedSequence(position).generate_state(1, np.uint64)[0]
            self.generator.manual_seed(int(seed))
        nats, weight = self.objective(self.model, self._batch(self.train, share))
        sums = _both(nats, weight)
        if sums[1] != 0 and math.isfinite(sum(sums)):
            (nats / (sums[1] if self._by_descent else self._typical_weight)).backward()
        return sums

    def _set_learning_rate(self, index: int) -> bool:
        """The rate of the epoch's step `index`; False if it is none."""
        # Epochs of token budgets may differ in their numbers of steps: counted as if all had this
        # one's, the fraction of the fit that is done is right at every epoch's start.
        n_steps = len(self._batches)
        step, total = self._epoch * n_steps + index, self.settings.max_epochs * n_steps
        factor = (
            _FACTOR ** (-self._n_stalls)
            if self._by_descent
            else self.settings.rate_factor(step=step, n_steps=total)
        )
        if self._descent is not None:
            # In the last half of all epochs, if there are so many, down to 0 in any case.
            factor = min(1.0, (step + 1) / _WARMUP_STEPS, 2 * (1 - step / total))
            factor *= self._descent.rate
        self.learning_rate = self.settings.learning_rate * factor
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate * group["multiplier"]
        return self.learning_rate <= torch.finfo(torch.float32).max

    def validation(self) -> Iterator[Sums] | None:
        """The validation groups, in batches as large as the largest training batch."""
        return None if self.validate_on is None else self._validation_sums(self.validate_on)

    def _validation_sums(self, part: Source) -> Iterator[Sums]:
        total = total_weight = 0.0
        for nats, weight in self._sums(part, part.sequential_batches(max_tokens=self._max_tokens)):
            total, total_weight = total + nats, total_weight + weight
            yield nats, weight
        self._last = total / max(total_weight, 1e-12)
        # Taken back by `keep_best`, which follows if it was the best. Not before the last part: a
        # fit stopped among the parts validates again.
        self._stalled = True

    def _sums(self, part: Source, batches: Iterable[np.ndarray]) -> Iterator[Sums]:
        self.model.eval()
        self.rows.flush()
        lengths = part.lengths
        for index in batches:
            share = self._ranks.share(index, lengths)
            sums = (0.0, 0.0)
            if len(share):
                with torch.inference_mode():
                    nats, weight = self.objective(self.model, self._batch(part, share))
                    sums = _both(nats, weight)
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
        self.rows.flush()
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
        parameters = [*self._parameters, *self.rows.parameters]
        with torch.no_grad():
            # The ends take no memory of the tensors' size.
            ends = [torch.aminmax(tensor) for tensor in parameters if tensor.numel()]
            finite = all(math.isfinite(float(end)) for pair in ends for end in pair)
        return nats / max(weight, 1e-12) if finite else math.nan

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
        state |= {f"rows.{name}": array for name, array in self.rows.state().items()}
        if self._by_descent:
            state["stalls"] = np.array([self._n_stalls, self._stalled])
        if self._descent is not None:
            state["descent"] = np.array([*astuple(self._descent), self._mark, self._last])
        return state | {f"model.{name}": array for name, array in self.weights().items()}

    def load_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Return to a state of the same model, copying into the tensors it has."""
        kinds: dict[str, dict[str, np.ndarray]] = {}
        for name, array in state.items():
            kind, _, rest = name.partition(".")
            kinds.setdefault(kind, {})[rest] = array
        copy_into(self._tensors, tensors_like(kinds["model"], self._tensors))
        self._best = tensors_like(kinds.get("best", {}), self._tensors)
        if isinstance(self.objective, Carrying):
            carried = kinds.get("carried", {})
            self.objective.carry(tensors_like(carried, dict.fromkeys(carried, self._parameters[0])))
        if "stalls" in state:
            self._n_stalls, self._stalled = int(state["stalls"][0]), bool(state["stalls"][1])
        if "descent" in state and self._descent is not None:
            *levels, self._mark, self._last = state["descent"].tolist()
            self._descent = Descent(*map(int, levels))
        self.rows.load_state(kinds.get("rows", {}))
        moments: dict[int, dict[str, Tensor]] = {}
        for name, array in kinds.get("optimizer", {}).items():
            index, _, moment = name.partition(".")
            dtype = torch.float32 if moment == "step" else self._parameters[int(index)].dtype
            moments.setdefault(int(index), {})[moment] = as_tensor(array, dtype)
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": moments})
        self.generator.set_state(torch.tensor(state[f"random.{self.device.type}"]))


def _both(nats: Tensor, weight: Tensor) -> Sums:
    """Two numbers of a device, for which it is waited once."""
    both = torch.stack([nats.detach().double(), weight.to(nats.device).double()]).tolist()
    return both[0], both[1]
