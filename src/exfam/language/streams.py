"""A text in pieces that are read side by side, and the nats of a network that reads on through it.

Source: the word_language_model example of PyTorch, after Zaremba, Sutskever & Vinyals (2014).
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor, nn

from exfam.language.networks.lstm_network import LSTMNetwork, LSTMState
from exfam.training.batching import digest


@dataclass(frozen=True, eq=False)
class Streams:
    """Columns of tokens, each with the tokens before its own as inputs; a source of batches.

    Batches are rows, some moments of all columns, always in the order of the text.
    `targets` is -1 where the last column has ended.
    `opening`: whether these rows are the first ones, before which nothing was read
    """

    inputs: Int64[Tensor, "length columns"]
    targets: Int64[Tensor, "length columns"]
    opening: bool = True

    @property
    def lengths(self) -> Int64[np.ndarray, "length"]:
        n_rows, n_columns = self.inputs.shape
        return np.full(n_rows, n_columns, dtype=np.int64)

    def total(self, first: int, last: int) -> float:
        return float((self.targets[first:last] >= 0).sum())

    def epoch_batches(
        self, *, generator: np.random.Generator, batch_size: int | None, max_tokens: int | None
    ) -> Iterator[Int64[np.ndarray, "batch"]]:
        assert max_tokens is not None and batch_size is None
        return self.sequential_batches(max_tokens=max_tokens)

    def sequential_batches(self, *, max_tokens: int) -> Iterator[Int64[np.ndarray, "batch"]]:
        n_rows, n_columns = self.inputs.shape
        size = max(1, max_tokens // n_columns)
        for first in range(0, n_rows, size):
            yield np.arange(first, min(first + size, n_rows))

    def pad(self, index: Int64[np.ndarray, "batch"]) -> "Streams":
        rows = slice(int(index[0]), int(index[-1]) + 1)
        return Streams(self.inputs[rows], self.targets[rows], opening=rows.start == 0)

    def to(self, device: torch.device) -> "Streams":
        return Streams(self.inputs.to(device), self.targets.to(device), self.opening)

    def fingerprint(self) -> dict[str, str]:
        return {"text": digest([self.inputs.numpy(), self.targets.numpy()])}

    def read_at_random(self) -> AbstractContextManager[None]:
        return nullcontext()


def cut(tokens: Int64[np.ndarray, "tokens"], n_columns: int, *, start: int, whole: bool) -> Streams:
    """`n_columns` pieces of equal length; the text begins after the token `start`.

    `whole`: whether the last piece is filled up, so that no token is left out

    >>> cut(np.arange(7), 3, start=9, whole=True).targets.T.tolist()
    [[0, 1, 2], [3, 4, 5], [6, -1, -1]]
    """
    length = -(-len(tokens) // n_columns) if whole else len(tokens) // n_columns
    size = length * n_columns
    inputs = np.full(size, start, dtype=np.int64)
    inputs[1 : len(tokens)] = tokens[: min(size, len(tokens)) - 1]
    targets = np.full(size, -1, dtype=np.int64)
    targets[: len(tokens)] = tokens[:size]
    columns = [torch.tensor(row.reshape(n_columns, -1).T) for row in (inputs, targets)]
    return Streams(columns[0], columns[1])


class CarriedNats:
    """Minus the log-probabilities of rows' tokens; the state after them is that before the next.

    Gradients flow back through the rows of a step alone.
    `factors`: what those of the outputs' products are rounded to in training; None for not at all
    """

    def __init__(self, factors: torch.dtype | None = None) -> None:
        self._factors = factors
        self._state: LSTMState | None = None

    def __call__(self, model: nn.Module, rows: Streams) -> tuple[Tensor, Tensor]:
        """Nats, and of how many tokens."""
        assert isinstance(model, LSTMNetwork)
        state = self._state
        if rows.opening or state is None:
            state = model.initial_state(rows.inputs.shape[1])
        present = rows.targets >= 0
        if model.training:
            nats, after = model.nats(rows.inputs, rows.targets, state, factors=self._factors)
        else:
            log_prob, after = model.log_prob(rows.inputs, rows.targets.clamp_min(0), state)
            nats = -log_prob[present].double().sum()
        self._state = after[0].detach(), after[1].detach()
        return nats, present.sum()

    def carried(self) -> dict[str, Tensor]:
        return dict(zip(("hidden", "cell"), self._state or (), strict=bool(self._state)))

    def carry(self, tensors: Mapping[str, Tensor]) -> None:
        self._state = (tensors["hidden"], tensors["cell"]) if tensors else None
