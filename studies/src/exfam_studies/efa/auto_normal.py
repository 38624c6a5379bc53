"""Maps whose values are normal given each other, with means that are known: auto-normal fields.

Given all others, y_i is normal with mean sum_j C_ij y_j and variance 1, cut off at `bound` on both
sides. With C symmetric, 0 on its diagonal and its eigenvalues below 1, these are the conditionals
of one distribution, N(0, (1 - C)^-1) where no |y_i| is above the bound, which is drawn exactly.
Source: Besag (1974), Spatial interaction and the statistical analysis of lattice systems.
"""

import numpy as np
from jaxtyping import Float

from exfam.checks import ExfamError
from exfam.groups import Groups

# Rounds of drawing anew what is beyond the bound.
_ROUNDS = 1000


def random_maps(n_maps: int, n_sites: int, *, n_dims: int = 2, seed: int) -> Groups:
    """Maps of sites at coordinates drawn anew for each, all of length 1; all values are 0."""
    drawn = np.random.default_rng(seed).standard_normal((n_maps * n_sites, n_dims))
    start = n_sites * np.arange(n_maps)
    return Groups(
        start=start,
        stop=start + n_sites,
        values={"value": np.zeros(len(drawn))},
        attributes={"coordinates": drawn / np.linalg.norm(drawn, axis=1, keepdims=True)},
    )


def draw_auto_normal(
    pull: Float[np.ndarray, "maps sites sites"], *, bound: float, seed: int
) -> Float[np.ndarray, "maps sites"]:
    """One draw for each map; `pull` holds its matrix C.

    Raises ExfamError for matrices of which no distribution has the conditionals, and for a bound
    that next to no draw keeps.
    """
    apart = float(np.abs(pull - pull.transpose(0, 2, 1)).max(initial=0.0))
    own = float(np.abs(np.einsum("gii->gi", pull)).max(initial=0.0))
    largest = float(np.linalg.eigvalsh(pull).max(initial=0.0))
    if apart > 1e-9 or own > 0 or not largest < 1:
        raise ExfamError(
            "`pull` must be symmetric with 0 on the diagonal and eigenvalues below 1, or no "
            f"distribution has these conditionals; got {apart:.2g} of asymmetry, {own:.2g} on the "
            f"diagonal and an eigenvalue of {largest:.3g}."
        )
    random = np.random.default_rng(seed)
    # With L L' = 1 - C, L'^-1 z has the covariance (1 - C)^-1.
    factor = np.linalg.cholesky(np.eye(pull.shape[1]) - pull)
    values, left = np.zeros(pull.shape[:2]), np.arange(len(pull))
    for _ in range(_ROUNDS):
        drawn = random.standard_normal((len(left), pull.shape[1], 1))
        values[left] = np.linalg.solve(factor[left].transpose(0, 2, 1), drawn)[..., 0]
        left = left[(np.abs(values[left]) > bound).any(axis=1)]
        if not len(left):
            return values
    raise ExfamError(
        f"`bound` must leave room for the values, got {bound:g}: of {len(pull)} maps, {len(left)} "
        f"had none within it in {_ROUNDS} draws."
    )
