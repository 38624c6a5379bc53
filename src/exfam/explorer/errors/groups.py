"""Baskets and histories: a term is an element given the others of its group, or those before."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64

from exfam.checks import ExfamError
from exfam.efa.group_estimator import GroupEstimator
from exfam.estimator.evaluate import item_probabilities, total_nats
from exfam.explorer.errors.calibration import (
    TargetBins,
    choices_come_true,
    of_each_target,
    values_come_true,
)
from exfam.explorer.errors.scored import first_of, gives_masses, some_of
from exfam.explorer.errors.shift import moved_parts
from exfam.explorer.errors.terms import Slicing, Terms, of_bins, of_labels
from exfam.explorer.views import Answer
from exfam.groups import Groups
from exfam.report.evaluation import value_predictions
from exfam.scores.calibration import Reliability

# Probabilities that are computed for the terms, and for the calibration of items.
_WORK, _CALIBRATION_WORK = 3e9, 1e8
_LEAST, _MOST, _MOST_CALIBRATED = 2_500, 100_000, 5_000
# Of these, what a first look needs.
_FIRST = 0.02
_POSITIONS = ("1st", "2nd", "3rd", "4th to 10th", "11th and later")


class ScoredGroups:
    """Elements of groups: their items, and values where the model has some."""

    units, parts = "groups", "items"

    def __init__(
        self,
        model: GroupEstimator,
        data: Any,
        *,
        against: GroupEstimator | None = None,
        first: bool = False,
    ) -> None:
        self.model, self._against = model, against
        groups = model._inputs(data).groups
        self.n_all = len(groups)
        budget = float(np.clip(_WORK / max(groups.n_items, 1), _LEAST, _MOST))
        most, self.is_partial = first_of(budget, of=groups.n_elements, share=_FIRST, first=first)
        self._group = _drawn(groups, most)
        self.n_scored = len(self._group)
        self.groups = groups[self._group].compact()
        self.columns = ["item", *self.groups.values]
        self._labels = model.vocabulary_["item"]
        assert self.groups.item is not None
        self._item = self.groups.item[: self.groups.n_elements].astype(np.int64)

    @cached_property
    def _parts(self) -> Mapping[str, np.ndarray]:
        return self.model.log_prob_parts(self.groups)

    @cached_property
    def _element(self) -> Int64[np.ndarray, "terms"]:
        """Those that are targets, with an item that is known."""
        return np.flatnonzero(~np.isnan(total_nats(self._parts)))

    @cached_property
    def terms(self) -> Terms:
        """Elements with the sum of all that is predicted of them."""
        unit = np.repeat(np.arange(len(self.groups)), self.groups.stop - self.groups.start)
        here = self._element
        return Terms(unit[here], self._item[here], total_nats(self._parts)[here])

    @cached_property
    def other(self) -> Float64[np.ndarray, "terms"] | None:
        """What the second model says of the same elements, NaN of items that it lacks."""
        if self._against is None:
            return None
        own, theirs = (_predicted(model) for model in (self.model, self._against))
        if own != theirs:
            raise ExfamError(
                f"`against` must predict what `model` does, {_listed(own)}, got {_listed(theirs)}."
            )
        nats = self._against.log_prob_parts(self.groups)
        return total_nats(nats)[self._element]

    @cached_property
    def slicings(self) -> Mapping[str, Slicing]:
        """By item, by how often it occurs, by size and attributes of groups, by position."""
        groups, here, unit = self.groups, self._element, self.terms.unit
        item = self._item
        counts = np.bincount(item[item >= 0], minlength=len(self._labels))
        own = {
            "item": of_labels(self.terms.part, self._labels.tolist(), outcome="item"),
            "occurrences of the item": of_bins(counts[self.terms.part], outcome="item"),
            "elements of the group": of_bins((groups.stop - groups.start)[unit]),
        }
        if groups.ordered:
            position = here - groups.start[unit]
            code = np.searchsorted([0, 1, 2, 9], position, side="left")
            own["position in the group"] = of_labels(code, _POSITIONS)
        for name, column in groups.group_attributes.items():
            own |= self._by_attribute(name, column, unit)
        for name, column in groups.attributes.items():
            own |= self._by_attribute(name, column, here)
        return own

    def _by_attribute(self, name: str, column: np.ndarray, rows: np.ndarray) -> dict[str, Slicing]:
        if column.ndim > 1:
            return {}
        if name in self.groups.vocabulary:
            labels = self.groups.vocabulary[name].tolist()
            return {name: of_labels(column[rows], labels)}
        return {name: of_bins(column[rows])}

    def name_of_unit(self, unit: int) -> str:
        names = self.groups.group_names
        return str(self._group[unit] if names is None else names[unit])

    def name_of_part(self, part: int) -> str:
        return str(self._labels[part])

    def value_of(self, term: int) -> str:
        element = self._element[term]
        values = [f"{name} {own[element]:g}" for name, own in self.groups.values.items()]
        return ", ".join([self.name_of_part(int(self.terms.part[term])), *values])

    def address(self, term: int) -> Mapping[str, Any]:
        """The others of its group as context, those before it where there is an order."""
        element, unit = self._element[term], self.terms.unit[term]
        start, stop = self.groups.start[unit], self.groups.stop[unit]
        context = np.arange(start, stop)
        causal = self.model.direction == "causal"
        context = context[context < element] if causal else context[context != element]
        items = self._item[context]
        known = map(str, items[items >= 0])
        return {"items": ",".join(known), "item": int(self.terms.part[term])}

    def calibration(self, column: str, terms: Int64[np.ndarray, "chosen"]) -> Answer:
        if column != "item":
            return self._of_values(column, self._element[terms])
        row, bins = self._of_items
        targets = np.flatnonzero(np.isin(row, self._element[terms]))
        if not len(targets):
            raise ExfamError("`slice` must hold an item among those drawn for calibration.")
        return choices_come_true(bins.added(targets)) | {"of": len(row)}

    def shift(self, after: "ScoredGroups") -> Answer:
        return moved_parts(self.terms, after.terms, own="share of all elements")

    def bars(self, after: "ScoredGroups", part: str) -> Answer:
        raise ExfamError("`part` must be of a table or a field: of items the shares are all.")

    def _of_values(self, column: str, elements: Int64[np.ndarray, "chosen"]) -> Answer:
        own = self._values[column]
        rows = np.flatnonzero(np.isin(own.rows, elements))
        rows = rows[some_of(len(rows), _MOST_CALIBRATED)]
        if not len(rows):
            raise ExfamError(f"`slice` must hold an observed value of {column!r}, got none.")
        some = torch.from_numpy(rows)
        return values_come_true(own.distribution[some], own.value[some])

    @cached_property
    def _values(self) -> Mapping[str, Any]:
        return value_predictions(self.model, self.groups)

    @cached_property
    def _of_items(self) -> tuple[Int64[np.ndarray, "targets"], TargetBins]:
        """Of the elements of some random groups, where there are many."""
        most = int(np.clip(_CALIBRATION_WORK / len(self._labels), 100, _MOST_CALIBRATED))
        drawn = _drawn(self.groups, max(20, int(most * _FIRST)) if self.is_partial else most)
        rows: list[np.ndarray] = []
        bins: list[Reliability] = []
        for row, probability in item_probabilities(self.model.members_, self.groups[drawn]):
            there = self._item[row] >= 0
            rows.append(row[there])
            bins += of_each_target(probability[there], self._item[row[there]])
        return np.concatenate(rows), TargetBins(bins)


def _drawn(groups: Groups, most: int) -> Int64[np.ndarray, "some"]:
    """All groups, or random ones with so many elements."""
    if groups.n_elements <= most:
        return np.arange(len(groups))
    drawn = np.random.default_rng(0).permutation(len(groups))
    total = np.cumsum((groups.stop - groups.start)[drawn])
    return np.sort(drawn[: max(1, int(np.searchsorted(total, most, side="right")))])


def _predicted(model: GroupEstimator) -> dict[str, bool]:
    """What a model predicts, and whether by masses rather than by densities."""
    own = {name: gives_masses(family) for name, family in model.schema_.families.items()}
    return ({"item": True} if model._has_items else {}) | own


def _listed(predicted: Mapping[str, bool]) -> str:
    kinds = {True: "probabilities", False: "densities"}
    return ", ".join(f"{kinds[masses]} of {name!r}" for name, masses in predicted.items())
