"""The processes that train one model together, seen from one of them. Nothing here knows torch.

`torchrun` starts the same program several times and gives each its number, its rank. All ranks draw
the same batches from the same seed, take their shares of each, and add up what they computed.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int64

from exfam.checks import ExfamError

if TYPE_CHECKING:
    import torch

# Named arrays, and facts as plain JSON: what a checkpoint holds.
State = tuple[dict[str, np.ndarray], dict[str, Any]]


@runtime_checkable
class Ranks(Protocol):
    """What a run and its engine ask of the ranks they are one of."""

    @property
    def rank(self) -> int:
        """The number of this one; 0 is the main rank, which shows progress and writes files."""

    @property
    def size(self) -> int:
        """How many there are."""

    def share(
        self, index: Int64[np.ndarray, "batch"], lengths: Int64[np.ndarray, "groups"]
    ) -> Int64[np.ndarray, "share"]:
        """This rank's groups of a batch that all ranks know; `lengths` are those of all groups."""

    def sum(self, numbers: Sequence[float], parameters: Sequence[Any] = ()) -> Sequence[float]:
        """Each number summed over the ranks, and so, in place, the gradients of `parameters`."""

    def gather(self, message: "torch.Tensor", sizes: Sequence[int]) -> "list[torch.Tensor]":
        """The messages of all ranks, in order; `sizes` are their numbers of bytes."""

    def stops(self, requested: bool) -> bool:
        """Whether all ranks stop now; one's request is known to all after their next `sum`."""

    def from_main(self, produce: Callable[[], State | None]) -> State | None:
        """What `produce` returns on the main rank; it is called there only."""


@dataclass(frozen=True)
class OneProcess:
    """All ranks there are: nothing to share, to sum or to send."""

    rank: int = 0
    size: int = 1

    def share(
        self, index: Int64[np.ndarray, "batch"], lengths: Int64[np.ndarray, "groups"]
    ) -> Int64[np.ndarray, "batch"]:
        return index

    def sum(self, numbers: Sequence[float], parameters: Sequence[Any] = ()) -> Sequence[float]:
        return numbers

    def gather(self, message: "torch.Tensor", sizes: Sequence[int]) -> "list[torch.Tensor]":
        return [message]

    def stops(self, requested: bool) -> bool:
        return requested

    def from_main(self, produce: Callable[[], State | None]) -> State | None:
        return produce()


ONE_PROCESS = OneProcess()


def join_ranks(device: "torch.device") -> Ranks:
    """The ranks that torchrun started this process among, or the one process that it is.

    The first call waits for all ranks to make theirs; they part when their programs end.
    """
    if place_in_world().size == 1:
        return ONE_PROCESS
    from exfam.training.distributed import ManyRanks

    return ManyRanks(device)


def share_of(
    index: Int64[np.ndarray, "batch"],
    lengths: Int64[np.ndarray, "groups"],
    *,
    rank: int,
    size: int,
) -> Int64[np.ndarray, "share"]:
    """The groups of a batch that are dealt to `rank`, from the longest to the shortest.

    They are dealt to and fro, 0 1 2 2 1 0 0 1 …, so the shares' sums of lengths differ by no more
    than the longest group, and their numbers of groups by no more than one.
    """
    order = np.argsort(-lengths[index], kind="stable")
    turn = np.arange(len(order)) % (2 * size)
    return index[order[np.minimum(turn, 2 * size - 1 - turn) == rank]]


@dataclass(frozen=True)
class Place:
    """Where a process stands: among all ranks, and among those of its machine."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1


def place_in_world(environment: Mapping[str, str] | None = None) -> Place:
    """The place that torchrun's variables give; the only process where WORLD_SIZE is not above 1.

    `environment`: that of the process if None (default None)
    Raises ExfamError if WORLD_SIZE counts several ranks and RANK does not say which one.
    """
    variables = os.environ if environment is None else environment
    size = variables.get("WORLD_SIZE", "1")
    if size == "1":
        return Place()
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    numbers = [variables.get(name, "") for name in names]
    if not all(number.isdecimal() for number in numbers):
        got = ", ".join(f"{name}={variables.get(name)!r}" for name in names)
        raise ExfamError(
            f"`RANK` and the like must be numbers where WORLD_SIZE is not 1, got {got}. "
            "Start the program with torchrun, or unset WORLD_SIZE."
        )
    return Place(*map(int, numbers))


def is_main_rank() -> bool:
    """Whether this process is the one that writes files: the only one, or rank 0 under torchrun."""
    return place_in_world().rank == 0


def check_agreement(ranks: Ranks, own: Mapping[str, str]) -> None:
    """Raise ExfamError, on every rank, unless all ranks have the same facts as the main one."""
    main = ranks.from_main(lambda: ({}, dict(own)))
    facts = {} if main is None else main[1]
    others = ranks.sum([float(facts.get(name) != text) for name, text in own.items()])
    for name, count in zip(own, others, strict=True):
        if count:
            raise ExfamError(
                f"`{name}` must be the same on all ranks, got {int(count)} of {ranks.size} that "
                "differ from the first. Give all ranks the same data, parameters and seed."
            )
