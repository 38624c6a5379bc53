"""What a fitted community answers with: distributions of species, explanations, associations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from exfam.checks import ExfamError, check_inside, check_whole, shown
from exfam.columns.results import PlottedResult, in_rows
from exfam.tables.community.association import Sites, influence
from exfam.tables.community.community_data import match_known, read_species
from exfam.tables.community.community_model import FittedCommunity, SiteInputs, values_of_part

# Intervals of correlations are this many standard errors wide on each side, for 95 %.
_HALF_WIDTH = 1.96


@dataclass(frozen=True, eq=False, repr=False)
class CommunityPrediction(PlottedResult):
    """The distribution of each species at each site, given covariates and the known others.

    Arrays have a row for each site and a column for each of `species`.
    """

    model: FittedCommunity
    etas: tuple[Sites, ...]

    picture = "presence_bars"

    def to_dict(self) -> dict[str, np.ndarray]:
        """Columns `site` (its row), `species`, `presence`, `mean`."""
        axes = {"site": None, "species": self.species}
        return in_rows(axes, {"presence": self.presence, "mean": self.mean})

    def headline(self) -> str:
        """Of which family, and how many sites and species."""
        n_sites, n_species = self.etas[0].shape
        return f"CommunityPrediction({self.model.family}, {n_sites} sites, {n_species} species)"

    @property
    def species(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.model.species

    @property
    def presence(self) -> Float[np.ndarray, "sites species"]:
        """The probability that each species is there."""
        return self.model.presence(self.etas)

    @property
    def mean(self) -> Float[np.ndarray, "sites species"]:
        """Expected values: probabilities, counts or shares of cover."""
        return self.model.mean(self.etas)

    def log_prob(self, Y: Any) -> Float[np.ndarray, "sites species"]:
        """log p of each value in nats (of cover above 0, the log of a density); NaN where missing.

        Cover counts as 0.0001 at least where there is any, and as 0.999 at most.
        """
        value = match_known(read_species(Y), self.species, len(self.etas[0]))
        return self.model.log_prob(value, self.etas)


@dataclass(frozen=True, eq=False, repr=False)
class CommunityExplanation(PlottedResult):
    """What `eta` of a species at a site is made of: exact but for `correction`, which is one term.

    `eta` is `intercept` + the sum of `covariates` + the sum of `others` + `correction`: the logit
    of a presence, or the log of a mean count. `intercept`: with all covariates at their means.
    """

    site: int
    species: str
    intercept: float
    covariates: dict[str, float]
    others: dict[str, float]
    correction: float

    picture = "community_bars"

    def to_dict(self) -> dict[str, np.ndarray]:
        """Columns `part` ("intercept", "covariate", "species", "correction"), `name`, `added`."""
        rows = [("intercept", "", self.intercept)]
        rows += [("covariate", name, added) for name, added in self.covariates.items()]
        rows += [("species", name, added) for name, added in self.others.items()]
        rows += [("correction", "", self.correction)]
        part, name, added = zip(*rows, strict=True)
        return {
            "part": np.array(part, dtype=object),
            "name": np.array(name, dtype=object),
            "added": np.array(added),
        }

    @property
    def eta(self) -> float:
        """The sum of all terms."""
        parts = (self.intercept, self.correction)
        return sum(parts) + sum(self.covariates.values()) + sum(self.others.values())

    def strongest(self, n: int = 5) -> list[tuple[str, float]]:
        """Covariates and other species by the size of what they add."""
        check_whole("n", n)
        terms = [*self.covariates.items(), *self.others.items()]
        return sorted(terms, key=lambda term: -abs(term[1]))[:n]


@dataclass(frozen=True, eq=False, repr=False)
class Associations(PlottedResult):
    """Correlations of what covariates leave unexplained of each pair of species.

    `low`, `high`: 95 % intervals, by draws of sites. They say who occurs with whom where covariates
    are alike, not why.
    """

    species: tuple[str, ...]
    correlation: Float[np.ndarray, "species species"]
    low: Float[np.ndarray, "species species"]
    high: Float[np.ndarray, "species species"]

    picture = "association_dots"

    def to_dict(self) -> dict[str, np.ndarray]:
        """Columns `species`, `other`, `correlation`, `low`, `high`, for each pair once."""
        first, second = np.triu_indices(len(self.species), 1)
        names = np.array(self.species, dtype=object)
        numbers = {"correlation": self.correlation, "low": self.low, "high": self.high}
        return {"species": names[first], "other": names[second]} | {
            name: matrix[first, second] for name, matrix in numbers.items()
        }

    def headline(self) -> str:
        """How many species, and how many pairs are clear of 0."""
        n = len(self.species)
        n_clear = int(np.triu(self.is_clear, 1).sum())
        return f"Associations({n} species, {n_clear} of {n * (n - 1) // 2} pairs clear of 0)"

    @property
    def is_clear(self) -> np.ndarray:
        """Whether the interval of a pair does not hold 0."""
        return (self.low > 0) | (self.high < 0)

    def pairs(self, n: int = 10) -> list[tuple[str, str, float, float, float]]:
        """The strongest pairs: two species, their correlation, and the ends of its interval."""
        check_whole("n", n)
        first, second = np.triu_indices(len(self.species), 1)
        size = np.abs(self.correlation[first, second])
        return [
            (
                self.species[first[k]],
                self.species[second[k]],
                *(float(m[first[k], second[k]]) for m in (self.correlation, self.low, self.high)),
            )
            for k in np.argsort(-size, kind="stable")[:n]
        ]


def associations_of(model: FittedCommunity, *, number: int) -> Associations:
    """Those of one part."""
    part = model.parts[number]
    center = part.association.correlation
    half = _HALF_WIDTH * part.spread
    low, high = np.maximum(center - half, -1.0), np.minimum(center + half, 1.0)
    return Associations(model.species, center, low, high)


def explained_cells(
    model: FittedCommunity,
    inputs: SiteInputs,
    value: Sites,
    *,
    cells: Sequence[tuple[int, int]],
    number: int,
) -> list[CommunityExplanation]:
    """What the `eta`s of some cells, site and species, are made of in one part."""
    part = model.parts[number]
    own, there = values_of_part(part.response.name, value)
    env = model.env(number, inputs)
    residual = part.residual(own, env, there)
    _, more = part.corrected(env, residual, there)
    others = _of_others(model, number, residual, there)
    names, groups = model.terms()
    weight, intercept = part.environment.weight, part.environment.intercept
    result = []
    for site, s in cells:
        terms = (inputs.design[site] - model.center) * weight[:, s]
        sums = np.bincount(groups, weights=terms, minlength=len(names))
        covariates = dict(zip(names, sums.tolist(), strict=True))
        at_mean = float(intercept[s] + model.center @ weight[:, s])
        if model.effort is not None:
            covariates[model.effort] = float(env[site, s] - at_mean - terms.sum())
        known = {model.species[t]: added for t, added in others(site, s).items()}
        last = (at_mean, covariates, known, float(more[site, s]))
        result.append(CommunityExplanation(site, model.species[s], *last))
    return result


def _of_others(
    model: FittedCommunity, number: int, residual: Sites, there: np.ndarray
) -> Callable[[int, int], dict[int, float]]:
    """Of a site and a species: what each known species adds to its `eta`, by its index."""
    link = model.parts[number].association

    def others(site: int, s: int) -> dict[int, float]:
        weight = influence(link.correlation, there[site], species=s, ridge=link.ridge)
        added = link.scale[s] * weight * residual[site]
        return {int(t): float(added[t]) for t in np.flatnonzero(there[site]) if t != s}

    return others


def species_indices(model: FittedCommunity, names: Any) -> np.ndarray:
    """Indices of species by their names. Raises ExfamError for others."""
    listed = list(names) if isinstance(names, list | tuple | np.ndarray) else [names]
    for name in listed:
        if name not in model.species:
            raise ExfamError(f"`of` must name species of the fit, got {shown(name)}.")
    return np.array([model.species.index(name) for name in listed], dtype=np.int64)


def check_share(name: str, share: Any) -> None:
    """Raise ExfamError unless a share is 0, 1 or between."""
    if share not in (0, 1):
        check_inside(name, share)
