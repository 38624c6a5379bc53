"""Two fits of one model, compared up to one invertible affine map.

If both have the same conditionals, then H' = A H + a, and the same map carries the items:

    delta' = inverse(A)' delta + d        b' = b - a . delta' + c

for some vector d and number c that no conditional depends on. So A is found from contexts alone, on
one half of them; the other half and the items judge it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from exfam.checks import DataError
from exfam_studies.efa.identifiability.embeddings import ItemEmbeddings

# Singular values below this share of the largest count as 0: models compute in single precision.
RELATIVE_RANK = 1e-5

Vectors = Float[np.ndarray, "rows dim"]


class BothWays(NamedTuple):
    """A figure of the first fit taken to the second, and of the second taken to the first."""

    forward: float
    backward: float


@dataclass(frozen=True, eq=False)
class AffineMap:
    """x -> matrix x + shift."""

    matrix: Float[np.ndarray, "to from"]
    shift: Float[np.ndarray, "to"]

    def __call__(self, vectors: Float[np.ndarray, "rows from"]) -> Float[np.ndarray, "rows to"]:
        return vectors @ self.matrix.T + self.shift


@dataclass(frozen=True, eq=False)
class Alignment:
    """How far two fits agree up to an affine map found from one half of the contexts.

    Shares of variance explained (R^2, at most 1, below 0 if worse than the mean), both ways:
    `context`: of H, by the affine map, on the other half of the contexts
    `center`: of delta, by the inverse transposed of that map: what the theorem says. An error in a
        direction in which H hardly varies is blown up by the inverse
    `center_transposed`: of delta, by the transposed map of the other way, the same without noise,
        which needs no inverse
    `center_effect`: as `center_transposed`, directions weighed by how much contexts vary in them:
        of the log-odds of items, not of coordinates. It does not depend on the second fit's
        coordinates, and does not see what delta does where contexts never go
    `bias`: of the bias, by the map's shift; None where a fit has none
    `rotation_context`, `rotation_center`: `context` and `center_effect` by the best rotation with a
        shift and one scale (orthogonal Procrustes): low where the map is no rotation

    Correlations in canonical directions, which do not depend on either fit's coordinates:
    `context_correlations`: of H in directions found on one half, measured on the other
    `center_correlations`: of delta over items, in the dual directions
    """

    context: BothWays
    center: BothWays
    center_transposed: BothWays
    center_effect: BothWays
    bias: BothWays | None
    rotation_context: BothWays
    rotation_center: BothWays
    context_correlations: Float[np.ndarray, "directions"]
    center_correlations: Float[np.ndarray, "directions"]


def align(first: ItemEmbeddings, second: ItemEmbeddings, *, seed: int = 0) -> Alignment:
    """Find the map from one fit's contexts to the other's, and judge it.

    `seed`: of the halves of the groups, one to find the map, one to judge it (default 0)

    `check_items` says whether the theorem speaks of such fits: with dim > items - 1, or contexts in
    a plane, the figures are still those of the directions that vary.
    Raises DataError unless both have the same contexts and items, more than 2 (dim + 1) contexts in
    two groups or more, and vary.
    Source: "Exponential Family Attention", Definition 1; Roeder et al. (2021), section 3.

    >>> random = np.random.default_rng(0)
    >>> context, center = random.normal(size=(200, 2)), random.normal(size=(9, 2))
    >>> turn, shift = np.array([[2.0, 1.0], [0.0, 1.0]]), np.array([1.0, -1.0])
    >>> bias, group = random.normal(size=9), np.arange(200)
    >>> first = ItemEmbeddings(context, center, bias, group)
    >>> carried = center @ np.linalg.inv(turn)
    >>> second = ItemEmbeddings(context @ turn.T + shift, carried, bias - carried @ shift, group)
    >>> found = align(first, second)
    >>> [round(both.forward, 6) for both in (found.context, found.center, found.bias)]
    [1.0, 1.0, 1.0]
    >>> found.rotation_context.forward < 0.9
    True
    """
    _check_alike(first, second)
    fitted = _half(first.group, seed)
    _check_enough(fitted, max(first.dim, second.dim))
    found = first.context[fitted], second.context[fitted]
    maps = affine_map(*found), affine_map(*found[::-1])
    turns = rotation_map(*found), rotation_map(*found[::-1])
    contexts, centers = _correlations(first, second, fitted)
    has_bias = bool(np.ptp(first.bias) and np.ptp(second.bias))

    def both(share: _Share, ways: tuple[AffineMap, AffineMap] = maps) -> BothWays:
        return BothWays(share(first, second, *ways), share(second, first, *ways[::-1]))

    def context_share(
        given: ItemEmbeddings, wanted: ItemEmbeddings, into: AffineMap, back: AffineMap
    ) -> float:
        return explained(wanted.context[~fitted], into(given.context[~fitted]))

    return Alignment(
        context=both(context_share),
        center=both(_center_share),
        center_transposed=both(_center_share_transposed),
        center_effect=both(_effect_share),
        bias=both(_bias_share) if has_bias else None,
        rotation_context=both(context_share, turns),
        rotation_center=both(_effect_share, turns),
        context_correlations=contexts,
        center_correlations=centers,
    )


# Of a fit, another, the map from its contexts to the other's and the map back: a share of variance.
_Share = Callable[[ItemEmbeddings, ItemEmbeddings, AffineMap, AffineMap], float]


def affine_map(
    given: Float[np.ndarray, "rows from"], wanted: Float[np.ndarray, "rows to"]
) -> AffineMap:
    """The affine map of least squares; the shortest where directions of `given` do not vary.

    >>> found = affine_map(np.array([[0.0], [1.0]]), np.array([[3.0], [5.0]]))
    >>> found.matrix.round(6), found.shift.round(6)
    (array([[2.]]), array([3.]))
    """
    start, end = given.mean(axis=0), wanted.mean(axis=0)
    solution = np.linalg.lstsq(given - start, wanted - end, rcond=RELATIVE_RANK)[0]
    matrix = solution.T
    return AffineMap(matrix, end - matrix @ start)


def rotation_map(
    given: Float[np.ndarray, "rows from"], wanted: Float[np.ndarray, "rows to"]
) -> AffineMap:
    """The rotation or reflection of least squares, with a shift and one scale (Procrustes).

    >>> found = rotation_map(np.array([[0.0], [1.0]]), np.array([[3.0], [1.0]]))
    >>> found.matrix.round(6), found.shift.round(6)
    (array([[-2.]]), array([3.]))
    """
    start, end = given.mean(axis=0), wanted.mean(axis=0)
    left, values, right = np.linalg.svd((wanted - end).T @ (given - start), full_matrices=False)
    scale = values.sum() / max(float(((given - start) ** 2).sum()), np.finfo(float).tiny)
    matrix = scale * left @ right
    return AffineMap(matrix, end - matrix @ start)


def explained(wanted: Vectors, given: Vectors, *, shift: bool = False) -> float:
    """R^2: 1 - |wanted - given|^2 / |wanted - its mean|^2; with `shift`, up to a constant vector.

    Raises DataError where `wanted` does not vary.

    >>> explained(np.array([[1.0], [3.0]]), np.array([[2.0], [4.0]]))
    0.0
    >>> explained(np.array([[1.0], [3.0]]), np.array([[2.0], [4.0]]), shift=True)
    1.0
    """
    left = wanted - given
    if shift:
        left = left - left.mean(axis=0)
    total = float(((wanted - wanted.mean(axis=0)) ** 2).sum())
    if total == 0:
        raise DataError("`wanted` must vary for a share of its variance, got rows all alike.")
    return 1 - float((left**2).sum()) / total


def shuffled_contexts(embeddings: ItemEmbeddings, *, seed: int) -> ItemEmbeddings:
    """The same embeddings with contexts in random order, as if each were another's: a null."""
    order = np.random.default_rng(seed).permutation(len(embeddings.context))
    return ItemEmbeddings(
        embeddings.context[order], embeddings.center, embeddings.bias, embeddings.group
    )


