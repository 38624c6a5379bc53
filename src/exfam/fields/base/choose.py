"""Choices of a base by cross-validation over blocks of time: courses, shrinkage, tails, lags."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from exfam.fields.base.conditionals import GivenOthers
from exfam.fields.base.courses import CHOICES, CourseChoice, Courses
from exfam.fields.base.courses import SHARES as SHARES_OF_SLOPES
from exfam.fields.base.effects import SHARES, EffectChoice
from exfam.fields.base.kernel import MovingKernel
from exfam.fields.base.limits import nats_of
from exfam.fields.base.maps import Covariance, Maps, blocks, kernel_of
from exfam.fields.base.trials import (
    DEGREES,
    FEWEST_BLOCKS,
    FEWEST_DEGREES_OF_CENSORED,
    MAPS_OF_A_BLOCK,
    USUAL_NEAR,
    HeldOutMaps,
    MapNats,
    Settings,
    Trials,
    WholeRows,
    best_settings,
    gain_by_block,
    in_gaps,
    map_nats,
    nats_alone,
    prior_of,
)

# Courses are chosen with a few shrinkages only, and on some of many sites.
FEW_SHRINKAGES, MOST_SITES = (0.1, 0.3, 0.6), 60
# Multiplications of products where values are missing: there are dozens of trials.
FEW_MULTIPLICATIONS = 1.5e9
# Cycles that times must span for waves: in less, a wave is a trend that turns.
FEWEST_CYCLES = 0.5

TAILS = (80.0, 30.0, 20.0, 14.0, 10.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0)
# Logarithms of how much wider values after a fit may be spread.
WIDER = tuple(k / 50 for k in range(-15, 26) if k)
# Of what might be chance, this share: too narrow a spread does more harm than one too wide.
UNSURE = 0.5
# Where zeros are censored, fewer degrees would leave some values without a variance.
FEWEST_TAILS_OF_CENSORED = 8.0
# Maps below which held-out blocks say nothing of tails, and values that they are tried on at most.
FEWEST_MAPS, MOST_VALUES = 20, 60_000

SHRINKAGES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
# Every so many of them is tried with all numbers of columns, those between with the best one.
STRIDE = 3
# How many columns a value is predicted from, if not from all.
NEAR = (8, 15, USUAL_NEAR, 32)

# Weights of a covariance in which sites have memories of their own; maps that these take.
SHARES_OF_MEMORIES = (0.3, 0.6, 0.9, 1.0)
LEAST_MAPS = 20

# Numbers of lags from few to many; those between are tried around the best.
LADDER = (0, 1, 2, 3, 5, 7)
MOST_LAGS = LADDER[-1]
# Maps below which blocks held out would say nothing: of one that is left nothing is known but its
# values.
FEWEST_MAPS_OF_BLOCKS, FEWEST_MAPS_OF_LAGS = 3, 10


class Tried(NamedTuple):
    """Courses, and how likely they make held-out maps; `alone`: values given no other."""

    choice: CourseChoice
    nats: float
    of_maps: MapNats
    alone: float


def choose_courses(maps: Maps) -> CourseChoice:
    """The courses under which held-out values of some of the sites are likeliest, map by map.

    Effects of covariates, more of the sites' own, and slopes in time must gain by more than chance.
    """
    if len(maps.panel.time) < FEWEST_MAPS_OF_BLOCKS:
        return CHOICES[0]
    some = maps.of_sites(MOST_SITES).with_lags(0)
    choices = CHOICES if _cycles(maps) >= FEWEST_CYCLES else CHOICES[:1]
    return _with_trend(some, _with_effects(some, _best(some, choices), choices)).choice


def _cycles(maps: Maps) -> float:
    """How many of their shortest cycles the times span."""
    time = maps.panel.time
    return float(time.max() - time.min()) / maps.clock.shortest_cycle


def _with_effects(maps: Maps, best: Tried, choices: Sequence[CourseChoice]) -> Tried:
    """With effects of covariates, and more of the sites' own, where these gain."""
    if maps.panel.covariates is None:
        return best
    common, *others = SHARES
    found = [
        _best(maps, [choice._replace(effects=EffectChoice(common, beside)) for choice in choices])
        for beside in (False, True)
    ]
    tried = max(found, key=lambda tried: tried.nats)
    if tried.of_maps.gain_on(best.of_maps).low <= 0:
        return best
    effects = [EffectChoice(share, _effects(tried).beside) for share in others]
    own = _best(maps, [tried.choice._replace(effects=choice) for choice in effects])
    return own if own.of_maps.gain_on(tried.of_maps).low > 0 else tried


