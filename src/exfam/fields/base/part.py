"""Bases as parts: Student t distributions of each value given the others of its row."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn

from exfam.fields.base.columns import Frame, MapColumns, at_columns, in_columns
from exfam.fields.base.conditionals import MOST_DF, MOST_ENTRIES, OfMatrix, given_all
from exfam.fields.base.elements import (
    FieldElements,
    KnownRows,
    NearSites,
    NormalPart,
    anomaly_rows,
    known_rows_of,
)
from exfam.fields.base.fit import FieldBase, sites_of
from exfam.fields.base.joint_draws import Wanted, joint_levels
from exfam.fields.base.kernel import MovingKernel, n_numbers
from exfam.fields.base.maps import Covariance, Sites
from exfam.fields.base.new_sites import Calibration, Extended, extend
from exfam.fields.base.trials import candidates
from exfam.fields.networks.assemble import FieldShape
from exfam.groups import Batch

# Degrees of freedom, columns (0 for all); of new sites: degrees, stretch, tails; tails of known
# ones (0 for those of the multivariate t); the last time of the fit, and the logarithm of how much
# wider values are spread after it; the variance that all sites have in common.
START = (MOST_DF, 0.0, MOST_DF, 1.0, MOST_DF, 0.0, 0.0, 0.0, 0.0)
# Bases stored before there were times ahead lack so many of these, those before tails one more.
MISSING = (3, 4)
# Of values whose map shows nothing: the kernel's weight, degrees of freedom, columns (0 for all),
# tails (0 for those of the multivariate t), the logarithm of how much wider values are spread. All
# are 0 where these are as other values are. Last, how much wider values are in gaps.
N_OF_FORECASTS = 6

# New places without a value that are predicted together.
PLACES_AT_ONCE = 500


class BasePart(nn.Module, ABC):
    """p(value | others shown of its map and of those before it); buffers alone.

    `chosen`: what a kind of base has first (the weight of the kernel), then those of `START`
    """

    direction = "bidirectional"

    def __init__(
        self,
        shape: FieldShape,
        *,
        period: float,
        limit: float | None = None,
        more: tuple[float, ...] = (),
    ) -> None:
        super().__init__()
        self.n_sites, self.n_lags = shape.n_sites, shape.lags
        self.normal = NormalPart(shape, period=period, limit=limit)
        self.kernel = nn.Buffer(torch.zeros(n_numbers(self.normal.n_flat)).double())
        self.chosen = nn.Buffer(torch.tensor([*more, *START]).double())
        self.of_forecasts = nn.Buffer(torch.zeros(N_OF_FORECASTS).double())
        self.register_load_state_dict_pre_hook(completed_state)

    @abstractmethod
    def of_elements(self, elements: FieldElements) -> Float[Tensor, "batch length 3"]:
        """Location, log scale and log(df - 2) of elements whose anomalies are known."""

    @abstractmethod
    def joint_levels(
        self, batch: Batch, *, generator: torch.Generator
    ) -> Float64[Tensor, "batch length"]:
        """Probabilities below joint draws of what is missing on the maps themselves; else 1/2."""

    @abstractmethod
    def near_sites(self) -> Iterator[NearSites]:
        """All known sites, some at a time."""

    @torch.no_grad()
    def eta(self, batch: Batch) -> Float[Tensor, "batch length 3"]:
        """Location, log scale and log(df - 2) of every element of the maps themselves."""
        elements = self.normal.elements(batch)
        eta = self.of_elements(elements)
        end, late = self.chosen[-3:-1].tolist()
        ahead, gaps = self.of_forecasts[-2:].tolist()
        if late or ahead or gaps:
            is_late = batch.group_attributes["time"].double() > end
            wider = torch.where(is_late, late, 0.0).expand_as(elements.site)
            if gaps > 0:
                wider = torch.where(self.in_gap(elements), wider.clamp_min(gaps), wider)
            wider = torch.where(self.is_forecast(elements), ahead, wider)
            eta[..., 1] += torch.where(elements.site >= 0, wider, 0.0)
        return eta

    def in_gap(self, elements: FieldElements) -> Bool[Tensor, "batch length"]:
        """Which elements of maps that show something have no earlier value of their site."""
        site = torch.where(elements.shown & (elements.lag > 0), elements.site, -1)
        seen = torch.zeros(len(site), self.n_sites + 1, dtype=torch.bool)
        seen = seen.scatter(1, torch.where(site >= 0, site, self.n_sites), value=True)[:, :-1]
        own = (elements.lag == 0) & (elements.site >= 0) & ~self.is_forecast(elements)
        return own & ~seen.gather(1, elements.site.clamp_min(0))

    def is_forecast(self, elements: FieldElements) -> Bool[Tensor, "batch one"]:
        """Whether maps are predicted from earlier ones alone, by settings of their own."""
        shows_own = (elements.shown & (elements.lag == 0)).any(1, keepdim=True)
        return ~shows_own & (self.of_forecasts[0] > 0)

    def known_rows(self, batch: Batch) -> KnownRows:
        """The batch as rows of known sites; values at new places are not among them."""
        return known_rows_of(self.normal.elements(batch), self.n_sites, self.n_lags)

    def location(self, batch: Batch) -> Float64[Tensor, "batch length"]:
        """What is normal at each element's site and time."""
        return self.normal.elements(batch).location

    @property
    def df(self) -> float:
        """Degrees of freedom at known sites."""
        return float(self.chosen[-9])

    @property
    def n_near(self) -> int | None:
        """How many columns a value is predicted from; None for all."""
        return int(self.chosen[-8]) or None

    @property
    def calibration(self) -> Calibration:
        """Of new sites."""
        return Calibration(*self.chosen[-7:-4].tolist())

    @property
    def tails(self) -> float | None:
        """Those of predictions at known sites; None for those of the multivariate t."""
        return float(self.chosen[-4]) or None

    @property
    def moving_kernel(self) -> MovingKernel:
        """The kernel of these numbers."""
        return MovingKernel(self.kernel, self.normal.n_flat, float(self.chosen[-1]))

    def take(self, base: FieldBase, frame: Frame) -> None:
        """Fill in what a base has learned."""
        settings = base.settings
        self.normal.take(base.courses, base.surfaces, frame)
        self.kernel.copy_(base.kernel.numbers)
        tails = [*base.calibration, settings.tails or 0.0]
        numbers = [settings.df, float(settings.n_near or 0), *tails, base.end, settings.ahead]
        numbers.append(base.kernel.common)
        self.chosen[: -len(START)] = settings.shrinkage
        self.chosen[-len(START) :] = torch.tensor(numbers, dtype=torch.float64)
        if settings.forecasts is not None:
            ahead = settings.forecasts
            numbers = [ahead.shrinkage, ahead.df, float(ahead.n_near or 0), ahead.tails or 0.0]
            numbers += [ahead.gaps, settings.gaps]
            self.of_forecasts.copy_(torch.tensor(numbers, dtype=torch.float64))
        for name, learned in base.numbers.items():
            self.get_buffer(name).copy_(learned)