def _check_alike(first: ItemEmbeddings, second: ItemEmbeddings) -> None:
    if not np.array_equal(first.group, second.group) or first.n_items != second.n_items:
        raise DataError(
            "`second` must have the contexts and items of `first`, got "
            f"{len(second.context)} contexts of {second.n_items} items for {len(first.context)} of "
            f"{first.n_items}. Take both from the same groups."
        )


def _check_enough(fitted: Bool[np.ndarray, "contexts"], dim: int) -> None:
    fewest = int(min(fitted.sum(), (~fitted).sum()))
    if fewest < dim + 2:
        raise DataError(
            f"`first` must have {dim + 2} contexts or more in each half of its groups for a map of "
            f"{dim} dimensions, got {fewest}. Take more groups."
        )


def _half(group: Int[np.ndarray, "contexts"], seed: int) -> Bool[np.ndarray, "contexts"]:
    """Contexts of a random half of the groups: those of one group are not independent."""
    _, which = np.unique(group, return_inverse=True)
    n = int(which.max(initial=-1)) + 1
    drawn = np.random.default_rng(seed).permutation(n) < (n + 1) // 2
    return drawn[which]


def _center_share(
    given: ItemEmbeddings, wanted: ItemEmbeddings, into: AffineMap, back: AffineMap
) -> float:
    """By the inverse transposed; of a map that is singular or not square, its pseudo-inverse."""
    matrix = np.linalg.pinv(into.matrix, rcond=RELATIVE_RANK)
    return explained(wanted.center, given.center @ matrix, shift=True)


