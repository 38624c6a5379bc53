"""Items that no group of the fit holds: how probable one of them is, and which of them it is.

    p(j | context) = share * softmax over new items of s_j,
    s_j = own * output_j + shift_j + taste_j . (1, mean x) + nearest * log mean exp(4 cos_jk)

with x the attributes of the context's items, and cos_jk of those of j and of its item k. A base and
its correction weigh their outputs of new items themselves. Old items have the rest of the
probability, in the proportions that they have without new ones.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import normalize

from exfam.catalog.linear import LinearEta
from exfam.catalog.normalizer import ItemChoice, log_normalizer
from exfam.efa.base.sets import Where
from exfam.efa.networks.context import visible_sum
from exfam.groups import Batch

# How much nearer items count more; what a context without items is worth.
_SHARPNESS, _NOTHING = 4.0, 1e-3

Rows = Float[Tensor, "batch length numbers"]


@dataclass(frozen=True, eq=False)
class NewItemTerms:
    """What scores of new items are made of, weighed already; `features`: of all items.

    `log_odds`: of all new items together against the old ones; `own`: the weight of outputs.
    """

    features: Float[Tensor, "items features"]
    shift: Float[Tensor, "new"]
    taste: Float[Tensor, "new terms"]
    nearest: Float[Tensor, "new"]
    log_odds: float
    own: float = 1.0


class WithNewItems(nn.Module):
    """A support whose last items are new ones: outputs are those of `inner`, theirs replaced."""

    features: Tensor
    shift: Tensor
    taste: Tensor
    nearest: Tensor

    def __init__(self, inner: nn.Module, terms: NewItemTerms) -> None:
        super().__init__()
        self.inner, self.name = inner, inner.name
        for name in ("features", "shift", "taste", "nearest"):
            self.register_buffer(name, getattr(terms, name), persistent=False)
        self.own, self.log_odds = terms.own, terms.log_odds
        self.n_old = len(terms.features) - len(terms.shift)

    def forward(
        self, eta: Float[Tensor, "batch length items"], batch: Batch, direction: str
    ) -> Float[Tensor, "batch length items"]:
        """Outputs with the support applied."""
        old, new = eta[..., : self.n_old], eta[..., self.n_old :]
        added = self._added(batch, direction)
        eta = self.inner(torch.cat([old, self.own * new + added], -1), batch, direction)
        old, new = eta[..., : self.n_old], eta[..., self.n_old :]
        level = self._level(old.logsumexp(-1), new.logsumexp(-1))
        return torch.cat([old, new + level[..., None]], -1)

    def choice(self, eta: LinearEta, batch: Batch, direction: str, where: Where) -> ItemChoice:
        """The same of outputs kept as factors; those of new items are held whole."""
        inner: Any = self.inner
        choice, n_old = inner.choice(eta, batch, direction, where), self.n_old
        every, last = slice(0, len(where[0])), slice(n_old, eta.n_items)
        of_new = eta._replace(
            vectors=eta.vectors[last],
            bias=None if eta.bias is None else eta.bias[last],
            n_items=eta.n_items - n_old,
        ).dense()
        if eta.offset is not None:
            of_new = of_new + eta.offset.tile(every, last)
        of_new = self.own * of_new + self._added(batch, direction)[where]
        bias = None if eta.bias is None else eta.bias[:n_old]
        of_old = replace(choice, eta=eta._replace(n_items=n_old, bias=bias))
        allowed = of_new.clone()
        for listed in choice.excluded:
            allowed[listed.within(every, last)] = -torch.inf
        for listed in choice.penalized:
            allowed[listed.within(every, last)] -= choice.penalty
        level = self._level(log_normalizer(of_old), allowed.logsumexp(-1))
        nothing = eta.vectors.new_zeros(len(self.shift), eta.vectors.shape[1])
        offset: Any = _Offset(eta.offset, of_new + level[:, None], n_old)
        eta = eta._replace(
            vectors=torch.cat([eta.vectors[:n_old], nothing]),
            bias=None if bias is None else torch.cat([bias, torch.zeros_like(self.shift)]),
            offset=offset,
        )
        return replace(choice, eta=eta)

    def _level(
        self, old: Float[Tensor, "*rows"], new: Float[Tensor, "*rows"]
    ) -> Float[Tensor, "*rows"]:
        """What gives new items their share; where nothing else is left, they have it all."""
        nothing = torch.finfo(old.dtype).min / 2
        level = torch.where(old > nothing, old, 0.0) + self.log_odds - new
        return torch.where(new > nothing, level, 0.0)

    def _added(self, batch: Batch, direction: str) -> Float[Tensor, "batch length new"]:
        near = nearness(self.features, batch, self.features[self.n_old :], direction)
        profile = profiles(self.features, batch, direction)
        return self.shift + profile @ self.taste.T + self.nearest * near


def profiles(
    features: Float[Tensor, "items features"], batch: Batch, direction: str
) -> Float[Tensor, "batch length terms"]:
    """Of each element 1, and the mean attributes of the items of its context."""
    mean = _mean_of_others(*_known_rows(features, batch), direction)
    return torch.cat([torch.ones_like(mean[..., :1]), mean], -1)


def nearness(
    features: Float[Tensor, "items features"],
    batch: Batch,
    new: Float[Tensor, "new features"],
    direction: str,
) -> Float[Tensor, "batch length new"]:
    """How near each new item is to those of the context, the nearest of these most."""
    rows, known = _known_rows(features, batch)
    cosine = normalize(rows, dim=-1) @ normalize(new, dim=-1).T
    return _mean_of_others((_SHARPNESS * cosine).exp(), known, direction, prior=_NOTHING).log()


def _known_rows(
    features: Float[Tensor, "items features"], batch: Batch
) -> tuple[Rows, Bool[Tensor, "batch length"]]:
    assert batch.item is not None
    return features[batch.item.clamp_min(0)], batch.present & (batch.item >= 0)


def _mean_of_others(
    numbers: Rows, known: Bool[Tensor, "batch length"], direction: str, *, prior: float = 0.0
) -> Rows:
    """For each element, the mean over the known ones of its context; `prior`: of so many 1s."""
    count = visible_sum(known[..., None].to(numbers.dtype), known, direction)
    total = visible_sum(numbers, known, direction) + prior
    return total / (count + prior) if prior else total / count.clamp_min(1.0)


@dataclass(frozen=True, eq=False)
class _Offset:
    """An offset whose last items have outputs of their own."""

    inner: Any
    of_new: Float[Tensor, "rows new"]
    n_old: int

    def at(self, where: slice) -> "_Offset":
        """The same of some rows."""
        inner = None if self.inner is None else self.inner.at(where)
        return _Offset(inner, self.of_new[where], self.n_old)

    def tile(self, rows: slice, classes: slice) -> Float[Tensor, "rows classes"]:
        """Outputs of some rows and classes."""
        n_old = self.n_old
        old = slice(min(classes.start, n_old), min(classes.stop, n_old))
        new = slice(max(classes.start - n_old, 0), max(classes.stop - n_old, 0))
        of_new = self.of_new[rows, new]
        if self.inner is None or old.start == old.stop:
            zeros = of_new.new_zeros(len(of_new), old.stop - old.start)
            return torch.cat([zeros, of_new], 1)
        return torch.cat([self.inner.tile(rows, old).to(of_new), of_new], 1)
