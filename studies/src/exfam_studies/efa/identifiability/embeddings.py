"""The two sides of a fitted item part: context embeddings H, center embeddings delta."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special
import torch
from jaxtyping import Float, Int
from torch import nn

from exfam.checks import DataError, ExfamError
from exfam.efa.networks.efa_network import EFANetwork
from exfam.estimator.evaluate import evaluation_batches
from exfam.groups import Groups
from exfam.likelihoods.two_part import TwoPartModel

_ENTRIES_AT_ONCE = 4_000_000


@dataclass(frozen=True, eq=False)
class ItemEmbeddings:
    """p(item x | context c) = softmax over x of H_c . delta_x + b_x, before items are excluded.

    `context`: H, what the network gives to the item head, a row a context; `center`: delta; `bias`:
    b, zeros for a head without one; `group`: which group each context belongs to
    Raises DataError for arrays that do not go together or are not finite.
    Source: "Exponential Family Attention", section 5.1.1 (H(x)_i and e(x)).

    >>> fit = ItemEmbeddings(np.eye(2), np.ones((3, 2)), np.zeros(3), np.arange(2))
    >>> fit.dim, fit.n_items
    (2, 3)
    """

    context: Float[np.ndarray, "contexts dim"]
    center: Float[np.ndarray, "items other_dim"]
    bias: Float[np.ndarray, "biases"]
    group: Int[np.ndarray, "members"]

    def __post_init__(self) -> None:
        _check_lengths("center", self.center.shape, (len(self.center), self.context.shape[1]))
        _check_lengths("bias", self.bias.shape, (len(self.center),))
        _check_lengths("group", self.group.shape, (len(self.context),))
        for name in ("context", "center", "bias"):
            if not np.isfinite(getattr(self, name)).all():
                raise DataError(f"`{name}` must be finite, got numbers that are not.")

    @property
    def dim(self) -> int:
        """Length of the vectors, K."""
        return self.context.shape[1]

    @property
    def n_items(self) -> int:
        """Number of items, D."""
        return len(self.center)

    def log_probs(self, contexts: slice = slice(None)) -> Float[np.ndarray, "contexts items"]:
        """Log-probability of every item at the contexts of a slice, in nats."""
        return self._eta(contexts) - self.log_normalizers(contexts)[:, None]

    def log_normalizers(self, contexts: slice = slice(None)) -> Float[np.ndarray, "contexts"]:
        """log Z: of the sum over items of exp(H_c . delta_x + b_x)."""
        return scipy.special.logsumexp(self._eta(contexts), axis=1)

    def _eta(self, contexts: slice) -> Float[np.ndarray, "contexts items"]:
        return self.context[contexts] @ self.center.T + self.bias

    def pieces(self) -> list[slice]:
        """Slices of contexts whose log-probabilities of all items fit into memory."""
        step = max(1, _ENTRIES_AT_ONCE // max(1, self.n_items))
        return [slice(first, first + step) for first in range(0, len(self.context), step)]


def _check_lengths(name: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    if shape != wanted:
        raise DataError(
            f"`{name}` must have shape {wanted} beside the others, got {shape}. Take all from one "
            "model and the same groups."
        )


def item_embeddings(
    model: TwoPartModel, groups: Groups, *, names: Int[np.ndarray, "items"] | None = None
) -> ItemEmbeddings:
    """H(x)_i = X'_ii of every target of `groups`, and delta and the bias of every item.

    Works whichever way the model's conditionals are computed: all give hidden states of centers,
    and H is what the head multiplies with delta (after its layer norm, if it has one). It is not
    the table of context vectors (beta). Contexts follow as their elements do in the columns.

    `names`: the model's item that stands for each item of `groups`, a permutation, so that names
        can be shuffled; each stands for itself (default None)

    `model` is a member of a fitted estimator: `estimator.members_[0]`.
    Raises ExfamError for a model whose items are not given by attention; DataError where `names` is
    no permutation of its items.
    Source: "Exponential Family Attention", sections 2.1 and 5.1.1.

    >>> from exfam.efa.efa import EFA
    >>> groups = Groups(start=[0, 3], stop=[3, 5], item=[0, 1, 2, 2, 0])
    >>> model = EFA(embed_dim=2, max_epochs=1, progress=False).fit(groups)
    >>> fit = item_embeddings(model.members_[0], groups)
    >>> fit.context.shape, fit.center.shape, fit.group
    ((5, 2), (3, 2), array([0, 0, 0, 1, 1]))
    """
    part = _item_network(model)
    head: Any = part.head  # nn.Module's attributes have no better type
    if names is not None:
        _check_names(names, head.n_items)
        assert groups.item is not None
        known = groups.item >= 0
        item = np.where(known, names[np.where(known, groups.item, 0)], -1)
        groups = groups.with_(item=item.astype(np.int32), vocabulary={})
    context, element = hidden_contexts(model, part, groups)
    with torch.inference_mode():
        center = _array(head.centers.vectors())
        bias = np.zeros(len(center)) if head.bias is None else _array(head.bias)
    order = np.arange(len(center)) if names is None else names
    return ItemEmbeddings(context, center[order], bias[order], group_of_rows(groups)[element])


def _item_network(model: TwoPartModel) -> EFANetwork:
    part = model.item_part
    if not isinstance(part, EFANetwork):
        kind = "none" if part is None else type(part).__name__
        raise ExfamError(
            f"`model` must have an item part with attention for its context embeddings, got {kind}."
            " Fit an EFA on groups with items."
        )
    return part


def _check_names(names: Int[np.ndarray, "items"], n_items: int) -> None:
    if not np.array_equal(np.sort(names), np.arange(n_items)):
        raise DataError(
            f"`names` must hold each item 0 .. {n_items - 1} of the model once, got others."
        )


def hidden_contexts(
    model: TwoPartModel, part: EFANetwork, groups: Groups
) -> tuple[Float[np.ndarray, "contexts dim"], Int[np.ndarray, "contexts"]]:
    """What a part's head multiplies with at the targets, and which elements, by increasing ones."""
    model.eval()
    norm: nn.Module = part.head.norm  # type: ignore[assignment]  # both kinds of heads have one
    device = next(model.parameters()).device
    found, element = [np.empty((0, part.embedding.dim))], [np.empty(0, dtype=np.int64)]
    with torch.inference_mode():
        for batch in evaluation_batches(groups, [model]):
            state = norm(part.hidden(batch.to(device)).state).cpu()
            found.append(_array(state[batch.target]))
            element.append(batch.element[batch.target].numpy())
    rows = np.concatenate(element)
    order = np.argsort(rows, kind="stable")
    return np.concatenate(found)[order], rows[order]


