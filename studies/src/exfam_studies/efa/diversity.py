"""What Theorem 1 assumes of items and contexts, and the theorem as a check.

The paper asks for points with which certain matrices are invertible. Such points exist where the
matrix of all points has full row rank; the best conditioned ones are picked by pivoting.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from jaxtyping import Float

from exfam_studies.common.statements import Check, unmet
from exfam_studies.efa.identifiability import (
    RELATIVE_RANK,
    ItemEmbeddings,
    align,
    mean_divergence,
)


@dataclass(frozen=True)
class Diversity:
    """Rank and condition of a matrix that must be invertible for some choice of points.

    `needed`: rows, so the rank that it must have; `rank`: of the matrix of all points
    `condition`: largest over smallest singular value of the square matrix of picked points, from 1
        to infinity (singular)
    """

    needed: int
    rank: int
    condition: float

    @property
    def suffices(self) -> bool:
        return self.rank >= self.needed


def diversity_of(points: Float[np.ndarray, "rows points"]) -> Diversity:
    """Whether some columns of `points`, as many as there are rows, are independent."""
    needed = len(points)
    values = np.linalg.svd(points, compute_uv=False)
    rank = int((values > RELATIVE_RANK * values.max(initial=0.0)).sum())
    if rank < needed:
        return Diversity(needed, rank, np.inf)
    picked = scipy.linalg.qr(points, mode="r", pivoting=True)[1][:needed]
    return Diversity(needed, rank, float(np.linalg.cond(points[:, picked])))


def item_diversity(embeddings: ItemEmbeddings) -> Diversity:
    """Assumption 2 (Diversity I): of L, whose K columns are differences of centers.

    Its rank is at most D - 1: K <= D - 1 is needed (Remark 13). Pairs are picked among all items
    against the one nearest to their mean.
    """
    center = embeddings.center
    nearest = int(((center - center.mean(axis=0)) ** 2).sum(axis=1).argmin())
    return diversity_of((np.delete(center, nearest, axis=0) - center[nearest]).T)


def context_diversity(embeddings: ItemEmbeddings) -> Diversity:
    """Assumption 3 (Diversity II): of M, whose K + 1 columns are [-log Z_c; H_c] at contexts c."""
    return diversity_of(np.column_stack([-embeddings.log_normalizer(), embeddings.context]).T)


def shift_diversity(embeddings: ItemEmbeddings) -> Diversity:
    """Of the matrix whose K + 1 columns are [1; H_c]: what an output bias or a shift needs.

    A bias is one more coordinate of delta, by which H is 1 everywhere. Where contexts lie in a
    plane, as after a layer norm, delta can move along its normal while the bias takes it back:
    assumption 3 may hold as printed, and delta is not determined.
    """
    ones = np.ones(len(embeddings.context))
    return diversity_of(np.column_stack([ones, embeddings.context]).T)


def failed_diversity(embeddings: ItemEmbeddings, *, name: str = "the fit") -> tuple[str, ...]:
    """Which of K <= D - 1 and assumptions 2 and 3 fail for one fit, in words."""
    k, d = embeddings.dim, embeddings.n_items
    matrices = {
        "assumption 2: L = differences of centers": item_diversity(embeddings),
        "assumption 3: M = [-log Z; H]": context_diversity(embeddings),
        "contexts in no plane: [1; H]": shift_diversity(embeddings),
    }
    return unmet(
        (k <= d - 1, f"K <= D - 1: {name} has K = {k} dimensions for D = {d} items"),
        *(
            (own.suffices, f"{label} of {name} must have rank {own.needed}, got {own.rank}")
            for label, own in matrices.items()
        ),
    )


def check_items(
    first: ItemEmbeddings, second: ItemEmbeddings, *, nats: float = 1e-6, tolerance: float = 1e-3
) -> Check:
    """Theorem 1, first condition: same conditionals imply H' = A H + a, delta' = inverse(A)'delta.

    `nats`: mean KL divergence up to which conditionals count as the same
    `tolerance`: share of variance that a map may leave unexplained

    Assumes the same conditionals, vectors of one length K <= D - 1 (Remark 13), assumptions 2, 3
    and, since outputs have a bias, that contexts lie in no plane. Fits of finite data never have
    the same conditionals: then the check says nothing, and `align` says how near they are.
    """
    aligned, apart = align(first, second), mean_divergence(first, second)
    figures = {
        "mean CCA of H": float(np.mean(aligned.context_correlations)),
        "mean CCA of delta": float(np.mean(aligned.center_correlations)),
    }
    conclusions = []
    for name, statement, both in (
        ("H", "H' = A H + a", aligned.context),
        ("delta", "delta' = inverse(A)' delta + d", aligned.center),
    ):
        figures |= {f"R2 of {name}, {way}": share for way, share in both._asdict().items()}
        shares = f"got {both.forward:.4f} and {both.backward:.4f}"
        linear = f"{statement}: R2 of at least {1 - tolerance:g} both ways, {shares}"
        conclusions.append((min(both) >= 1 - tolerance, linear))
    same = f"same conditionals: mean KL of at most {nats:g} nats, got {apart:.3g}"
    length = f"one length of vectors: got {first.dim} and {second.dim} dimensions"
    return Check(
        statement="Theorem 1, items",
        measured={"mean KL": apart, **figures},
        expected={"mean KL": 0.0, **dict.fromkeys(figures, 1.0)},
        failed_assumptions=(
            *unmet((apart <= nats, same), (first.dim == second.dim, length)),
            *failed_diversity(first, name="the first fit"),
            *failed_diversity(second, name="the second fit"),
        ),
        failed_conclusions=unmet(*conclusions),
    )
