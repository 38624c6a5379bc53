"""From sites and species to a fitted community."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int64

from exfam.estimator.gain import Gain
from exfam.tables.community.community_data import (
    SpeciesTable,
    family_of,
    read_blocks,
    read_effort,
    read_points,
    without,
)
from exfam.tables.community.community_model import (
    PARTS,
    FittedCommunity,
    takes_effort,
    values_of_part,
)
from exfam.tables.community.community_parts import fit_part
from exfam.tables.community.environment import (
    CrossFit,
    Observed,
    block_folds,
    cross_fit,
    held_out_nats,
    site_folds,
)
from exfam.tables.community.responses import RESPONSES
from exfam.tables.community.site_covariates import (
    RANGES,
    SCALES,
    SiteSurface,
    fit_design,
    fit_site_surface,
)
from exfam.tables.data.frames import RawTable

# Species that choose a surface at most.
_MOST_SPECIES = 32


@dataclass(frozen=True, eq=False, kw_only=True)
class CommunityPlan:
    """What is fitted, and how."""

    table: RawTable
    species: SpeciesTable
    coordinates: tuple[str, ...]
    effort: str | None
    blocks: str | None
    family: str
    corrected: bool
    seed: int


@dataclass(frozen=True, eq=False)
class _Base:
    """What all parts share: design, effort, folds."""

    design: Float[np.ndarray, "sites columns"]
    effort: Float[np.ndarray, "sites 1"]
    folds: Int64[np.ndarray, "sites"]
    everywhere: bool

    def is_clear(self, gain: Float[np.ndarray, "sites"]) -> bool:
        """Whether a gain is above 0 by more than a standard error by sites.

        With blocks it must be above 0 in each of them.
        """
        error = float(gain.std()) / max(len(gain) - 1, 1) ** 0.5
        of_folds = [gain[self.folds == f].mean() for f in range(int(self.folds.max()) + 1)]
        return float(gain.mean()) > error and (not self.everywhere or min(of_folds) > 0)

    def seen(self, name: str, value: np.ndarray) -> Observed:
        (own, there), response = values_of_part(name, value), RESPONSES[name]
        safe = response.safe(own, there)
        return Observed(response, safe, there, self.effort * takes_effort(name))

    def crossed(self, name: str, value: np.ndarray) -> CrossFit:
        return cross_fit(self.design, self.seen(name, value), folds=self.folds)

    def site_nats(self, name: str, value: np.ndarray) -> Float[np.ndarray, "sites"]:
        return held_out_nats(self.design, self.seen(name, value), folds=self.folds)


def fit_community(plan: CommunityPlan) -> tuple[FittedCommunity, tuple[Gain | None, ...]]:
    """The community, and what its corrections added."""
    family = family_of(plan.species, plan.family)
    value = plan.species.value
    left_out = [*plan.coordinates, *([] if plan.effort is None else [plan.effort])]
    rest = without(plan.table, left_out)
    covariates = fit_design(rest, list(rest.columns))
    filled, effort = covariates.filled(rest), read_effort(plan.table, plan.effort)
    base = _Base(covariates.matrix(filled), effort, _folds(plan), plan.blocks is not None)
    first = PARTS["count" if family == "auto" else family][0]
    interactions = surface = None
    if len(covariates.covariates) > 1:
        interactions, base = _with_surface(covariates.points(filled), base, first, value)
    if plan.coordinates:
        points = read_points(plan.table, plan.coordinates)
        surface, base = _with_surface(points, base, first, value)
    family, crossed = _chosen_family(family, base, value)
    fits = [
        fit_part(
            crossed.get(name) or base.crossed(name, value),
            corrected=plan.corrected,
            everywhere=base.everywhere,
            seed=plan.seed,
        )
        for name in PARTS[family]
    ]
    model = FittedCommunity(
        species=plan.species.names,
        family=family,
        covariates=covariates,
        interactions=interactions,
        surface=surface,
        coordinates=plan.coordinates if surface is not None else (),
        effort=plan.effort,
        center=base.design.mean(0),
        parts=tuple(part for part, _ in fits),
    )
    return model, tuple(gain for _, gain in fits)


def _folds(plan: CommunityPlan) -> Int64[np.ndarray, "sites"]:
    if plan.blocks is None:
        return site_folds(plan.table.n_rows, seed=plan.seed)
    random = np.random.default_rng(plan.seed)
    return block_folds(read_blocks(plan.table, plan.blocks, random=random))


def _chosen_family(family: str, base: _Base, value: np.ndarray) -> tuple[str, dict[str, CrossFit]]:
    """Of counts left to choice, "count" or "hurdle" by held-out nats, with its regressions."""
    if family != "auto":
        return family, {}
    crossed = {name: base.crossed(name, value) for name in ("count", *PARTS["hurdle"])}
    n_cells = {name: float(base.seen(name, value).there.sum()) for name in crossed}
    nats = {
        candidate: sum(crossed[name].nats * n_cells[name] for name in PARTS[candidate])
        for candidate in ("count", "hurdle")
    }
    return min(nats, key=lambda name: nats[name]), crossed


def _with_surface(
    points: np.ndarray, base: _Base, name: str, value: np.ndarray
) -> tuple[SiteSurface | None, _Base]:
    """The surface of least held-out nats of some species, and the design with it; or none."""
    some = value[:, :: max(1, -(-value.shape[1] // _MOST_SPECIES))]
    before = base.site_nats(name, some)
    least = float(before.sum())
    best: tuple[SiteSurface | None, _Base] = (None, base)
    for reach in RANGES:
        for scale in SCALES:
            surface = fit_site_surface(points, reach=reach, scale=scale)
            if surface is None:
                return None, base
            columns = np.column_stack([base.design, surface.columns(points)])
            tried = replace(base, design=columns)
            nats = tried.site_nats(name, some)
            if nats.sum() < least and base.is_clear(before - nats):
                least, best = float(nats.sum()), (surface, tried)
    return best
