"""Named tensors as arrays that a checkpoint can hold, and back."""

import math
from collections.abc import Iterable, Mapping

import numpy as np
import torch
from torch import Tensor

__all__ = ["all_finite", "as_array", "as_tensor", "copy_into", "unpacked"]


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
