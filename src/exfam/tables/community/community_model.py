"""A fitted community: from sites and any known species to the distributions of all species.

Whole communities are by the chain rule. An order of the species makes a joint distribution of their
conditionals. Orders differ a little, so several are mixed: a log-probability is that of the
mixture, and each draw takes one of its orders.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import logsumexp

from exfam.checks import with_types
from exfam.tables.community.association import Sites
from exfam.tables.community.community_data import (
    LEAST_COVER,
    MOST_COVER,
    read_effort,
    read_points,
)
from exfam.tables.community.community_parts import CommunityPart
from exfam.tables.community.site_covariates import Covariate, SiteDesign, SiteSurface
from exfam.tables.data.frames import RawTable

# The responses that a family is made of.
PARTS = {
    "presence": ("presence",),
    "count": ("count",),
    "hurdle": ("presence", "positive count"),
    "cover": ("presence", "cover"),
}

# Fills in a species: of its index and its `eta` in each part, the value, NaN to leave it unknown.
Step = Callable[[int, list[np.ndarray]], np.ndarray]


def values_of_part(
    name: str, value: Float[np.ndarray, "*cells"]
) -> tuple[Float[np.ndarray, "*cells"], Bool[np.ndarray, "*cells"]]:
    """What a part has of values: which are there for it, and 0 for the others."""
    there = ~np.isnan(value)
    if name == "presence":
        return np.where(there, value > 0, 0.0).astype(np.float64), there
    if name in ("positive count", "cover"):
        there = there & (np.nan_to_num(value) > 0)
    if name == "cover":
        value = np.clip(value, LEAST_COVER, MOST_COVER)
    return np.where(there, value, 0.0), there


def takes_effort(name: str) -> bool:
    """Whether more effort makes more of what a part is of: cover is a share."""
    return name != "cover"


@dataclass(frozen=True, eq=False)
class SiteInputs:
    """What is known of sites beside species."""

    design: Float[np.ndarray, "sites columns"]
    offset: Float[np.ndarray, "sites 1"]

    def __len__(self) -> int:
        return len(self.offset)

    def __getitem__(self, rows: np.ndarray) -> "SiteInputs":
        return SiteInputs(self.design[rows], self.offset[rows])


@dataclass(frozen=True, eq=False)
class FittedCommunity:
    """All that was learned.

    `effort`: the column whose log is added to `eta`; `center`: the mean of the design
    """

    species: tuple[str, ...]
    family: str
    covariates: SiteDesign
    interactions: SiteSurface | None
    surface: SiteSurface | None
    coordinates: tuple[str, ...]
    effort: str | None
    center: Float[np.ndarray, "columns"]
    parts: tuple[CommunityPart, ...]

    def inputs(self, table: RawTable) -> SiteInputs:
        """The design of sites, surfaces included, and the log of their effort."""
        filled = self.covariates.filled(table)
        parts = [self.covariates.matrix(filled)]
        if self.interactions is not None:
            parts.append(self.interactions.columns(self.covariates.points(filled)))
        if self.surface is not None:
            parts.append(self.surface.columns(read_points(table, self.coordinates)))
        return SiteInputs(np.concatenate(parts, axis=1), read_effort(table, self.effort))

    def terms(self) -> tuple[list[str], np.ndarray]:
        """What columns of the design stand for: names, and the number of each column's."""
        names = [covariate.name for covariate in self.covariates.covariates]
        groups = [self.covariates.groups()]
        more = {"interactions of covariates": self.interactions}
        more[" × ".join(self.coordinates)] = self.surface
        for name, surface in more.items():
            if surface is not None:
                groups.append(np.full(len(surface.knots), len(names)))
                names.append(name)
        return names, np.concatenate(groups).astype(np.int64)

    def env(self, number: int, inputs: SiteInputs) -> Sites:
        """`eta` of a part by covariates alone."""
        part = self.parts[number]
        offset = inputs.offset * takes_effort(part.response.name)
        return part.environment.eta(inputs.design, offset)

    def etas(self, inputs: SiteInputs, value: Sites) -> tuple[Sites, ...]:
        """`eta` of all parts; a species sees the values that are not NaN, but not its own."""
        etas = []
        for number, part in enumerate(self.parts):
            own, there = values_of_part(part.response.name, value)
            env = self.env(number, inputs)
            etas.append(part.eta(env, part.residual(own, env, there), there))
        return tuple(etas)

    def log_prob(self, value: Sites, etas: Sequence[Sites]) -> Sites:
        """log p of each cell given what its `eta`s have seen, in nats; NaN where the value is."""
        sizes = [part.environment.log_size for part in self.parts]
        return self._log_prob(value, etas, sizes)

    def log_prob_of(self, s: int, value: np.ndarray, etas: Sequence[np.ndarray]) -> np.ndarray:
        """The same of one species."""
        sizes = [part.environment.log_size[s : s + 1] for part in self.parts]
        return self._log_prob(value, etas, sizes)

    def _log_prob(
        self, value: np.ndarray, etas: Sequence[np.ndarray], sizes: Sequence[np.ndarray]
    ) -> np.ndarray:
        total = np.zeros_like(value)
        for part, eta, log_size in zip(self.parts, etas, sizes, strict=True):
            own, there = values_of_part(part.response.name, value)
            log_prob = part.response.log_prob(part.response.safe(own, there), eta, log_size)
            total += np.where(there, log_prob, 0.0)
        return np.where(np.isnan(value), np.nan, total)

    def presence(self, etas: Sequence[Sites]) -> Sites:
        """The probability that each species is there."""
        part, eta = self.parts[0], etas[0]
        if part.response.name == "presence":
            return part.response.mean(eta, part.environment.log_size)
        zero = part.response.log_prob(np.zeros_like(eta), eta, part.environment.log_size)
        return -np.expm1(np.minimum(zero, 0.0))

    def mean(self, etas: Sequence[Sites]) -> Sites:
        """Expected values: probabilities of presences."""
        first = self.parts[0]
        mean = first.response.mean(etas[0], first.environment.log_size)
        for part, eta in zip(self.parts[1:], etas[1:], strict=True):
            mean = mean * part.response.mean(eta, part.environment.log_size)
        return mean

    def draw_of(
        self, s: int, etas: Sequence[np.ndarray], random: np.random.Generator
    ) -> np.ndarray:
        """A value of one species at each site, of its own distribution."""
        value = np.ones_like(etas[0])
        for part, eta in zip(self.parts, etas, strict=True):
            log_size = part.environment.log_size[s : s + 1]
            value = value * part.response.sample(eta, log_size, random)
        return value

    def config(self) -> dict[str, Any]:
        """All but numbers, as plain JSON."""
        return {
            "family": self.family,
            "covariates": [asdict(covariate) for covariate in self.covariates.covariates],
            "coordinates": list(self.coordinates),
            "effort": self.effort,
            "surfaces": {
                name: {"unit": surface.unit, "reach": surface.reach, "scale": surface.scale}
                for name, surface in self._surfaces().items()
            },
        }

    def _surfaces(self) -> dict[str, SiteSurface]:
        both = {"interactions": self.interactions, "surface": self.surface}
        return {name: surface for name, surface in both.items() if surface is not None}

    def arrays(self) -> dict[str, np.ndarray]:
        """All numbers."""
        arrays = {"mean": self.covariates.mean, "covariance": self.covariates.covariance}
        arrays["center"] = self.center
        for name, surface in self._surfaces().items():
            arrays |= {f"{name}.knots": surface.knots, f"{name}.white": surface.white}
        for number, part in enumerate(self.parts):
            arrays |= {f"part{number}.{name}": own for name, own in part.arrays().items()}
        return arrays

    @classmethod
    def from_arrays(
        cls, config: Mapping[str, Any], arrays: Mapping[str, np.ndarray], species: Sequence[str]
    ) -> "FittedCommunity":
        """What `config` and `arrays` gave."""
        covariates = tuple(
            with_types(Covariate(**{**c, "edges": tuple(c["edges"]), "labels": tuple(c["labels"])}))
            for c in config["covariates"]
        )
        surfaces = {
            name: SiteSurface(arrays[f"{name}.knots"], white=arrays[f"{name}.white"], **numbers)
            for name, numbers in config["surfaces"].items()
        }
        parts = []
        for number, name in enumerate(PARTS[config["family"]]):
            start = f"part{number}."
            own = {k.removeprefix(start): a for k, a in arrays.items() if k.startswith(start)}
            parts.append(CommunityPart.from_arrays(name, own))
        return cls(
            species=tuple(species),
            family=config["family"],
            covariates=SiteDesign(covariates, arrays["mean"], arrays["covariance"]),
            interactions=surfaces.get("interactions"),
            surface=surfaces.get("surface"),
            coordinates=tuple(config["coordinates"]),
            effort=config["effort"],
            center=arrays["center"],
            parts=tuple(parts),
        )


