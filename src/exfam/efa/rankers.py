"""Recommenders that count: popularity, nearest neighbors and EASE, with exact probabilities."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch

from exfam.checks import ExfamError
from exfam.efa.base.fit_linear import FittedLink, draw_targets, fit_linear_link
from exfam.efa.base.fit_ridge import SEARCH_ITEMS, lowest_strength
from exfam.efa.base.linear import LinearItems
from exfam.efa.base.sets import held_items
from exfam.efa.declarations import LacksVectors, OnlyIn
from exfam.efa.explaining import ExplainingEstimator
from exfam.efa.further import TakesFurtherGroups
from exfam.efa.group_estimator import GroupEstimator
from exfam.efa.networks.based import BasedItems, NoCorrection
from exfam.efa.networks.marginals import MarginalItems
from exfam.efa.plan import FitPlan, log_shares, target_counts
from exfam.efa.recommenders import LinearRecommender, ease, item_knn
from exfam.estimator.base import attribute, parameter
from exfam.estimator.rules import Choice, OrNone, Positive, Whole
from exfam.groups import Groups
from exfam.likelihoods.two_part import SUPPORTS, TwoPartModel

# Where nothing is held out to choose by.
USUAL_RIDGE = 100.0
# The first is usual.
_NEIGHBORS, _SHRINKAGES = (20, 10, 50, 100, 200), (10.0, 0.0, 100.0)


class ItemRanker(LacksVectors, GroupEstimator, ABC):
    """Estimators of items alone, values and attributes left out of account."""

    parts, value, family = "items", None, "gaussian"
    attributes = group_attributes = known = ()
    position = None
    direction: str = parameter(
        text='the context: "bidirectional" (all others of the group) or "causal" (earlier ones)',
        default="bidirectional",
    )
    support: str = parameter(
        Choice(("auto", "hard", "none")),
        'whether items of the context may come again: "none" (they may), "hard" (never), or '
        '"auto": hard if no group of the data repeats an item',
        default="auto",
    )

    def _member(self, item_part: torch.nn.Module) -> TwoPartModel:
        support = SUPPORTS[self.support_]()
        return TwoPartModel(direction=self.direction, item_part=item_part, support=support)


class Popularity(TakesFurtherGroups, ItemRanker):
    """Recommends what is most frequent: the probability of an item is its share of all elements.

    The baseline that every recommender has to beat. With hard support what a group has is left out
    and the shares of the others add up to 1. `partial_fit` counts further groups. `Marginal` has
    values beside.

    {parameters}

    >>> frame = {"user": [1, 1, 2], "movie": ["a", "b", "a"]}
    >>> model = Popularity(group="user", item="movie", support="none").fit(frame)
    >>> model.recommend(frame, k=1).items[:, 0].tolist()
    ['a', 'a']
    """

    kind = "popularity"
    smoothing: float = parameter(Positive(), "occurrences added to every item", default=1.0)
    validation_fraction: float = parameter(
        text="share of the groups held out; a fit without choices does not use them", default=0.0
    )
    seed: int = parameter(text="of that split", default=0)
    counted_: float = attribute()
    explain = OnlyIn("EFA", "EASE", "ItemKNN")
    explain_item = OnlyIn("EFA", "EASE", "ItemKNN")

    def _fit_members(self, plan: FitPlan) -> None:
        n_items, smoothing = plan.schema.n_items or 0, float(self.smoothing)
        count = target_counts(plan.train, n_items, weight=plan.weight)
        self.counted_ = float(count.sum())
        self.members_ = [self._member(MarginalItems(log_shares(count, smoothing=smoothing)))]

    def partial_fit(self, X: Any, y: None = None) -> GroupEstimator:
        """Count the elements of further groups, as if `fit` had had them too; the items stay.

        A model that is not fitted yet is fitted.
        Raises UnknownItemError for new items, ExfamError for a model of an older version.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X)
        self._take_further(X)
        return self

    def _check_takes(self) -> None:
        if not hasattr(self, "counted_"):
            raise ExfamError(
                "`partial_fit` needs how many elements were counted, which models that older "
                "versions saved lack. Fit anew, to all groups."
            )

    def _take(self, groups: Groups) -> None:
        part: Any = self.members_[0].item_part
        smoothing = float(self.parameters_["smoothing"])
        share, n_items = part.log_frequency.double().exp().cpu().numpy(), part.n_items
        old = share * (self.counted_ + smoothing * n_items) - smoothing
        count = old.clip(min=0.0) + target_counts(groups, n_items)
        self.counted_ = float(count.sum())
        part.log_frequency.copy_(log_shares(count, smoothing=smoothing))

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        config, tensors = super()._state()
        return config | {"counted": self.counted_} if hasattr(self, "counted_") else config, tensors

    def _restore(self, config: Any, tensors: Any, vocabulary: dict[str, np.ndarray]) -> None:
        super()._restore(config, tensors, vocabulary)
        if "counted" in config:  # older versions had none
            self.counted_ = float(config["counted"])

    def _build(self, generator: torch.Generator, *, items: bool, values: bool) -> TwoPartModel:
        return self._member(MarginalItems(torch.zeros(self.schema_.n_items or 0)))


