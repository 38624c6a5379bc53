"""A part of a community's model: one response of all species, from covariates and from the others.

eta = environment + c * (what the residuals of the others say) + correction
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int64

from exfam.estimator.gain import Gain
from exfam.tables.community.association import (
    Association,
    Known,
    Sites,
    correlations,
    fit_association,
    shift_of,
    shifts,
)
from exfam.tables.community.community_correction import Correction, Site, correction_of
from exfam.tables.community.community_training import (
    FEWEST_SITES,
    FoldData,
    HeldOut,
    fit_correction,
)
from exfam.tables.community.environment import (
    Coefficients,
    CrossFit,
    cross_fit,
    safe_value,
)
from exfam.tables.community.responses import RESPONSES, SpeciesResponse
from exfam.tables.community.ridge import Design, Observed

# Draws of sites that intervals of correlations are made of: fewer for many species.
_N_DRAWS, _NUMBERS_OF_DRAWS = 200, 5_000_000


@dataclass(frozen=True, eq=False)
class CommunityPart:
    """One response: its regressions, its association and its correction, if it has any.

    `spread`: the standard errors of correlations, by draws of sites
    """

    response: SpeciesResponse
    environment: Coefficients
    association: Association
    spread: Float[np.ndarray, "species species"]
    correction: Correction | None

    def residual(self, value: Sites, env: Sites, there: Known) -> Sites:
        """Residuals of the values that are there, 0 elsewhere."""
        safe = self.response.safe(value, there)
        own = self.response.residual(safe, env, self.environment.log_size)
        return np.where(there, own, 0.0)

    def corrected(self, env: Sites, residual: Sites, known: Known) -> tuple[Sites, Sites]:
        """What the association adds to `eta`, and what the correction adds."""
        link = self.association
        shift = link.scale * shifts(link.correlation, residual, known, ridge=link.ridge)
        if self.correction is None:
            return shift, np.zeros_like(shift)
        return shift, self.correction.shift(env, residual, known)

    def eta(self, env: Sites, residual: Sites, known: Known) -> Sites:
        """`eta` of each species given the known ones but itself."""
        shift, more = self.corrected(env, residual, known)
        return env + shift + more

    def eta_of(self, env: Sites, residual: Sites, known: Known, *, species: int) -> Site:
        """What `eta` has for one species."""
        link = self.association
        shift = shift_of(link.correlation, residual, known, species=species, ridge=link.ridge)
        eta = env[:, species] + link.scale[species] * shift
        if self.correction is None:
            return eta
        return eta + self.correction.shift_of(env, residual, known, species=species)

    def arrays(self) -> dict[str, np.ndarray]:
        """All that was learned."""
        link, env, correction = self.association, self.environment, self.correction
        arrays = {
            "intercept": env.intercept,
            "weight": env.weight,
            "log_size": env.log_size,
            "correlation": link.correlation,
            "ridge": np.array([link.ridge]),
            "scale": link.scale,
            "spread": self.spread,
        }
        if correction is not None:
            arrays |= {
                name: getattr(correction, name) for name in ("pairs", "inward", "bias", "outward")
            }
            arrays["gate"] = np.array([correction.gate])
        return arrays

    @classmethod
    def from_arrays(cls, name: str, arrays: dict[str, np.ndarray]) -> "CommunityPart":
        """What `arrays` gave."""
        correction = None
        if "gate" in arrays:
            stacked = [arrays[part] for part in ("pairs", "inward", "bias", "outward")]
            correction = correction_of(stacked, gate=float(arrays["gate"][0]))
        return cls(
            RESPONSES[name],
            Coefficients(arrays["intercept"], arrays["weight"], arrays["log_size"]),
            Association(arrays["correlation"], float(arrays["ridge"][0]), arrays["scale"]),
            arrays["spread"],
            correction,
        )


@dataclass(frozen=True, eq=False)
class FittedPart:
    """A part with what its fit says of it."""

    part: CommunityPart
    gain: Gain | None
    nats: float


def fit_part(
    name: str,
    design: Design,
    seen: Observed,
    *,
    folds: Int64[np.ndarray, "sites"],
    corrected: bool,
    everywhere: bool,
    seed: int,
    cross: CrossFit | None = None,
) -> FittedPart:
    """Fit a response; `cross`: its regressions, where these have been fitted already.

    `everywhere`: whether a correction must add something in every fold
    """
    response = RESPONSES[name]
    if cross is None:
        cross = cross_fit(response, design, seen, folds=folds)
    association = fit_association(response, seen, cross, seed=seed)
    log_size = cross.of_all.log_size
    value = safe_value(response, seen)
    residual = np.where(seen.there, response.residual(value, cross.eta, log_size), 0.0)
    correction = gain = None
    if corrected and len(value) >= FEWEST_SITES and value.shape[1] > 1:
        parts = [
            _fold_data(response, (design, seen, residual), (cross, association), f)
            for f in range(len(cross.of_folds))
        ]
        correction, gain = fit_correction(
            response, parts, log_size=log_size, seed=seed, everywhere=everywhere
        )
    spread = _spread(residual, seen.there, seed=seed)
    part = CommunityPart(response, cross.of_all, association, spread, correction)
    return FittedPart(part, gain, cross.nats)


def _fold_data(
    response: SpeciesResponse,
    data: tuple[Design, Observed, Sites],
    fits: tuple[CrossFit, Association],
    f: int,
) -> FoldData:
    design, seen, residual = data
    cross, association = fits
    held, inside = cross.folds == f, cross.folds != f
    log_size, value = cross.of_all.log_size, safe_value(response, seen)
    env = cross.of_folds[f].eta(design[inside], seen.offset[inside])
    own = Association(
        correlations(residual[inside], seen.there[inside]), association.ridge, association.scale
    )
    in_sample = response.residual(value[inside], env, log_size)
    there = seen.there
    return FoldData(
        env=env,
        residual=np.where(there[inside], in_sample, 0.0),
        value=value[inside],
        there=there[inside],
        held_out=HeldOut(cross.eta[held], residual[held], value[held], there[held]),
        association=own,
    )


def _spread(
    residual: Sites, there: Bool[np.ndarray, "sites species"], *, seed: int
) -> Float[np.ndarray, "species species"]:
    """Standard errors of correlations, by draws of sites with replacement."""
    random = np.random.default_rng(seed)
    n, n_species = residual.shape
    n_draws = int(np.clip(_NUMBERS_OF_DRAWS // n_species**2, 30, _N_DRAWS))
    total, square = np.zeros((2, n_species, n_species))
    for _ in range(n_draws):
        rows = random.integers(n, size=n)
        matrix = correlations(residual[rows], there[rows])
        total += matrix
        square += matrix**2
    variance = (square - total**2 / n_draws) / (n_draws - 1)
    return np.sqrt(np.maximum(variance, 0.0))