def orders_of(n_species: int, *, n_orders: int, seed: int) -> np.ndarray:
    """Random orders of the species."""
    random = np.random.default_rng(seed)
    return np.stack([random.permutation(n_species) for _ in range(n_orders)])


def walk(
    model: FittedCommunity, inputs: SiteInputs, value: Sites, *, order: np.ndarray, step: Step
) -> Sites:
    """The values after each species of an order has been filled in, given those before it.

    `value`: what is known at the start, which later species see
    """
    value = value.copy()
    envs = [model.env(number, inputs) for number in range(len(model.parts))]
    states = [
        _state(model, number, value, env, np.arange(value.shape[1]))
        for number, env in enumerate(envs)
    ]
    for s in order:
        etas = []
        for part, env, (residual, there) in zip(model.parts, envs, states, strict=True):
            etas.append(part.eta_of(env, residual, there, species=int(s)))
        value[:, s] = step(int(s), etas)
        for number, env in enumerate(envs):
            own, there = _state(model, number, value, env, np.array([s]))
            states[number][0][:, s], states[number][1][:, s] = own[:, 0], there[:, 0]
    return value


def _state(
    model: FittedCommunity, number: int, value: Sites, env: Sites, species: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Residuals of some species in a part, and which are there."""
    part = model.parts[number]
    own, there = values_of_part(part.response.name, value[:, species])
    safe = part.response.safe(own, there)
    log_size = part.environment.log_size[species]
    residual = part.response.residual(safe, env[:, species], log_size)
    return np.where(there, residual, 0.0), there


def community_log_prob(
    model: FittedCommunity, inputs: SiteInputs, value: Sites, *, orders: np.ndarray
) -> Float[np.ndarray, "sites"]:
    """log p(all values that are there | covariates), of the mixture of the orders."""
    terms = np.zeros((len(orders), len(value)))
    for k, order in enumerate(orders):

        def step(s: int, etas: list[np.ndarray], k: int = k) -> np.ndarray:
            own = model.log_prob_of(s, value[:, s], etas)
            terms[k] += np.where(np.isnan(own), 0.0, own)
            return value[:, s]

        walk(model, inputs, np.full_like(value, np.nan), order=order, step=step)
    return logsumexp(terms, axis=0) - np.log(len(orders))


def chain_draw(
    model: FittedCommunity,
    inputs: SiteInputs,
    value: Sites,
    *,
    order: np.ndarray,
    random: np.random.Generator,
) -> Sites:
    """One draw of what is NaN in `value` at each site, given the rest."""

    def step(s: int, etas: list[np.ndarray]) -> np.ndarray:
        drawn = model.draw_of(s, etas, random)
        return np.where(np.isnan(value[:, s]), drawn, value[:, s])

    wanted = order[np.isnan(value[:, order]).any(0)]
    return walk(model, inputs, value, order=wanted, step=step)
