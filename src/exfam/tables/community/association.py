"""What the others say: each species' residual given those of any subset, in closed form.

    shift_s = C_sO (C_OO + lambda I)^-1 r_O,   eta_s = env_s + c_s shift_s

of the residuals r of the species O whose values are known and their correlations C. For a species
of O itself O is the others: r_s - (A^-1 r)_s / (A^-1)_ss with A = C_OO + lambda I, so that no
species sees its own value.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import minimize

from exfam.tables.community.environment import CrossFit, Observed

RIDGES = (0.1, 0.3, 1.0, 3.0, 10.0)
SHARES = (0.25, 0.5, 0.75, 1.0)
# Of the logs of all species' scale and of how far each one's own is from it, in nats of all sites.
_OF_SCALE, _OF_SCALES = 1.0, 3.0
# Sites by which ridge and scales are chosen at most.
_MOST_SITES = 800

Sites = Float[np.ndarray, "sites species"]
Known = Bool[np.ndarray, "sites species"]
Square = Float[np.ndarray, "species species"]


@dataclass(frozen=True, eq=False)
class Association:
    """Correlations of residuals, their ridge, and how much of a shift each species takes."""

    correlation: Square
    ridge: float
    scale: Float[np.ndarray, "species"]


def correlations(residual: Sites, there: Known) -> Square:
    """Correlations of residuals about 0, over the sites where both species were observed."""
    seen = there.astype(np.float64)
    filled = np.where(there, residual, 0.0)
    both = filled.T @ filled
    square = np.square(filled).T @ seen
    spread = np.sqrt(np.maximum(square * square.T, 1e-12))
    # Of few sites in common, as if half a site more had been there with nothing in common.
    few = seen.T @ seen
    matrix = both / spread * (few / (few + 0.5))
    np.fill_diagonal(matrix, 1.0)
    return matrix


def shifts(correlation: Square, residual: Sites, known: Known, *, ridge: float) -> Sites:
    """What the known residuals of the other species say of each species' residual."""
    given = np.where(known, residual, 0.0)
    shift = np.empty_like(given)
    patterns, group = np.unique(known, axis=0, return_inverse=True)
    rows = np.argsort(group.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(group.ravel(), minlength=len(patterns)))
    for pattern, own in zip(patterns, np.split(rows, ends[:-1]), strict=True):
        shift[own] = _of_pattern(correlation, given[own], pattern, ridge)
    return shift


def _of_pattern(
    correlation: Square, given: Sites, known: Bool[np.ndarray, "species"], ridge: float
) -> Sites:
    if not known.any():
        return np.zeros_like(given)
    inside = correlation[np.ix_(known, known)] + ridge * np.eye(int(known.sum()))
    inverse = np.linalg.inv(inside)
    weighted = given[:, known] @ inverse
    shift = np.empty_like(given)
    shift[:, known] = given[:, known] - weighted / np.diag(inverse)
    shift[:, ~known] = weighted @ correlation[np.ix_(known, ~known)]
    return shift


def shift_of(
    correlation: Square, residual: Sites, known: Known, *, species: int, ridge: float
) -> Float[np.ndarray, "sites"]:
    """What `shifts` has for one species, which is not among the known ones."""
    shift = np.zeros(len(residual))
    patterns, group = np.unique(known, axis=0, return_inverse=True)
    for k, pattern in enumerate(patterns):
        weight = influence(correlation, pattern, species=species, ridge=ridge)
        rows = group.ravel() == k
        shift[rows] = residual[rows] @ weight
    return shift


def influence(
    correlation: Square, known: Bool[np.ndarray, "species"], *, species: int, ridge: float
) -> Float[np.ndarray, "species"]:
    """What one unit of each known residual adds to the shift of a species; 0 for its own."""
    others = np.flatnonzero(known)
    others = others[others != species]
    weight = np.zeros(len(known))
    if len(others):
        inside = correlation[np.ix_(others, others)] + ridge * np.eye(len(others))
        weight[others] = np.linalg.solve(inside, correlation[others, species])
    return weight


def known_at(there: Known, share: float, random: np.random.Generator) -> Known:
    """A share of the values that are there of each site, drawn at random."""
    rank = np.where(there, random.random(there.shape), 2.0).argsort(1).argsort(1)
    return there & (rank < np.round(share * there.sum(1, keepdims=True)))


def fit_association(cross: CrossFit, *, seed: int) -> Association:
    """Correlations of all out-of-fold residuals; ridge and scales by folds and shares known."""
    seen, log_size = cross.seen, cross.of_all.log_size
    residual = seen.residual(cross.eta, log_size)
    random = np.random.default_rng(seed)
    rows = np.sort(random.permutation(len(residual))[:_MOST_SITES])
    known = [known_at(seen.there[rows], share, random) for share in SHARES]
    matrices = {
        f: correlations(residual[cross.folds != f], seen.there[cross.folds != f])
        for f in range(int(cross.folds.max()) + 1)
    }
    best: tuple[float, float, np.ndarray] | None = None
    for ridge in RIDGES:
        shift = [
            _by_fold(matrices, residual[rows], pattern, (ridge, cross.folds[rows]))
            for pattern in known
        ]
        nats, scale = fit_scales(seen[rows], cross.eta[rows], shift, log_size=log_size)
        if best is None or nats < best[0]:
            best = (nats, ridge, scale)
    assert best is not None
    return Association(correlations(residual, seen.there), best[1], best[2])


def _by_fold(
    matrices: dict[int, Square],
    residual: Sites,
    known: Known,
    settings: tuple[float, np.ndarray],
) -> Sites:
    ridge, folds = settings
    shift = np.zeros_like(residual)
    for f, matrix in matrices.items():
        own = folds == f
        if own.any():
            shift[own] = shifts(matrix, residual[own], known[own], ridge=ridge)
    return shift


def fit_scales(
    seen: Observed,
    eta: Sites,
    shift: Sequence[Sites],
    *,
    log_size: Float[np.ndarray, "species"],
) -> tuple[float, Float[np.ndarray, "species"]]:
    """Mean nats and exp(a + d_s): one scale of all species and a deviation of each, both ridged."""
    n, n_species = eta.shape

    def objective(numbers: np.ndarray) -> tuple[float, np.ndarray]:
        scale = np.exp(np.clip(numbers[0] + numbers[1:], -8, 4))
        nats, slope = 0.0, np.zeros(n_species)
        for moved in shift:
            at = eta + scale * moved
            nats += float(seen.nats(at, log_size).sum())
            score, _ = seen.response.score_and_information(seen.value, at, log_size)
            slope -= (score * seen.there * moved).sum(0) * scale
        nats, slope = nats / len(shift), slope / len(shift)
        gradient = np.append(slope.sum(), slope) + 2 * held * numbers
        return (nats + float((held * numbers**2).sum())) / n, gradient / n

    start = np.zeros(1 + n_species)
    held = np.append(_OF_SCALE, np.full(n_species, _OF_SCALES))
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 60})
    scale = np.exp(np.clip(found.x[0] + found.x[1:], -8, 4))
    return float(found.fun), scale
