"""Tensors as arrays, which checkpoints hold, and back."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor


def as_array(tensor: Tensor) -> np.ndarray:
    """A tensor's numbers, in its own memory where that is possible."""
    tensor = tensor.detach().cpu()
    # NumPy has no bfloat16: its bits travel as integers.
    return (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy()


def as_tensor(array: np.ndarray, dtype: torch.dtype) -> Tensor:
    """The tensor that was the array, of the dtype that it had."""
    # A copy: results may depend on alignment, and only torch's own memory is aligned as torch does.
    tensor = torch.tensor(array)
    return tensor.view(dtype) if dtype == torch.bfloat16 else tensor


def tensors_like(arrays: Mapping[str, np.ndarray], like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors that were arrays, with the dtypes and devices of others of their names."""
    return {
        name: as_tensor(array, like[name].dtype).to(like[name].device)
        for name, array in arrays.items()
    }


def copy_into(tensors: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    """Copy values into tensors of the same names."""
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(values[name])
