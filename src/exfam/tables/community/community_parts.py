"""A part of a community's model: one response of all species, from covariates and from the others.

eta = environment + c * (what the residuals of the others say) + correction
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

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
from exfam.tables.community.community_training import (
    FEWEST_SITES,
    Correction,
    FoldData,
    FoldRows,
    Site,
    correction_of,
    fit_correction,
)
from exfam.tables.community.environment import (
    Coefficients,
    CrossFit,
)
from exfam.tables.community.responses import RESPONSES, SpeciesResponse

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


def fit_part(
    cross: CrossFit, *, corrected: bool, everywhere: bool, seed: int
) -> tuple[CommunityPart, Gain | None]:
    """The part of a response that has these regressions, and what its correction added.

    `everywhere`: whether a correction must add something in every fold
    """
    seen, environment = cross.seen, cross.of_all
    association = fit_association(cross, seed=seed)
    residual = seen.residual(cross.eta, environment.log_size)
    correction = gain = None
    if corrected and len(residual) >= FEWEST_SITES and residual.shape[1] > 1:
        n_folds = len(cross.of_folds)
        folds = [_fold_data(cross, residual, association, f) for f in range(n_folds)]
        correction, gain = fit_correction(folds, seed=seed, everywhere=everywhere)
    spread = _spread(residual, seen.there, seed=seed)
    return CommunityPart(seen.response, environment, association, spread, correction), gain


def _fold_data(cross: CrossFit, residual: Sites, association: Association, f: int) -> FoldData:
    held, inside = cross.folds == f, cross.folds != f
    seen, log_size = cross.seen, cross.of_all.log_size
    env = cross.of_folds[f].eta(cross.design[inside], seen.offset[inside])
    own = replace(association, correlation=correlations(residual[inside], seen.there[inside]))
    train = FoldRows(env, seen[inside].residual(env, log_size), seen[inside])
    return FoldData(train, FoldRows(cross.eta[held], residual[held], seen[held]), own, log_size)


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
