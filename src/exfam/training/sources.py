"""What a fit learns from: rows that come in batches, whatever they are rows of."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int64

from exfam.groups import TARGET, Batch, Groups
from exfam.training.batching import epoch_batches, sequential_batches
from exfam.training.fingerprint import digest, groups_digest
from exfam.training.windows import read_at_random

__all__ = ["Source", "Weighted"]


@runtime_checkable
class Source(Protocol):
    """Data that a model is trained on, or validated on: groups, rows of a table, …"""

    @property
    def lengths(self) -> Int64[np.ndarray, "groups"]:
        """Number of elements of every group: what the cost of a batch depends on."""

    def total(self, first: int, last: int) -> float:
        """Sum of the weights of the targets of groups `first` to `last`, the latter excluded."""

    def epoch_batches(
        self, *, generator: np.random.Generator, batch_size: int | None, max_tokens: int | None
    ) -> Iterator[np.ndarray]:
        """Every group once, in random batches; exactly one of the two sizes is given."""

    def sequential_batches(self, *, max_tokens: int) -> Iterator[np.ndarray]:
        """Every group once, always in the same batches."""

    def pad(self, index: Int64[np.ndarray, "batch"]) -> Any:
        """The groups at `index` as the tensors that the objective takes; they have a `to`."""

    def fingerprint(self) -> dict[str, str]:
        """Short texts that differ where what training sees of the data does."""

    def read_at_random(self) -> AbstractContextManager[None]:
        """Within it, groups are read here and there rather than one after the other."""


@dataclass(frozen=True, eq=False)
class Weighted:
    """Groups, and one weight for every row of their flat columns (None: all weigh 1)."""

    groups: Groups
    weight: Float[np.ndarray, "elements"] | None = None

    @property
    def lengths(self) -> Int64[np.ndarray, "groups"]:
        """Number of own elements of every group."""
        return self.groups.lengths

    def pad(self, index: Int64[np.ndarray, "batch"]) -> Batch:
        """The groups at `index` side by side, with their weights."""
        return self.groups.pad(index, weight=self.weight)

    def total(self, first: int, last: int) -> float:
        """Sum of the weights of the targets of groups `first` to `last`, the latter excluded.

        >>> Weighted(Groups(start=[0], stop=[2]), np.array([0.5, 2.0])).total(0, 1)
        2.5
        """
        groups = self.groups[first:last]
        if self.weight is None:
            return float(groups.n_targets)
        total = 0.0
        for chunk in groups.chunks():
            own = chunk.elements()
            own = own if chunk.role is None else own[chunk.role[own] == TARGET]
            total += float(self.weight[own].sum())
        return total

    def epoch_batches(
        self, *, generator: np.random.Generator, batch_size: int | None, max_tokens: int | None
    ) -> Iterator[np.ndarray]:
        """Random batches of groups of like length."""
        return epoch_batches(
            self.groups, generator=generator, batch_size=batch_size, max_tokens=max_tokens
        )

    def sequential_batches(self, *, max_tokens: int) -> Iterator[np.ndarray]:
        """Every group once, by length."""
        return sequential_batches(self.groups, max_tokens=max_tokens)

    def fingerprint(self) -> dict[str, str]:
        """Digests of all that training sees of the groups, and of the weights."""
        return {"groups": groups_digest(self.groups), "weights": digest([self.weight])}

    def read_at_random(self) -> AbstractContextManager[None]:
        """The system reads no more of mapped files than what is asked for."""
        return read_at_random(self.groups)
