"""What settings of a base are tried on, blocks of time held out, and which are clearly better."""

from collections.abc import Iterator, Sequence
from copy import copy
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from exfam.estimator.gain import Gain, gain_of_sums
from exfam.families import Gaussian
from exfam.fields.base.columns import MapColumns
from exfam.fields.base.conditionals import (
    LEAST_VARIANCE,
    MOST_DF,
    MOST_ENTRIES,
    GivenOthers,
    NearColumns,
    OfMatrix,
    nearest_columns,
    patterns,
)
from exfam.fields.base.courses import CourseChoice, Courses
from exfam.fields.base.kernel import MovingKernel
from exfam.fields.base.limits import Evidence, log_mass_below, nats_of
from exfam.fields.base.maps import N_FOLDS, Covariance, Maps, blocks, kernel_of
from exfam.fields.base.moments import MOST_MULTIPLICATIONS

DEGREES = (MOST_DF, 300.0, 150.0, 80.0, 50.0, 30.0, 20.0, 14.0, 10.0, 7.0, 5.0, 4.0, 3.0, 2.5, 2.2)
# Where zeros are censored, fewer would leave some values without a variance.
FEWEST_DEGREES_OF_CENSORED = 5.0
# Where nothing else is tried.
USUAL_NEAR = 22
# Columns that a value may be predicted from, where not all are.
MOST_CANDIDATES = 256
# Systems that one trial may solve where what is shown differs from row to row.
MOST_SYSTEMS = 20_000
FEWEST_ROWS = 5
# Values of a site that blocks without it must show, or this share of their maps if that is fewer.
FEWEST_SEEN, SHARE_SEEN = 5, 0.5

Numbers = Float64[Tensor, "values"]

# One of so many stretches of time that sites' gaps may be in is tried.
GAPS_EVERY = 2

# Blocks of neighboring maps that errors of a gain are taken over: as many, or shorter ones.
MAPS_OF_A_BLOCK, FEWEST_BLOCKS = 10, 8


class Settings(NamedTuple):
    """What was chosen. `shrinkage`: weight of the kernel; `n_near`: None for all columns.

    `tails`: degrees of freedom of predicted values; None for those of the multivariate t; `ahead`:
    the logarithm of how much wider values are spread after the fit, `gaps`: where no earlier value
    of their sites is shown; `forecasts`: what was chosen for values whose map shows nothing, whose
    `gaps` are these; None if that is the same; `memories`: weight of the covariance in which sites
    have memories of their own, which replaces the kernel's if this is not 0
    """

    courses: CourseChoice
    shrinkage: float
    df: float
    n_near: int | None
    tails: float | None = None
    ahead: float = 0.0
    gaps: float = 0.0
    forecasts: "Settings | None" = None
    memories: float = 0.0


@runtime_checkable
class BaseRows(Protocol):
    """Rows of maps, and what each of some sites, the targets, is predicted from in them.

    `columns`: of the rows, the targets' own ones first
    """

    maps: Maps
    targets: Int64[Tensor, "targets"]
    columns: MapColumns

    @property
    def prior(self) -> NearColumns:
        """Near each target, of the kernel."""

    def evidence(self, courses: Courses) -> Evidence:
        """Rows of anomalies as others are predicted from them."""

    def products(self, courses: Courses, left: Bool[Tensor, "times"]) -> Tensor:
        """Mean products of the columns that `prior` has covariances of, over the maps left."""

    def prior_of(self, courses: Courses, left: Bool[Tensor, "times"]) -> NearColumns:
        """`prior`, or that of a kernel that fits the maps left."""


