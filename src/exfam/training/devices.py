"""Where a fit computes."""

from typing import Any

import torch

from exfam.checks import ExfamError
from exfam.training.ranks import Place, place_in_world

__all__ = ["choose_device", "multiplies_bfloat16"]


def choose_device(name: Any) -> torch.device:
    """The device of that name; "auto" is CUDA where there is one, else the CPU.

    Under torchrun, "cuda" is the GPU of the rank's number on its machine.
    Raises ExfamError for a device that torch does not know or this machine does not have, or if
    the ranks of a machine are more than its GPUs.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    place = place_in_world()
    if place.size > 1 and str(name).startswith("cuda"):
        name = _own_gpu(name, place)
    try:
        device = torch.empty(0, device=name).device
        torch.Generator(device)  # "meta" has none, and holds no numbers
        return device
    except (AssertionError, RuntimeError, TypeError) as error:
        raise ExfamError(
            f"`device` must be one that torch finds on this machine, got {name!r}. Use 'cpu'."
        ) from error


def multiplies_bfloat16() -> bool:
    """Whether this machine's processor has instructions for products of bfloat16.

    >>> isinstance(multiplies_bfloat16(), bool)
    True
    """
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name, False) for name in ("avx512_bf16", "amx_bf16", "sve_bf16"))


def _own_gpu(name: str, place: Place) -> str:
    if name != "cuda":
        raise ExfamError(
            f"`device` must be 'cpu', 'cuda' or 'auto' with several ranks, got {name!r}. With "
            "'cuda' each rank takes the GPU of its own number."
        )
    n_gpus = torch.cuda.device_count()
    if place.local_size > n_gpus:
        raise ExfamError(
            f"`device` must have a GPU for each of the {place.local_size} ranks of a machine, got "
            f"'cuda' and {n_gpus}. Start fewer ranks, or use device='cpu'."
        )
    return f"cuda:{place.local_rank}"