class LinearRanker(ItemRanker, ExplainingEstimator, ABC):
    """Recommenders whose scores are sums over the context, made probabilities by held-out groups.

    The probability of an item is a power of its score with popularity added, over all items: see
    `exfam.efa.base.linear`. `settings_`: those that were chosen.
    """

    smooth: ClassVar[bool]
    settings_: dict[str, Any] = attribute()
    validation_fraction: float = parameter(
        text="share of the groups held out to choose settings by, and to make probabilities of "
        "scores; then all groups are fitted",
        default=0.1,
    )

    @abstractmethod
    def _chosen(self, nats: Callable[..., float] | None) -> dict[str, Any]:
        """The settings of the fewest nats; without held-out groups, the usual ones.

        `nats`: of settings, those of a held-out target; of a fit to the most frequent items alone
        with `quick=True`
        """

    @abstractmethod
    def _recommender(self, groups: Groups, **settings: Any) -> LinearRecommender:
        """Scores fitted to groups with these settings."""

    def _fit_members(self, plan: FitPlan) -> None:
        if plan.weight is not None:
            raise ExfamError(
                f"`sample_weight` must be None for {type(self).__name__}, which counts groups "
                "alike, got weights. Leave out what is not to count."
            )
        fits: dict[tuple[str, bool], FittedLink] = {}
        nats = None if plan.validation is None else partial(self._judged, plan, fits)
        self.settings_ = self._chosen(nats)
        base = self._base(plan.groups if plan.holds_out else plan.train, self.settings_)
        if fits:
            base.numbers.copy_(fits[repr(self.settings_), False].base.numbers)
        self.members_ = [self._based(base)]

    def _judged(
        self,
        plan: FitPlan,
        fits: dict[tuple[str, bool], FittedLink],
        settings: dict[str, Any],
        *,
        quick: bool = False,
    ) -> float:
        """Nats a held-out target of a fit to the others; it is put into `fits`."""
        assert plan.validation is not None
        quick = quick and plan.train.n_items > SEARCH_ITEMS
        if (key := (repr(settings), quick)) not in fits:
            train = _of_frequent(plan.train) if quick else plan.train
            base = self._base(train, settings)
            hard, seed = plan.support == "hard", int(self.seed)
            count = base.log_popularity.double().exp().numpy()
            targets = draw_targets(plan.validation, count, seed=seed, hard=hard)
            fits[key] = fit_linear_link(base, targets)
        return fits[key].nats

    def _base(self, groups: Groups, settings: dict[str, Any]) -> LinearItems:
        weights = self._recommender(groups, **settings).weights
        count = np.asarray(held_items(groups, groups.n_items).sum(0)).ravel()
        return LinearItems(weights, count=count, direction=self.direction, smooth=self.smooth)

    def _based(self, base: LinearItems) -> TwoPartModel:
        return self._member(BasedItems(base, NoCorrection(base.n_items, self.direction)))

    def _build(self, generator: torch.Generator, *, items: bool, values: bool) -> TwoPartModel:
        shape = {"n_items": self.schema_.n_items or 0, "n_entries": 0}
        return self._with_shape(shape)

    def _with_shape(self, shape: Any) -> TwoPartModel:
        empty = LinearItems.empty(shape, direction=self.direction, smooth=self.smooth)
        return self._based(empty)

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        config, tensors = super()._state()
        part: Any = self.members_[0].item_part
        return config | {"scores": part.base.shape(), "settings": self.settings_}, tensors

    def _restore(self, config: Any, tensors: Any, vocabulary: dict[str, np.ndarray]) -> None:
        super()._restore(config, tensors, vocabulary)
        self.settings_ = config["settings"]

    def _restored_member(self, config: Any) -> TwoPartModel:
        return self._with_shape(config["scores"])


