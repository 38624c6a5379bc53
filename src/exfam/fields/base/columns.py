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


def columns_of_elements(
    site: Int64[Tensor, "batch length"],
    lag: Int64[Tensor, "batch length"],
    *,
    n_sites: int,
    n_lags: int,
) -> Int64[Tensor, "batch length"]:
    """The column of each element of maps; as many as there are where it has none.

    `site`: -1 for places that are not among the known sites, and for what is no element
    """
    there = (site >= 0) & (lag <= n_lags)
    return torch.where(there, lag * n_sites + site, n_sites * (n_lags + 1))


def in_columns(numbers: Tensor, column: Int64[Tensor, "batch length"], n: int) -> Tensor:
    """Numbers of elements as rows of `n` columns; 0 or False where no element is."""
    return numbers.new_zeros(len(column), n + 1).scatter(1, column, numbers)[:, :n]


def at_columns(
    rows: Float64[Tensor, "batch columns"],
    column: Int64[Tensor, "batch length"],
    *,
    missing: float,
) -> Float64[Tensor, "batch length"]:
    """Of each element the number in its column; `missing` where it has none."""
    padded = torch.nn.functional.pad(rows, (0, 1), value=missing)
    return padded.gather(1, column.clamp_max(rows.shape[1]))
