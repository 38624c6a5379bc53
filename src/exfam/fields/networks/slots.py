"""Maps as rows of slots: a slot is a site of the map itself or of a map before it."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from exfam.checks import DataError, ExfamError
from exfam.fields.networks.joint_normal import SlotRows
from exfam.groups import Batch, Groups

# Steps of time longer than this many usual ones part the maps into seasons.
LONG_GAP = 5.0


class SlottedBatch(NamedTuple):
    """The elements of a batch as anomalies, and where in the rows of slots each stands.

    `slot`: steps back times the number of sites plus the site's code; the number of slots where an
        element has none (unknown site, too far back, padding)
    `location`, `scale`, `doubt`: what the climate says, in the value's unit
    """

    rows: SlotRows
    slot: Int[Tensor, "batch length"]
    location: Float[Tensor, "batch length"]
    scale: Float[Tensor, "batch length"]
    doubt: Float[Tensor, "batch length"]

    def read(
        self, row: Float[Tensor, "batch slots"], *, missing: float
    ) -> Float[Tensor, "batch length"]:
        """Each element's entry of the rows; `missing` where it has no slot."""
        padded = nn.functional.pad(row, (0, 1), value=missing)
        return padded.gather(1, self.slot.clamp_max(row.shape[1]))


def field_value(batch: Batch) -> Float[Tensor, "batch length"]:
    """The one value column of a field, 0 where it was not observed."""
    (value,) = batch.values.values()
    return torch.where(batch.observed, value, 0.0)


def n_lags_of(groups: Groups) -> int:
    """How many maps before its own a map sees."""
    return 0 if groups.context_start is None else groups.context_start.shape[1]


def slot_rows(batch: Batch, climate: nn.Module, *, n_sites: int, n_lags: int) -> SlottedBatch:
    """The batch's maps as rows of anomalies (value - location) / scale, in float64.

    Raises ExfamError for groups without items.
    """
    if batch.item is None:
        raise ExfamError(
            "`item` must be given for a model of known sites, got groups without items."
        )
    location, scale, doubt = (part.double() for part in climate(batch))
    anomaly = (field_value(batch).double() - location) / scale
    n_slots = n_sites * (n_lags + 1)
    has_slot = batch.present & (batch.item >= 0) & (batch.steps_back <= n_lags)
    slot = torch.where(has_slot, batch.steps_back * n_sites + batch.item, n_slots)
    shown = torch.where(has_slot & batch.observed, slot, n_slots)
    value = anomaly.new_zeros(len(slot), n_slots + 1).scatter(1, shown, anomaly)
    known = torch.zeros_like(value, dtype=torch.bool).scatter(1, shown, True)
    return SlottedBatch(SlotRows(value[:, :-1], known[:, :-1]), slot, location, scale, doubt)


def slot_table(groups: Groups, climate: nn.Module, *, n_sites: int, n_lags: int) -> SlotRows:
    """All maps of the groups as rows of anomalies."""
    parts = [
        slot_rows(part.pad(np.arange(len(part))), climate, n_sites=n_sites, n_lags=n_lags).rows
        for part in groups.chunks()
    ]
    return SlotRows(torch.cat([p.value for p in parts]), torch.cat([p.known for p in parts]))


def time_folds(
    time: Float[np.ndarray, "groups"], *, n_folds: int
) -> list[Bool[np.ndarray, "groups"]]:
    """Which maps each fold holds out: whole seasons where time has gaps, else blocks of time.

    Neighboring days are alike, so maps held out one by one would be judged by their copies. Three
    runs of maps or more with gaps of over 5 usual steps between them count as seasons.
    Raises DataError for fewer than 2 maps.

    >>> [fold.astype(int).tolist() for fold in time_folds(np.array([0.0, 1, 2, 3]), n_folds=2)]
    [[1, 1, 0, 0], [0, 0, 1, 1]]
    >>> [fold.sum() for fold in time_folds(np.array([0.0, 1, 2, 50, 51, 90]), n_folds=4)]
    [np.int64(3), np.int64(2), np.int64(1)]
    """
    if len(time) < 2:
        raise DataError(f"`groups` must hold at least 2 maps, got {len(time)}.")
    order = np.argsort(time, kind="stable")
    step = np.diff(time[order])
    usual = np.median(step[step > 0]) if (step > 0).any() else np.inf
    season = np.concatenate([[0], np.cumsum(step > LONG_GAP * usual)])
    unit = season if season[-1] >= 2 else np.arange(len(time))
    block = unit * min(n_folds, unit[-1] + 1) // (unit[-1] + 1)
    return [np.isin(np.arange(len(time)), order[block == k]) for k in range(block[-1] + 1)]
