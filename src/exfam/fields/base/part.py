"""The base as a part: Student t distributions of each value given the others of its row."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn

from exfam.fields.base.base_part import BasePart
from exfam.fields.base.columns import MapColumns, at_columns, in_columns
from exfam.fields.base.conditionals import MOST_ENTRIES, OfMatrix, given_all
from exfam.fields.base.elements import (
    FieldElements,
    NearSites,
    anomaly_rows,
)
from exfam.fields.base.fit import sites_of
from exfam.fields.base.joint_draws import Wanted, joint_levels
from exfam.fields.base.kernel import MovingKernel
from exfam.fields.base.maps import Covariance, Sites
from exfam.fields.base.new_sites import Extended, extend
from exfam.fields.base.trials import candidates
from exfam.fields.networks.assemble import FieldShape
from exfam.groups import Batch

# New places without a value that are predicted together.
PLACES_AT_ONCE = 500


class Known(NamedTuple):
    """What is known of known sites: `both` are covariances of their columns."""

    sites: Sites
    kernel: MovingKernel
    both: Extended


class FieldBasePart(BasePart):
    """p(value | the others shown of its map and of those before it); buffers alone.

    Known sites have their own courses and the empirical covariance shrunk to the kernel; new places
    are between them: surfaces for what is normal, the kernel for anomalies.
    """

    def __init__(self, shape: FieldShape, *, period: float, limit: float | None = None) -> None:
        # The weight of the kernel comes first among what is chosen.
        super().__init__(shape, period=period, limit=limit, more=(1.0,))
        n_columns = shape.n_sites * (shape.lags + 1)
        self.products = nn.Buffer(torch.eye(n_columns).double())
        self._known: Known | None = None
        # Columns of new places that were looked at last, such as a grid's, and their covariances.
        self._placed: tuple[Tensor, Extended] | None = None

    def of_elements(self, elements: FieldElements) -> Float[Tensor, "batch length 3"]:
        """The same, of elements whose anomalies are known."""
        known = self.known()
        calibration = self.calibration
        used = torch.zeros(len(elements.points), dtype=torch.bool)
        used[elements.place[elements.shown & (elements.place >= 0)]] = True
        eta = torch.zeros(*elements.shown.shape, 3).double()
        observed = used.nonzero()[:, 0]
        own = (elements.lag == 0) & (elements.site >= 0)
        eta = self._of_targets(eta, elements, known, observed, own, df=self.df, tails=self.tails)
        for some in [observed, *(~used).nonzero()[:, 0].split(PLACES_AT_ONCE)]:
            new = (elements.lag == 0) & torch.isin(elements.place, some) & (elements.place >= 0)
            if new.any():
                places = torch.cat([observed, some[~used[some]]])
                eta = self._of_targets(eta, elements, known, places, new, df=calibration.df)
                eta = torch.where(new[..., None], calibration.of(eta), eta)
        return elements.placed(eta)

    @torch.no_grad()
    def joint_levels(
        self, batch: Batch, *, generator: torch.Generator
    ) -> Float64[Tensor, "batch length"]:
        """Probabilities below joint draws of what is missing on the maps themselves; else 1/2."""
        elements = self.normal.elements(batch)
        missing = elements.missing
        of_use = elements.place[(elements.shown | missing) & (elements.place >= 0)].unique()
        both = self._extended(self.known(), elements, of_use)
        column, n = self._columns(elements, of_use), len(both.covariance)
        seen = anomaly_rows(elements, column, n)
        drawn = in_columns(missing, torch.where(missing, column, n), n)
        wanted = Wanted(seen.shown, drawn, seen.noise)
        levels = joint_levels(wanted, both.covariance, self.df, generator=generator)
        return at_columns(levels, column, missing=0.5)

    def near_sites(self) -> Iterator[NearSites]:
        """All known sites at once."""
        known = self.known()
        own, both = known.sites.own, known.both
        columns = candidates(both.prior, own)
        yield NearSites(
            own, OfMatrix(both.covariance, own, columns), OfMatrix(both.prior, own, columns)
        )

    def _of_targets(
        self,
        eta: Float64[Tensor, "batch length 3"],
        elements: FieldElements,
        known: Known,
        places: Int64[Tensor, "some"],
        wanted: Bool[Tensor, "batch length"],
        *,
        df: float,
        tails: float | None = None,
    ) -> Float64[Tensor, "batch length 3"]:
        """Parameters of anomalies where wanted, given all columns of known sites and places."""
        if not wanted.any():
            return eta
        both = self._extended(known, elements, places)
        column, n = self._columns(elements, places), len(both.covariance)
        seen = anomaly_rows(elements, column, n)
        targets, back = column[wanted].unique(return_inverse=True)
        if bool((elements.place[wanted] >= 0).any()):
            given = given_all(seen.values, seen.shown, both.covariance, targets, noise=seen.noise)
        else:
            near = OfMatrix(both.covariance, targets, candidates(both.prior, targets))
            given = seen.given(near, self.n_near)
        row = torch.arange(len(column))[:, None].expand_as(column)[wanted]
        out = eta.clone()
        out[wanted] = given.student_t(df, tails)[row, back]
        return out

    def _columns(
        self, elements: FieldElements, places: Int64[Tensor, "some"]
    ) -> Int64[Tensor, "batch length"]:
        """The column of each element among those of known sites and then of places; else none."""
        n_known, n_new = self.n_sites * (self.n_lags + 1), len(places)
        nowhere = n_known + n_new * (self.n_lags + 1)
        index = torch.full((len(elements.points) + 1,), -1)
        index[places] = torch.arange(n_new)
        at = index[elements.place]
        new = torch.where(at >= 0, n_known + elements.lag * n_new + at, nowhere)
        known = elements.lag * self.n_sites + elements.site
        column = torch.where(elements.site >= 0, known, new)
        return torch.where(elements.lag <= self.n_lags, column, nowhere)

    def _extended(
        self, known: Known, elements: FieldElements, places: Int64[Tensor, "some"]
    ) -> Extended:
        if not len(places):
            return known.both
        lag = torch.arange(self.n_lags + 1).repeat_interleave(len(places))
        index = places.repeat(self.n_lags + 1)
        new = MapColumns(elements.points[index], lag.double(), self.n_sites + index)
        doubt, kept = elements.doubt[index], self._placed
        where = torch.cat([new.points, new.lag[:, None], new.site[:, None], doubt[:, None]], 1)
        if kept is not None and torch.equal(kept[0], where):
            return kept[1]
        both, columns = known.both, known.sites.columns
        extended = extend(both.covariance, both.prior, known.kernel, columns, new, doubt)
        if extended.prior.numel() <= MOST_ENTRIES:
            self._placed = (where, extended)
        return extended

    def known(self) -> Known:
        """Covariances of known columns, computed once."""
        if self._known is None:
            sites = sites_of(self.normal.points, self.normal.frame, n_lags=self.n_lags)
            kernel, share = self.moving_kernel, float(self.chosen[0])
            prior = kernel.of(sites.columns)
            covariance: Covariance = (1 - share) * self.products + share * prior
            self._known = Known(sites, kernel, Extended(covariance, prior))
        return self._known