class WholeRows:
    """Rows of all columns, whose covariances one matrix holds; all sites are targets.

    `most`: multiplications, as in `Maps.products`; `kernel`: that of the prior, if those that leave
    maps out are to be fitted
    """

    def __init__(
        self,
        maps: Maps,
        prior: Covariance,
        *,
        most: float = MOST_MULTIPLICATIONS,
        kernel: MovingKernel | None = None,
    ) -> None:
        self.maps, self.targets, self.columns = maps, maps.sites.own, maps.sites.columns
        self._prior, self._most, self._kernel = prior, most, kernel
        self._has_memories = False
        self.prior = OfMatrix(prior, self.targets, candidates(prior, self.targets))

    def of(self, maps: Maps) -> "WholeRows":
        """The same of other maps."""
        rows = WholeRows(maps, self._prior, most=self._most, kernel=self._kernel)
        return rows.with_memories() if self._has_memories else rows

    def with_memories(self) -> "WholeRows":
        """The same, each site with a memory of its own."""
        rows = copy(self)
        rows._has_memories = True
        rows.prior = self.prior._replace(n_maps=len(self.maps.panel.time))
        return rows

    def evidence(self, courses: Courses) -> Evidence:
        return self.maps.evidence(courses)

    def products(self, courses: Courses, left: Bool[Tensor, "times"]) -> Covariance:
        return self.maps.products(courses, self._prior, left, most=self._most)

    def prior_of(self, courses: Courses, left: Bool[Tensor, "times"]) -> OfMatrix:
        if self._kernel is None:
            return self.prior
        rows = self.maps.known_rows(courses, left)
        prior = kernel_of(*rows, self.maps.sites, near=self._kernel).of(self.columns)
        n_maps = int(left.sum()) if self._has_memories else 0
        return OfMatrix(prior, self.targets, candidates(prior, self.targets), n_maps)


def candidates(prior: Covariance, targets: Int64[Tensor, "targets"]) -> Int64[Tensor, "targets _"]:
    """The columns that each target may be predicted from, best first."""
    return nearest_columns(prior, targets, most=MOST_CANDIDATES)


def prior_of(maps: Maps, choice: CourseChoice) -> Covariance:
    """The covariance of all columns in the kernel that fits these maps."""
    return kernel_of(*maps.rows(maps.courses(choice)), maps.sites).of(maps.sites.columns)


class HeldOutMaps(NamedTuple):
    """A block of time held out: anomalies of its rows, and moments and prior of the others.

    `log_scale`: of the first columns, which are targets; `row`: which row of all maps each is
    """

    evidence: Evidence
    products: Float64[Tensor, "*blocks columns columns"]
    log_scale: Float64[Tensor, "sites"]
    row: Int64[Tensor, "rows"]
    prior: NearColumns


class Trials:
    """What settings of one choice of courses are tried on: each block, from bases without it.

    `without_own` predicts values from earlier maps alone.
    """

    def __init__(self, rows: BaseRows, courses: CourseChoice) -> None:
        self.courses, self.folds = courses, list[HeldOutMaps]()
        self._is_earlier = rows.columns.lag > 0
        self._hidden = torch.zeros_like(self._is_earlier)
        for held in blocks(len(rows.maps.panel.time)):
            of_others = rows.maps.take(~held).courses(courses)
            evidence = rows.evidence(of_others).take(held)
            # What is normal at a site that others hardly show is not known: it says nothing here.
            fewest = min(FEWEST_SEEN, SHARE_SEEN * int((~held).sum()))
            seen = rows.maps.panel.shown[~held].sum(0) >= fewest
            evidence = evidence._replace(shown=evidence.shown & seen[rows.columns.site])
            products, log_scale = rows.products(of_others, ~held), of_others.scale.log()
            row = held.nonzero()[:, 0]
            prior = rows.prior_of(of_others, ~held)
            fold = HeldOutMaps(evidence, products, log_scale[rows.targets], row, prior)
            self.folds.append(with_fewer_rows(fold))

    @property
    def has_lags(self) -> bool:
        """Whether earlier maps are seen."""
        return bool(self._is_earlier.any())

    def without_own(self) -> "Trials":
        """The same blocks, without what each map itself shows."""
        trials = copy(self)
        trials._hidden = ~self._is_earlier
        return trials

    def with_memories(self) -> "Trials":
        """The same blocks, each site with a memory of its own."""
        trials, n_maps = copy(self), sum(len(fold.row) for fold in self.folds)
        trials.folds = []
        for fold in self.folds:
            if isinstance(fold.prior, OfMatrix):
                fold = fold._replace(prior=fold.prior._replace(n_maps=n_maps - len(fold.row)))
            trials.folds.append(fold)
        return trials

    def given(
        self, shrinkage: float, n_near: int | None
    ) -> Iterator[tuple[HeldOutMaps, GivenOthers]]:
        """The blocks held out, and their values given others."""
        for fold in self.folds:
            near = fold.prior.drawn(fold.products, shrinkage)
            yield fold, fold.evidence.without(self._hidden).given(near, n_near)


