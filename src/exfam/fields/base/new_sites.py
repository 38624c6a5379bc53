"""Sites that a fit did not see: what is normal there, and what the anomalies of others say."""

import math
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from exfam.fields.base.columns import MapColumns
from exfam.fields.base.conditionals import MOST_DF, GivenOthers, with_tails
from exfam.fields.base.courses import Courses
from exfam.fields.base.kernel import JITTER, MovingKernel
from exfam.fields.base.levels import Moments, SiteNumber
from exfam.fields.base.limits import Evidence, nats_of
from exfam.fields.base.maps import Covariance, Maps, Sites

# Sites left out one by one, and rows that each is predicted on.
MOST_SITES, MOST_ROWS, MOST_NUMBERS = 100, 200, 2e9
FEWEST_SITES, FEWEST_ROWS = 3, 10
DEGREES = (MOST_DF, 80.0, 30.0, 14.0, 7.0, 5.0, 3.0, 2.2)
# Where zeros are censored, fewer would leave some values without a variance.
FEWEST_DEGREES_OF_CENSORED = 7.0
TAILS = (MOST_DF, 80.0, 30.0, 20.0, 14.0, 10.0, 8.0, 6.0, 5.0, 4.0)
# Of the squared standardized error, in sites: what a few sites say is drawn to 1.
USUAL_SITES = 5.0

GivenOf = Callable[[Evidence, Int64[Tensor, "some"]], GivenOthers]

# Places that are kept, 24 bytes each and their keys.
MOST_KEPT = 50_000

Rows = Float64[Tensor, "places numbers"]


class NewNormal(NamedTuple):
    """Level and spread of new sites; `doubt`: standard deviation of what the level may be off."""

    level: Float64[Tensor, "*places"]
    scale: Float64[Tensor, "*places"]
    doubt: Float64[Tensor, "*places"]

    def of(self, place: int) -> "NewNormal":
        """Of one place."""
        return NewNormal(*(part[place] for part in self))


class Surfaces(NamedTuple):
    """Level and log spread of the sites, for places between them.

    `value`: of each site; `weights`: of the models that krige each of the two; `more`: covariates
    """

    points: Float64[Tensor, "sites space"]
    value: Float64[Tensor, "sites 2"]
    weights: Float64[Tensor, "2 models"]
    n_flat: int
    more: Float64[Tensor, "sites covariates"]

    def at(
        self,
        points: Float64[Tensor, "places space"],
        more: Float64[Tensor, "places covariates"],
    ) -> NewNormal:
        """What is normal at places, read from the nearest sites."""
        return self._normal(lambda number: number.at(points, more))

    def of_others(self, sites: Int64[Tensor, "some"]) -> NewNormal:
        """What would be normal at some of the sites if they were new."""
        return self._normal(lambda number: number.of_others(sites))

    def _normal(self, read: Callable[[SiteNumber], Moments]) -> NewNormal:
        level, spread = (
            read(SiteNumber(self.points, value, self.n_flat, self.more, weights))
            for value, weights in zip(self.value.unbind(1), self.weights, strict=True)
        )
        return NewNormal(level.mean, spread.mean.exp(), level.variance.sqrt())


def fit_surfaces(courses: Courses, sites: Sites) -> Surfaces:
    """The surfaces of level and log spread."""
    points, value = sites.points, torch.stack([courses.level, courses.scale.log()], -1)
    more = sites.covariates
    weights = [SiteNumber.of(points, own, sites.n_flat, more).weights for own in value.unbind(1)]
    return Surfaces(points, value, torch.stack(weights), sites.n_flat, more)


class Extended(NamedTuple):
    """Covariances of known columns and of new ones behind them, and those of the kernel alone."""

    covariance: Float64[Tensor, "all all"]
    prior: Float64[Tensor, "all all"]


