"""Theorem 1 for items: equal conditionals have the same embeddings up to an affine map."""

import numpy as np

from exfam.checks import check_positive
from exfam_studies.common.statements import Check, unmet
from exfam_studies.efa.identifiability.alignment import BothWays, align
from exfam_studies.efa.identifiability.diversity import (
    context_diversity,
    item_diversity,
    shift_diversity,
)
from exfam_studies.efa.identifiability.embeddings import ItemEmbeddings, mean_divergence


def check_items(
    first: ItemEmbeddings,
    second: ItemEmbeddings,
    *,
    nats: float = 1e-6,
    tolerance: float = 1e-3,
    seed: int = 0,
) -> Check:
    """Theorem 1, first condition: same conditionals imply H' = A H + a, delta' = inverse(A)'delta.

    `nats`: mean KL divergence up to which conditionals count as the same (default 1e-6)
    `tolerance`: share of variance that a map may leave unexplained (default 1e-3)
    `seed`: of the halves of the groups, as in `align` (default 0)

    Assumes the same conditionals p(x_i | context), vectors of one length K <= D - 1 (Remark 13),
    items that differ in all directions (Assumption 2) and contexts that do (Assumption 3), and,
    since outputs have a bias and Definition 1 holds up to a vector added to every center only, that
    contexts lie in no plane. Concludes that one invertible affine map found from the contexts of
    half of the groups takes H to H' on the other half, and, inversely transposed, delta to delta',
    both ways. Fits of finite data never have the same conditionals: then the check says nothing,
    and `align` says how near they are.
    Raises ExfamError unless `nats` and `tolerance` are above 0, DataError as `align`.
    Source: "Exponential Family Attention", Definition 1, Assumptions 2 and 3, Theorem 1.

    >>> random = np.random.default_rng(0)
    >>> context, turn = random.normal(size=(90, 2)), np.array([[2.0, 1.0], [0.0, 1.0]])
    >>> center, group = random.normal(size=(5, 2)), np.arange(90)
    >>> first = ItemEmbeddings(context, center, np.zeros(5), group)
    >>> second = ItemEmbeddings(context @ turn.T, center @ np.linalg.inv(turn), np.zeros(5), group)
    >>> check = check_items(first, second)
    >>> check.applies, check.holds
    (True, True)
    >>> few = [ItemEmbeddings(x.context, x.center[:2], np.zeros(2), group) for x in (first, second)]
    >>> check_items(*few).failed_assumptions[0]
    'K <= D - 1: the first fit has K = 2 dimensions for D = 2 items'
    """
    check_positive("nats", nats)
    check_positive("tolerance", tolerance)
    found, apart = align(first, second, seed=seed), mean_divergence(first, second)
    assumed = unmet(
        (apart <= nats, f"same conditionals: mean KL of at most {nats:g} nats, got {apart:.3g}"),
        (
            first.dim == second.dim,
            f"one length of vectors: got {first.dim} and {second.dim} dimensions",
        ),
    )
    figures = {
        "R2 of H, forward": found.context.forward,
        "R2 of H, backward": found.context.backward,
        "R2 of delta, forward": found.center.forward,
        "R2 of delta, backward": found.center.backward,
        "mean CCA of H": float(np.mean(found.context_correlations)),
        "mean CCA of delta": float(np.mean(found.center_correlations)),
    }
    return Check(
        statement="Theorem 1, items",
        measured={"mean KL": apart, **figures},
        expected={"mean KL": 0.0, **dict.fromkeys(figures, 1.0)},
        failed_assumptions=assumed
        + failed_diversity(first, name="the first fit")
        + failed_diversity(second, name="the second fit"),
        failed_conclusions=unmet(
            _explained(found.context, "H' = A H + a", tolerance),
            _explained(found.center, "delta' = inverse(A)' delta + d", tolerance),
        ),
    )


def _explained(both: BothWays, statement: str, tolerance: float) -> tuple[bool, str]:
    return (
        min(both) >= 1 - tolerance,
        f"{statement}: R2 of at least {1 - tolerance:g} both ways, "
        f"got {both.forward:.4f} and {both.backward:.4f}",
    )


def failed_diversity(embeddings: ItemEmbeddings, *, name: str = "the fit") -> tuple[str, ...]:
    """Which of K <= D - 1 and assumptions 2 and 3 fail for one fit, in words.

    >>> flat = ItemEmbeddings(np.ones((9, 2)), np.eye(4, 2), np.zeros(4), np.arange(9))
    >>> failed_diversity(flat)[0]
    'assumption 3: M = [-log Z; H] of the fit must have rank 3, got 1'
    """
    k, d = embeddings.dim, embeddings.n_items
    matrices = {
        "assumption 2: L = differences of centers": item_diversity(embeddings),
        "assumption 3: M = [-log Z; H]": context_diversity(embeddings),
        "contexts in no plane: [1; H]": shift_diversity(embeddings),
    }
    return unmet(
        (k <= d - 1, f"K <= D - 1: {name} has K = {k} dimensions for D = {d} items"),
        *(
            (
                matrix.suffices,
                f"{label} of {name} must have rank {matrix.needed}, got {matrix.rank}",
            )
            for label, matrix in matrices.items()
        ),
    )
