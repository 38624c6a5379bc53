"""The law of each column's value, and the standardized unit that networks work in."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from exfam.families import Categorical, Family, Gaussian, Scaled, StudentT

__all__ = ["ColumnLaw", "LawBank"]


@dataclass(frozen=True)
class ColumnLaw:
    """A family, and the unit in which a network speaks of it.

    `family`: of (value - center) / scale
    `center`, `scale`: 0 and 1 unless shifts and scales map the family onto itself

    >>> law = ColumnLaw(Gaussian(), center=10.0, scale=2.0)
    >>> law.own.mean(torch.tensor([1.0, 0.0], dtype=torch.float64)).item()
    12.0
    """

    family: Family
    center: float = 0.0
    scale: float = 1.0

    @property
    def own(self) -> Family:
        """The law of the value in its own unit, by the same parameters."""
        if self.center == 0 and self.scale == 1:
            return self.family
        return Scaled(self.family.rescaled(1 / self.scale), self.center, self.scale)

    @property
    def has_scale(self) -> bool:
        """Whether the second of the parameters is the log of a scale."""
        # Of a subclass they may be anything.
        kind = type(self.family)
        return kind is StudentT or (kind is Gaussian and self.family.n_params == 2)


class LawBank:
    """The laws of all columns, so that columns of one family are computed together.

    >>> bank = LawBank([ColumnLaw(Categorical(2)), ColumnLaw(Categorical(3))])
    >>> eta = torch.zeros(1, 1, 2, 3)
    >>> bank.log_prob(eta, torch.zeros(1, 1, 2), [0, 1]).exp().flatten()
    tensor([0.5000, 0.3333])
    """

    def __init__(self, laws: Sequence[ColumnLaw]) -> None:
        self.laws = tuple(laws)
        self.n_params = max(law.family.n_params for law in laws)
        families = [law.family for law in laws]
        self._alike = [
            _LABELS if _is_of_codes(family) else families.index(family) for family in families
        ]
        scales = [math.log(law.scale) for law in laws]
        self._log_scales = torch.tensor(scales, dtype=torch.float64)
        sizes = torch.tensor([family.n_params for family in families])
        beyond = torch.arange(self.n_params) >= sizes[:, None]
        self._hidden = torch.zeros(beyond.shape).masked_fill(beyond, -torch.inf)

    def log_prob(
        self,
        eta: Float[Tensor, "members batch targets params"],
        value: Float[Tensor, "#members #batch targets"],
        targets: Sequence[int],
    ) -> Float[Tensor, "members batch targets"]:
        """Log-density in nats, in each value's own unit, of standardized values."""
        value = value.expand(eta.shape[:-1])
        by_kind: dict[int, list[int]] = {}
        for place, column in enumerate(targets):
            by_kind.setdefault(self._alike[column], []).append(place)
        if len(by_kind) == 1:
            told = self._of_kind(eta, value, list(targets))
        else:
            parts = [
                self._of_kind(eta[:, :, places], value[:, :, places], [targets[p] for p in places])
                for places in by_kind.values()
            ]
            came_from = [place for places in by_kind.values() for place in places]
            told = torch.cat(parts, -1)[..., np.argsort(came_from)]
        log_scales = self._log_scales[list(targets)]
        return told - log_scales.to(told) if log_scales.any() else told

    def _of_kind(self, eta: Tensor, value: Tensor, columns: list[int]) -> Tensor:
        family = self.laws[columns[0]].family
        if self._alike[columns[0]] != _LABELS:
            return family.log_prob(value, eta[..., : family.n_params])
        # Columns of fewer labels have logits of minus infinity after their own.
        hidden = self._hidden[columns]
        logits = eta + hidden.to(eta) if hidden.any() else eta
        return logits.log_softmax(-1).gather(-1, value.long()[..., None])[..., 0]


# Columns of labels are computed together, whatever their numbers of labels.
_LABELS = -1


def _is_of_codes(family: Family) -> bool:
    return type(family) is Categorical and family.start == 0
