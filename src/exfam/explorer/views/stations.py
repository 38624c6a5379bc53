"""Stations on a map: hidden, moved, added or given other values, and what follows everywhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from exfam.checks import DataError, ExfamError, shown
from exfam.estimator.gain import gain_sentences
from exfam.explorer.kept import Recent
from exfam.explorer.questions import Question, number_or_none, numbers_or_none, whole_of
from exfam.explorer.views import Answer
from exfam.fields import station_plan
from exfam.fields.data.further import with_places
from exfam.fields.explanations import FieldExplanation, explained_base
from exfam.fields.field_estimator import FieldEstimator
from exfam.groups import Groups
from exfam.scores.prediction import Prediction

_CELLS, _MARGIN = 20, 0.05
_MOST_ADDED, _LISTENED, _PLANNED = 50, 12, 5
# Maps of a station's course, and elements that are predicted for it.
_MAPS, _ELEMENTS = 60, 20_000
# Stretches of maps whose predictions are kept.
_KEPT = 8
_NO_NAME = "another place"


@dataclass(frozen=True, eq=False)
class _Edited:
    """One map as it was changed: own elements, those of added stations last.

    `maps`: a single map with those before it; `code`: of the sites, -1 without one
    """

    maps: Groups
    code: Int64[np.ndarray, "own"]
    place: Float64[np.ndarray, "own space"]
    value: Float64[np.ndarray, "own"]


class StationsView:
    """What a model of a field says of a map, whose stations are changed by hand.

    Raises ExfamError without data: maps are what there is to see.
    """

    name, slow = "stations", ("plan",)

    def __init__(self, model: FieldEstimator, data: Any = None) -> None:
        if data is None:
            raise ExfamError("`data` must hold maps of stations to be explored, got none.")
        self.model = model
        self._courses = Recent[Float64[np.ndarray, "three elements"]](_KEPT)
        self.maps: Groups = model._inputs(data).given
        self.labels = model.vocabulary_.get("item", np.array([]))
        (self.column,) = self.maps.values
        places = self.maps.attributes["coordinates"][self.maps.elements()]
        low, high = places.min(0), places.max(0)
        margin = _MARGIN * np.where(high > low, high - low, 1.0)
        self.low, self.high = low - margin, high + margin
        self.questions = {
            "map": self.map, "grid": self.grid, "why": self.why, "course": self.course,
            "plan": self.plan,
        }  # fmt: skip

    @staticmethod
    def shows(model: Any, data: Any) -> bool:
        """Always: this view says what it needs."""
        return True

    def start(self) -> Answer:
        """The model in words, the times of the maps, and the extent of all of them."""
        names = self.maps.group_names
        times = np.arange(len(self.maps)) if names is None else names
        return {
            "title": type(self.model).__name__,
            "gain": " ".join(gain_sentences(self.model)),
            "times": [str(time) for time in times.tolist()],
            "sites": [str(label) for label in self.labels.tolist()],
            "column": self.column,
            "geographic": self.model.metric == "haversine",
            "low": self.low.tolist(),
            "high": self.high.tolist(),
            "has_grid": self._has_grid,
        }

    def map(self, question: Question) -> Answer:
        """A map, changed -> at each station what the others say of it.

        `time`: number of the map; `changes`: by site another value, None where it is hidden
        `added`: stations more, each with its place `at` and its `value`, None for none
        """
        edited = self._edited(question)
        own = self.model.predict_dist(edited.maps)
        low, high = own.interval()
        sites = edited.code.tolist()
        columns = {
            "site": sites,
            "name": [self._name(site) for site in sites],
            "at": edited.place.tolist(),
            "value": numbers_or_none(edited.value),
            "mean": numbers_or_none(own.center),
            "sd": numbers_or_none(own.sd),
            "low": numbers_or_none(low),
            "high": numbers_or_none(high),
            "nats": numbers_or_none(own.log_prob(edited.value)),
        }
        rows = zip(*columns.values(), strict=True)
        return {"stations": [dict(zip(columns, row, strict=True)) for row in rows]}

    def grid(self, question: Question) -> Answer:
        """The same map, changed -> what its stations say of places between them."""
        if not self._has_grid:
            raise ExfamError("`time` must be of a model that predicts any place of a plane.")
        grid = self.model.predict_dist(self._edited(question).maps, at=self._places())
        return {
            "cells": _CELLS,
            "mean": numbers_or_none(grid.center),
            "sd": numbers_or_none(grid.sd),
        }

    def why(self, question: Question) -> Answer:
        """`element` of a map, changed -> what each value around it adds to its mean."""
        edited = self._edited(question)
        k = whole_of(question, "element", low=0, high=len(edited.code) - 1)
        own = self._explained(edited.maps, k)
        assert own.normal is not None and own.contributions is not None and own.shift is not None
        added = own.contributions[0]
        order = np.argsort(-np.abs(added), kind="stable")[:_LISTENED]
        return {
            "normal": number_or_none(own.normal[0]),
            "shift": number_or_none(own.shift[0]),
            "rest": number_or_none(added.sum() - added[order].sum()),
            "listened": [
                {
                    "name": _NO_NAME if own.site[j] is None else str(own.site[j]),
                    "at": own.coordinates[j].tolist(),
                    "steps_back": int(own.steps_back[j]),
                    "contribution": number_or_none(added[j]),
                }
                for j in order
                if added[j]
            ],
        }

    def course(self, question: Question) -> Answer:
        """`site`, `time` -> its values around that map, and what the others say of each."""
        site = whole_of(question, "site", low=0, high=len(self.labels) - 1)
        time = whole_of(question, "time", low=0, high=len(self.maps) - 1)
        most = int(np.clip(_ELEMENTS / max(self.maps.lengths.mean(), 1.0), 1, _MAPS))
        first = max(0, min(time - most // 2, len(self.maps) - most))
        some = self.maps[first : first + most]
        assert some.item is not None
        own = some.elements()
        rows = np.flatnonzero(some.item[own] == site)
        of_map = np.repeat(np.arange(len(some)), some.stop - some.start)[rows]
        # Of all stations at once: whichever is chosen next, the answer is here.
        numbers = self._courses.of(first, lambda: _said(self.model.predict_dist(some)))
        value = self._values(some)[own[rows]]
        said = dict(zip(("mean", "low", "high"), numbers_or_none(numbers[:, rows]), strict=True))
        return {"time": (first + of_map).tolist(), "value": numbers_or_none(value), **said}

    def plan(self, question: Question) -> Answer:
        """Where one more station would make the map surest, and by which share of the variance."""
        plan = station_plan(self.model)
        best = np.argsort(-plan.reduction, kind="stable")[:_PLANNED]
        at, share = plan.candidates[best].tolist(), plan.share[best].tolist()
        places = [{"at": own, "share": number_or_none(x)} for own, x in zip(at, share, strict=True)]
        return {"places": places}

    def _explained(self, maps: Groups, element: int) -> FieldExplanation:
        """What the mean of one element of a single map is made of."""
        inputs = self.model._inputs(maps)
        part: Any = self.model.members_[0].value_part
        if not hasattr(part, "base") and not hasattr(part, "of_elements"):
            raise ExfamError("`element` cannot be explained exactly: this model has no base.")
        family = self.model.family_
        return explained_base(
            part, inputs.groups, 0, given=inputs.given, family=family, center=element
        )

    @property
    def _has_grid(self) -> bool:
        flat = self.maps.attributes["coordinates"].shape[1] == 2
        return flat and self.model.reads_around_new_sites and not self._has_covariates

    @property
    def _has_covariates(self) -> bool:
        return bool(self.model.shape_.covariate_center)

    def _places(self) -> Float64[np.ndarray, "cells space"]:
        """Middles of the cells, by rows of the second coordinate within those of the first."""
        middles = (np.arange(_CELLS) + 0.5) / _CELLS
        first, second = (
            low + (high - low) * middles for low, high in zip(self.low, self.high, strict=True)
        )
        return np.stack(np.meshgrid(first, second, indexing="ij"), -1).reshape(-1, 2)

    def _name(self, code: int) -> str:
        return str(self.labels[code]) if code >= 0 else _NO_NAME

    def _values(self, groups: Groups) -> Float64[np.ndarray, "rows"]:
        values = groups.values[self.column].astype(np.float64)
        return values if groups.observed is None else np.where(groups.observed, values, np.nan)

    def _edited(self, question: Question) -> _Edited:
        time = whole_of(question, "time", low=0, high=len(self.maps) - 1)
        changes = _changes(question.get("changes", {}), n_sites=len(self.labels))
        places, values = self._added(question.get("added", []))
        one = self.maps[time : time + 1].compact()
        if len(places):
            if self._has_covariates:
                raise ExfamError("`added` must be empty for a model with covariates of sites.")
            one = with_places(one, places)
        assert one.item is not None
        own, item, value = one.elements(), one.item, self._values(one)
        if len(places):
            value[own[-len(places) :]] = values
        for row in own:
            value[row] = changes.get(int(item[row]), value[row])
        there = ~np.isnan(value)
        one = one.with_(values={self.column: np.where(there, value, 0.0)}, observed=there)
        place = one.attributes["coordinates"][own].astype(np.float64)
        return _Edited(one, item[own].astype(np.int64), place, value[own])

    def _added(self, given: Any) -> tuple[Float64[np.ndarray, "added space"], list[float]]:
        space = len(self.low)
        if not isinstance(given, Sequence) or isinstance(given, str) or len(given) > _MOST_ADDED:
            raise ExfamError(f"`added` must be a list of at most {_MOST_ADDED} stations.")
        places, values = np.zeros((len(given), space)), []
        for k, station in enumerate(given):
            at = station.get("at") if isinstance(station, Mapping) else None
            if not isinstance(at, list) or len(at) != space or not all(map(_is_number, at)):
                raise ExfamError(
                    f"`added` must be stations with {space} numbers `at`, got {shown(station)}."
                )
            places[k] = at
            values.append(_value(station.get("value")))
        return places, values


def _said(own: Prediction) -> Float64[np.ndarray, "three elements"]:
    """Centers and 90 % intervals."""
    return np.stack([own.center, *own.interval()])


def _changes(given: Any, *, n_sites: int) -> dict[int, float]:
    """Values by site, NaN where it is hidden; keys of JSON are texts."""
    changes = {}
    if not isinstance(given, Mapping):
        raise ExfamError(f"`changes` must map sites to values, got {shown(given)}.")
    for name, value in given.items():
        if not name.isdecimal() or not int(name) < n_sites:
            raise ExfamError(f"`changes` must name sites, 0 .. {n_sites - 1}, got {shown(name)}.")
        changes[int(name)] = _value(value)
    return changes


def _value(value: Any) -> float:
    if value is not None and not _is_number(value):
        raise DataError(f"`value` must be a number or None, got {shown(value)}.")
    return np.nan if value is None else float(value)


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and bool(np.isfinite(value))
