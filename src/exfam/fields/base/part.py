"""The base as a part: Student t distributions of each value given the others of its row."""

from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn

from exfam.fields.base.columns import MapColumns
from exfam.fields.base.conditionals import MOST_DF
from exfam.fields.base.courses import Clock
from exfam.fields.base.fit import FieldBase, sites_of
from exfam.fields.base.folds import (
    MOST_AT_ONCE,
    MOST_NEAR,
    Covariance,
    Joint,
    Sites,
    candidates,
    given_shown,
)
from exfam.fields.base.frame import Frame
from exfam.fields.base.kernel import MovingKernel, n_numbers
from exfam.fields.base.levels import N_MODELS
from exfam.fields.base.new_sites import Extended, NewNormal, Surfaces, extend
from exfam.fields.networks.assemble import FieldShape
from exfam.groups import Batch

# New places without a value that are predicted together.
PLACES_AT_ONCE = 500


class _Elements(NamedTuple):
    """The elements of a batch: what is normal, the anomaly, and the column of their row.

    `place`: which new place, -1 for known sites; `points`: of the new places
    """

    location: Float64[Tensor, "batch length"]
    scale: Float64[Tensor, "batch length"]
    anomaly: Float64[Tensor, "batch length"]
    shown: Bool[Tensor, "batch length"]
    lag: Int64[Tensor, "batch length"]
    site: Int64[Tensor, "batch length"]
    place: Int64[Tensor, "batch length"]
    points: Float64[Tensor, "places space"]
    doubt: Float64[Tensor, "places"]


class Known(NamedTuple):
    """What is known of known sites: `both` are covariances of their columns."""

    sites: Sites
    kernel: MovingKernel
    both: Extended
    joint: Joint


class KnownRows(NamedTuple):
    """Maps as rows of known sites' anomalies; which elements are targets, and of which site.

    `column`: of each element in the rows, as many as there are where it has none
    """

    rows: Float64[Tensor, "batch columns"]
    shown: Bool[Tensor, "batch columns"]
    own: Bool[Tensor, "batch length"]
    site: Int64[Tensor, "batch length"]
    column: Int64[Tensor, "batch length"]


