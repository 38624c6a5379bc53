"""What is added to a base's outputs of items that no group of its fit holds."""

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from exfam.efa.base.sets import Where
from exfam.groups import Batch


class NewItemTerms(nn.Module):
    """shift_j + taste_j . (1, mean features of the context's items); 0 of old items.

    `is_new`: items without history; `features`: of all items, after a 1.
    """

    is_new: Tensor
    shift: Tensor
    taste: Tensor
    features: Tensor

    def __init__(
        self,
        is_new: Bool[Tensor, "items"],
        *,
        shift: Float[Tensor, "items"],
        taste: Float[Tensor, "items terms"],
        features: Float[Tensor, "items terms"],
    ) -> None:
        super().__init__()
        self.register_buffer("is_new", is_new)
        self.register_buffer("shift", shift)
        self.register_buffer("taste", taste)
        self.register_buffer("features", features)

    @classmethod
    def empty(cls, n_items: int, n_terms: int) -> "NewItemTerms":
        """Of old items alone, or to be loaded."""
        is_new = torch.zeros(n_items, dtype=torch.bool)
        return cls(
            is_new,
            shift=torch.zeros(n_items),
            taste=torch.zeros(n_items, n_terms),
            features=torch.zeros(n_items, n_terms),
        )

    def forward(
        self, batch: Batch, where: Where, chosen: Int64[Tensor, "chosen"]
    ) -> Float[Tensor, "rows chosen"]:
        """Of the chosen items at the elements at `where`."""
        return self.shift[chosen] + self._profiles(batch, where) @ self.taste[chosen].T

    def own(self, batch: Batch, where: Where, item: Int64[Tensor, "rows"]) -> Float[Tensor, "rows"]:
        """Of one item a row."""
        profile = self._profiles(batch, where)
        return self.shift[item] + torch.linalg.vecdot(profile, self.taste[item])

    def shrink(self, share: Float[Tensor, "items"]) -> None:
        """Keep these shares."""
        self.shift *= share
        self.taste *= share[:, None]

    def _profiles(self, batch: Batch, where: Where) -> Float[Tensor, "rows terms"]:
        return mean_features(batch, self.features)[where]


def mean_features(
    batch: Batch, features: Float[Tensor, "items terms"]
) -> Float[Tensor, "batch length terms"]:
    """For each element, the mean features of all other known items of its group."""
    assert batch.item is not None
    known = (batch.present & (batch.item >= 0))[..., None]
    rows = torch.where(known, features[batch.item.clamp_min(0)], 0.0)

    def others(numbers: Tensor) -> Tensor:
        # Before + after, not total - own: rounding would let the element itself leak through.
        before = torch.cat([torch.zeros_like(numbers[:, :1]), numbers[:, :-1]], 1).cumsum(1)
        after = numbers.flip(1)
        after = torch.cat([torch.zeros_like(after[:, :1]), after[:, :-1]], 1).cumsum(1).flip(1)
        return before + after

    return others(rows) / others(known.to(rows.dtype)).clamp_min(1.0)
