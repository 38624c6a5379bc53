"""How to score items without history: some are hidden from the base, and scored as new ones.

Which of the hidden items comes is what is weighed, by their first ten times in the groups that
were held out: an item is new for no longer, and few popular ones would decide alone.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from exfam.efa.attributes.enlarge import biases_like
from exfam.efa.attributes.item_attributes import ItemAttributes, NewItemWeights
from exfam.efa.attributes.new_in_ridge import NewItems, with_new_items, without_items
from exfam.efa.attributes.taste import fit_taste
from exfam.efa.base.known import inner_base
from exfam.efa.base.scoring import Tile, fit_numbers
from exfam.efa.base.sets import Where
from exfam.efa.gate import MOST_OUTPUTS
from exfam.efa.networks.based import BasedItems, network_of
from exfam.efa.networks.new_items import nearness, profiles
from exfam.groups import Batch, Groups
from exfam.groups.arrange import sequential_batches
from exfam.likelihoods.two_part import TwoPartModel

# Items are hidden in parts, of which so many are scored, each by so many times that it came.
_PARTS, _SCORED, _FIRST = 5, 3, 10
_WIDTHS = (0.1, 0.2, 0.4)
# Weights are held at the usual ones as by this many nats.
_HOLD = 2.0
_NAMES = ("base", "network", "popularity", "nearest", "taste")


@dataclass(frozen=True, eq=False)
class HiddenItems:
    """Items that are scored as if new: their parts of scores where one of them came, and which.

    `bases`: of each width; `others`: of the other names; `support`: what is added to all.
    """

    bases: list[Float[Tensor, "rows hidden"]]
    others: list[Float[Tensor, "rows hidden"]]
    support: Float[Tensor, "rows hidden"]
    item: Int64[Tensor, "rows"]


def set_new_weights(estimator: Any, member: TwoPartModel, plan: Any) -> None:
    """Choose how an estimator scores items without history, by the groups that a plan held out."""
    groups, seed, direction = plan.train, int(estimator.seed), estimator.direction
    taste = fit_taste(groups, plan.attributes.features, direction=direction, seed=seed)
    attributes = replace(plan.attributes, taste=taste)
    if plan.validation is not None:
        weights = weigh_new_items(member, groups, plan.validation, attributes, seed=seed)
        attributes = replace(attributes, weights=weights)
    estimator.item_attributes_ = attributes


def weigh_new_items(
    member: TwoPartModel,
    train: Groups,
    validation: Groups,
    attributes: ItemAttributes,
    *,
    seed: int,
) -> NewItemWeights:
    """The weights of the most nats of hidden items; `validation`: groups that no fit has seen."""
    parts = list(hidden_parts(member, train, validation, attributes, seed=seed))
    usual = [getattr(attributes.weights, name) for name in _NAMES]
    n = sum(len(part.item) for part in parts)
    if not n:
        return attributes.weights
    best = (np.inf, attributes.weights)
    for number, width in enumerate(_WIDTHS):
        scores = [[part.bases[number], *part.others] for part in parts]
        weights, nats = fit_weights(parts, scores, center=torch.tensor(usual), hold=_HOLD / n)
        if nats < best[0]:
            named = dict(zip(_NAMES, weights.tolist(), strict=True))
            best = (nats, NewItemWeights(width=width, **named))
    return best[1]


def fit_weights(
    parts: list[HiddenItems],
    scores: list[list[Float[Tensor, "rows hidden"]]],
    *,
    center: Float[Tensor, "scores"],
    hold: float,
) -> tuple[Float[Tensor, "scores"], float]:
    """Weights of scores in a softmax among the hidden items of each part, and nats a time."""

    def tiles(weights: Tensor) -> Iterator[Tile]:
        for part, own in zip(parts, scores, strict=True):
            eta = part.support + torch.einsum("n,nri->ri", weights.to(own[0]), torch.stack(own))
            yield eta, own, part.item, torch.ones_like(eta[:, :1])

    return fit_numbers(tiles, start=center, center=center, hold=hold)


def hidden_parts(
    member: TwoPartModel,
    train: Groups,
    validation: Groups,
    attributes: ItemAttributes,
    *,
    seed: int,
) -> Iterator[HiddenItems]:
    """Parts of the items that new ones may be like, hidden in turn; none of fewer than ten."""
    items = np.flatnonzero(attributes.sources)
    order = np.random.default_rng([seed, 11]).permutation(items)
    for hidden in np.array_split(order, _PARTS)[: _SCORED if len(order) >= 2 * _PARTS else 0]:
        yield _Hiding(member, train, attributes, np.sort(hidden), seed).scored(validation)


class _Hiding:
    """A member without some items, and what scores them."""

    def __init__(
        self,
        member: TwoPartModel,
        train: Groups,
        attributes: ItemAttributes,
        hidden: Int64[np.ndarray, "hidden"],
        seed: int,
    ) -> None:
        self.member, self.hidden, self.attributes = member, hidden, attributes
        self.like: Bool[np.ndarray, "items"] = attributes.sources
        self.like[hidden] = False
        self.features = torch.from_numpy(attributes.features).float()
        rest, direction = _without(train, hidden), member.direction
        taste = fit_taste(rest, attributes.features, direction=direction, seed=seed)
        self.taste = self.features[hidden] @ torch.from_numpy(taste).float().T
        log_count = attributes.line(self.like).at(attributes.features[hidden])
        usual = np.log(attributes.count[self.like] + 0.5).mean()
        self.popularity = torch.from_numpy(log_count - usual).float()
        self.bases = self._bases()
        self.network = self._network()

    def _new(self, width: float) -> NewItems:
        weights = replace(self.attributes.weights, width=width)
        return replace(self.attributes, weights=weights).new_items(
            self.attributes.features[self.hidden],
            self.hidden,
            like=self.like,
            n_items=len(self.like),
        )

    def _bases(self) -> list[Any]:
        """Bases that hold the hidden items as new ones, or shares of transitions' outputs."""
        part: Any = self.member.item_part
        if not isinstance(part, BasedItems):
            return []
        base: Any = inner_base(part.base)
        if not hasattr(base, "precision"):
            return [torch.from_numpy(self._new(width).share).float() for width in _WIDTHS]
        without = without_items(base, self.hidden)
        return [
            with_new_items(without, self._new(width), n_items=base.n_items) for width in _WIDTHS
        ]

    def _network(self) -> Any:
        """The network with vectors of hidden items by their attributes alone."""
        network: Any = copy.deepcopy(network_of(self.member.item_part))
        if network is None:
            return None
        hidden = torch.from_numpy(self.hidden)
        for module in network.modules():
            if hasattr(module, "own_share"):
                module.own_share[hidden] = 0.0
        with torch.no_grad():
            network.head.bias[hidden] = biases_like(network.head.bias, self._new(_WIDTHS[1]))
        return network.eval()

    def scored(self, groups: Groups) -> HiddenItems:
        """Scores at the first times that hidden items came in these groups."""
        n_items, device = len(self.like), next(self.member.buffers()).device
        column = torch.full((n_items + 1,), -1)
        column[torch.from_numpy(self.hidden)] = torch.arange(len(self.hidden))
        counted = torch.zeros(len(self.hidden), dtype=torch.int64)
        nothing = torch.zeros(0, len(self.hidden))
        rows = [[counted[:0]] + [nothing] * (len(_NAMES) + len(_WIDTHS))]
        for index in sequential_batches(groups, max_tokens=max(1, MOST_OUTPUTS // n_items)):
            batch = groups.pad(index)
            assert batch.item is not None
            own = column[batch.item].where(batch.target, -1)
            where = first_occurrences(own, counted)
            here = (where[0].to(device), where[1].to(device))
            with torch.no_grad():
                scores = self._scores(batch.to(device), here) if len(where[0]) else rows[0][1:]
            rows.append([own[where], *(score.cpu() for score in scores)])
        item, support, *scores = (torch.cat(part) for part in zip(*rows, strict=True))
        n_bases = len(_WIDTHS)
        return HiddenItems(scores[:n_bases], scores[n_bases:], support, item)

    def _scores(self, batch: Batch, where: Where) -> list[Float[Tensor, "rows hidden"]]:
        hidden, direction = torch.from_numpy(self.hidden).to(where[0].device), self.member.direction
        support: Any = self.member.support
        zeros = torch.zeros(*batch.present.shape, len(self.like), device=hidden.device)
        added = support(zeros, batch, direction)[where][:, hidden]
        corrected = torch.zeros_like(added)
        if self.network is not None:
            corrected = self.network.eta(batch)[where][:, hidden]
        features = self.features.to(zeros)
        near = nearness(features, batch, features[hidden], direction)[where]
        tasted = profiles(features, batch, direction)[where] @ self.taste.to(zeros).T
        others = [corrected, self.popularity.to(zeros).expand_as(added), near, tasted]
        return [added, *self._of_bases(batch, where, hidden, like=added), *others]

    def _of_bases(
        self, batch: Batch, where: Where, hidden: Tensor, *, like: Float[Tensor, "rows hidden"]
    ) -> list[Float[Tensor, "rows hidden"]]:
        if not self.bases:
            return [torch.zeros_like(like)] * len(_WIDTHS)
        if isinstance(self.bases[0], nn.Module):
            return [base.outputs(batch, where, hidden) for base in self.bases]
        base: Any = self.member.item_part
        assert batch.item is not None
        every = torch.arange(len(self.like), device=hidden.device)
        seen = replace(batch, item=batch.item.masked_fill(torch.isin(batch.item, hidden), -1))
        outputs = inner_base(base.base).outputs(seen, where, every)
        return [outputs @ share.to(outputs).T for share in self.bases]


def first_occurrences(
    code: Int64[Tensor, "batch length"], counted: Int64[Tensor, "codes"]
) -> tuple[Int64[Tensor, "rows"], Int64[Tensor, "rows"]]:
    """Where codes from 0 on come for the first ten times; `counted`: times before, added to."""
    row, position = (code >= 0).nonzero(as_tuple=True)
    ordered, order = code[row, position].sort(stable=True)
    times = torch.bincount(ordered, minlength=len(counted))
    first = times.cumsum(0) - times
    number = torch.arange(len(ordered)) - first[ordered] + counted[ordered]
    kept = order[number < _FIRST].sort().values
    counted += times
    return row[kept], position[kept]


def _without(groups: Groups, hidden: Int64[np.ndarray, "hidden"]) -> Groups:
    """With these items unknown."""
    item = groups.item
    assert item is not None
    return groups.with_(item=np.where(np.isin(item, hidden), -1, item).astype(item.dtype))