def _with_trend(maps: Maps, best: Tried) -> Tried:
    """With slopes in time where these gain, in the last block too, which is ahead of the others.

    They must help values that are given no other as well: forecasts have nothing else.
    """
    last = blocks(len(maps.panel.time))[-1].nonzero()[0, 0]
    found = [_best(maps, [best.choice._replace(trend=share)]) for share in SHARES_OF_SLOPES]
    for tried in sorted(found, key=lambda tried: -tried.nats):
        ahead = tried.of_maps.since(last).gain_on(best.of_maps)
        gains = tried.of_maps.gain_on(best.of_maps).low, ahead.nats, tried.alone - best.alone
        if min(gains) > 0:
            return tried
    return best


def _effects(tried: Tried) -> EffectChoice:
    assert tried.choice.effects is not None
    return tried.choice.effects


def _best(maps: Maps, choices: Sequence[CourseChoice]) -> Tried:
    """The best of some courses, each under a kernel that fits anomalies from as many waves.

    Where neighbors are shown a course hardly counts: all say the same of the season. Of courses
    that predict values beside them no worse, by more than chance, than the best, it is the one that
    predicts values alone best: forecasts and new places have nothing else.
    """
    priors: dict[int, Covariance] = {}
    tried = []
    for choice in choices:
        if choice.n_harmonics not in priors:
            priors[choice.n_harmonics] = prior_of(maps, choice)
        rows = WholeRows(maps, priors[choice.n_harmonics], most=FEW_MULTIPLICATIONS)
        trials = Trials(rows, choice)
        nats, settings = best_settings(trials, shrinkages=FEW_SHRINKAGES, near=[None])
        tried.append(Tried(choice, nats, map_nats(trials, settings), nats_alone(trials)))
    best = max(tried, key=lambda other: other.nats)
    level = [other for other in tried if best.of_maps.gain_on(other.of_maps).low <= 0]
    return max(level, key=lambda other: other.alone)


class HeldOutValues(NamedTuple):
    """Values held out, each with what others say of it and its map's number.

    `censored`: of which no more is known than that they are at most `limit`
    """

    value: Float64[Tensor, "values"]
    map: Int64[Tensor, "values"]
    censored: Bool[Tensor, "values"]
    limit: Float64[Tensor, "values"]
    mean: Float64[Tensor, "values"]
    variance: Float64[Tensor, "values"]
    squares: Float64[Tensor, "values"]
    number: Float64[Tensor, "values"]

    def nats(
        self, df: float, tails: float | None, *, wider: float = 0.0
    ) -> Float64[Tensor, "values"]:
        """Log densities in units of anomalies; log probabilities of what is censored."""
        given = GivenOthers(self.mean, self.variance, self.squares, self.number)
        eta = given.student_t(df, tails)
        eta[:, 1] += wider
        return nats_of(self.value, eta, self.censored, self.limit)


def choose_tails(trials: Trials, settings: Settings) -> Settings:
    """The settings, with tails of their own where held-out values want them by more than chance.

    Degrees of freedom of a multivariate t add up over the values around, so that predictions from
    many are nearly Gaussian: right where a map is wild as a whole, wrong where single values are.
    """
    values = _values(trials, settings)
    n_maps = len(values.map.unique())
    if n_maps < FEWEST_MAPS:
        return settings
    has_limit = bool(values.censored.any())
    degrees = [df for df in DEGREES if not has_limit or df >= FEWEST_DEGREES_OF_CENSORED]
    able = [tails for tails in TAILS if not has_limit or tails >= FEWEST_TAILS_OF_CENSORED]
    df = settings.df
    tails = _likeliest(values, [(df, tails) for tails in able])[1]
    df = _likeliest(values, [(df, tails) for df in degrees])[0]
    tails = _likeliest(values, [(df, tails) for tails in able])[1]
    added = values.nats(df, tails) - values.nats(settings.df, None)
    if not _is_sure(added, values.map, n_maps):
        return settings
    return settings._replace(df=df, tails=tails)


