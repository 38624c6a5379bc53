"""What each part adds to predictions: differences between the steps of an ensemble of bases.

A prediction is its center and the nats of the value, of the mixture of all members.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from exfam.efa.values.value_steps import (
    ATTRIBUTES,
    CERTAINTY,
    HISTOGRAM,
    ITEM,
    LEAST_MOVE,
    NEIGHBORS,
    OVERALL,
    SCALE,
    VALUES,
    ValueSteps,
)
from exfam.families import Family
from exfam.families.mixtures import Mixture

LEVEL, VALUE, ATTENTION, COLUMNS = "level", "value", "attention", "columns"
# In the order of entries.
PARTS = (
    OVERALL, ITEM, ATTRIBUTES, LEVEL, VALUE, NEIGHBORS, CERTAINTY, SCALE, HISTOGRAM, ATTENTION,
    COLUMNS,
)  # fmt: skip

# Of cells, or of entries: center and nats, or what is added to them.
Both = Float64[np.ndarray, "two _"]
Etas = Sequence[Float64[Tensor, "cells params"]]


@dataclass(frozen=True)
class LocationUnit:
    """Locations are offset + scale * z of standardized values z."""

    offset: float
    scale: float


class PartEntries(NamedTuple):
    """What is added to the location, the center and the nats of some cells, part by part.

    Of each entry: its `cell`, by its position among the chosen ones, the number of its `part` in
    `PARTS`, and of another value the number of its cell, else -1; `by_level` is what that adds to
    the location by the group's level.
    """

    cell: Int64[np.ndarray, "entries"]
    part: Int64[np.ndarray, "entries"]
    source: Int64[np.ndarray, "entries"]
    by_level: Float64[np.ndarray, "entries"]
    to_location: Float64[np.ndarray, "entries"]
    to_both: Both


@dataclass(frozen=True, eq=False)
class EnsembleSteps:
    """The steps of all members for the same cells, with the units of their locations.

    `corrected`: the members' parameters with attention; `final`: in the end, given the element's
    values of earlier columns, None where no column is; `value`: NaN where cells have none
    """

    family: Family
    steps: Sequence[ValueSteps]
    units: Sequence[LocationUnit]
    corrected: Etas
    final: Etas | None
    value: Float64[np.ndarray, "cells"]

    def entries(self) -> PartEntries:
        """All parts; those of an element add up to its prediction."""
        names = list(self.steps[0].eta)
        found = {name: self._predicted([own.eta[name] for own in self.steps]) for name in names}
        found[ATTENTION] = self._predicted(self.corrected)
        if self.final is not None:
            found[COLUMNS] = self._predicted(self.final)
        changes = {after: found[after] - found[before] for before, after in pairwise(found)}
        before = ATTRIBUTES if ATTRIBUTES in found else ITEM
        pieces = [self._of_values(found[before], changes.pop(VALUES))]
        overall = [unit.offset + unit.scale * own.means.overall for unit, own in self._pairs()]
        item = np.mean([unit.scale * own.means.item for unit, own in self._pairs()], axis=0)
        given = np.mean([unit.scale * own.means.given for unit, own in self._pairs()], axis=0)
        location = {OVERALL: np.full(len(item), np.mean(overall)), ITEM: item, ATTRIBUTES: given}
        for name, change in ({OVERALL: found[OVERALL]} | changes).items():
            added = location.get(name, np.zeros(len(item)))
            pieces.append(_of_all_cells(name, added, change))
        return _joined(pieces)

    def prediction(self) -> Both:
        """In the end."""
        return self._predicted(self.corrected if self.final is None else self.final)

    def location(self) -> Float64[np.ndarray, "cells"]:
        """The mean of the members' means by their factor models."""
        return np.mean([unit.offset + unit.scale * own.mean for unit, own in self._pairs()], axis=0)

    def _pairs(self) -> list[tuple[LocationUnit, ValueSteps]]:
        return list(zip(self.units, self.steps, strict=True))

    def _predicted(self, etas: Etas) -> Both:
        eta, seen = torch.stack([eta.double() for eta in etas]), np.isfinite(self.value)
        found = np.full((2, len(self.value)), np.nan)
        found[0] = Mixture(self.family, eta).center().numpy()
        observed = Mixture(self.family, eta[:, seen])
        found[1, seen] = observed.log_prob(torch.from_numpy(self.value[seen])).numpy()
        return found

    def _of_values(self, before: Both, change: Both) -> PartEntries:
        """The group's level of all cells, and every other value if there are factors."""
        means, n_cells = self.steps[0].means, len(self.value)
        by_level, by_factors = (
            np.mean([unit.scale * getattr(own.means, name) for unit, own in self._pairs()], axis=0)
            for name in ("by_level", "by_factors")
        )
        has_factors = any(own.base.rank for own in self.steps)
        pairs = slice(None) if has_factors else slice(0)
        none = np.zeros(n_cells)
        cell = np.concatenate([np.arange(n_cells), means.target[pairs]])
        linear = np.concatenate([np.bincount(means.target, by_level, n_cells), by_factors[pairs]])
        shift = np.bincount(cell, linear, n_cells)
        slope = self._slope(before, shift)
        return PartEntries(
            cell=cell,
            part=np.where(np.arange(len(cell)) < n_cells, PARTS.index(LEVEL), PARTS.index(VALUE)),
            source=np.concatenate([none.astype(np.int64) - 1, means.source[pairs]]),
            by_level=np.concatenate([none, by_level[pairs]]),
            to_location=linear,
            to_both=slope[:, cell] * linear + _by_size(change - slope * shift, linear, cell),
        )

    def _slope(self, before: Both, shift: Float64[np.ndarray, "cells"]) -> Both:
        """Of predictions by location, from without the other values to with them or further."""
        least = LEAST_MOVE * np.mean([unit.scale for unit in self.units])
        move = np.where(shift < 0, -1.0, 1.0) * np.maximum(np.abs(shift), least)
        moved = [own.eta_moved(move / unit.scale) for unit, own in self._pairs()]
        return (self._predicted(moved) - before) / move


def _by_size(
    rest: Both, linear: Float64[np.ndarray, "entries"], cell: Int64[np.ndarray, "entries"]
) -> Both:
    """What is left of each cell, divided by sizes; where all are 0 its first entry has it."""
    total = np.bincount(cell, np.abs(linear), rest.shape[1])
    share = np.zeros(len(linear))
    share[np.unique(cell, return_index=True)[1]] = 1.0
    np.divide(np.abs(linear), total[cell], out=share, where=total[cell] > 0)
    return rest[:, cell] * share


def _of_all_cells(name: str, to_location: np.ndarray, to_both: Both) -> PartEntries:
    """One entry a cell."""
    n_cells = len(to_location)
    return PartEntries(
        cell=np.arange(n_cells),
        part=np.full(n_cells, PARTS.index(name)),
        source=np.full(n_cells, -1),
        by_level=np.zeros(n_cells),
        to_location=to_location,
        to_both=to_both,
    )


def _joined(pieces: Sequence[PartEntries]) -> PartEntries:
    """By cell and part, the largest additions to the location first."""
    whole = PartEntries(*(np.concatenate(own, axis=-1) for own in zip(*pieces, strict=True)))
    order = np.lexsort((-np.abs(whole.to_location), whole.part, whole.cell))
    return PartEntries(*(column[..., order] for column in whole))
