"""What a report is made of: a model, its data, and the groups that it is scored on."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int64
from sklearn.utils.validation import check_is_fitted

from exfam.checks import ExfamError
from exfam.conditionals import Copies
from exfam.efa.blanks import append_blank
from exfam.efa.group_estimator import GroupEstimator
from exfam.efa.recommend import lone_items
from exfam.estimator.evaluate import item_probabilities
from exfam.estimator.seen import Overlap
from exfam.groups import TARGET, Groups
from exfam.likelihoods.two_part import TwoPartModel
from exfam.report.words import ItemNames

# Numbers that scoring may compute in all, elements times items or so: some seconds of work.
_WORK = 3e7
_LEAST_ELEMENTS, _MOST_ELEMENTS = 2_500, 40_000
_MOST_NUMBERS = 3e8
# Groups that the model has not seen, for a comparison on them alone.
_FEWEST_NEW = 10


@dataclass(frozen=True, eq=False)
class Material:
    """A model, its data, and the groups that it is scored on.

    `data`: all groups given, in the model's vocabulary. `scored`: all of them or a random sample.
    `learn`: what cheap baselines are fitted on, if anything; `compared`: which groups of `scored`
    they may be compared on, those that the model has seen in its fit (`overlap`) left out.
    `given_train`: whether `learn` was given, rather than being the other half of `data`.
    `frequency`: how often items occur, or how likely they are without a context.
    """

    model: GroupEstimator
    names: ItemNames
    data: Groups | None
    scored: Groups | None
    learn: Groups | None
    compared: Bool[np.ndarray, "groups"]
    given_train: bool
    overlap: Overlap | None
    frequency: Float[np.ndarray, "items"]
    seed: int

    @property
    def member(self) -> TwoPartModel:
        """The first member, which stands for the model where an average means nothing."""
        return self.model.members_[0]

    @property
    def has_items(self) -> bool:
        """Whether the model predicts items."""
        return self.member.item_part is not None

    def most_frequent(self, n: int) -> Int64[np.ndarray, "items"]:
        """Codes of the `n` most frequent items, those that never occur left out."""
        order = np.argsort(-self.frequency, kind="stable")[:n]
        return order[self.frequency[order] > 0]


def gather_material(
    model: GroupEstimator, data: Any, train: Any, *, baselines: bool, seed: int
) -> Material:
    """Read the data and choose the groups that the model is scored on."""
    check_is_fitted(model, "members_")
    groups, given = read_data(model, data, "data"), read_data(model, train, "train")
    scored, learn, compared = groups, given, np.zeros(0, dtype=bool)
    overlap = None
    if groups is not None:
        scored, learn, compared = _scored(model, groups, given if baselines else groups, seed)
        overlap = model._seen(scored)
        if not overlap.is_chance:
            compared &= overlap.seen == 0
        if not baselines or (not overlap.is_chance and compared.sum() < _FEWEST_NEW):
            learn = None
    return Material(
        model=model,
        names=ItemNames(model.vocabulary_.get("item", np.array([]))),
        data=groups,
        scored=scored,
        learn=learn,
        compared=compared,
        given_train=given is not None,
        overlap=overlap,
        frequency=_frequency(model, groups if groups is not None else given),
        seed=seed,
    )


def read_data(model: GroupEstimator, data: Any, name: str) -> Groups | None:
    """Data as the model reads it, or None for None."""
    if data is None:
        return None
    groups = model._inputs(data).groups
    if not groups.n_targets:
        raise ExfamError(f"`{name}` must hold at least one element to predict, got none.")
    return groups


def _scored(
    model: GroupEstimator, groups: Groups, train: Groups | None, seed: int
) -> tuple[Groups, Groups | None, Bool[np.ndarray, "groups"]]:
    """Groups to score on, groups to fit baselines on, and which of the former they meet on."""
    most = _affordable(model, groups)
    if train is not None:
        scored = draw_groups(groups, most_elements=most, seed=seed)
        return scored, train, np.ones(len(scored), dtype=bool)
    able = np.flatnonzero(_has_target(groups))
    if len(able) < 2:
        return groups, None, np.zeros(len(groups), dtype=bool)
    shuffled = np.random.default_rng(seed).permutation(able)
    first, second = shuffled[: len(able) // 2], np.sort(shuffled[len(able) // 2 :])
    learn = groups[np.sort(first)]
    if groups.n_elements > most:
        scored = draw_groups(groups[second], most_elements=most, seed=seed)
        return scored, learn, np.ones(len(scored), dtype=bool)
    return groups.compact(), learn, np.isin(np.arange(len(groups)), second)


def _affordable(model: GroupEstimator, groups: Groups) -> int:
    """How many elements can be scored in some seconds."""
    member = model.members_[0]
    cost = float(groups.n_items if member.item_part is not None else 1)
    parts = [part for part in (member.item_part, member.value_part) if part is not None]
    if any(isinstance(getattr(part, "conditional", None), Copies) for part in parts):
        # Every element has a copy of its group.
        cost = max(cost, 64.0 * float(groups.lengths.mean()))
    cost *= len(model.members_)
    most = int(np.clip(_WORK / cost, _LEAST_ELEMENTS, _MOST_ELEMENTS))
    return max(1, min(most, int(_MOST_NUMBERS / cost)))


def draw_groups(groups: Groups, *, most_elements: int, seed: int) -> Groups:
    """All groups with a target, or random ones that have about `most_elements` together.

    In the order of the data, over columns of their own.
    """
    able = np.flatnonzero(_has_target(groups))
    if groups.n_elements > most_elements and len(able):
        able = np.random.default_rng(seed).permutation(able)
        total = np.cumsum((groups.stop - groups.start)[able])
        able = able[: max(1, int(np.searchsorted(total, most_elements, side="right")))]
    return groups[np.sort(able)].compact()


def _has_target(groups: Groups) -> Bool[np.ndarray, "groups"]:
    length = groups.stop - groups.start
    if groups.role is None:
        return length > 0
    targets = np.cumsum(np.append(0, groups.role[groups.elements()] == TARGET))
    stop = np.cumsum(length)
    return targets[stop] > targets[stop - length]


def item_counts(groups: Groups) -> Int64[np.ndarray, "items"]:
    """How many own elements have each item."""
    if groups.item is None:
        return np.zeros(0, dtype=np.int64)
    item = groups.item[groups.elements()]
    return np.bincount(item[item >= 0], minlength=groups.n_items)


def _frequency(model: GroupEstimator, groups: Groups | None) -> Float[np.ndarray, "items"]:
    if groups is not None:
        return item_counts(groups).astype(np.float64)
    n_items = model.schema_.n_items or 0
    if model.members_[0].item_part is None:
        return np.ones(n_items)
    blank = append_blank(lone_items(model.schema_, np.arange(0)), model.schema_)
    ((_, probability),) = item_probabilities(model.members_, blank)
    return probability[0]
