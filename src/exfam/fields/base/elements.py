"""Elements of maps as a base sees them: what is normal at each, and how far its value is off."""

from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor, nn

from exfam.fields.base.columns import Frame, columns_of_elements, in_columns
from exfam.fields.base.conditionals import NearColumns
from exfam.fields.base.courses import Clock, Courses, plane_terms
from exfam.fields.base.levels import n_models
from exfam.fields.base.limits import Evidence, observation_below
from exfam.fields.base.new_sites import KeptNormal, NewNormal, Surfaces
from exfam.fields.networks.assemble import FieldShape
from exfam.groups import Batch


class FieldElements(NamedTuple):
    """The elements of a batch: what is normal, the anomaly, and the column of their row.

    `place`: which new place, -1 for known sites; `points`: of the new places; `noise`: variance by
    which an anomaly may be off, 0 where it is known, and None if all are
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
    noise: Float64[Tensor, "batch length"] | None = None

    @property
    def missing(self) -> Bool[Tensor, "batch length"]:
        """Which elements of the maps themselves have no value."""
        return (self.lag == 0) & ((self.site >= 0) | (self.place >= 0)) & ~self.shown

    def one_by_one(self) -> "FieldElements":
        """Of a single map: as many as it has elements, each with the anomaly of one of them."""
        n = self.anomaly.shape[1]
        of_places = ("points", "doubt")
        columns: dict[str, Any] = {
            name: part.expand(n, -1)
            for name, part in self._asdict().items()
            if part is not None and name not in of_places
        }
        return self._replace(**{**columns, "anomaly": torch.diag(self.anomaly[0])})

    def placed(self, eta: Float64[Tensor, "batch length 3"]) -> Float64[Tensor, "batch length 3"]:
        """Parameters of values from those of anomalies; 0 for elements that are none."""
        location = self.location + self.scale * eta[..., 0]
        placed = torch.stack([location, self.scale.log() + eta[..., 1], eta[..., 2]], -1)
        return torch.where(torch.isfinite(placed), placed, 0.0)


class KnownRows(NamedTuple):
    """Maps as rows of known sites' anomalies; which elements are targets, and of which site.

    `column`: of each element in the rows, as many as there are where it has none
    """

    rows: Evidence
    own: Bool[Tensor, "batch length"]
    site: Int64[Tensor, "batch length"]
    column: Int64[Tensor, "batch length"]


class NearSites(NamedTuple):
    """Some known sites, and the columns near each with covariances: a base's, and the kernel's."""

    sites: Int64[Tensor, "targets"]
    covariance: NearColumns
    prior: NearColumns


class NormalPart(nn.Module):
    """What is normal at known sites, and at places between them; buffers alone.

    `limit`: the value that says no more than that it is at most this, if there is one
    """

    def __init__(self, shape: FieldShape, *, period: float, limit: float | None = None) -> None:
        super().__init__()
        self.limit = limit
        self.n_sites, self.metric = shape.n_sites, shape.metric
        self.clock = Clock(period, shape.step)
        globe = shape.metric == "haversine"
        space, self.n_flat = (3, 2) if globe else (shape.n_dims, shape.n_dims)
        zeros, n = partial(torch.zeros, dtype=torch.float64), shape.n_sites
        self.axes = nn.Buffer(zeros(space + 2, space))
        self.points = nn.Buffer(zeros(n, space))
        self.course = nn.Buffer(zeros(n, 2 + self.clock.n_waves))
        self.center = nn.Buffer(zeros(self.clock.n_waves))
        self.fixed, self.varying = shape.fixed_covariates, shape.varying_covariates
        n_fixed, n_varying = len(self.fixed), len(self.varying)
        self.plane = nn.Buffer(zeros(1 + self.n_flat + n_fixed, self.clock.n_waves))
        self.weights = nn.Buffer(zeros(2, n_models(n_fixed)))
        # Those of sites that do not change; effects of those that do, at new sites last.
        self.covariates = nn.Buffer(zeros(n, n_fixed), persistent=n_fixed > 0)
        self.effects = nn.Buffer(zeros(n + 1, n_varying), persistent=n_varying > 0)
        self._kept = KeptNormal()

    def take(self, courses: Courses, surfaces: Surfaces, frame: Frame) -> None:
        """Fill in what a base has learned."""
        unit = frame.unit.expand(1, len(frame.center))
        self.axes.copy_(torch.cat([frame.rotation, frame.center[None], unit]))
        self.points.copy_(surfaces.points)
        self.course.copy_(
            torch.cat([courses.level[:, None], courses.scale[:, None], courses.wave], 1)
        )
        self.center.copy_(courses.center)
        self.plane.copy_(courses.plane)
        self.weights.copy_(surfaces.weights)
        self.covariates.copy_(surfaces.more)
        if courses.effects is not None:
            self.effects.copy_(torch.cat([courses.effects.own, courses.effects.common[None]]))

    @property
    def log_scale(self) -> Float64[Tensor, "sites"]:
        """Logarithms of the sites' spreads."""
        return self.course[:, 1].log()

    @property
    def frame(self) -> Frame:
        """Where places are seen from."""
        rotation, center, unit = self.axes[:-2], self.axes[-2], self.axes[-1, 0]
        return Frame(center, rotation, unit, self.n_flat)

    def elements(self, batch: Batch) -> FieldElements:
        """All elements of a batch, those that are not present among them."""
        frame, present = self.frame, batch.present
        site = torch.full_like(batch.element, -1) if batch.item is None else batch.item.long()
        lag = batch.steps_back.long()
        site = torch.where(present, site, -1)
        is_new = present & (site < 0)
        points = frame.points(batch.attributes["coordinates"][is_new], metric=self.metric)
        more = self._covariates(batch, self.fixed)[is_new]
        distinct, index = torch.unique(torch.cat([points, more], 1), dim=0, return_inverse=True)
        distinct, more = distinct[:, : points.shape[1]], distinct[:, points.shape[1] :]
        place = torch.full_like(lag, -1)
        place[is_new] = index
        normal = self.usual_at(distinct, more)
        terms = torch.cat([plane_terms(distinct, self.n_flat), more], 1)
        # What is normal at known sites, then at new places, then at nothing.
        level = torch.cat([self.course[:, 0], normal.level, torch.zeros(1).double()])
        scale = torch.cat([self.course[:, 1], normal.scale, torch.ones(1).double()])
        wave = torch.cat([self.course[:, 2:], terms @ self.plane])
        wave = torch.cat([wave, torch.zeros_like(wave[:1])])
        at = torch.where(site >= 0, site, torch.where(is_new, self.n_sites + place, len(level) - 1))
        time = batch.group_attributes["time"].double() - self.clock.step * lag
        waves = self.clock.waves(time) - self.center
        location = level[at] + (waves * wave[at]).sum(-1) + self.added(batch)
        (value,) = batch.values.values()
        shown = batch.observed & present
        anomaly = torch.where(shown, (value.double() - location) / scale[at], 0.0)
        doubt, noise = normal.doubt / normal.scale, None
        if self.limit is not None:
            # A draw below the limit is known; only the limit itself stands for all below.
            censored = shown & (value.float() == torch.tensor(self.limit).float())
            seen = observation_below((self.limit - location) / scale[at])
            anomaly = torch.where(censored, seen.value, anomaly)
            noise = torch.where(censored, seen.noise, 0.0) if bool(censored.any()) else None
        return FieldElements(
            location, scale[at], anomaly, shown, lag, site, place, distinct, doubt, noise
        )

    def added(self, batch: Batch) -> Float64[Tensor, "batch length"]:
        """What covariates that change add to what is normal; 0 where nothing is present."""
        site = torch.full_like(batch.element, -1) if batch.item is None else batch.item.long()
        effects = self.effects[torch.where(site >= 0, site, self.n_sites)]
        return (effects * self._covariates(batch, self.varying)).sum(-1)

    def _covariates(
        self, batch: Batch, some: tuple[int, ...]
    ) -> Float64[Tensor, "batch length covariates"]:
        """Some of the covariates; 0 where nothing is present."""
        if not some:
            return torch.zeros(*batch.present.shape, 0).double()
        covariates = batch.attributes["covariates"][..., list(some)].double()
        return torch.where(batch.present[..., None], covariates, 0.0)

    def usual_at(
        self,
        points: Float64[Tensor, "places space"],
        more: Float64[Tensor, "places covariates"],
    ) -> NewNormal:
        """What is normal at new places, the covariates of which never change."""
        if not len(points):
            none = torch.zeros(0).double()
            return NewNormal(none, none, none)
        value = torch.stack([self.course[:, 0], self.course[:, 1].log()], -1)
        surfaces = Surfaces(self.points, value, self.weights, self.n_flat, self.covariates)
        return self._kept.of(
            torch.cat([points, more], -1),
            self.course,
            lambda some: surfaces.at(points[some], more[some]),
        )


def anomaly_rows(
    elements: FieldElements, column: Int64[Tensor, "batch length"], n: int
) -> Evidence:
    """Anomalies of each map by column, of which there are `n`, and what of them is shown."""
    seen = torch.where(elements.shown, column, n)
    values, noise = in_columns(elements.anomaly, seen, n), elements.noise
    shown = in_columns(torch.ones_like(elements.shown), seen, n)
    return Evidence(values, shown, None if noise is None else in_columns(noise, seen, n))


def known_rows_of(elements: FieldElements, n_sites: int, n_lags: int) -> KnownRows:
    """Elements as rows of known sites; values at new places are not among them."""
    column = columns_of_elements(elements.site, elements.lag, n_sites=n_sites, n_lags=n_lags)
    seen = anomaly_rows(elements, column, n_sites * (n_lags + 1))
    own = (elements.lag == 0) & (elements.site >= 0)
    return KnownRows(seen, own, elements.site, column)
