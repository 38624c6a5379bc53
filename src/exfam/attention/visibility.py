"""Who may attend to whom: all others or earlier ones, never the hidden center itself."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from exfam.checks import check_choice


@dataclass(frozen=True)
class Visibility:
    """Who may attend to whom.

    `direction`: "bidirectional" (all others) or "causal" (earlier ones).
    `sees_mask`: whether a hidden center is itself a key, as a MASK token, as in the paper.

    >>> Visibility("causal").context(torch.ones(1, 2, dtype=torch.bool)).int().tolist()
    [[[0, 0], [1, 0]]]
    """

    direction: str = "bidirectional"
    sees_mask: bool = False

    def __post_init__(self) -> None:
        check_choice("direction", self.direction, ["bidirectional", "causal"])

    @property
    def causal(self) -> bool:
        """Whether the future is hidden."""
        return self.direction == "causal"

    def context(self, present: Bool[Tensor, "batch key"]) -> Bool[Tensor, "batch query key"]:
        """True where a center may see an element of its context (never itself)."""
        length = present.shape[1]
        allowed = torch.ones(length, length, dtype=torch.bool, device=present.device)
        allowed = (
            allowed.tril(-1)
            if self.causal
            else ~torch.eye(length, dtype=torch.bool, device=present.device)
        )
        return allowed & present[:, None, :]

    def content(self, present: Bool[Tensor, "batch key"]) -> Bool[Tensor, "batch query key"]:
        """True where one element of the context may see another, or itself."""
        length = present.shape[1]
        allowed = torch.ones(length, length, dtype=torch.bool, device=present.device)
        return (allowed.tril() if self.causal else allowed) & present[:, None, :]
