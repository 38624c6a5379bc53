"""Maps whose values are normal given each other, with means that are known: auto-normal fields.

Given all others, y_i is normal with mean sum_j C_ij y_j and standard deviation sd, cut off at
`bound` on both sides. With C symmetric and its eigenvalues below 1 these conditionals are those of
one law, N(0, sd^2 (1 - C)^-1) given that no |y_i| is above the bound, which is drawn exactly.
Source: Besag (1974), Spatial interaction and the statistical analysis of lattice systems.
"""

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from exfam.checks import ExfamError, check_positive, check_whole
from exfam.groups import Groups

# Rounds of drawing anew what is beyond the bound.
_ROUNDS = 1000


def random_maps(n_maps: int, n_sites: int, *, n_dims: int = 2, seed: int) -> Groups:
    """Maps of sites at places drawn anew for each, all of length 1; all values are 0.

    Raises ExfamError for sizes that are not whole numbers above 0.

    >>> maps = random_maps(3, 5, seed=0)
    >>> maps
    Groups(3 groups, 15 elements, value, coordinates)
    >>> bool(np.allclose(np.linalg.norm(maps.attributes["coordinates"], axis=1), 1.0))
    True
    """
    for name, size in (("n_maps", n_maps), ("n_sites", n_sites), ("n_dims", n_dims)):
        check_whole(name, size)
    places = np.random.default_rng(seed).standard_normal((n_maps * n_sites, n_dims))
    start = n_sites * np.arange(n_maps)
    return Groups(
        start=start,
        stop=start + n_sites,
        values={"value": np.zeros(len(places))},
        attributes={"coordinates": places / np.linalg.norm(places, axis=1, keepdims=True)},
    )


def draw_auto_normal(
    pull: Float[np.ndarray, "maps sites others"], *, sd: float = 1.0, bound: float, seed: int
) -> Float[np.ndarray, "maps sites"]:
    """One draw for each map; `pull` holds its matrix C, `bound` is in the unit of the values.

    Raises ExfamError for matrices that are not symmetric, whose eigenvalues are not below 1, or
    with something on the diagonal, and for a bound that next to no draw keeps.

    >>> pull = np.array([[[0.0, 0.5], [0.5, 0.0]]]).repeat(4000, axis=0)
    >>> values = draw_auto_normal(pull, bound=9.0, seed=0)
    >>> np.corrcoef(values.T)[0, 1].round(1)
    np.float64(0.5)
    """
    check_positive("sd", sd)
    check_positive("bound", bound)
    _check_pull(pull)
    random = np.random.default_rng(seed)
    # With L L' = 1 - C, L'^-1 z has the covariance (1 - C)^-1.
    factor = np.linalg.cholesky(np.eye(pull.shape[1]) - pull)
    values, left = np.zeros(pull.shape[:2]), np.arange(len(pull))
    for _ in range(_ROUNDS):
        drawn = random.standard_normal((len(left), pull.shape[1], 1))
        values[left] = sd * np.linalg.solve(factor[left].transpose(0, 2, 1), drawn)[..., 0]
        left = left[(np.abs(values[left]) > bound).any(axis=1)]
        if not len(left):
            return values
    raise ExfamError(
        f"`bound` must leave room for the values, got {bound:g} at sd={sd:g}: of {len(pull)} maps, "
        f"{len(left)} had none within it in {_ROUNDS} draws."
    )


def auto_normal_means(
    pull: Float[np.ndarray, "maps sites others"],
    values: Float[np.ndarray, "maps sites"],
    *,
    sd: float = 1.0,
    bound: float,
) -> Float[np.ndarray, "maps sites"]:
    """The mean of each value given all others of its map, exactly: of a normal cut at the bound.

    No prediction has a smaller expected squared error.

    >>> pull = np.array([[[0.0, 0.5], [0.5, 0.0]]])
    >>> auto_normal_means(pull, np.array([[1.0, 2.0]]), bound=50.0)
    array([[1. , 0.5]])
    """
    location = np.einsum("gij,gj->gi", pull, values)
    # Of the two signs the one whose nearer end is the lower one: tails then keep their digits.
    sign = np.where(location > 0, -1.0, 1.0)
    low, high = (-bound - sign * location) / sd, (bound - sign * location) / sd
    density = np.exp(-0.5 * low**2) - np.exp(-0.5 * high**2)
    mass = np.sqrt(2 * np.pi) * (ndtr(-low) - ndtr(-high))
    return location + sign * sd * density / mass


def _check_pull(pull: Float[np.ndarray, "maps sites others"]) -> None:
    if pull.shape[1] != pull.shape[2]:
        raise ExfamError(
            f"`pull` must have a row and a column for each site, got shape {pull.shape}."
        )
    apart = float(np.abs(pull - pull.transpose(0, 2, 1)).max(initial=0.0))
    own = float(np.abs(np.einsum("gii->gi", pull)).max(initial=0.0))
    if apart > 1e-9 or own > 0:
        raise ExfamError(
            "`pull` must be symmetric with 0 on the diagonal, or no law has these conditionals; "
            f"got {apart:.2g} of asymmetry and {own:.2g} on the diagonal."
        )
    largest = float(np.linalg.eigvalsh(pull).max(initial=0.0))
    if not largest < 1:
        raise ExfamError(f"`pull` must have eigenvalues below 1, got {largest:.3g}.")