class ItemKNN(LinearRanker):
    """Recommends what is nearest to the items of a group: sums of cosines between items.

    An item is the vector of the groups that have it. Of each scored item its nearest neighbors
    alone count. Scales to large catalogs.

    {parameters}

    After `fit`: `settings_`, the numbers that were chosen.

    >>> frame = {"user": [1, 1, 2, 2, 3], "movie": list("ababc")}
    >>> model = ItemKNN(group="user", item="movie").fit(frame)
    >>> model.recommend({"user": [9], "movie": ["a"]}, k=1).items.tolist()
    [['b']]
    """

    kind = "item-knn"
    smooth = False
    n_neighbors: int | None = parameter(
        OrNone(Whole()),
        "neighbors of an item; None is what held-out groups want among 10, 20, 50, 100 and 200",
        default=None,
    )
    shrinkage: float | None = parameter(
        OrNone(Positive(zero=True)),
        "added to the product of norms in a cosine, so that items seen once or twice are not the "
        "nearest of all; None is what held-out groups want among 0, 10 and 100",
        default=None,
    )

    def _chosen(self, nats: Callable[..., float] | None) -> dict[str, Any]:
        neighbors = _NEIGHBORS if self.n_neighbors is None else (int(self.n_neighbors),)
        shrinkages = _SHRINKAGES if self.shrinkage is None else (float(self.shrinkage),)
        best = {"n_neighbors": neighbors[0], "shrinkage": shrinkages[0]}
        if nats is None:
            return best
        tried = [best | {"n_neighbors": n} for n in neighbors]
        best = min(tried, key=nats)
        return min([best | {"shrinkage": number} for number in shrinkages], key=nats)

    def _recommender(self, groups: Groups, **settings: Any) -> LinearRecommender:
        return item_knn(groups, **settings)


class EASE(LinearRanker):
    """Recommends by a ridge regression of each item on all others, in closed form.

    For catalogs of up to 20,000 items, whose weights take memory of their square.
    `EFA(attention="none")` is the same idea with a link of more numbers, and goes on with
    `partial_fit`.

    {parameters}

    After `fit`: `settings_`, with the ridge that was chosen.
    Source: Steck (2019), Embarrassingly Shallow Autoencoders for Sparse Data.

    >>> frame = {"user": [1, 1, 2, 2, 3], "movie": list("ababc")}
    >>> model = EASE(group="user", item="movie", ridge=1.0).fit(frame)
    >>> model.recommend({"user": [9], "movie": ["a"]}, k=1).items.tolist()
    [['b']]
    """

    kind = "ease"
    smooth = True
    ridge: float | None = parameter(
        OrNone(Positive()),
        "added to the number of groups that have an item; None is what held-out groups want, "
        "from 3 to 3,000",
        default=None,
    )

    def _chosen(self, nats: Callable[..., float] | None) -> dict[str, Any]:
        if self.ridge is not None:
            settings = {"ridge": float(self.ridge)}
            if nats is not None:
                nats(settings)
            return settings
        if nats is None:
            return {"ridge": USUAL_RIDGE}

        def nats_of(half_decades: float) -> float:
            return nats({"ridge": round(10 ** (half_decades / 2), 3)}, quick=True)

        best = {"ridge": round(10 ** (lowest_strength(nats_of) / 2), 3)}
        nats(best)
        return best

    def _recommender(self, groups: Groups, **settings: Any) -> LinearRecommender:
        return ease(groups, **settings)


def _of_frequent(groups: Groups) -> Groups:
    """The groups with the most frequent items alone; the others are unknown."""
    assert groups.item is not None
    count = np.asarray(held_items(groups, groups.n_items).sum(0)).ravel()
    is_frequent = np.zeros(groups.n_items + 1, dtype=bool)  # the last of unknown ones
    is_frequent[np.argsort(-count, kind="stable")[:SEARCH_ITEMS]] = True
    is_frequent[-1] = False
    return groups.with_(item=np.where(is_frequent[groups.item], groups.item, -1))