def choose_ends(trials: Trials, settings: Settings) -> Settings:
    """The settings with tails, and the spread after the fit, that held-out values want."""
    return choose_ahead(trials, choose_tails(trials, settings))


def _values(trials: Trials, settings: Settings) -> HeldOutValues:
    return _held_out(trials.given(settings.shrinkage, settings.n_near))


def choose_ahead(trials: Trials, settings: Settings) -> Settings:
    """The settings, with the spread of values after the fit where it is surely another one.

    It is that of the last block, predicted from the blocks before it alone: sites' levels drift and
    years differ, which blocks between others show less of.
    """
    *_, last = trials.given(settings.shrinkage, settings.n_near)
    return settings._replace(ahead=_wider(_held_out([last]), settings))


def _wider(values: HeldOutValues, settings: Settings, *, unsure: float = 0.0) -> float:
    """The logarithm of how much wider values are spread than expected.

    `unsure`: the share of it that counts where it might be chance; narrower ones never do then
    """
    n_maps = len(values.map.unique())
    if n_maps < FEWEST_MAPS:
        return 0.0
    df, tails = settings.df, settings.tails
    as_is = values.nats(df, tails)
    found = {wider: values.nats(df, tails, wider=wider) - as_is for wider in WIDER}
    likeliest = max(found, key=lambda wider: float(found[wider].sum()))
    is_sure = _is_sure(found[likeliest], values.map, n_maps)
    return likeliest if is_sure else unsure * max(likeliest, 0.0)