def completed_state(
    module: nn.Module, state: dict[str, Tensor], prefix: str, *rest: object
) -> None:
    """Of bases stored before some of what is chosen was, these numbers are 0."""
    state.setdefault(f"{prefix}of_forecasts", torch.zeros(N_OF_FORECASTS).double())
    name = f"{prefix}chosen"
    stored = state.get(name)
    if stored is not None and len(module.get_buffer("chosen")) - len(stored) in MISSING:
        state[name] = nn.functional.pad(stored, (0, len(module.get_buffer("chosen")) - len(stored)))


class Known(NamedTuple):
    """What is known of known sites: `both` are covariances of their columns."""

    sites: Sites
    kernel: MovingKernel
    both: Extended


class Given(NamedTuple):
    """How values are predicted from others: of `Settings`."""

    known: Known
    df: float
    n_near: int | None
    tails: float | None = None


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
        self._known = dict[bool, Known]()
        # Columns of new places that were looked at last, such as a grid's, and their covariances.
        self._placed: tuple[Known, Tensor, Extended] | None = None
        self._near_sites: Tensor | None = None

    def of_elements(self, elements: FieldElements) -> Float[Tensor, "batch length 3"]:
        known = self.known()
        calibration = self.calibration
        used = torch.zeros(len(elements.points), dtype=torch.bool)
        used[elements.place[elements.shown & (elements.place >= 0)]] = True
        eta = torch.zeros(*elements.shown.shape, 3).double()
        observed = used.nonzero()[:, 0]
        own = (elements.lag == 0) & (elements.site >= 0)
        is_forecast = self.is_forecast(elements)
        of_others = Given(known, self.df, self.n_near, self.tails)
        eta = self._of_targets(eta, elements, of_others, observed, own & ~is_forecast)
        eta = self._of_targets(eta, elements, self._ahead(), observed, own & is_forecast)
        for some in [observed, *(~used).nonzero()[:, 0].split(PLACES_AT_ONCE)]:
            new = (elements.lag == 0) & torch.isin(elements.place, some) & (elements.place >= 0)
            if new.any():
                places = torch.cat([observed, some[~used[some]]])
                given = Given(known, calibration.df, self.n_near)
                eta = self._of_targets(eta, elements, given, places, new)
                eta = torch.where(new[..., None], calibration.of(eta), eta)
        return elements.placed(eta)

    @torch.no_grad()
    def joint_levels(
        self, batch: Batch, *, generator: torch.Generator
    ) -> Float64[Tensor, "batch length"]:
        elements = self.normal.elements(batch)
        missing = elements.missing
        of_use = elements.place[(elements.shown | missing) & (elements.place >= 0)].unique()
        levels, is_forecast = torch.full(missing.shape, 0.5).double(), self.is_forecast(elements)
        for ahead in is_forecast.unique().tolist():
            both = self._extended(self.known(ahead=ahead), elements, of_use)
            column, n = self._columns(elements, of_use), len(both.covariance)
            seen, some = anomaly_rows(elements, column, n), missing & (is_forecast == ahead)
            drawn = in_columns(some, torch.where(some, column, n), n)
            wanted = Wanted(seen.shown, drawn, seen.noise)
            df = float(self.of_forecasts[1]) if ahead else self.df
            found = joint_levels(wanted, both.covariance, df, generator=generator)
            levels = torch.where(some, at_columns(found, column, missing=0.5), levels)
        return levels

    def near_sites(self) -> Iterator[NearSites]:
        known = self.known()
        own, both = known.sites.own, known.both
        columns = self._near()
        yield NearSites(
            own, OfMatrix(both.covariance, own, columns), OfMatrix(both.prior, own, columns)
        )

    def _of_targets(
        self,
        eta: Float64[Tensor, "batch length 3"],
        elements: FieldElements,
        settings: "Given",
        places: Int64[Tensor, "some"],
        wanted: Bool[Tensor, "batch length"],
    ) -> Float64[Tensor, "batch length 3"]:
        """Parameters of anomalies where wanted, given all columns of known sites and places."""
        if not wanted.any():
            return eta
        both = self._extended(settings.known, elements, places)
        column, n = self._columns(elements, places), len(both.covariance)
        seen = anomaly_rows(elements, column, n)
        targets, back = column[wanted].unique(return_inverse=True)
        if bool((elements.place[wanted] >= 0).any()):
            given = given_all(seen.values, seen.shown, both.covariance, targets, noise=seen.noise)
        else:
            # Without places targets are known sites, whose candidates are always the same.
            columns = candidates(both.prior, targets) if len(places) else self._near()[targets]
            given = seen.given(OfMatrix(both.covariance, targets, columns), settings.n_near)
        row = torch.arange(len(column))[:, None].expand_as(column)[wanted]
        out = eta.clone()
        out[wanted] = given.student_t(settings.df, settings.tails)[row, back]
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
        if kept is not None and kept[0] is known and torch.equal(kept[1], where):
            return kept[2]
        both, columns = known.both, known.sites.columns
        extended = extend(both.covariance, both.prior, known.kernel, columns, new, doubt)
        if extended.prior.numel() <= MOST_ENTRIES:
            self._placed = (known, where, extended)
        return extended

    def _near(self) -> Int64[Tensor, "sites near"]:
        """The candidates of known sites among known columns, computed once."""
        if self._near_sites is None:
            known = self.known()
            self._near_sites = candidates(known.both.prior, known.sites.own)
        return self._near_sites

    def known(self, *, ahead: bool = False) -> Known:
        """Covariances of known columns, computed once; `ahead`: of maps that show nothing."""
        if ahead not in self._known:
            sites = sites_of(self.normal.points, self.normal.frame, n_lags=self.n_lags)
            kernel, share = self.moving_kernel, float(self.chosen[0])
            share = float(self.of_forecasts[0]) if ahead else share
            prior = kernel.of(sites.columns)
            covariance: Covariance = (1 - share) * self.products + share * prior
            self._known[ahead] = Known(sites, kernel, Extended(covariance, prior))
        return self._known[ahead]

    def _ahead(self) -> "Given":
        """How values of maps that show nothing are predicted."""
        df, n_near, tails = self.of_forecasts[1:4].tolist()
        return Given(self.known(ahead=True), df, int(n_near) or None, tails or None)
