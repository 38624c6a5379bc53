"""Ranks as torchrun starts them: gloo on CPUs, NCCL on GPUs.

torch's DistributedDataParallel divides every rank's gradients alike, where our loss is one sum over
the batch of all ranks divided by one number, and follows a module's `forward`, where an objective
may call any method. So gradients are summed here, after the backward pass, in one message that also
carries the nats, the weights and the request to stop.
"""

import atexit
import json
import os
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import safetensors.numpy
import torch
import torch.distributed
from jaxtyping import Int64
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from exfam.checks import ExfamError
from exfam.training.ranks import State, share_of


def _join(backend: str) -> None:
    """Make the default process group of the ranks that torchrun started.

    After a restart torchrun's store still holds the addresses of the processes that have ended:
    each attempt has names of its own. Its number is the same on all ranks of one machine only.
    """
    environment = os.environ
    keeps_store = environment.get("TORCHELASTIC_USE_AGENT_STORE") == str(True)
    if not keeps_store or environment.get("GROUP_WORLD_SIZE") != "1":
        torch.distributed.init_process_group(backend)
        return
    store, rank, size = next(rendezvous("env://"))
    attempt = environment.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = PrefixStore(f"attempt {attempt}", store)
    torch.distributed.init_process_group(backend, store=store, rank=rank, world_size=size)


def _leave() -> None:
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


class ManyRanks:
    """This rank of torch's default process group, whose messages are tensors on `device`.

    Raises ExfamError where another rank has ended.
    """

    def __init__(self, device: torch.device) -> None:
        if not torch.distributed.is_initialized():
            _join("nccl" if device.type == "cuda" else "gloo")
            atexit.register(_leave)
        self.rank = torch.distributed.get_rank()
        self.size = torch.distributed.get_world_size()
        self._device = device
        self._requested = self._stopped = False
        self._gradients = torch.empty(0)

    def share(
        self, index: Int64[np.ndarray, "batch"], lengths: Int64[np.ndarray, "groups"]
    ) -> Int64[np.ndarray, "share"]:
        return share_of(index, lengths, rank=self.rank, size=self.size)

    def sum(self, numbers: Sequence[float], parameters: Sequence[nn.Parameter] = ()) -> list[float]:
        """As `Ranks.sum`; a parameter has no gradient after it only if it had none on any rank."""
        has_gradient = [float(p.grad is not None) for p in parameters]
        flags = [*has_gradient, *numbers, float(self._requested)]
        sizes = [p.numel() for p in parameters]
        message = self._message(sum(sizes) + len(flags), _dtype(parameters), keep=bool(parameters))
        *sums, tail = message.split([*sizes, len(flags)])
        for part, parameter in zip(sums, parameters, strict=True):
            if parameter.grad is None:
                part.zero_()
            else:
                part.copy_(parameter.grad.reshape(-1))
        tail.copy_(torch.tensor(flags, dtype=message.dtype))
        self._send(torch.distributed.all_reduce, message)
        counts = tail.tolist()
        for part, parameter, count in zip(sums, parameters, counts, strict=False):
            if count:
                parameter.grad = part.view_as(parameter).to(parameter.dtype)
        self._stopped = counts[-1] > 0
        return counts[len(parameters) : -1]

    def gather(self, message: Tensor, sizes: Sequence[int]) -> list[Tensor]:
        largest = torch.zeros(max(sizes), dtype=message.dtype, device=self._device)
        largest[: len(message)] = message
        received = [torch.empty_like(largest) for _ in sizes]
        self._send(partial(torch.distributed.all_gather, received), largest)
        return [part[:size] for part, size in zip(received, sizes, strict=True)]

    def _message(self, size: int, dtype: torch.dtype, *, keep: bool) -> Tensor:
        # Gradients have the size of the model: no new memory for those of every step.
        if not keep:
            return torch.empty(size, dtype=dtype, device=self._device)
        if (self._gradients.numel(), self._gradients.dtype) != (size, dtype):
            self._gradients = torch.empty(size, dtype=dtype, device=self._device)
        return self._gradients

    def stops(self, requested: bool) -> bool:
        self._requested = requested
        return self._stopped

    def from_main(self, produce: Callable[[], State | None]) -> State | None:
        state = produce() if self.rank == 0 else None
        content = b"" if state is None else _packed(state)
        size = torch.tensor([len(content)], device=self._device)
        self._send(torch.distributed.broadcast, size, src=0)
        if not size.item():
            return None
        message = torch.empty(int(size.item()), dtype=torch.uint8, device=self._device)
        if self.rank == 0:
            message.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
        self._send(torch.distributed.broadcast, message, src=0)
        return _unpacked(message.cpu().numpy().tobytes()) if state is None else state

    def _send(self, message: Callable, tensor: Tensor, **to: int) -> None:
        try:
            message(tensor, **to)
        except RuntimeError as error:
            raise ExfamError(
                f"All {self.size} ranks must stay until the fit ends, got one that has left it "
                f"(seen by rank {self.rank}). See what the others say, and start all ranks again."
            ) from error


def _dtype(parameters: Sequence[nn.Parameter]) -> torch.dtype:
    if not parameters:
        return torch.float64
    dtype = torch.float32  # at least: the sum of bfloat16 gradients is rounded once
    for parameter in parameters:
        dtype = torch.promote_types(dtype, parameter.dtype)
    return dtype


def _packed(state: State) -> bytes:
    arrays, facts = state
    header = json.dumps(facts).encode()
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    return len(header).to_bytes(8, "little") + header + safetensors.numpy.save(whole)


def _unpacked(content: bytes) -> State:
    start = 8 + int.from_bytes(content[:8], "little")
    return safetensors.numpy.load(content[start:]), json.loads(content[8:start])
