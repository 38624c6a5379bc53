"""Estimators of items that take in attributes, and then items without history."""

import copy
from abc import ABC
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from exfam.checks import ExfamError
from exfam.efa.attributes.enlarge import enlarged_member, set_new_items
from exfam.efa.attributes.item_attributes import ItemAttributes, attributes_of_items, new_table
from exfam.efa.base.choose import add_to_base
from exfam.efa.explaining import ExplainingEstimator
from exfam.efa.further import TakesFurtherGroups
from exfam.efa.networks.based import BasedItems
from exfam.efa.plan import FitPlan, plan_fit
from exfam.estimator.base import attribute
from exfam.estimator.record import recorded
from exfam.groups import Groups


class AttributedEstimator(TakesFurtherGroups, ExplainingEstimator, ABC):
    """Estimators that know items by their attributes."""

    base: str
    item_attributes_: ItemAttributes | None = attribute(default=None)

    @recorded
    def fit(
        self,
        X: Any,
        y: None = None,
        *,
        validation: Any = None,
        sample_weight: Any = None,
        checkpoint: str | Path | None = None,
        item_attributes: Any = None,
    ) -> "AttributedEstimator":
        """Fit to `X`: Groups, a frame, or the path of a file or a prepared folder.

        `validation`: data that choose when to stop; a share of the groups unless given.
        `sample_weight`: one weight an element; a base of values lacks those of weight 0 and takes
        all others alike. `checkpoint`: a folder from which a fit that was
        interrupted or killed goes on to the same bits.
        `item_attributes`: a frame or file with one row for each item: a column named as `item` is
        (or "item"), and columns of texts (categories), numbers or booleans. Vectors of items are
        then what attributes say and what is an item's own, and `with_items` adds items that
        nobody has had yet.
        Raises SupportError for values that the family cannot produce, naming the row; DataError for
        attributes that cannot be read.
        """
        self._check_parameters()
        plan = plan_fit(
            self, X, validation=validation, sample_weight=sample_weight, checkpoint=checkpoint
        )
        if item_attributes is not None:
            plan = self._with_attributes(plan, item_attributes)
        self.item_attributes_ = plan.attributes
        self._fit_plan(plan)
        return self

    def _with_attributes(self, plan: FitPlan, source: Any) -> FitPlan:
        if not plan.items or plan.values:
            raise ExfamError(
                "`item_attributes` must come with items alone, got data with "
                f"{'values' if plan.values else 'no items'}. Fit with parts='items'."
            )
        groups = plan.groups.with_(vocabulary=plan.vocabulary)
        found = attributes_of_items(source, groups, item=self.item, dialect=self.dialect)
        return replace(plan, attributes=found)

    def with_items(self, items: Any) -> "AttributedEstimator":
        """A model whose catalog has further items, known by their attributes; nothing is fitted.

        `items`: a frame or file as `item_attributes` of `fit`, with a row for each new item

        Old items keep their scores, and lose the probability that the new ones have. The order of
        the rows does not matter: new items come after the old ones, by label. This model stays as
        it is.
        Raises ExfamError for a model that was fitted without `item_attributes`, DataError for items
        that the model has, or that have two rows.

        >>> from exfam import EFA
        >>> items = ["tea", "milk", "tea", "jam", "jam", "milk"]
        >>> data = {"basket": [1, 1, 2, 2, 3, 3], "item": items}
        >>> kinds = {"item": ["tea", "milk", "jam"], "kind": ["drink", "drink", "spread"]}
        >>> model = EFA(group="basket", item="item", attention="none", progress=False)
        >>> larger = model.fit(data, item_attributes=kinds).with_items(
        ...     {"item": ["cocoa"], "kind": ["drink"]}
        ... )
        >>> larger.vocabulary_["item"].tolist()
        ['jam', 'milk', 'tea', 'cocoa']
        """
        self._check_fitted()
        attributes = self.item_attributes_
        if attributes is None:
            raise ExfamError(
                "`with_items` needs a model that knows items by their attributes, got one that was "
                "fitted without. Fit with item_attributes=… (a frame with a row for each item)."
            )
        labels = self.vocabulary_["item"]
        item = self.parameters_["item"]
        names, features = new_table(items, attributes, labels, item=item, dialect=self.dialect)
        n_items = len(labels) + len(names)
        codes = np.arange(len(labels), n_items)
        new = attributes.new_items(features, codes, like=attributes.sources, n_items=n_items)
        larger = copy.copy(self)
        larger.vocabulary_ = {**self.vocabulary_, "item": np.concatenate([labels, names])}
        larger.schema_ = replace(self.schema_, n_items=n_items)
        larger.item_attributes_ = attributes.enlarged(features, new.count)
        build = partial(larger._build_by, generator=torch.Generator().manual_seed(0))
        larger.members_ = [enlarged_member(member, build, new) for member in self.members_]
        for member in larger.members_:
            set_new_items(member, larger.item_attributes_)
        if hasattr(self, "data_counts_"):
            larger.data_counts_ = self.data_counts_ | {"items": n_items}
        larger._begin_requests()
        return larger

    def _build_by(self, base: Any, generator: torch.Generator) -> Any:
        """A member with this base of items."""
        return self._build(generator, items=True, values=False, base=base)  # type: ignore[call-arg]

    def partial_fit(self, X: Any, y: None = None) -> "AttributedEstimator":
        """Take further groups into a base without attention, as if `fit` had had them too.

        What it counts or regresses is then the same as that of all groups; how transitions are
        mixed, the penalties of ridge regression, and the items, stay; how its scores become
        probabilities is fitted to the further groups. A model that is not fitted yet is fitted.
        Raises ExfamError for models that are more than a base, UnknownItemError for new items.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X)
        self._take_further(X)
        return self

    def _check_takes(self) -> None:
        parts: list[Any] = [member.item_part for member in self.members_]
        if not all(isinstance(part, BasedItems) and part.is_alone for part in parts):
            raise ExfamError(
                "`attention` must be 'none' for partial_fit, which only a base of items can do: "
                f"got {self.parameters_['attention']!r}. Fit with attention='none', or fit anew "
                "to all groups."
            )

    def _take(self, groups: Groups) -> None:
        parts: list[Any] = [member.item_part for member in self.members_]
        # Members share a base, unless they were loaded.
        for base in {id(part.base): part.base for part in parts}.values():
            add_to_base(base, groups, support=self.support_, seed=int(self.seed))
        if self.item_attributes_ is not None:
            self.item_attributes_ = self.item_attributes_.with_groups(groups)
            for member in self.members_:
                set_new_items(member, self.item_attributes_)

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        config, tensors = super()._state()
        attributes = self.item_attributes_
        if attributes is None:
            return config, tensors
        return config | {"item_attributes": attributes.to_config()}, tensors | attributes.arrays()

    def _restore(self, config: Any, tensors: Any, vocabulary: dict[str, np.ndarray]) -> None:
        super()._restore(config, tensors, vocabulary)
        if "item_attributes" in config:
            self.item_attributes_ = ItemAttributes.from_config(config["item_attributes"], tensors)
