"""The engine of a language model's fit: plain gradient descent, the state carried along the text.

Source: the word_language_model example of PyTorch, after Zaremba, Sutskever & Vinyals (2014).
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from exfam.checks import ExfamError
from exfam.language.networks.lstm import LSTMNetwork, State
from exfam.language.streams import Streams, cut
from exfam.training.engine import all_finite, as_array, as_tensor, copy_into, unpacked
from exfam.training.optimizer import clip_gradients
from exfam.training.protocol import Sums

__all__ = ["Descent", "LanguageEngine"]

# The rate is divided by this when validation does not improve.
_FACTOR = 4.0
# Pieces that a validation text is read in, side by side, at most; and their tokens, at least: the
# first of each are told without what comes before them.
_VALIDATION_COLUMNS, _VALIDATION_LENGTH = 10, 1000


@dataclass(frozen=True)
class Descent:
    """How steps are taken.

    `batch_size`: pieces of the text that are read side by side
    `bptt`: tokens of each that a step reads, and gradients flow back through
    `clip`: largest norm of the gradient of the mean nats; None for no limit
    `factors`: what those of the outputs' products are rounded to in steps; None for not at all
    """

    batch_size: int
    bptt: int
    learning_rate: float
    clip: float | None
    factors: torch.dtype | None = None


class LanguageEngine:
    """What a `Run` asks of an engine: each step reads on where the last one stopped.

    `start`: the token that texts begin after. Raises ExfamError if the training text has fewer
    tokens than pieces.
    """

    def __init__(
        self,
        model: LSTMNetwork,
        *,
        train: Int64[np.ndarray, "tokens"],
        validation: Int64[np.ndarray, "more"] | None,
        start: int,
        descent: Descent,
        seed: int,
    ) -> None:
        if len(train) < descent.batch_size:
            raise ExfamError(
                f"`batch_size` must be at most the number of tokens, {len(train)}, got "
                f"{descent.batch_size}. Give more text, or a smaller `batch_size`."
            )
        self.model, self._descent = model, descent
        self._parameters = dict(model.named_parameters())
        device = model.bias.device
        self.generator = torch.Generator(device).manual_seed(seed)
        self._train = cut(train, descent.batch_size, start=start, whole=False).to(device)
        self._validate_on = None
        if validation is not None:
            columns = max(1, min(_VALIDATION_COLUMNS, len(validation) // _VALIDATION_LENGTH))
            self._validate_on = cut(validation, columns, start=start, whole=True).to(device)
        self._state = model.initial_state(descent.batch_size)
        self._best: dict[str, Tensor] = {}
        self._rate = descent.learning_rate
        self._stalled = False

    @property
    def learning_rate(self) -> float:
        """Of the last step taken."""
        return self._rate

    def begin_epoch(self, epoch: int) -> int:
        """Lower the rate if the last validation was no better; how many steps there are."""
        if self._stalled:
            self._rate /= _FACTOR
            self._stalled = False
        self.model.train()
        return math.ceil(len(self._train) / self._descent.bptt)

    def step(self, index: int) -> Sums:
        """One step on the next tokens; if the nats are not finite, the parameters stay."""
        if index == 0:
            self._state = self.model.initial_state(self._descent.batch_size)
        first = index * self._descent.bptt
        part = self._train.rows(first, first + self._descent.bptt)
        for parameter in self._parameters.values():
            parameter.grad = None
        nats, self._state = _nats(self.model, part, self._state, self._descent.factors)
        weight = float(part.targets.numel())
        told = float(nats.item())
        if not math.isfinite(told):
            return told, weight
        (nats / weight).backward()
        gradients = [p.grad for p in self._parameters.values() if p.grad is not None]
        norm = clip_gradients(gradients, self._descent.clip)
        if not math.isfinite(norm) or self._rate > torch.finfo(torch.float32).max:
            return math.nan, weight
        with torch.no_grad():
            for parameter in self._parameters.values():
                if parameter.grad is not None:
                    parameter.sub_(parameter.grad, alpha=self._rate)
        return told, weight

    def validation(self) -> Iterator[Sums] | None:
        """The validation text, in pieces side by side, all of its tokens."""
        return None if self._validate_on is None else self._validation_sums(self._validate_on)

    def _validation_sums(self, streams: Streams) -> Iterator[Sums]:
        self.model.eval()
        columns = streams.inputs.shape[1]
        length = max(1, self._descent.bptt * self._descent.batch_size // columns)
        state = self.model.initial_state(columns)
        for first in range(0, len(streams), length):
            part = streams.rows(first, first + length)
            with torch.inference_mode():
                known = part.targets >= 0
                told, state = self.model.log_prob(part.inputs, part.targets.clamp_min(0), state)
                nats = -float(told[known].double().sum().item())
            yield nats, float(known.sum().item())
        # Taken back by `keep_best`, which follows if it was the best. Not before the last part: a
        # fit stopped among the parts validates again.
        self._stalled = True

    def keep_best(self) -> None:
        """Copy the parameters."""
        self._stalled = False
        if not self._best:
            self._best = {name: p.detach().clone() for name, p in self._parameters.items()}
        else:
            copy_into(self._best, self._parameters)

    def use_best(self) -> None:
        """Copy them back."""
        copy_into(self._parameters, self._best)

    def sample_nats(self) -> float:
        """0, since no text is scored; NaN if a parameter is not finite."""
        return 0.0 if all_finite(self._parameters.values()) else math.nan

    def state(self) -> dict[str, np.ndarray]:
        """Parameters, the best so far, the state carried along, the rate, the generator's state."""
        tensors: dict[str, Tensor] = {f"model.{name}": p for name, p in self._parameters.items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self._best.items()}
        tensors |= {"carried.hidden": self._state[0], "carried.cell": self._state[1]}
        tensors[f"random.{self.generator.device.type}"] = self.generator.get_state()
        told = {"rate": np.array([self._rate, float(self._stalled)])}
        return told | {name: as_array(tensor) for name, tensor in tensors.items()}

    def load_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Return to a state of the same model, copying into the tensors it has."""
        copy_into(self._parameters, unpacked(state, "model", self._parameters))
        self._best = unpacked(state, "best", self._parameters)
        self._state = self._carried(state)
        self._rate, stalled = (float(number) for number in state["rate"])
        self._stalled = bool(stalled)
        self.generator.set_state(torch.tensor(state[f"random.{self.generator.device.type}"]))

    def _carried(self, state: Mapping[str, np.ndarray]) -> State:
        like = self.model.bias
        hidden, cell = (
            as_tensor(state[f"carried.{name}"], like.dtype).to(like.device)
            for name in ("hidden", "cell")
        )
        return hidden, cell


def _nats(
    model: LSTMNetwork, part: Streams, state: State, factors: torch.dtype | None
) -> tuple[Tensor, State]:
    """Nats of a step, and the state after it, without the way it came about."""
    nats, (hidden, cell) = model.nats(part.inputs, part.targets, state, factors=factors)
    return nats, (hidden.detach(), cell.detach())