def in_gaps(rows: WholeRows, settings: Settings) -> Iterator[tuple[HeldOutMaps, GivenOthers]]:
    """Values held out in runs: of each site a block of time, another one of the next site.

    Bases without these values predict them from what other sites show on the same maps.
    """
    maps, choice = rows.maps, settings.courses
    in_block = torch.stack(blocks(len(maps.panel.time)), 1).long().argmax(1)
    stretch = in_block[:, None] + maps.sites.own
    for k in range(0, N_FOLDS, GAPS_EVERY):
        held = maps.panel.shown & (stretch % N_FOLDS == k)
        left = maps._replace(panel=maps.panel._replace(shown=maps.panel.shown & ~held))
        if not held.any() or not left.panel.shown.any(0).all():
            continue
        courses, everywhen = left.courses(choice), torch.ones(len(held), dtype=torch.bool)
        of_left = rows.of(left)
        near = of_left.prior_of(courses, everywhen)
        near = near.drawn(of_left.products(courses, everywhen), settings.shrinkage)
        evidence, n = rows.evidence(courses), held.shape[1]
        shown = of_left.evidence(courses).shown
        given = evidence._replace(shown=shown).given(near, settings.n_near)
        evidence = evidence.first(n)._replace(shown=held)
        row = torch.arange(len(held))
        yield HeldOutMaps(evidence, near.variance, courses.scale.log(), row, near), given


