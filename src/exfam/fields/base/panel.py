"""Maps as a table, a row for each time, and values far off drawn in."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from exfam.fields.data.facts import TOLERANCE, is_observed
from exfam.groups import Groups

# A value further than this many spreads from its site's median counts as if it were there: none
# of Gaussian values is, and of a Student t's with 5 degrees of freedom one in two thousand.
FARTHEST = 6.0
# The spread is found without this share of each site's values, those that are furthest off.
LEFT_OUT = 0.01
# A site's own spread is that of this many values of all sites, and its own ones.
COMMON_VALUES = 5.0


class Panel(NamedTuple):
    """Values of all sites at all times, in increasing time; 0 where not `shown`.

    `earlier`: the row of the map so many steps before, -1 where there is none; `covariates`: those
    that change, 0 where there is no element; `censored`: values of which no more is known than that
    they are at most `limit`, None if there are none
    """

    time: Float64[Tensor, "times"]
    values: Float64[Tensor, "times sites"]
    shown: Bool[Tensor, "times sites"]
    earlier: Int64[Tensor, "times lags"]
    covariates: Float64[Tensor, "times sites covariates"] | None = None
    censored: Bool[Tensor, "times sites"] | None = None
    limit: float = 0.0

    def stacked(
        self,
        anomalies: Float64[Tensor, "times sites"],
        known: Bool[Tensor, "times"] | None = None,
        *,
        some: Int64[Tensor, "rows"] | None = None,
        chosen: Int64[Tensor, "columns"] | None = None,
    ) -> tuple[Float64[Tensor, "rows columns"], Bool[Tensor, "rows columns"]]:
        """Rows that hold each map beside those before it, and what of them is shown.

        `known`: maps that may be among them; `some`: rows, `chosen`: columns; all if None
        """
        rows = torch.cat([torch.arange(len(self.time))[:, None], self.earlier], 1)
        rows = rows if some is None else rows[some]
        usable = rows >= 0 if known is None else (rows >= 0) & known[rows]
        if chosen is None:
            there = usable[..., None] & self.shown[rows]
            return torch.where(there, anomalies[rows], 0.0).flatten(1), there.flatten(1)
        n_sites = anomalies.shape[1]
        lag, site = chosen // n_sites, chosen % n_sites
        there = usable[:, lag] & self.shown[rows[:, lag], site]
        return torch.where(there, anomalies[rows[:, lag], site], 0.0), there

    def take(self, index: Tensor) -> "Panel":
        """Some of the times, whose earlier maps are not known any more."""
        more = None if self.covariates is None else self.covariates[index]
        censored = None if self.censored is None else self.censored[index]
        time, values, shown, earlier = (part[index] for part in self[:4])
        return Panel(time, values, shown, earlier, more, censored, self.limit)

    def of_sites(self, sites: Int64[Tensor, "some"]) -> "Panel":
        """Some of the sites."""
        more = None if self.covariates is None else self.covariates[:, sites]
        censored = None if self.censored is None else self.censored[:, sites]
        values, shown = self.values[:, sites], self.shown[:, sites]
        return self._replace(values=values, shown=shown, covariates=more, censored=censored)


def panel_of(
    groups: Groups,
    *,
    n_lags: int,
    step: float,
    varying: Sequence[int] = (),
    limit: float | None = None,
) -> Panel:
    """The maps of the groups that have codes of sites and one column of values.

    `varying`: the covariates that change; `limit`: the least value, of which no more is known than
    that it is at most this
    """
    assert groups.item is not None
    (column,) = groups.values.values()
    time = groups.group_attributes["time"].astype(np.float64)
    order = np.argsort(time, kind="stable")
    own = groups.elements()
    row = np.empty(len(groups), dtype=np.int64)
    row[order] = np.arange(len(groups))
    rows = np.repeat(row, groups.stop - groups.start)
    known = is_observed(groups)[own] & (groups.item[own] >= 0)
    values = np.zeros((len(groups), groups.n_items))
    shown = np.zeros(values.shape, dtype=bool)
    at = rows[known], groups.item[own][known]
    values[at], shown[at] = column[own][known], True
    time = time[order]
    wanted = time[:, None] - step * np.arange(1, n_lags + 1)
    k = np.searchsorted(time, wanted - TOLERANCE * step)
    candidate = np.minimum(k, max(0, len(time) - 1))
    there = np.abs(time[candidate] - wanted) <= TOLERANCE * step
    earlier = np.where(there, candidate, -1)
    panel = Panel(
        torch.from_numpy(time),
        torch.from_numpy(values),
        torch.from_numpy(shown),
        torch.from_numpy(earlier),
    )
    if limit is not None:
        censored = panel.shown & (panel.values <= limit)
        panel = panel._replace(censored=censored if bool(censored.any()) else None, limit=limit)
    if not len(varying):
        return panel
    covariates = np.zeros((*values.shape, len(varying)))
    covariates[at] = groups.attributes["covariates"][own][known][:, list(varying)]
    return panel._replace(covariates=torch.from_numpy(covariates))


def tamed(
    values: Float64[Tensor, "times sites"], shown: Bool[Tensor, "times sites"]
) -> Float64[Tensor, "times sites"]:
    """The values of each site within so many spreads of its median; 0 where not shown.

    A single slip of the pen would otherwise widen all that is predicted of its site. Spreads are
    found without the values that are furthest off, one at least.
    """
    there = torch.where(shown, values, torch.nan)
    middle = there.nanmedian(0).values.nan_to_num()
    distance = torch.where(shown, (values - middle).abs(), -1.0).sort(0).values
    count = shown.sum(0)
    kept = count - (LEFT_OUT * count).ceil().long().clamp_min(1)
    # Sorted, what is not shown comes first and what is furthest off last.
    rank = torch.arange(len(values))[:, None] - (len(values) - count)
    squares = torch.where((rank >= 0) & (rank < kept), distance, 0.0).square().sum(0)
    kept = kept.clamp_min(0).double()
    common = squares.sum() / kept.sum().clamp_min(1)
    if not float(common) > 0:
        return torch.where(shown, values, 0.0)
    spread = ((squares + COMMON_VALUES * common) / (kept + COMMON_VALUES)).sqrt()
    far = FARTHEST * spread
    return torch.where(shown, values.clamp(middle - far, middle + far), 0.0)
