"""The families of columns, in the standardized unit that networks work in."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from exfam.families import Categorical, Family, Gaussian, Scaled, StudentT
from exfam.tables.data import TableSchema

# Columns of labels are computed together, whatever their numbers of labels.
_LABELS = -1


@dataclass(frozen=True)
class StandardizedFamily:
    """The family of (value - center) / scale; 0 and 1 where the family allows no other unit."""

    family: Family
    center: float = 0.0
    scale: float = 1.0

    @cached_property
    def own(self) -> Family:
        """The family of the value in its own unit, by the same parameters."""
        if self.center == 0 and self.scale == 1:
            return self.family
        return Scaled(self.family.rescaled(1 / self.scale), self.center, self.scale)

    @property
    def has_scale(self) -> bool:
        """Whether the second of the parameters is the log of a scale."""
        # Of a subclass they may be anything.
        kind = type(self.family)
        return kind is StudentT or (kind is Gaussian and self.family.n_params == 2)


def standardized_families(
    schema: TableSchema, families: Sequence[Family], *, positive_in_units: bool = True
) -> list[StandardizedFamily]:
    """Each column's family, in standard units if shifts and scales map it onto itself.

    Positive families are of values divided by their mean (in models stored before, as they are).
    """
    standardized = []
    for column, family in zip(schema.columns, families, strict=True):
        center, scale = 0.0, 1.0
        if family.equivariance == "location-scale":
            center, scale = column.center, column.scale
        elif family.equivariance == "scale" and positive_in_units:
            scale = column.center if column.center > 0 else 1.0
        standardized.append(StandardizedFamily(family.rescaled(scale), center, scale))
    return standardized


class FamilyBank:
    """The families of all columns, so that columns of one family are computed together."""

    def __init__(self, standardized: Sequence[StandardizedFamily]) -> None:
        self.standardized = tuple(standardized)
        families = [column.family for column in standardized]
        self.n_params = max(family.n_params for family in families)
        self._groups = [
            _LABELS if type(family) is Categorical and family.start == 0 else families.index(family)
            for family in families
        ]
        scales = [math.log(column.scale) for column in standardized]
        self._log_scales = torch.tensor(scales, dtype=torch.float64)
        sizes = torch.tensor([family.n_params for family in families])
        beyond = torch.arange(self.n_params) >= sizes[:, None]
        self._hidden = torch.zeros(beyond.shape).masked_fill(beyond, -torch.inf)
        self._rows: dict[Any, Tensor | None] = {}

    def log_prob(
        self,
        eta: Float[Tensor, "members batch targets params"],
        value: Float[Tensor, "#members #batch targets"],
        targets: Sequence[int],
    ) -> Float[Tensor, "members batch targets"]:
        """Log-density in nats, in each value's own unit, of standardized values."""
        value = value.expand(eta.shape[:-1])
        groups: dict[int, list[int]] = {}
        for index, column in enumerate(targets):
            groups.setdefault(self._groups[column], []).append(index)
        if len(groups) == 1:
            log_prob = self._of_group(eta, value, list(targets))
        else:
            parts = [
                self._of_group(eta[:, :, group], value[:, :, group], [targets[k] for k in group])
                for group in groups.values()
            ]
            order = np.argsort([index for group in groups.values() for index in group])
            log_prob = torch.cat(parts, -1)[..., order]
        log_scales = self._rows_of("_log_scales", targets, log_prob)
        return log_prob if log_scales is None else log_prob - log_scales

    def _of_group(self, eta: Tensor, value: Tensor, columns: list[int]) -> Tensor:
        if self._groups[columns[0]] != _LABELS:
            family = self.standardized[columns[0]].family
            return family.log_prob(value, eta[..., : family.n_params])
        # Columns of fewer labels have logits of minus infinity after their own.
        hidden = self._rows_of("_hidden", columns, eta)
        logits = eta if hidden is None else eta + hidden
        return logits.log_softmax(-1).gather(-1, value.long()[..., None])[..., 0]

    def _rows_of(self, name: str, columns: Sequence[int], like: Tensor) -> Tensor | None:
        """Rows of a table where numbers like these are, found once; None for zeros."""
        key = (name, tuple(columns), like.device, like.dtype)
        if key not in self._rows:
            rows = getattr(self, name)[list(columns)]
            self._rows[key] = rows.to(like) if rows.any() else None
        return self._rows[key]