def _center_share_transposed(
    given: ItemEmbeddings, wanted: ItemEmbeddings, into: AffineMap, back: AffineMap
) -> float:
    return explained(wanted.center, given.center @ back.matrix, shift=True)


def _effect_share(
    given: ItemEmbeddings, wanted: ItemEmbeddings, into: AffineMap, back: AffineMap
) -> float:
    """Of the variance of (H - mean) . delta: products with H's principal axes, scaled by it."""
    axes = _whitened(wanted.context).back
    return explained(wanted.center @ axes, given.center @ back.matrix @ axes, shift=True)


def _bias_share(
    given: ItemEmbeddings, wanted: ItemEmbeddings, into: AffineMap, back: AffineMap
) -> float:
    """From H = B H' + s: H . delta + b = H' . B' delta + (s . delta + b)."""
    carried = given.bias + given.center @ back.shift
    return explained(wanted.bias[:, None], carried[:, None], shift=True)


def _correlations(
    first: ItemEmbeddings, second: ItemEmbeddings, fitted: Bool[np.ndarray, "contexts"]
) -> tuple[Float[np.ndarray, "directions"], Float[np.ndarray, "directions"]]:
    """Correlations of contexts and of centers in canonical and in dual directions."""
    whitened = [_whitened(fit.context[fitted]) for fit in (first, second)]
    left, _, right = np.linalg.svd(whitened[0].scores.T @ whitened[1].scores, full_matrices=False)
    ways = list(zip((first, second), whitened, (left, right.T), strict=True))
    contexts = [fit.context[~fitted] @ white.into @ turn for fit, white, turn in ways]
    centers = [fit.center @ white.back @ turn for fit, white, turn in ways]
    return _columns_correlation(*contexts), _columns_correlation(*centers)


class _Whitened(NamedTuple):
    """Coordinates of orthonormal columns: scores = (x - mean) into; x = mean + back scores."""

    scores: Float[np.ndarray, "rows rank"]
    into: Float[np.ndarray, "dim rank"]
    back: Float[np.ndarray, "dim rank"]


def _whitened(vectors: Vectors) -> _Whitened:
    left, scale, right = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    kept = scale > RELATIVE_RANK * scale.max(initial=0.0)
    return _Whitened(left[:, kept], right[kept].T / scale[kept], right[kept].T * scale[kept])


def _columns_correlation(one: Vectors, other: Vectors) -> Float[np.ndarray, "dim"]:
    one, other = one - one.mean(axis=0), other - other.mean(axis=0)
    norms = np.linalg.norm(one, axis=0) * np.linalg.norm(other, axis=0)
    # A direction that does not vary is alike in nothing.
    return (one * other).sum(axis=0) / np.where(norms > 0, norms, np.inf)
