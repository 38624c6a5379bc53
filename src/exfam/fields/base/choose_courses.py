"""Which courses of the year, and which effects of covariates, blocks of time held out want."""

from collections.abc import Sequence
from typing import NamedTuple

from exfam.fields.base.compare import MapNats, map_nats
from exfam.fields.base.courses import CHOICES, CourseChoice
from exfam.fields.base.effects import SHARES, EffectChoice
from exfam.fields.base.folds import Maps, blocks
from exfam.fields.base.trends import SHARES as SHARES_OF_SLOPES
from exfam.fields.base.trials import Trials, best_settings, prior_of

# Courses are chosen with a few shrinkages only, and on some of many sites.
FEW_SHRINKAGES, MOST_SITES = (0.1, 0.3, 0.6), 60
# Multiplications of products where values are missing: there are dozens of trials.
FEW_MULTIPLICATIONS = 1.5e9


class Tried(NamedTuple):
    """Courses, and how likely they make held-out maps."""

    choice: CourseChoice
    nats: float
    of_maps: MapNats


def choose_courses(maps: Maps) -> CourseChoice:
    """The courses under which held-out values of some of the sites are likeliest, map by map.

    Effects of covariates, more of the sites' own, and slopes in time must gain by more than chance.
    """
    if len(maps.panel.time) < 2:
        return CHOICES[0]
    some = maps.of_sites(MOST_SITES).with_lags(0)
    return _with_trend(some, _with_effects(some, _best(some, CHOICES))).choice


def _with_effects(maps: Maps, best: Tried) -> Tried:
    """With effects of covariates, and more of the sites' own, where these gain."""
    if maps.panel.covariates is None:
        return best
    common, *others = SHARES
    found = [
        _best(maps, [choice._replace(effects=EffectChoice(common, beside)) for choice in CHOICES])
        for beside in (False, True)
    ]
    tried = max(found, key=lambda tried: tried.nats)
    if tried.of_maps.gain_on(best.of_maps).low <= 0:
        return best
    effects = [EffectChoice(share, _effects(tried).beside) for share in others]
    own = _best(maps, [tried.choice._replace(effects=choice) for choice in effects])
    return own if own.of_maps.gain_on(tried.of_maps).low > 0 else tried


def _with_trend(maps: Maps, best: Tried) -> Tried:
    """With slopes in time where these gain, in the last block too, which is ahead of the others."""
    last = blocks(len(maps.panel.time))[-1].nonzero()[0, 0]
    found = [_best(maps, [best.choice._replace(trend=share)]) for share in SHARES_OF_SLOPES]
    for tried in sorted(found, key=lambda tried: -tried.nats):
        ahead = tried.of_maps.since(last).gain_on(best.of_maps)
        if min(tried.of_maps.gain_on(best.of_maps).low, ahead.nats) > 0:
            return tried
    return best


def _effects(tried: Tried) -> EffectChoice:
    assert tried.choice.effects is not None
    return tried.choice.effects


def _best(maps: Maps, choices: Sequence[CourseChoice]) -> Tried:
    """The best of some courses, under the kernel of the first."""
    prior = prior_of(maps, choices[0])
    tried = []
    for choice in choices:
        trials = Trials(maps, choice, prior, most=FEW_MULTIPLICATIONS)
        tried.append((*best_settings(trials, shrinkages=FEW_SHRINKAGES, near=[None]), trials))
    nats, settings, trials = max(tried, key=lambda of_choice: of_choice[0])
    return Tried(settings.courses, nats, map_nats(trials, settings))
