"""The base of many sites as a part: Student t distributions of each value given those near it."""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Float64, Int64
from scipy.spatial import cKDTree
from torch import Tensor, nn

from exfam.families import StudentT
from exfam.fields.base.columns import MapColumns, at_columns, in_columns, map_columns
from exfam.fields.base.conditionals import NearColumns, OfBlocks, given_near, patterns, some_near
from exfam.fields.base.elements import (
    FieldElements,
    NearSites,
    known_rows_of,
)
from exfam.fields.base.joint_draws import LEAST, Wanted, levels_of
from exfam.fields.base.kernel import JITTER
from exfam.fields.base.part import BasePart
from exfam.fields.local.blocks import kernel_blocks, with_own
from exfam.fields.local.local_fit import MOST_NEAR
from exfam.fields.networks.assemble import FieldShape
from exfam.groups import Batch

# New places that are predicted together, and sites that attention sees together.
PLACES_AT_ONCE, SITES_AT_ONCE = 2000, 1000


class LocalBasePart(BasePart):
    """p(value | the nearest others shown of its map and of those before it); buffers alone.

    New places read the columns that the known site nearest to them reads; values at new places are
    not read.
    """

    def __init__(self, shape: FieldShape, *, period: float) -> None:
        super().__init__(shape, period=period)
        n_near = min(MOST_NEAR, shape.n_sites * (shape.lags + 1) - 1)
        self.near = nn.Buffer(torch.zeros(shape.n_sites, n_near, dtype=torch.int64))
        eye = torch.eye(1 + n_near).double()
        self.covariance = nn.Buffer(eye.expand(shape.n_sites, -1, -1).clone())

    def of_elements(self, elements: FieldElements) -> Float[Tensor, "batch length 3"]:
        rows, own = known_rows_of(elements, self.n_sites, self.n_lags)[:2]
        eta = torch.zeros(*elements.shown.shape, 3).double()
        calibration, n_used = self.calibration, self.n_near or MOST_NEAR
        if own.any():
            targets, back = elements.site[own].unique(return_inverse=True)
            near = OfBlocks(self.covariance, self.near).take(targets)
            given = rows.given(near, n_used)
            eta[own] = given.student_t(self.df, self.tails)[own.nonzero()[:, 0], back]
        for places in torch.arange(len(elements.points)).split(PLACES_AT_ONCE):
            new = (elements.lag == 0) & torch.isin(elements.place, places)
            if new.any():
                given = rows.given(self._new(elements, places), 1 + MOST_NEAR)
                found = calibration.of(given.student_t(calibration.df))
                eta[new] = found[new.nonzero()[:, 0], elements.place[new] - places[0]]
        return elements.placed(eta)

    @torch.no_grad()
    def joint_levels(
        self, batch: Batch, *, generator: torch.Generator
    ) -> Float64[Tensor, "batch length"]:
        """Probabilities below joint draws of what is missing on the maps themselves; else 1/2.

        Values at new places, which others do not read, are drawn independently of others.
        """
        elements = self.normal.elements(batch)
        rows, _, site, column = known_rows_of(elements, self.n_sites, self.n_lags)
        known = elements.missing & (site >= 0)
        n_columns = rows.values.shape[1]
        drawn = in_columns(known, torch.where(known, column, n_columns), n_columns)
        levels = levels_in_turn(
            rows.values,
            Wanted(rows.shown, drawn),
            OfBlocks(self.covariance, self.near),
            self.df,
            n_used=self.n_near or MOST_NEAR,
            tails=self.tails,
            generator=generator,
        )
        levels = at_columns(levels, column, missing=0.5)
        alone = torch.rand(column.shape, generator=generator).double().clamp(LEAST, 1 - LEAST)
        return torch.where(elements.missing & ~known, alone, levels)

    def near_sites(self) -> Iterator[NearSites]:
        kernel = self.moving_kernel
        columns = map_columns(self.normal.points, self.n_lags)
        for sites in torch.arange(self.n_sites).split(SITES_AT_ONCE):
            near = self.near[sites]
            prior = kernel_blocks(kernel, columns, with_own(sites, near))
            of_base = OfBlocks(self.covariance, self.near).take(sites)
            yield NearSites(sites, of_base, OfBlocks(prior, near))

    def _new(self, elements: FieldElements, places: Int64[Tensor, "places"]) -> OfBlocks:
        """New columns by the kernel from those of the nearest known site.

        With W = K_oo^-1 K_on: C_on = C_oo W and C_nn = W' C_oo W + K_nn - W' K_on.
        """
        points, known = elements.points[places], self.normal.points
        kernel = self.moving_kernel
        nearest = torch.from_numpy(cKDTree(known.numpy()).query(points.numpy())[1])
        index = torch.cat([nearest[:, None], self.near[nearest]], 1)
        columns = map_columns(known, self.n_lags).take(index)
        new = MapColumns(points[:, None], columns.lag.new_zeros(len(points), 1), -1 - index[:, :1])
        between, own = kernel.between(columns, new), kernel.of(new)
        prior = kernel.of(columns) + JITTER * torch.eye(index.shape[1]).double()
        weights = torch.cholesky_solve(between, torch.linalg.cholesky(prior))
        old = self.covariance[nearest]
        shared = old @ weights
        doubt = elements.doubt[places].square()[:, None, None]
        variance = weights.mT @ shared + own - weights.mT @ between + doubt
        top, below = torch.cat([variance, shared.mT], 2), torch.cat([shared, old], 2)
        return OfBlocks(torch.cat([top, below], 1), index)


def levels_in_turn(
    rows: Float64[Tensor, "rows columns"],
    wanted: Wanted,
    near: NearColumns,
    df: float,
    *,
    n_used: int,
    tails: float | None = None,
    generator: torch.Generator,
) -> Float64[Tensor, "rows columns"]:
    """Probabilities below joint draws of what is missing in the targets' own columns; else 1/2.

    The approximation of Vecchia (1988), Estimation and model identification for continuous spatial
    processes: values are drawn in random order, each given the nearest of those shown and drawn.
    `tails`: of predicted values, as in `GivenOthers.student_t`
    """
    levels = torch.full(rows.shape, 0.5, dtype=torch.float64)
    for pattern, part in patterns(torch.cat([wanted.shown, wanted.missing], 1)):
        shown, missing = (which.clone() for which in pattern.chunk(2))
        targets = missing.nonzero()[:, 0]
        x = torch.where(shown, rows[part], 0.0)
        alone = given_near(x, shown.expand(len(x), -1), near.take(targets), n_used=n_used)
        for target in targets[torch.randperm(len(targets), generator=generator)]:
            given = some_near(x, shown[None], near.take(target[None]), n_used=n_used)
            x[:, target] = StudentT().sample(given.student_t(df, tails)[:, 0], generator=generator)
            shown[target] = True
        levels[part[:, None], targets] = levels_of(x[:, targets], alone.student_t(df, tails))
    return levels