class FieldBasePart(nn.Module):
    """p(value | the others shown of its map and of those before it); buffers alone.

    Known sites have their own courses and the empirical covariance shrunk to the kernel; new places
    are between them: surfaces for what is normal, the kernel for anomalies.
    """

    direction = "bidirectional"

    def __init__(self, shape: FieldShape, *, period: float) -> None:
        super().__init__()
        self.n_sites, self.n_lags, self.metric = shape.n_sites, shape.lags, shape.metric
        self.clock = Clock(period, shape.step)
        globe = shape.metric == "haversine"
        space, self.n_flat = (3, 2) if globe else (shape.n_dims, shape.n_dims)
        zeros, n = partial(torch.zeros, dtype=torch.float64), shape.n_sites
        self.frame = nn.Buffer(zeros(space + 2, space))
        self.points = nn.Buffer(zeros(n, space))
        self.course = nn.Buffer(zeros(n, 2 + self.clock.n_waves))
        self.center = nn.Buffer(zeros(self.clock.n_waves))
        self.plane = nn.Buffer(zeros(1 + self.n_flat, self.clock.n_waves))
        self.kernel = nn.Buffer(zeros(n_numbers(self.n_flat)))
        self.products = nn.Buffer(torch.eye(n * (shape.lags + 1)).double())
        self.weights = nn.Buffer(zeros(2, N_MODELS))
        # Shrinkage, degrees of freedom, columns (0 for all); of new sites: degrees and stretch.
        self.chosen = nn.Buffer(torch.tensor([1.0, MOST_DF, 0.0, MOST_DF, 1.0]).double())
        self._known: Known | None = None

    def take(self, base: FieldBase, frame: Frame) -> "FieldBasePart":
        """The part with what a base has learned."""
        courses, settings = base.courses, base.settings
        unit = frame.unit.expand(1, len(frame.center))
        self.frame.copy_(torch.cat([frame.rotation, frame.center[None], unit]))
        self.points.copy_(base.surfaces.points)
        self.course.copy_(
            torch.cat([courses.level[:, None], courses.scale[:, None], courses.wave], 1)
        )
        self.center.copy_(courses.center)
        self.plane.copy_(courses.plane)
        self.kernel.copy_(base.kernel.numbers)
        self.products.copy_(base.products)
        self.weights.copy_(base.surfaces.weights)
        numbers = [settings.shrinkage, settings.df, float(settings.n_near or 0), *base.calibration]
        self.chosen.copy_(torch.tensor(numbers, dtype=torch.float64))
        return self

    @torch.no_grad()
    def eta(self, batch: Batch) -> Float[Tensor, "batch length 3"]:
        """Location, log scale and log(df - 2) of every element of the maps themselves."""
        known, elements = self.known(), self._elements(batch)
        df, df_new, stretch = (float(self.chosen[k]) for k in (1, 3, 4))
        used = torch.zeros(len(elements.points), dtype=torch.bool)
        used[elements.place[elements.shown & (elements.place >= 0)]] = True
        eta = torch.zeros(*batch.present.shape, 3).double()
        observed = used.nonzero()[:, 0]
        own = (elements.lag == 0) & (elements.site >= 0)
        eta = self._of_targets(eta, elements, known, observed, own, df=df)
        widen = torch.tensor([0.0, 0.5, 0.0]).double() * torch.tensor(stretch).double().log()
        for some in [observed, *(~used).nonzero()[:, 0].split(PLACES_AT_ONCE)]:
            new = (elements.lag == 0) & torch.isin(elements.place, some) & (elements.place >= 0)
            if new.any():
                places = torch.cat([observed, some[~used[some]]])
                eta = self._of_targets(eta, elements, known, places, new, df=df_new)
                eta = torch.where(new[..., None], eta + widen, eta)
        placed = torch.stack(
            [
                elements.location + elements.scale * eta[..., 0],
                elements.scale.log() + eta[..., 1],
                eta[..., 2],
            ],
            -1,
        )
        return torch.where(torch.isfinite(placed), placed, 0.0)

    def known_rows(self, batch: Batch) -> KnownRows:
        """The batch as rows of known sites; values at new places are not among them."""
        elements = self._elements(batch)
        column = self._columns(elements, torch.zeros(0, dtype=torch.int64))
        own = (elements.lag == 0) & (elements.site >= 0)
        return KnownRows(*_rows(elements, column, len(self.products)), own, elements.site, column)

    def location(self, batch: Batch) -> Float64[Tensor, "batch length"]:
        """What is normal at each element's site and time."""
        return self._elements(batch).location

    @property
    def log_scale(self) -> Float64[Tensor, "sites"]:
        """Logarithms of the sites' spreads."""
        return self.course[:, 1].log()

    def _of_targets(
        self,
        eta: Float64[Tensor, "batch length 3"],
        elements: _Elements,
        known: Known,
        places: Int64[Tensor, "some"],
        wanted: Bool[Tensor, "batch length"],
        *,
        df: float,
    ) -> Float64[Tensor, "batch length 3"]:
        """Parameters of anomalies where wanted, given all columns of known sites and places."""
        if not wanted.any():
            return eta
        both = self._extended(known, elements, places)
        column, n = self._columns(elements, places), len(both.covariance)
        rows, shown = _rows(elements, column, n)
        targets, back = column[wanted].unique(return_inverse=True)
        n_near = known.joint.n_near
        if bool((elements.place[wanted] >= 0).any()):
            n_near = MOST_NEAR if n > MOST_AT_ONCE else None
        near = candidates(both.prior, targets)
        given = given_shown(rows, shown, both.covariance, targets, near, n_near=n_near)
        row = torch.arange(len(rows))[:, None].expand_as(column)[wanted]
        out = eta.clone()
        out[wanted] = given.student_t(df)[row, back]
        return out

    def _columns(
        self, elements: _Elements, places: Int64[Tensor, "some"]
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
        self, known: Known, elements: _Elements, places: Int64[Tensor, "some"]
    ) -> Extended:
        if not len(places):
            return known.both
        lag = torch.arange(self.n_lags + 1).repeat_interleave(len(places))
        index = places.repeat(self.n_lags + 1)
        new = MapColumns(elements.points[index], lag.double(), self.n_sites + index)
        both, columns = known.both, known.sites.columns
        return extend(
            both.covariance, both.prior, known.kernel, columns, new, elements.doubt[index]
        )

    def _elements(self, batch: Batch) -> _Elements:
        frame, present = self._frame(), batch.present
        site = torch.full_like(batch.element, -1) if batch.item is None else batch.item.long()
        lag = batch.steps_back.long()
        site = torch.where(present, site, -1)
        is_new = present & (site < 0)
        points = frame.points(batch.attributes["coordinates"][is_new], metric=self.metric)
        distinct, index = torch.unique(points, dim=0, return_inverse=True)
        place = torch.full_like(lag, -1)
        place[is_new] = index
        normal = self._normal(distinct)
        terms = torch.cat([torch.ones(len(distinct), 1).double(), distinct[:, : self.n_flat]], 1)
        # What is normal at known sites, then at new places, then at nothing.
        level = torch.cat([self.course[:, 0], normal.level, torch.zeros(1).double()])
        scale = torch.cat([self.course[:, 1], normal.scale, torch.ones(1).double()])
        wave = torch.cat([self.course[:, 2:], terms @ self.plane])
        wave = torch.cat([wave, torch.zeros_like(wave[:1])])
        at = torch.where(site >= 0, site, torch.where(is_new, self.n_sites + place, len(level) - 1))
        time = batch.group_attributes["time"].double() - self.clock.step * lag
        waves = self.clock.waves(time) - self.center
        location = level[at] + (waves * wave[at]).sum(-1)
        (value,) = batch.values.values()
        shown = batch.observed & present
        anomaly = torch.where(shown, (value.double() - location) / scale[at], 0.0)
        doubt = normal.doubt / normal.scale
        return _Elements(location, scale[at], anomaly, shown, lag, site, place, distinct, doubt)

    def _normal(self, points: Float64[Tensor, "places space"]) -> NewNormal:
        if not len(points):
            none = torch.zeros(0).double()
            return NewNormal(none, none, none)
        value = torch.stack([self.course[:, 0], self.course[:, 1].log()], -1)
        return Surfaces(self.points, value, self.weights, self.n_flat).at(points)

    def _frame(self) -> Frame:
        rotation, center, unit = self.frame[:-2], self.frame[-2], self.frame[-1, 0]
        return Frame(center, rotation, unit, self.n_flat)

    def known(self) -> Known:
        """Covariances of known columns, computed once."""
        if self._known is None:
            sites = sites_of(self.points, self._frame(), n_lags=self.n_lags)
            kernel = MovingKernel(self.kernel, self.n_flat)
            prior, share = kernel.of(sites.columns), float(self.chosen[0])
            covariance: Covariance = (1 - share) * self.products + share * prior
            joint = Joint(covariance, float(self.chosen[1]), int(self.chosen[2]) or None)
            self._known = Known(sites, kernel, Extended(covariance, prior), joint)
        return self._known


def _rows(
    elements: _Elements, column: Int64[Tensor, "batch length"], n: int
) -> tuple[Float64[Tensor, "batch n"], Bool[Tensor, "batch n"]]:
    """Anomalies of each map by column, of which there are `n`, and what of them is shown."""
    seen = torch.where(elements.shown, column, n)
    rows = torch.zeros(len(seen), n + 1).double().scatter(1, seen, elements.anomaly)
    shown = torch.zeros(len(seen), n + 1, dtype=torch.bool).scatter(1, seen, True)
    return rows[:, :n], shown[:, :n]
