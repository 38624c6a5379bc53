"""Values near each other in an order or on a map: a Gaussian process of the residuals.

Residuals, in units of their item's standard deviation, have a covariance by distance r,

    s_0 + s_1 exp(-r / l_1) + s_2 (1 + x) exp(-x) + s_3 exp(-r / l_3) cos(2 pi r / p)
        + s_4 exp(-4 sin(pi r / q)^2),        x = sqrt(3) r / l_2

and noise: levels, rough paths, smooth ones, swings, and seasons of a period q. Those of different
items have a share of each part. A value is predicted from some others near it alone.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from exfam.efa.values.cells import ValueCells

# Logs of s, l_1 to l_3 and p, and noise; logits of shares; then logs of lengths by coordinate.
SIZES, LENGTHS, SWING, NOISE = slice(0, 5), slice(5, 8), 8, 9
SHARES, RATIOS = slice(10, 15), slice(15, None)
# So many values are looked at, on a map; and cells at a time.
ON_MAP, _AT_ONCE = 16, 2048
_LEAST_NOISE, _TINY = 1e-5, 1e-12

Columns = Float64[np.ndarray, "cells"]
Near = Int64[np.ndarray, "some near"]


@dataclass(frozen=True, eq=False)
class NearKernel:
    """`lags`: rows before, and after unless causal, that are looked at; on a map none.

    `unit`: of positions, one a coordinate; `period` is in it, 0 for none.
    """

    numbers: Float64[np.ndarray, "numbers"]
    lags: Int64[np.ndarray, "lags"]
    unit: Float64[np.ndarray, "coordinates"]
    period: float

    def arrays(self) -> dict[str, np.ndarray]:
        """All numbers, by name."""
        found = {name: np.asarray(getattr(self, name), dtype=float) for name in _NAMES}
        return {f"near_{name}": array for name, array in found.items()}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "NearKernel | None":
        """The one that has these; None where there are none."""
        if "near_numbers" not in arrays:
            return None
        numbers, lags, unit, period = (arrays[f"near_{name}"] for name in _NAMES)
        return cls(numbers, lags.astype(np.int64), unit, float(period))

    def predictions(
        self, cells: ValueCells, residual: Columns, *, causal: bool
    ) -> tuple[Columns, Columns]:
        """Mean of every residual, and the share of its variance that the others leave open.

        `residual`: in units of the item's standard deviation, NaN where there is none.
        """
        mean, share = np.zeros(cells.n_cells), np.ones(cells.n_cells)
        numbers = torch.from_numpy(self.numbers)
        for rows in np.array_split(np.arange(cells.n_cells), cells.n_cells // _AT_ONCE + 1):
            near = near_rows(cells, rows, self, causal=causal)
            window = window_of(cells, residual, rows, near, self.unit)
            found, variance, alone = conditional_near(numbers, window, self.period)
            mean[rows], share[rows] = found.numpy(), (variance / alone).numpy()
        return mean, share


_NAMES = ("numbers", "lags", "unit", "period")


@dataclass(frozen=True, eq=False)
class Window:
    """Cells and those near them, by the distances of all pairs, each of them once.

    `pair`: which distance, plus the number of distances for pairs of different items; the first row
    and column are those of the cell.
    """

    distance: Float64[Tensor, "distances coordinates"]
    pair: Int64[Tensor, "cells all all"]
    value: Float64[Tensor, "cells near"]
    seen: Bool[Tensor, "cells near"]


def near_rows(
    cells: ValueCells, rows: Int64[np.ndarray, "some"], kernel: NearKernel, *, causal: bool
) -> Near:
    """Rows near some cells, which rise, -1 for none: by lags in an order, on a map by distance."""
    bounds = np.searchsorted(cells.offset, rows, side="right") - 1
    low, high = cells.offset[bounds][:, None], cells.offset[bounds + 1][:, None]
    if len(kernel.lags):
        lags = kernel.lags if causal else np.concatenate([kernel.lags, -kernel.lags])
        near = rows[:, None] - lags
        return np.where((near >= low) & (near < high), near, -1)
    from scipy.spatial import cKDTree

    assert cells.point is not None
    near = np.full((len(rows), ON_MAP), -1)
    edges = np.flatnonzero(np.diff(bounds, prepend=-1, append=-1))
    for first, last in pairwise(edges):
        begin, end = low[first, 0], high[first, 0]
        tree, own = cKDTree(cells.point[begin:end] / kernel.unit), rows[first:last]
        n_near = np.arange(1, min(ON_MAP + 1, end - begin) + 1)
        found = begin + tree.query(cells.point[own] / kernel.unit, k=n_near)[1]
        # Of as many others at the same point the cell itself need not be among the nearest.
        is_own = found == own[:, None]
        is_own[~is_own.any(1), -1] = True
        others = found[~is_own].reshape(len(own), -1)
        near[first:last, : others.shape[1]] = others
    return near


def window_of(
    cells: ValueCells,
    residual: Columns,
    rows: Int64[np.ndarray, "some"],
    near: Near,
    unit: Float64[np.ndarray, "coordinates"],
) -> Window:
    """What covariances of some cells and of those near them are by."""
    value = np.where(near >= 0, residual[near], np.nan)
    every = np.concatenate([rows[:, None], near], 1)
    assert cells.point is not None
    point, item = cells.point[every] / unit, cells.item[every]
    distance = np.abs(point[:, :, None] - point[:, None])
    shape, n_coordinates = distance.shape[:3], distance.shape[3]
    if n_coordinates == 1:
        distance, pair = np.unique(distance, return_inverse=True)
    else:
        pair = np.arange(distance.size // n_coordinates)
    distance, pair = distance.reshape(-1, n_coordinates), pair.reshape(shape)
    pair = pair + len(distance) * (item[:, :, None] != item[:, None])
    return Window(
        torch.from_numpy(distance),
        torch.from_numpy(pair),
        torch.from_numpy(np.nan_to_num(value)),
        torch.from_numpy(np.isfinite(value)),
    )


def covariance(numbers: Tensor, window: Window, period: float) -> Float64[Tensor, "cells all all"]:
    """Of all pairs, without noise."""
    ratio = torch.cat([numbers.new_zeros(1), numbers[RATIOS]]).exp()
    r = ((window.distance * ratio).square().sum(-1) + _TINY).sqrt()
    rough, smooth, swing = (r / length for length in numbers[LENGTHS].exp())
    smooth = math.sqrt(3.0) * smooth
    parts = [torch.ones_like(r), (-rough).exp(), (1 + smooth) * (-smooth).exp()]
    if window.distance.shape[1] == 1:
        parts.append((-swing).exp() * (2 * math.pi * r / numbers[SWING].exp()).cos())
        if period:
            parts.append((-4 * (math.pi * r / period).sin().square()).exp())
    sized = torch.stack(parts) * numbers[SIZES].exp()[: len(parts), None]
    shares = numbers[SHARES].sigmoid()[: len(parts), None]
    table = torch.cat([sized.sum(0), (sized * shares).sum(0)])
    return table.index_select(0, window.pair.flatten()).reshape(window.pair.shape)


def conditional_near(
    numbers: Tensor, window: Window, period: float
) -> tuple[Float64[Tensor, "cells"], Float64[Tensor, "cells"], Float64[Tensor, "cells"]]:
    """Mean and variance given the values near, and the variance without them."""
    among = covariance(numbers, window, period)
    noise = numbers[NOISE].exp() + _LEAST_NOISE
    alone = among[:, 0, 0] + noise
    seen = window.seen.to(among.dtype)
    own = among[:, 0, 1:] * seen
    others = among[:, 1:, 1:] * seen[:, :, None] * seen[:, None]
    diagonal = torch.where(window.seen, noise, 1.0)
    root, _ = torch.linalg.cholesky_ex(others + diagonal.diag_embed())
    both = torch.stack([own, window.value], -1)
    solved = torch.linalg.solve_triangular(root, both, upper=False)
    mean = (solved[..., 0] * solved[..., 1]).sum(1)
    left = alone - solved[..., 0].square().sum(1)
    return mean, torch.maximum(left, 1e-6 * alone), alone
