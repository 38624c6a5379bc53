"""Latent classes of groups: of which kind a context is, and how much likelier that makes an item.

Each group is of one class c, whose groups hold item i with probability P_ic. By the others of its
group, the context, and in all groups, an item is next with probability

    q_i = sum over c of w_c P_ic,     w_c ~ a_c * product over k of the context of P_kc,
    p_i = sum over c of a_c P_ic / sum over c of a_c,

and its lift log(q_i / p_i) is 0 without context. Groups are parted into folds, and each fold has
classes of its own, of the groups of all other folds: in training mode a group has those of its
fold, which know nothing of it. In evaluation mode all are classes alike.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from exfam.catalog.linear import chunks_of
from exfam.efa.base.sets import Sets, Where
from exfam.groups import Batch

# Lifts that are computed at a time, as many as a processor's cache holds.
_AT_ONCE = 2**18
# Groups that are counted at a time.
_GROUPS = 50_000
# Knuth's, of multiplicative hashing.
_FACTOR, _RANGE = 2_654_435_761, 2**32

Index = Int64[Tensor, "rows"]


def fold_of(start: Int64[Tensor, "groups"], n_folds: int) -> Int64[Tensor, "groups"]:
    """The fold of groups, by their first elements."""
    return start * _FACTOR % _RANGE * n_folds // _RANGE


class ItemClasses(nn.Module):
    """What the classes of groups make of every item, given the others."""

    probability: Tensor
    length: Tensor
    size: Tensor
    weight: Tensor

    def __init__(
        self,
        probability: Float[Tensor, "items folds classes"],
        *,
        length: Float[Tensor, "folds classes"],
        size: Float[Tensor, "folds classes"],
    ) -> None:
        """`length`, `size`: how many elements and groups of each class probabilities are of."""
        super().__init__()
        self.register_buffer("probability", probability)
        self.register_buffer("length", length)
        self.register_buffer("size", size)
        # Of the lift in an output, by the log of the context's size: a line.
        self.register_buffer("weight", torch.zeros(2))

    def with_probability(self, probability: Float[Tensor, "items folds classes"]) -> "ItemClasses":
        """The same classes of other items, on the same device."""
        classes = ItemClasses(probability, length=self.length, size=self.size)
        classes.weight.copy_(self.weight)
        return classes.to(self.size.device).eval()

    def add(self, held: scipy.sparse.csr_array, start: Int64[np.ndarray, "groups"]) -> None:
        """Count further groups x items in all folds but their own; `start`: first elements."""
        device, (n_folds, n_classes) = self.size.device, self.size.shape
        log_chance = self.probability.log().flatten(1).cpu().numpy()
        folds = fold_of(torch.from_numpy(start), n_folds)
        for first in range(0, held.shape[0], _GROUPS):
            rows = held[first : first + _GROUPS]
            log_share = (rows.astype(np.float32) @ log_chance).reshape(-1, n_folds, n_classes)
            share = (torch.from_numpy(log_share) + self.size.log().cpu()).softmax(2)
            share[torch.arange(len(share)), folds[first : first + _GROUPS]] = 0.0
            count = torch.from_numpy(rows.T @ share.flatten(1).numpy()).view(-1, n_folds, n_classes)
            length = self.length + count.sum(0).to(self.length)
            changed = self.probability * self.length + count.to(self.probability)
            self.probability.copy_(changed / length)
            self.length.copy_(length)
            self.size += share.sum(0).to(device)

    def lifts(self, batch: Batch, where: Where) -> "Lifts":
        """Lifts of all items at some elements."""
        seen = Sets.of(batch, len(self.probability))
        log_size = self.size.log()
        log_prior = log_size.flatten()[None]
        kind = torch.zeros_like(where[0])
        if self.training:
            # A class of another fold is none.
            n_folds = len(log_size)
            is_own = batch.present & (batch.steps_back == 0)
            start = torch.where(is_own, batch.element, _RANGE).amin(1)
            kind = fold_of(start, n_folds)[where[0]]
            others = ~torch.eye(n_folds, dtype=torch.bool, device=log_size.device)
            log_prior = log_size.expand(n_folds, -1, -1).masked_fill(others[:, :, None], -torch.inf)
            log_prior = log_prior.flatten(1)
        evidence = self.probability.flatten(1)[seen.item].log_()
        # What is alike for all classes changes nothing, but takes digits from sums.
        evidence -= evidence.mean(1, keepdim=True)
        log_weight = seen.totals(evidence)[where[0]] - seen.at(evidence, where) + log_prior[kind]
        chance = self.probability.flatten(1)
        return Lifts(chance, log_weight.softmax(1), log_prior.softmax(1), kind)

    def weights(self, log_size: Float[Tensor, "rows"]) -> Float[Tensor, "rows one"]:
        """Of lifts in outputs, in contexts of these sizes; 0 of -inf."""
        line = self.weight[0] + self.weight[1] * log_size
        return line.masked_fill(log_size.isinf(), 0.0)[:, None]


class Lifts(NamedTuple):
    """Lifts of items at some elements: weights of classes there, and without context by `kind`."""

    probability: Float[Tensor, "items classes"]
    weight: Float[Tensor, "rows classes"]
    usual: Float[Tensor, "kinds classes"]
    kind: Index

    def of(self, chosen: Int64[Tensor, "chosen"]) -> Iterator[tuple[slice, Tensor]]:
        """Lifts of the chosen items: rows, and what they have."""
        table = self.probability.index_select(0, chosen).T
        usual = (self.usual @ table).log_()
        for rows in chunks_of(len(self.kind), max(1, _AT_ONCE // max(1, len(chosen)))):
            likely = (self.weight[rows] @ table).log_()
            yield rows, likely.sub_(usual if len(usual) == 1 else usual[self.kind[rows]])

    def of_own(self, item: Index) -> Float[Tensor, "rows"]:
        """The lift of one item a row."""
        table = self.probability[item]
        likely, usual = ((part * table).sum(1) for part in (self.weight, self.usual[self.kind]))
        return (likely / usual).log()
