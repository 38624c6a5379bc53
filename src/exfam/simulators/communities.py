"""Communities of species at sites whose truth is known: covariates, a map, hidden factors."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from exfam.checks import check_positive, check_whole

SOILS = ("clay", "loam", "sand")
# How strongly covariates, position and hidden factors move the logit of a species.
_OF_COVARIATES, _OF_PLACE = 1.0, 0.6
_LEAST_LOG_COUNT = 0.2


@dataclass(frozen=True, eq=False)
class SimulatedCommunity:
    """Sites and their species.

    `covariates`: columns rainfall (mm), altitude (m), soil, east and north (km), hours (of search)
    `presence`, `counts`: columns of species; `probability`: of presence given all that is hidden
    `correlation`: of what hidden factors add to the logits of each pair of species
    """

    covariates: dict[str, np.ndarray]
    presence: dict[str, np.ndarray]
    counts: dict[str, np.ndarray]
    probability: Float[np.ndarray, "sites species"]
    correlation: Float[np.ndarray, "species species"]

    @property
    def species(self) -> tuple[str, ...]:
        """Their names, the most frequent ones first."""
        return tuple(self.presence)

    def columns(self, *names: str) -> dict[str, Any]:
        """Some covariates, all if none is named, and the presences, as one table."""
        wanted = names or tuple(self.covariates)
        return {name: self.covariates[name] for name in wanted} | self.presence


def simulate_community(
    n_sites: int = 300, n_species: int = 12, *, strength: float = 1.0, seed: int
) -> SimulatedCommunity:
    """Species that answer to rain, altitude, soil and position, and to two hidden factors.

    `strength`: of the hidden factors, which species have in common; 0 for species that covariates
        alone explain

    >>> simulate_community(50, 4, seed=0).species
    ('species 1', 'species 2', 'species 3', 'species 4')
    """
    check_whole("n_sites", n_sites)
    check_whole("n_species", n_species)
    check_positive("strength", strength, zero=True)
    random = np.random.default_rng(seed)
    rain, altitude, east, north = random.normal(size=(4, n_sites))
    soil = random.integers(len(SOILS), size=n_sites)
    hours = np.exp(0.3 * random.normal(size=n_sites))
    slopes = _OF_COVARIATES * random.normal(size=(3, n_species))
    of_soil = _OF_COVARIATES * random.normal(size=(len(SOILS), n_species))
    loadings = strength * random.normal(size=(2, n_species))
    # From about one site in two to one in twenty.
    level = np.linspace(0.2, -2.8, n_species)
    eta = level + np.stack([rain, altitude, 0.5 * rain * altitude], axis=1) @ slopes
    eta += of_soil[soil] + _OF_PLACE * np.outer(np.sin(1.5 * east) + north, np.ones(n_species))
    eta += random.normal(size=(n_sites, 2)) @ loadings + np.log(hours)[:, None]
    probability = 1 / (1 + np.exp(-eta))
    present = random.random(eta.shape) < probability
    amount = random.poisson(np.exp(np.clip(_LEAST_LOG_COUNT + 0.4 * eta, None, 3)))
    names = [f"species {k + 1}" for k in range(n_species)]
    shared = loadings.T @ loadings
    spread = np.sqrt(np.maximum(np.diag(shared), 1e-12))
    return SimulatedCommunity(
        covariates={
            "rainfall": 800 + 200 * rain,
            "altitude": 300 + 120 * altitude,
            "soil": np.array(SOILS, dtype=object)[soil],
            "east": 10 * east,
            "north": 10 * north,
            "hours": hours,
        },
        presence={name: present[:, k].astype(np.int64) for k, name in enumerate(names)},
        counts={name: present[:, k] * (1 + amount[:, k]) for k, name in enumerate(names)},
        probability=probability,
        correlation=shared / np.outer(spread, spread) if strength else np.eye(n_species),
    )