def extend(
    covariance: Covariance,
    prior: Covariance,
    kernel: MovingKernel,
    known: MapColumns,
    new: MapColumns,
    doubt: Float64[Tensor, "new"],
) -> Extended:
    """New columns by the kernel from known ones, whose covariance is another than the kernel's.

    With W = K_oo^-1 K_on: C_on = C_oo W and C_nn = W' C_oo W + K_nn - W' K_on, so that where all
    known columns are shown a new one is kriged from them. `doubt`: of a new site's level, in units
    of its spread, shared by all of its columns.
    """
    between = kernel.between(known, new)
    eye = torch.eye(len(prior)).to(prior)
    weights = torch.cholesky_solve(between, torch.linalg.cholesky(prior + JITTER * eye))
    own = kernel.of(new)
    shared = covariance @ weights
    rest = own - weights.T @ between
    same = new.site[:, None] == new.site[None]
    block = weights.T @ shared + rest + torch.where(same, doubt[:, None] * doubt, 0.0)
    return Extended(_bordered(covariance, shared, block), _bordered(prior, between, own))


def _bordered(
    old: Covariance, shared: Float64[Tensor, "columns new"], new: Float64[Tensor, "new new"]
) -> Float64[Tensor, "all all"]:
    return torch.cat([torch.cat([old, shared], 1), torch.cat([shared.T, new], 1)])


class Calibration(NamedTuple):
    """How wide distributions at new sites are, by sites of the fit left out one by one.

    `df`: by which unusual others widen them; `stretch`: what their variance is multiplied by;
    `tails`: their degrees of freedom. What a level may be off is shared by all values of a site and
    is not known better for many others around: tails are as heavy as sites are different.
    """

    df: float
    stretch: float
    tails: float

    def of(self, eta: Float64[Tensor, "*shape 3"]) -> Float64[Tensor, "*shape 3"]:
        """Parameters at new sites, from those of a conditional with these degrees of freedom."""
        stretched = eta + eta.new_tensor([0.0, 0.5 * math.log(self.stretch), 0.0])
        return with_tails(stretched, self.tails)


def calibrate(
    maps: Maps,
    courses: Courses,
    surfaces: Surfaces,
    given_of: GivenOf,
) -> Calibration:
    """The calibration under which the values of left-out sites are likeliest.

    Each site is given the others of its map alone: earlier maps would have its own values.
    `given_of`: some sites given the others in rows of own columns, under the kernel
    """
    n_sites, n_maps = len(courses.level), len(maps.panel.time)
    if n_sites < FEWEST_SITES:
        return Calibration(DEGREES[0], 1.0, TAILS[0])
    n_rows = min(n_maps, MOST_ROWS, max(FEWEST_ROWS, int(MOST_NUMBERS / float(n_sites) ** 3)))
    index = torch.linspace(0, n_maps - 1, n_rows).round().long()
    evidence = maps.evidence(courses).take(index).first(n_sites)
    shown, censored = evidence.shown, evidence.censored
    some = torch.linspace(0, n_sites - 1, min(MOST_SITES, n_sites)).round().long().unique()
    given = given_of(evidence, some)
    normal = surfaces.of_others(some)
    values = maps.without_effects(courses.effects, new=True)
    at_limit = maps.at_limit().without_effects(courses.effects, new=True)
    left_out, errors = list[LeftOutValues](), []
    for k, site in enumerate(some.tolist()):
        there = shown[:, site].nonzero()[:, 0]
        if not len(there):
            continue
        of_site = GivenOthers(*(part[there][:, k : k + 1] for part in given))
        value = values[index[there], site]
        location = _course_of_others(maps, courses, site, index[there]) + normal.level[k]
        found = [_placed(of_site, df, location, normal.of(k)) for df in DEGREES]
        under = torch.zeros_like(there, dtype=torch.bool)
        under = under if censored is None else censored[there, site]
        limit = at_limit[index[there], site]
        left_out.append(LeftOutValues(value, torch.stack(found, 1), under, limit))
        errors.append(((value - found[0][:, 0]) / found[0][:, 1].exp()).square().mean())
    stretch = (torch.stack(errors).sum() + USUAL_SITES) / (len(errors) + USUAL_SITES)
    every = LeftOutValues(*(torch.cat(part) for part in zip(*left_out, strict=True)))
    least = 0.0 if censored is None else FEWEST_DEGREES_OF_CENSORED
    degrees = [df for df in DEGREES if df >= least]
    able = [Calibration(df, float(stretch), tails) for df in degrees for tails in TAILS]
    return max(able, key=every.nats)


