"""The base as a part: Student t distributions of each value given the others of its row."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn

from exfam.fields.base.columns import MapColumns, at_columns, in_columns
from exfam.fields.base.conditionals import MOST_DF, OfMatrix
from exfam.fields.base.elements import (
    FieldElements,
    KnownRows,
    NearSites,
    NormalPart,
    anomaly_rows,
    known_rows_of,
    without_own_tails,
)
from exfam.fields.base.fit import FieldBase, sites_of
from exfam.fields.base.folds import (
    Covariance,
    Joint,
    Sites,
    candidates,
    given_shown,
)
from exfam.fields.base.frame import Frame
from exfam.fields.base.joint_draws import Wanted, joint_levels
from exfam.fields.base.kernel import MovingKernel, n_numbers
from exfam.fields.base.new_sites import Calibration, Extended, extend
from exfam.fields.networks.assemble import FieldShape
from exfam.groups import Batch

# New places without a value that are predicted together.
PLACES_AT_ONCE = 500


class Known(NamedTuple):
    """What is known of known sites: `both` are covariances of their columns."""

    sites: Sites
    kernel: MovingKernel
    both: Extended
    joint: Joint


class FieldBasePart(nn.Module):
    """p(value | the others shown of its map and of those before it); buffers alone.

    Known sites have their own courses and the empirical covariance shrunk to the kernel; new places
    are between them: surfaces for what is normal, the kernel for anomalies.
    """

    direction = "bidirectional"

    def __init__(self, shape: FieldShape, *, period: float, limit: float | None = None) -> None:
        super().__init__()
        self.n_sites, self.n_lags = shape.n_sites, shape.lags
        self.normal = NormalPart(shape, period=period, limit=limit)
        self.kernel = nn.Buffer(torch.zeros(n_numbers(self.normal.n_flat)).double())
        n = shape.n_sites
        self.products = nn.Buffer(torch.eye(n * (shape.lags + 1)).double())
        # Shrinkage, degrees of freedom, columns (0 for all); of new sites: degrees, stretch, tails;
        # tails of known ones (0 for those of the multivariate t).
        numbers = [1.0, MOST_DF, 0.0, MOST_DF, 1.0, MOST_DF, 0.0]
        self.chosen = nn.Buffer(torch.tensor(numbers).double())
        self.register_load_state_dict_pre_hook(without_own_tails)
        self._known: Known | None = None

    def take(self, base: FieldBase, frame: Frame) -> "FieldBasePart":
        """The part with what a base has learned."""
        settings = base.settings
        self.normal.take(base.courses, base.surfaces, frame)
        self.kernel.copy_(base.kernel.numbers)
        self.products.copy_(base.products)
        numbers = [settings.shrinkage, settings.df, float(settings.n_near or 0), *base.calibration]
        numbers.append(settings.tails or 0.0)
        self.chosen.copy_(torch.tensor(numbers, dtype=torch.float64))
        return self

    @torch.no_grad()
    def eta(self, batch: Batch) -> Float[Tensor, "batch length 3"]:
        """Location, log scale and log(df - 2) of every element of the maps themselves."""
        return self.of_elements(self.normal.elements(batch))

    @torch.no_grad()
    def of_elements(self, elements: FieldElements) -> Float[Tensor, "batch length 3"]:
        """The same, of elements whose anomalies are known."""
        known = self.known()
        calibration = Calibration(*self.chosen[3:6].tolist())
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

    def known_rows(self, batch: Batch) -> KnownRows:
        """The batch as rows of known sites; values at new places are not among them."""
        return known_rows_of(self.normal.elements(batch), self.n_sites, self.n_lags)

    def near_sites(self) -> Iterator[NearSites]:
        """All known sites at once."""
        known = self.known()
        own, both = known.sites.own, known.both
        columns = candidates(both.prior, own)
        yield NearSites(
            own, OfMatrix(both.covariance, own, columns), OfMatrix(both.prior, own, columns)
        )

    @property
    def df(self) -> float:
        """Degrees of freedom at known sites."""
        return float(self.chosen[1])

    @property
    def tails(self) -> float | None:
        """Those of predictions at known sites; None for those of the multivariate t."""
        return float(self.chosen[6]) or None

    @property
    def n_near(self) -> int | None:
        """How many columns a value is predicted from; None for all."""
        return int(self.chosen[2]) or None

    def location(self, batch: Batch) -> Float64[Tensor, "batch length"]:
        """What is normal at each element's site and time."""
        return self.normal.elements(batch).location

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
        n_near = known.joint.n_near
        if bool((elements.place[wanted] >= 0).any()):
            n_near = None
        near = candidates(both.prior, targets)
        given = given_shown(seen, both.covariance, targets, near, n_near=n_near)
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
        both, columns = known.both, known.sites.columns
        return extend(
            both.covariance, both.prior, known.kernel, columns, new, elements.doubt[index]
        )

    def known(self) -> Known:
        """Covariances of known columns, computed once."""
        if self._known is None:
            sites = sites_of(self.normal.points, self.normal.frame, n_lags=self.n_lags)
            kernel = MovingKernel(self.kernel, self.normal.n_flat)
            prior, share = kernel.of(sites.columns), float(self.chosen[0])
            covariance: Covariance = (1 - share) * self.products + share * prior
            joint = Joint(covariance, self.df, self.n_near, self.tails)
            self._known = Known(sites, kernel, Extended(covariance, prior), joint)
        return self._known
