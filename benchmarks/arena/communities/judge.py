"""How communities are judged: nats of each cell, given shares of the other species of its site."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from benchmarks.arena.communities.data import CommunityData, Sites
from benchmarks.arena.kind import Fitted, Judging, Measure
from jaxtyping import Float

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
# Of the species that are known, drawn alike for all contenders.
_SEED = 0
# Probabilities are kept this far from 0 and 1.
_LEAST = 1e-7


def with_known(sites: Sites, share: float) -> Sites:
    """The sites with a share of their species known, at random; no species sees itself."""
    rank = np.random.default_rng(_SEED).random(sites.present.shape).argsort(1).argsort(1)
    return replace(sites, known=rank < round(share * sites.present.shape[1]))


def nats_of(probability: Float[np.ndarray, "sites species"], sites: Sites) -> np.ndarray:
    """Nats of each cell."""
    p = np.clip(probability, _LEAST, 1 - _LEAST)
    return -np.log(np.where(sites.present > 0, p, 1 - p))


def mean_nats(fitted: Fitted, sites: Sites) -> float:
    """Of a cell, mean over all shares."""
    shown = [with_known(sites, share) for share in SHARES]
    return float(np.mean([nats_of(fitted.predict(part), part).mean() for part in shown]))


def best_community(
    candidates: Iterable[tuple[dict[str, Any], Fitted]], data: CommunityData
) -> Fitted:
    """The candidate of least nats on validation sites, with its settings."""
    best, least, tried = None, np.inf, []
    for settings, fitted in candidates:
        nats = mean_nats(fitted, data.validation)
        tried.append({**settings, "nats": round(nats, 5)})
        if nats < least:
            least, best = nats, replace(fitted, settings={**fitted.settings, **settings})
    assert best is not None
    return replace(best, settings={**best.settings, "tried": tried})


def refitted(fitted: Fitted, data: CommunityData) -> Fitted:
    """The same settings fitted to training and validation sites together."""
    if fitted.refit is None:
        return fitted
    return replace(fitted.refit(replace(data, train=data.both)), settings=fitted.settings)


def sums(fitted: Fitted, data: CommunityData) -> dict[str, list[float]]:
    """Of each test site: nats at every share known and their mean, and its number of cells."""
    result = {}
    for share in SHARES:
        sites = with_known(data.test, share)
        result[_name(share)] = nats_of(fitted.predict(sites), sites).sum(1)
    result["nats"] = np.mean([result[_name(share)] for share in SHARES], axis=0)
    result["elements"] = np.full(len(data.test), float(data.n_items))
    return {name: total.round(5).tolist() for name, total in result.items()}


def _name(share: float) -> str:
    return f"nats_{100 * share:.0f}"


def _describe(data: Mapping[str, Any]) -> str:
    return (
        "Items are species, groups are sites, and every species of every test site is predicted "
        "from covariates and from 0, 25, 50, 75 and 100 % of the other species there."
    )


JUDGING = Judging(
    finished=refitted,
    sums=sums,
    measures=(
        Measure(header="nats", name="nats", compared="more than Community()"),
        *(Measure(header=f"{100 * share:.0f} % known", name=_name(share)) for share in SHARES),
    ),
    describe=_describe,
)