class LeftOutValues(NamedTuple):
    """Values of sites left out, and their conditionals by `DEGREES`.

    `censored`: of which no more is known than that they are at most `limit`
    """

    value: Float64[Tensor, "rows"]
    eta: Float64[Tensor, "rows degrees 3"]
    censored: Bool[Tensor, "rows"]
    limit: Float64[Tensor, "rows"]

    def nats(self, calibration: Calibration) -> float:
        """The log density of all values."""
        eta = calibration.of(self.eta[:, DEGREES.index(calibration.df)])
        return float(nats_of(self.value, eta, self.censored, self.limit).sum())


def _course_of_others(
    maps: Maps, courses: Courses, site: int, rows: Int64[Tensor, "rows"]
) -> Float64[Tensor, "rows"]:
    """Waves at a site in the plane of all others' waves, of the terms that the fit's plane has."""
    keep, terms = torch.arange(len(courses.level)) != site, maps.sites.terms
    if not courses.plane[1 + maps.sites.n_flat :].any():
        terms = terms[:, : 1 + maps.sites.n_flat]
    plane = torch.linalg.pinv(terms[keep]) @ courses.wave[keep]
    waves = maps.clock.waves(maps.panel.time[rows]) - courses.center
    return waves @ (terms[site] @ plane)


def _placed(
    given: GivenOthers, df: float, location: Float64[Tensor, "rows"], normal: NewNormal
) -> Float64[Tensor, "rows 3"]:
    """Parameters of values where anomalies are given, and the level has its doubt."""
    level_doubt = (normal.doubt / normal.scale).square()
    wider = given._replace(variance=given.variance + level_doubt)
    mean, log_scale, log_excess = wider.student_t(df)[:, 0].unbind(-1)
    log_scale = log_scale + normal.scale.log()
    return torch.stack([location + normal.scale * mean, log_scale, log_excess], -1)


class KeptNormal:
    """Level, spread and doubt by place, as long as what they are computed from is not changed."""

    def __init__(self) -> None:
        self._kept: dict[bytes, tuple[float, float, float]] = {}
        self._source: tuple[int, ...] = ()
        self._lock = Lock()

    def __reduce__(self) -> tuple[type["KeptNormal"], tuple[()]]:
        return KeptNormal, ()

    def of(
        self, rows: Rows, source: Tensor, compute: Callable[[Int64[Tensor, "some"]], NewNormal]
    ) -> NewNormal:
        """What is normal at places; `compute` gives that of some, by their index.

        `rows`: the numbers that each place is known by; `source`: what `compute` reads: after a
            change of it in place all are computed anew
        """
        state = (id(source), 0 if source.is_inference() else source._version)
        keys = [row.tobytes() for row in rows.numpy()]
        with self._lock:
            if state != self._source or len(self._kept) > MOST_KEPT:
                self._kept, self._source = {}, state
            kept = self._kept
        missing = [k for k, key in enumerate(keys) if key not in kept]
        if missing:
            new = torch.stack(compute(torch.tensor(missing)), -1).tolist()
            kept.update(
                (keys[k], (one[0], one[1], one[2])) for k, one in zip(missing, new, strict=True)
            )
        numbers = torch.tensor([kept[key] for key in keys], dtype=rows.dtype).reshape(-1, 3)
        return NewNormal(*numbers.unbind(-1))
