"""The encoding that turns queries and keys."""

import torch
from jaxtyping import Float
from torch import Tensor

from exfam.checks import ExfamError
from exfam.encodings.base import Encoding, Position, angles


class Rotary(Encoding):
    """Rotary embedding: pairs of coordinates turn with the position, at falling speeds.

    Scores depend on position differences only; positions may be real numbers.
    Source: Su et al. (2021), RoFormer.

    >>> q = torch.ones(1, 1, 2, 4)
    >>> Rotary(4).rotate(q, torch.tensor([[0, 1]]))[0, 0, 0].tolist()
    [1.0, 1.0, 1.0, 1.0]
    """

    rotates = True
    separable = False
    speed: Tensor

    def __init__(self, head_dim: int, *, base: float = 10_000.0) -> None:
        super().__init__()
        if head_dim % 2:
            raise ExfamError(f"`head_dim` must be even for rotary encoding, got {head_dim}.")
        self.head_dim = head_dim
        exponent = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
        self.register_buffer("speed", (base**-exponent).float(), persistent=False)

    def rotate(
        self, x: Float[Tensor, "batch heads length head"], position: Position
    ) -> Float[Tensor, "batch heads length head"]:
        if position.ndim != 2:
            raise ExfamError(
                "`position` must be one number an element for encoding='rotary', got vectors of "
                f"{position.shape[-1]}. Use encoding='distance' for places."
            )
        angle = angles(position, self.speed)[:, None]
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