def with_fewer_rows(fold: HeldOutMaps) -> HeldOutMaps:
    """Evenly taken rows where what is shown differs from row to row and rows are many."""
    shown, noise = fold.evidence.shown, fold.evidence.noise
    n_rows = len(shown)
    if len(list(patterns(shown, noise))) <= max(1, n_rows // 4):
        return fold
    n = min(n_rows, max(FEWEST_ROWS, MOST_SYSTEMS // (N_FOLDS * len(fold.log_scale))))
    some = torch.linspace(0, n_rows - 1, n).round().long()
    return fold._replace(evidence=fold.evidence.take(some), row=fold.row[some])


def best_settings(
    trials: Trials, *, shrinkages: Sequence[float], near: Sequence[int | None]
) -> tuple[float, Settings]:
    """The most nats of all held-out values, and with what."""
    best = (-torch.inf, Settings(trials.courses, 1.0, DEGREES[0], USUAL_NEAR))
    for shrinkage in shrinkages:
        for n_near in near:
            nats = torch.zeros(len(DEGREES)).double()
            for fold, given in trials.given(shrinkage, n_near):
                nats += nats_by_df(fold, given)
            if float(nats.max()) > best[0]:
                df = DEGREES[int(nats.argmax())]
                best = (float(nats.max()), Settings(trials.courses, shrinkage, df, n_near))
    return best


def nats_by_df(fold: HeldOutMaps, found: GivenOthers) -> Float64[Tensor, "degrees"]:
    """Sums of log densities of the values shown, in the value's unit, by degrees of freedom."""
    own = fold.evidence.first(len(fold.log_scale))
    known = own.shown if own.censored is None else own.shown & ~own.censored
    square = (own.values - found.mean).square()[known]
    variance, squares, number = (part[known] for part in found[1:])
    scales = fold.log_scale.expand_as(known)[known].sum()
    some = max(1, MOST_ENTRIES // len(DEGREES))
    parts = (part.split(some) for part in (square, variance, squares, number))
    nats = sum((_t_nats(*part) for part in zip(*parts, strict=True)), -scales)
    if own.censored is not None and own.limit is not None:
        under = GivenOthers(*(part[own.censored] for part in found))
        masses = [log_mass_below(own.limit[own.censored], under, df).sum() for df in DEGREES]
        nats = nats + torch.stack(masses)
        few = nats.new_tensor(DEGREES) < FEWEST_DEGREES_OF_CENSORED
        nats = nats.masked_fill(few, -torch.inf)
    return nats


def _t_nats(
    square: Numbers, variance: Numbers, squares: Numbers, number: Numbers
) -> Float64[Tensor, "degrees"]:
    """Sums of the log densities of `GivenOthers.student_t`, of all degrees."""
    df = square.new_tensor(DEGREES)[:, None]
    total = df + number
    scale = variance.clamp_min(LEAST_VARIANCE) * ((df - 2) + squares) / total
    # There are few numbers of others.
    counts, index = number.unique(return_inverse=True)
    half = (df + counts) / 2
    height = (half + 0.5).lgamma() - half.lgamma() - 0.5 * (2 * torch.pi * half).log()
    wild = (total + 1) / 2 * (square / scale / total).log1p()
    return (height[:, index] - 0.5 * scale.log() - wild).sum(1)


class MapNats(NamedTuple):
    """Log densities of held-out maps: of each its row, the sum over its values, their number."""

    row: Int64[Tensor, "maps"]
    nats: Float64[Tensor, "maps"]
    number: Float64[Tensor, "maps"]

    def take(self, index: Tensor) -> "MapNats":
        """Some of the maps."""
        return MapNats(*(part[index] for part in self))

    def since(self, row: Int64[Tensor, ""]) -> "MapNats":
        """The maps from a row on."""
        return self.take(self.row >= row)

    def gain_on(self, other: "MapNats") -> Gain:
        """What these nats have more than others, by blocks of the maps that both have."""
        ours = self.take(torch.isin(self.row, other.row))
        theirs = other.take(torch.isin(other.row, self.row))
        n_of_block = max(1, min(MAPS_OF_A_BLOCK, len(ours.row) // FEWEST_BLOCKS))
        block = torch.arange(len(ours.row)) // n_of_block
        return gain_by_block(ours.nats - theirs.nats, ours.number, block, float(theirs.nats.sum()))


def gain_by_block(
    added: Float[Tensor, "parts"],
    size: Float[Tensor, "parts"],
    block: Int64[Tensor, "parts"],
    base: float,
    *,
    gate: float = 1.0,
) -> Gain:
    """The gain of parts with so many values each, by blocks that increase; `base`: nats of all."""
    zeros = torch.zeros(int(block[-1]) + 1).double()
    total, count = (zeros.index_add(0, block, part.double()).numpy() for part in (added, size))
    return gain_of_sums(total, count, base, weights=(1.0, gate))


def map_nats(trials: Trials, settings: Settings) -> MapNats:
    """The nats of each held-out map under some settings of the trials' courses."""
    parts = []
    for fold, given in trials.given(settings.shrinkage, settings.n_near):
        own = fold.evidence.first(len(fold.log_scale))
        shown = own.shown
        eta = given.student_t(settings.df, settings.tails)
        nats = nats_of(own.values, eta, own.censored, own.limit)
        density = True if own.censored is None else ~own.censored
        nats = nats - fold.log_scale * density
        parts.append((fold.row, torch.where(shown, nats, 0.0).sum(1), shown.double().sum(1)))
    return MapNats(*(torch.cat(part) for part in zip(*parts, strict=True)))


def nats_alone(trials: Trials) -> float:
    """Nats of held-out values given no other, as Gaussians of what is normal at their sites."""
    total = 0.0
    for fold in trials.folds:
        own = fold.evidence.first(len(fold.log_scale))
        nats = Gaussian().log_prob(own.values, torch.zeros(*own.values.shape, 2).double())
        total += float(torch.where(own.shown, nats - fold.log_scale, 0.0).sum())
    return total
