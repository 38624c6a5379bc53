"""Whether contexts and items are diverse enough for embeddings to be determined by a law.

The paper asks for points with which certain matrices are invertible. Such points exist where the
matrix of all points has full row rank; the best conditioned ones are picked by pivoting.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from jaxtyping import Float

from exfam_studies.efa.identifiability.alignment import RELATIVE_RANK
from exfam_studies.efa.identifiability.embeddings import ItemEmbeddings


@dataclass(frozen=True)
class Diversity:
    """Rank and condition of a matrix that must be invertible for some choice of points.

    `needed`: rows, so the rank that it must have; `rank`: of the matrix of all points
    `condition`: largest over smallest singular value of the square matrix of picked points, from 1
        to infinity (singular); `condition_of_all`: the same of the matrix of all points
    """

    needed: int
    rank: int
    condition: float
    condition_of_all: float

    @property
    def suffices(self) -> bool:
        """Whether some choice of points makes the matrix invertible."""
        return self.rank >= self.needed


def diversity_of(points: Float[np.ndarray, "rows points"]) -> Diversity:
    """Whether some columns of `points`, as many as there are rows, are independent.

    >>> diversity_of(np.array([[3.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))
    Diversity(needed=2, rank=2, condition=3.0, condition_of_all=3.16...)
    >>> diversity_of(np.array([[1.0, 2.0], [1.0, 2.0]])).suffices
    False
    """
    needed = len(points)
    if points.shape[1] == 0:
        return Diversity(needed, 0, np.inf, np.inf)
    values = np.linalg.svd(points, compute_uv=False)
    rank = int((values > RELATIVE_RANK * values[0]).sum())
    if rank < needed:
        return Diversity(needed, rank, np.inf, np.inf)
    picked = scipy.linalg.qr(points, mode="r", pivoting=True)[1][:needed]
    return Diversity(
        needed, rank, float(np.linalg.cond(points[:, picked])), float(values[0] / values[-1])
    )


def item_diversity(embeddings: ItemEmbeddings) -> Diversity:
    """Assumption 2: of L, whose K columns are differences of centers delta_A - delta_B.

    Its rank is at most D - 1: K <= D - 1 is needed (Remark 13). Pairs are picked among all items
    against the one nearest to their mean.
    Source: "Exponential Family Attention", Assumption 2 (Diversity I).

    >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> item_diversity(ItemEmbeddings(np.eye(2), square, np.zeros(3), np.arange(2))).suffices
    True
    >>> item_diversity(ItemEmbeddings(np.eye(2), square[:2], np.zeros(2), np.arange(2))).rank
    1
    """
    center = embeddings.center
    nearest = int(((center - center.mean(axis=0)) ** 2).sum(axis=1).argmin())
    return diversity_of((np.delete(center, nearest, axis=0) - center[nearest]).T)


def context_diversity(embeddings: ItemEmbeddings) -> Diversity:
    """Assumption 3: of M, whose K + 1 columns are [-log Z_c; H_c] at contexts c.

    Source: "Exponential Family Attention", Assumption 3 (Diversity II).

    >>> context = np.random.default_rng(0).normal(size=(30, 2))
    >>> fit = ItemEmbeddings(context, np.eye(4, 2), np.zeros(4), np.arange(30))
    >>> context_diversity(fit).needed, context_diversity(fit).suffices
    (3, True)
    """
    normalizer = np.concatenate(
        [np.empty(0), *(embeddings.log_normalizers(piece) for piece in embeddings.pieces())]
    )
    return diversity_of(np.column_stack([-normalizer, embeddings.context]).T)


def shift_diversity(embeddings: ItemEmbeddings) -> Diversity:
    """Of the matrix whose K + 1 columns are [1; H_c]: what an output bias or a shift asks for.

    A bias is one more coordinate of delta, by which H is 1 everywhere. Where contexts lie in a
    plane, as after a layer norm, delta can move along its normal while the bias takes it back:
    assumption 3 may hold as printed, and delta is not determined.

    >>> context = np.random.default_rng(0).normal(size=(30, 3))
    >>> fit = ItemEmbeddings(context, np.eye(4, 3), np.zeros(4), np.arange(30))
    >>> flat = context - context.mean(axis=1, keepdims=True) + 1
    >>> plane = ItemEmbeddings(flat, np.eye(4, 3), np.zeros(4), np.arange(30))
    >>> shift_diversity(fit).suffices, shift_diversity(plane).suffices
    (True, False)
    >>> context_diversity(plane).suffices
    True
    """
    ones = np.ones(len(embeddings.context))
    return diversity_of(np.column_stack([ones, embeddings.context]).T)
