"""How many earlier maps a base sees: more, as long as blocks of time held out gain by them."""

from exfam.fields.base.choose_courses import FEW_SHRINKAGES, MOST_SITES, choose_courses
from exfam.fields.base.compare import MapNats, map_nats
from exfam.fields.base.courses import CourseChoice
from exfam.fields.base.maps import Maps
from exfam.fields.base.trials import USUAL_NEAR, Trials, WholeRows, best_settings, prior_of

# Numbers of lags from few to many; those between are tried around the best.
LADDER = (0, 1, 2, 3, 5, 7)
MOST_LAGS = LADDER[-1]
# Maps below which blocks held out would say nothing.
FEWEST_MAPS_OF_LAGS = 10


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