def group_of_rows(groups: Groups) -> Int[np.ndarray, "rows"]:
    """Which group of this view each row of the columns belongs to, -1 for none."""
    group = np.full(groups.n_rows, -1)
    group[groups.elements()] = np.repeat(np.arange(len(groups)), groups.stop - groups.start)
    return group


def _array(tensor: torch.Tensor) -> Float[np.ndarray, "..."]:
    return tensor.detach().double().cpu().numpy()


def shuffled_names(n_items: int, *, seed: int) -> Int[np.ndarray, "items"]:
    """A permutation of items that leaves none in its place, drawn with `seed`: the null.

    Raises ExfamError for fewer than 2 items.

    >>> names = shuffled_names(5, seed=0)
    >>> sorted(names.tolist()), bool((names == np.arange(5)).any())
    ([0, 1, 2, 3, 4], False)
    """
    if n_items < 2:
        raise ExfamError(f"`n_items` must be 2 or more to be shuffled, got {n_items}.")
    around = np.random.default_rng(seed).permutation(n_items)
    # Each item takes the name of the next one on a random circle of all.
    names = np.empty(n_items, dtype=np.int64)
    names[around] = np.roll(around, -1)
    return names


def mean_divergence(first: ItemEmbeddings, second: ItemEmbeddings) -> float:
    """Mean over contexts of KL(first || second), in nats: 0 where both have the same conditionals.

    >>> fit = ItemEmbeddings(np.eye(2), np.ones((3, 2)), np.zeros(3), np.arange(2))
    >>> mean_divergence(fit, fit)
    0.0
    """
    total = 0.0
    for piece in first.pieces():
        ours, theirs = first.log_probs(piece), second.log_probs(piece)
        total += float((np.exp(ours) * (ours - theirs)).sum())
    return total / len(first.context)
