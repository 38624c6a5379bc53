"""What a model of maps sees in one row: the sites of a map, then those of the maps before it."""

from typing import NamedTuple

import torch
from jaxtyping import Float64, Int64
from torch import Tensor


class MapColumns(NamedTuple):
    """Where and how many steps back each column of a row is; `site` tells sites apart."""

    points: Float64[Tensor, "*shape space"]
    lag: Float64[Tensor, "*shape"]
    site: Int64[Tensor, "*shape"]

    def take(self, index: Int64[Tensor, "*index"]) -> "MapColumns":
        """Columns at an index, of any shape."""
        return MapColumns(self.points[index], self.lag[index], self.site[index])

    def with_(self, other: "MapColumns") -> "MapColumns":
        """These columns and then others."""
        return MapColumns(*(torch.cat(pair) for pair in zip(self, other, strict=True)))


def map_columns(points: Float64[Tensor, "sites space"], n_lags: int) -> MapColumns:
    """Column `lag * sites + site` is a site's value so many steps back."""
    n_sites = len(points)
    lag = torch.arange(n_lags + 1).repeat_interleave(n_sites)
    site = torch.arange(n_sites).repeat(n_lags + 1)
    return MapColumns(points.repeat(n_lags + 1, 1), lag.double(), site)
