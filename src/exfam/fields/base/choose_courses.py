"""Which courses of the year, and which effects of covariates, blocks of time held out want."""

from collections.abc import Sequence
from typing import NamedTuple

from exfam.fields.base.compare import MapNats, map_nats, nats_alone
from exfam.fields.base.courses import CHOICES, CourseChoice
from exfam.fields.base.effects import SHARES, EffectChoice
from exfam.fields.base.maps import Covariance, Maps, blocks
from exfam.fields.base.trends import SHARES as SHARES_OF_SLOPES
from exfam.fields.base.trials import Trials, WholeRows, best_settings, prior_of

# Courses are chosen with a few shrinkages only, and on some of many sites.
FEW_SHRINKAGES, MOST_SITES = (0.1, 0.3, 0.6), 60
# Multiplications of products where values are missing: there are dozens of trials.
FEW_MULTIPLICATIONS = 1.5e9
# Cycles that times must span for waves: in less, a wave is a trend that turns.
FEWEST_CYCLES = 0.5


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
    if len(maps.panel.time) < 2:
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
