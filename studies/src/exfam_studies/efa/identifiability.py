"""Theorem 1 for items: whether two fits of one model have the same embeddings up to an affine map.

If both have the same conditionals, then H' = A H + a, and the same map carries the items:

    delta' = inverse(A)' delta + d        b' = b - a . delta' + c

for some vector d and number c that no conditional depends on. So A is found from contexts alone, on
one half of them; the other half and the items judge it.
Source: "Exponential Family Attention", section 5.1; Roeder et al. (2021), section 3.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.special
import torch
from jaxtyping import Bool, Float, Int

from exfam.checks import DataError, ExfamError
from exfam.efa.networks.efa_network import EFANetwork
from exfam.estimator.evaluate import evaluation_batches
from exfam.groups import Groups
from exfam.likelihoods.two_part import TwoPartModel

# Singular values below this share of the largest count as 0: models compute in single precision.
RELATIVE_RANK = 1e-5

Vectors = Float[np.ndarray, "rows dim"]


@dataclass(frozen=True, eq=False)
class ItemEmbeddings:
    """p(item x | context c) = softmax over x of H_c . delta_x + b_x, before items are excluded.

    `context`: H, what the item head is given; `center`: delta; `bias`: b, zeros for a head without
    one; `group`: which group each context belongs to
    """

    context: Float[np.ndarray, "contexts dim"]
    center: Float[np.ndarray, "items dim"]
    bias: Float[np.ndarray, "items"]
    group: Int[np.ndarray, "contexts"]

    @property
    def dim(self) -> int:
        return self.context.shape[1]

    @property
    def n_items(self) -> int:
        return len(self.center)

    def log_normalizer(self) -> Float[np.ndarray, "contexts"]:
        """log Z of every context."""
        return scipy.special.logsumexp(self._eta(), axis=1)

    def log_probs(self) -> Float[np.ndarray, "contexts items"]:
        """Log-probability of every item in every context, in nats."""
        return self._eta() - self.log_normalizer()[:, None]

    def _eta(self) -> Float[np.ndarray, "contexts items"]:
        return self.context @ self.center.T + self.bias


def item_embeddings(
    model: TwoPartModel, groups: Groups, *, names: Int[np.ndarray, "items"] | None = None
) -> ItemEmbeddings:
    """H(x)_i = X'_ii of every target of `groups`, and delta and the bias of every item.

    H is what the head multiplies with delta, after its layer norm, if it has one; it is not the
    table of context vectors (beta). Contexts follow as their elements do in the columns. `model` is
    a member of a fitted estimator: `estimator.members_[0]`.

    `names`: the model's item that stands for each item of `groups`, a permutation

    Raises ExfamError for a model whose items are not given by attention.
    """
    part = model.item_part
    if not isinstance(part, EFANetwork):
        kind = "none" if part is None else type(part).__name__
        raise ExfamError(
            f"`model` must have an item part with attention for its context embeddings, got {kind}."
            " Fit an EFA with base='none' on groups with items."
        )
    head: Any = part.head  # nn.Module's attributes have no better type
    if names is not None:
        assert groups.item is not None
        item = np.where(groups.item >= 0, names[np.maximum(groups.item, 0)], -1)
        groups = groups.with_(item=item.astype(np.int32), vocabulary={})
    context, element = hidden_contexts(model, part, groups)
    with torch.inference_mode():
        center = _array(head.centers.vectors())
        bias = np.zeros(len(center)) if head.bias is None else _array(head.bias)
    order = np.arange(len(center)) if names is None else names
    group = np.full(groups.n_rows, -1)
    group[groups.elements()] = np.repeat(np.arange(len(groups)), groups.lengths)
    return ItemEmbeddings(context, center[order], bias[order], group[element])


def hidden_contexts(
    model: TwoPartModel, part: EFANetwork, groups: Groups
) -> tuple[Float[np.ndarray, "contexts dim"], Int[np.ndarray, "contexts"]]:
    """What a part's head multiplies with at the targets, and which elements, by increasing ones."""
    model.eval()
    head: Any = part.head
    device = next(model.parameters()).device
    states, element = [np.empty((0, part.embedding.dim))], [np.empty(0, dtype=np.int64)]
    with torch.inference_mode():
        for batch in evaluation_batches(groups, [model]):
            state = head.norm(part.hidden(batch.to(device)).state).cpu()
            states.append(_array(state[batch.target]))
            element.append(batch.element[batch.target].numpy())
    rows = np.concatenate(element)
    order = np.argsort(rows, kind="stable")
    return np.concatenate(states)[order], rows[order]


