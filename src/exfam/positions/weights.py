"""Attention weights as they must be, and how they become so."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from exfam.checks import DataError

# Rows of half precision miss 1 by up to this much.
_TOLERANCE = 5e-3


def check_weights(weights: Any) -> None:
    """Raise unless these are tensors of square matrices whose rows are probabilities, or zeros.

    Raises DataError, naming the index, for what is no tensor, for matrices that are not square, for
    weights that are NaN, infinite or negative, and for rows that sum neither to 1 (within .005) nor
    to 0.

    >>> check_weights(torch.eye(3))
    """
    if not isinstance(weights, Tensor):
        raise DataError(
            f"`weights` must be a torch tensor, got {type(weights).__name__}. Use "
            "torch.as_tensor(weights)."
        )
    if weights.ndim < 2 or weights.shape[-1] != weights.shape[-2] or not weights.numel():
        raise DataError(
            "`weights` must be square matrices, a row and a column a position, got shape "
            f"{tuple(weights.shape)}. Leave out columns of null tokens, then `renormalized`."
        )
    # Two passes find whether anything is wrong; what it is takes more of them.
    total = weights.sum(-1, dtype=torch.promote_types(weights.dtype, torch.float32))
    wrong = ~((total - 1).abs() <= _TOLERANCE) & (total != 0)
    if weights.amin() >= 0 and not wrong.any():
        return
    _refuse(~weights.isfinite(), weights, "finite numbers")
    _refuse(weights < 0, weights, "numbers >= 0", "These may be scores: take their softmax.")
    _refuse(
        wrong,
        total,
        "rows that sum to 1 or are zeros",
        "Use `renormalized` where columns were left out.",
    )


def _refuse(wrong: Tensor, numbers: Tensor, rule: str, advice: str = "") -> None:
    if bool(wrong.any()):
        index = tuple(wrong.nonzero()[0].tolist())
        raise DataError(
            f"`weights` must be {rule}, got {numbers[index].item():g} at {list(index)} "
            f"({int(wrong.sum())} of {wrong.numel()}). {advice}".rstrip()
        )


def renormalized(weights: Float[Tensor, "*rows key"]) -> Float[Tensor, "*rows key"]:
    """Each row divided by its sum; a row of zeros stays.

    >>> renormalized(torch.tensor([[1.0, 3.0], [0.0, 0.0]])).tolist()
    [[0.25, 0.75], [0.0, 0.0]]
    """
    total = weights.sum(-1, keepdim=True)
    return weights / torch.where(total == 0, 1.0, total)
