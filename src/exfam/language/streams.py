"""A text cut into pieces that are read side by side."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

__all__ = ["Streams", "cut"]


@dataclass(frozen=True, eq=False)
class Streams:
    """Columns of tokens, each with the tokens before its own as inputs.

    `targets` is -1 where the last column has ended.
    """

    inputs: Int64[Tensor, "length columns"]
    targets: Int64[Tensor, "length columns"]

    def rows(self, first: int, last: int) -> "Streams":
        """Some moments of all columns."""
        return Streams(self.inputs[first:last], self.targets[first:last])

    def to(self, device: torch.device) -> "Streams":
        """The same on another device."""
        return Streams(self.inputs.to(device), self.targets.to(device))

    def __len__(self) -> int:
        return len(self.inputs)


def cut(tokens: Int64[np.ndarray, "tokens"], n_columns: int, *, start: int, whole: bool) -> Streams:
    """`n_columns` pieces of equal length; the text begins after the token `start`.

    `whole`: whether the last piece is filled up, so that no token is left out

    >>> cut(np.arange(7), 3, start=9, whole=False).inputs.T.tolist()
    [[9, 0], [1, 2], [3, 4]]
    >>> cut(np.arange(7), 3, start=9, whole=True).targets.T.tolist()
    [[0, 1, 2], [3, 4, 5], [6, -1, -1]]
    """
    length = -(-len(tokens) // n_columns) if whole else len(tokens) // n_columns
    size = length * n_columns
    inputs = np.full(size, start, dtype=np.int64)
    inputs[1 : len(tokens)] = tokens[: min(size, len(tokens)) - 1]
    targets = np.full(size, -1, dtype=np.int64)
    targets[: len(tokens)] = tokens[:size]
    return Streams(*(torch.tensor(each.reshape(n_columns, -1).T) for each in (inputs, targets)))