def _likeliest(values: HeldOutValues, pairs: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """The degrees of freedom and the tails under which values are likeliest."""
    return max(pairs, key=lambda pair: float(values.nats(*pair).sum()))


def _is_sure(added: Float64[Tensor, "values"], of_map: Int64[Tensor, "values"], n: int) -> bool:
    """Whether the gain is above zero by more than its error by blocks of maps."""
    of_map = of_map.unique(return_inverse=True)[1]
    block = of_map // max(1, min(MAPS_OF_A_BLOCK, n // FEWEST_BLOCKS))
    return gain_by_block(added, torch.ones_like(added), block, 0.0).low > 0


def _held_out(folds: Iterable[tuple[HeldOutMaps, GivenOthers]]) -> HeldOutValues:
    """The values of evenly taken maps."""
    parts, n_before = list[list[Tensor]](), 0
    for fold, given in folds:
        own = fold.evidence.first(len(fold.log_scale))
        shown = own.shown
        censored = torch.zeros_like(shown) if own.censored is None else own.censored
        limit = torch.zeros_like(own.values) if own.limit is None else own.limit
        row = n_before + torch.arange(len(shown))[:, None].expand_as(shown)
        n_before += len(shown)
        parts.append([part[shown] for part in (own.values, row, censored, limit, *given)])
    values = HeldOutValues(*(torch.cat(part) for part in zip(*parts, strict=True)))
    kept = values.map % max(1, -(-len(values.value) // MOST_VALUES)) == 0
    return HeldOutValues(*(part[kept] for part in values))


class Chosen(NamedTuple):
    """What was chosen, and the courses and the kernel that all maps have under it."""

    settings: Settings
    courses: Courses
    kernel: MovingKernel


def choose(maps: Maps) -> Chosen:
    """Courses first, then shrinkage, columns and degrees of freedom together, then tails.

    What is chosen makes values of held-out blocks likeliest.
    """
    choice = choose_courses(maps)
    courses = maps.courses(choice)
    kernel = kernel_of(*maps.rows(courses), maps.sites)
    # Of two, each less their mean, one says that the other is its opposite: no kernel of lags.
    if len(maps.panel.time) < (2 if maps.panel.earlier.shape[1] else FEWEST_MAPS_OF_BLOCKS):
        return Chosen(Settings(choice, 1.0, DEGREES[0], USUAL_NEAR), courses, kernel)
    rows = WholeRows(maps, kernel.of(maps.sites.columns), kernel=kernel)
    trials = Trials(rows, choice)
    settings = choose_rest(trials, (*NEAR, None))
    remembered = with_memories(settings, trials)
    if remembered.memories:
        trials, rows, settings = trials.with_memories(), rows.with_memories(), remembered
    settings = with_forecasts(choose_ends(trials, settings), trials, rows)
    return Chosen(settings, courses, kernel)


def with_memories(settings: Settings, trials: Trials) -> Settings:
    """The settings, with a memory of each site's own where held-out values are likelier.

    A kernel has one for all sites, and none that lasts forever: sites differ, and series wander.
    The latter shows where time goes on: the last block decides where all say it might be chance.
    """
    if not trials.has_lags or sum(len(fold.row) for fold in trials.folds) < LEAST_MAPS:
        return settings
    other, near = trials.with_memories(), dict.fromkeys((settings.n_near, None))
    found = best_settings(other, shrinkages=SHARES_OF_MEMORIES, near=list(near))[1]
    ours, theirs = map_nats(other, found), map_nats(trials, settings)
    gain, ahead = ours.gain_on(theirs), ours.since(trials.folds[-1].row[0]).gain_on(theirs)
    is_better = gain.nats > 0 or (gain.high > 0 and ahead.nats > 0)
    return found._replace(memories=found.shrinkage) if is_better else settings


def choose_rest(trials: Trials, near: Sequence[int | None]) -> Settings:
    """Shrinkage, columns and degrees of freedom: every third shrinkage, then those between."""
    coarse = best_settings(trials, shrinkages=SHRINKAGES[1::STRIDE], near=near)
    k = SHRINKAGES.index(coarse[1].shrinkage)
    between = SHRINKAGES[max(0, k - STRIDE + 1) : k] + SHRINKAGES[k + 1 : k + STRIDE]
    fine = best_settings(trials, shrinkages=between, near=[coarse[1].n_near])
    return max(coarse, fine, key=lambda pair: pair[0])[1]


def with_forecasts(settings: Settings, trials: Trials, rows: WholeRows) -> Settings:
    """The settings, those of values predicted from earlier maps alone, and the spread in gaps."""
    if not trials.has_lags:
        return settings
    ahead = trials.without_own()
    # A covariance of the sites' own memories is stored as a whole, with one weight.
    shares = (settings.memories,) if settings.memories else FEW_SHRINKAGES
    found = best_settings(ahead, shrinkages=shares, near=(USUAL_NEAR, None))[1]
    found = choose_tails(ahead, found)
    return settings._replace(
        forecasts=found._replace(gaps=_wider(_values(ahead, found), found, unsure=UNSURE)),
        gaps=_wider(_held_out(in_gaps(rows, settings)), settings, unsure=UNSURE),
    )


def choose_lags(maps: Maps) -> int:
    """The number of lags, at most those of `maps`, beyond which values of blocks gain no more.

    A number is taken if it makes values of held-out blocks likelier than the best before it by more
    than chance; the first that does not ends the search. Of many sites some are looked at.
    """
    most = maps.panel.earlier.shape[1]
    if len(maps.panel.time) < FEWEST_MAPS_OF_LAGS:
        return 0
    maps = maps.of_sites(MOST_SITES)
    choice = choose_courses(maps.with_lags(0))
    best, nats = 0, _tried(maps, 0, choice)
    for n_lags in [n for n in LADDER[1:] if n <= most]:
        other = _tried(maps, n_lags, choice)
        if other.gain_on(nats).low <= 0:
            return _between(maps, best, n_lags, nats, choice)
        best, nats = n_lags, other
    return best


def _between(maps: Maps, best: int, end: int, nats: MapNats, choice: CourseChoice) -> int:
    """A number between the best of the ladder and the next, if it gains."""
    for n_lags in range(best + 1, end):
        if _tried(maps, n_lags, choice).gain_on(nats).low > 0:
            return n_lags
    return best


def _tried(maps: Maps, n_lags: int, choice: CourseChoice) -> MapNats:
    """Nats of held-out maps with so many lags, other settings being the best of a few."""
    maps = maps.with_lags(n_lags)
    trials = Trials(WholeRows(maps, prior_of(maps, choice)), choice)
    near = (USUAL_NEAR,) if n_lags else (USUAL_NEAR, None)
    settings = best_settings(trials, shrinkages=FEW_SHRINKAGES, near=near)[1]
    return map_nats(trials, settings)