def _array(tensor: torch.Tensor) -> Float[np.ndarray, "..."]:
    return tensor.detach().double().cpu().numpy()


def shuffled_names(n_items: int, *, seed: int) -> Int[np.ndarray, "items"]:
    """A permutation of two items or more that leaves none in its place: the null."""
    around = np.random.default_rng(seed).permutation(n_items)
    # Each item takes the name of the next one on a random circle of all.
    names = np.empty(n_items, dtype=np.int64)
    names[around] = np.roll(around, -1)
    return names


def shuffled_contexts(embeddings: ItemEmbeddings, *, seed: int) -> ItemEmbeddings:
    """The same embeddings with contexts in random order, as if each were another's: a null."""
    order = np.random.default_rng(seed).permutation(len(embeddings.context))
    return replace(embeddings, context=embeddings.context[order])


def mean_divergence(first: ItemEmbeddings, second: ItemEmbeddings) -> float:
    """Mean over contexts of KL(first || second), in nats: 0 for the same conditionals."""
    ours, theirs = first.log_probs(), second.log_probs()
    return float((np.exp(ours) * (ours - theirs)).sum()) / len(first.context)


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
    `center`: of delta, by the inverse transposed of that map: what the theorem says
    `center_transposed`: of delta, by the transposed map of the other way, which needs no inverse
    `center_effect`: as that, directions weighed by how much contexts vary in them
    `rotation_context`, `rotation_center`: `context` and `center_effect` by the best rotation
    `bias`: of the bias, by the map's shift; None where a fit has none
    `context_correlations`, `center_correlations`: of H on the other half and of delta over items,
        in canonical directions, which do not depend on either fit's coordinates
    """

    context: BothWays
    center: BothWays
    center_transposed: BothWays
    center_effect: BothWays
    rotation_context: BothWays
    rotation_center: BothWays
    bias: BothWays | None
    context_correlations: Float[np.ndarray, "directions"]
    center_correlations: Float[np.ndarray, "directions"]


def align(first: ItemEmbeddings, second: ItemEmbeddings, *, seed: int = 0) -> Alignment:
    """Find the map from one fit's contexts to the other's, and judge it.

    `seed`: of the halves of the groups, one to find the map, one to judge it

    With dim > items - 1, or contexts in a plane, the figures are those of the directions that vary.
    Raises DataError unless both have the same contexts and items, enough contexts, and vary.
    """
    if not np.array_equal(first.group, second.group) or first.n_items != second.n_items:
        raise DataError(
            "`second` must have the contexts and items of `first`, got "
            f"{len(second.context)} contexts of {second.n_items} items for {len(first.context)} of "
            f"{first.n_items}. Take both from the same groups."
        )
    # Contexts of a random half of the groups: those of one group are not independent.
    _, which = np.unique(first.group, return_inverse=True)
    n = int(which.max(initial=-1)) + 1
    half = (np.random.default_rng(seed).permutation(n) < (n + 1) // 2)[which]
    fewest, dim = int(min(half.sum(), (~half).sum())), max(first.dim, second.dim)
    if fewest < dim + 2:
        raise DataError(
            f"`first` must have {dim + 2} contexts or more in each half of its groups for a map of "
            f"{dim} dimensions, got {fewest}. Take more groups."
        )
    whitened = [_whitened(fit.context[half]) for fit in (first, second)]
    left, _, right = np.linalg.svd(whitened[0].scores.T @ whitened[1].scores, full_matrices=False)
    ways = list(zip((first, second), whitened, (left, right.T), strict=True))
    forward, backward = _shares(first, second, half), _shares(second, first, half)
    shares: dict[str, Any] = {name: BothWays(forward[name], backward[name]) for name in forward}
    if not (np.ptp(first.bias) and np.ptp(second.bias)):
        shares["bias"] = None
    contexts = [fit.context[~half] @ white.into @ turn for fit, white, turn in ways]
    centers = [fit.center @ white.back @ turn for fit, white, turn in ways]
    return Alignment(
        **shares,
        context_correlations=_columns_correlation(*contexts),
        center_correlations=_columns_correlation(*centers),
    )


def _shares(
    given: ItemEmbeddings, wanted: ItemEmbeddings, half: Bool[np.ndarray, "contexts"]
) -> dict[str, float]:
    """Of `wanted`, what `given` explains, by an alignment's fields.

    From H = B H' + s: H . delta + b = H' . B' delta + (s . delta + b). "Effect" is of the variance
    of (H - mean) . delta: products with H's principal axes, scaled by it.
    """
    pair = given.context[half], wanted.context[half]
    into, back = affine_map(*pair), affine_map(*pair[::-1])
    turn, turn_back = rotation_map(*pair), rotation_map(*pair[::-1])
    context, judged = given.context[~half], wanted.context[~half]
    axes, center = _whitened(wanted.context).back, partial(explained, shift=True)
    # Of a map that is singular or not square, its pseudo-inverse.
    inverse = np.linalg.pinv(into.matrix, rcond=RELATIVE_RANK)
    turned, carried = (given.center @ way.matrix for way in (turn_back, back))
    bias = given.bias + given.center @ back.shift
    varies = bool(np.ptp(wanted.bias))
    return {
        "context": explained(judged, into(context)),
        "center": center(wanted.center, given.center @ inverse),
        "center_transposed": center(wanted.center, carried),
        "center_effect": center(wanted.center @ axes, carried @ axes),
        "rotation_context": explained(judged, turn(context)),
        "rotation_center": center(wanted.center @ axes, turned @ axes),
        "bias": center(wanted.bias[:, None], bias[:, None]) if varies else np.nan,
    }


def affine_map(
    given: Float[np.ndarray, "rows from"], wanted: Float[np.ndarray, "rows to"]
) -> AffineMap:
    """The affine map of least squares; the shortest where directions of `given` do not vary."""
    start, end = given.mean(axis=0), wanted.mean(axis=0)
    matrix = np.linalg.lstsq(given - start, wanted - end, rcond=RELATIVE_RANK)[0].T
    return AffineMap(matrix, end - matrix @ start)


def rotation_map(
    given: Float[np.ndarray, "rows from"], wanted: Float[np.ndarray, "rows to"]
) -> AffineMap:
    """The rotation or reflection of least squares, with a shift and one scale (Procrustes)."""
    start, end = given.mean(axis=0), wanted.mean(axis=0)
    left, values, right = np.linalg.svd((wanted - end).T @ (given - start), full_matrices=False)
    scale = values.sum() / max(float(((given - start) ** 2).sum()), np.finfo(float).tiny)
    matrix = scale * left @ right
    return AffineMap(matrix, end - matrix @ start)


def explained(wanted: Vectors, given: Vectors, *, shift: bool = False) -> float:
    """R^2: 1 - |wanted - given|^2 / |wanted - its mean|^2, with `shift` up to a constant vector."""
    left = wanted - given
    if shift:
        left = left - left.mean(axis=0)
    total = float(((wanted - wanted.mean(axis=0)) ** 2).sum())
    if total == 0:
        raise DataError("`wanted` must vary for a share of its variance, got rows all alike.")
    return 1 - float((left**2).sum()) / total


class _Whitened(NamedTuple):
    """Coordinates of orthonormal columns: scores = (x - mean) into; x = mean + back scores."""

    scores: Float[np.ndarray, "rows rank"]
    into: Float[np.ndarray, "dim rank"]
    back: Float[np.ndarray, "dim rank"]


def _whitened(vectors: Vectors) -> _Whitened:
    left, scale, right = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    kept = scale > RELATIVE_RANK * scale.max(initial=0.0)
    return _Whitened(left[:, kept], right[kept].T / scale[kept], right[kept].T * scale[kept])


def _columns_correlation(first: Vectors, second: Vectors) -> Float[np.ndarray, "dim"]:
    first, second = first - first.mean(axis=0), second - second.mean(axis=0)
    norms = np.linalg.norm(first, axis=0) * np.linalg.norm(second, axis=0)
    # A direction that does not vary is alike in nothing.
    return (first * second).sum(axis=0) / np.where(norms > 0, norms, np.inf)
