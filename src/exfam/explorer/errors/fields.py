"""Maps of stations: a term is a value given the others of its map, and those before."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64

from exfam.checks import ExfamError
from exfam.explorer.errors.calibration import values_come_true
from exfam.explorer.errors.scored import first_of, gives_masses, some_of
from exfam.explorer.errors.shift import bars_of_numbers, moved_parts
from exfam.explorer.errors.terms import Slicing, Terms, of_bins, of_labels
from exfam.explorer.views import Answer
from exfam.fields.field_estimator import FieldEstimator
from exfam.groups import Groups
from exfam.report.fields.field_material import evenly, values_of
from exfam.scores.prediction import Prediction

_WORK, _LEAST, _MOST = 2e7, 2_000, 40_000
_MOST_CALIBRATED = 4000
# Of the elements that are scored, what a first look needs.
_FIRST = 0.1


class ScoredMaps:
    """Observed values of a field's maps."""

    units, parts = "maps", "stations"

    def __init__(
        self,
        model: FieldEstimator,
        data: Any,
        *,
        against: FieldEstimator | None = None,
        first: bool = False,
    ) -> None:
        self.model, self._against = model, against
        maps: Groups = model._inputs(data).given
        self.n_all = len(maps)
        elements = float(np.clip(_WORK / max(maps.n_items, 1), _LEAST, _MOST))
        budget = max(1.0, elements / maps.lengths.mean())
        most, self.is_partial = first_of(budget, of=len(maps), share=_FIRST, first=first)
        self._map = evenly(np.arange(len(maps)), most)
        self.n_scored = len(self._map)
        self.maps = maps[self._map]
        (self._column,) = self.maps.values
        self.columns = [self._column]
        self._labels = [*map(str, model.vocabulary_["item"].tolist()), "another place"]
        self._all_values = values_of(self.maps)
        self._element = np.flatnonzero(~np.isnan(self._all_values))
        self.value = self._all_values[self._element]

    @cached_property
    def _prediction(self) -> Prediction:
        return self.model.predict_dist(self.maps)

    @cached_property
    def _own(self) -> Int64[np.ndarray, "terms"]:
        """Rows of the flat columns."""
        return self.maps.elements()[self._element]

    @cached_property
    def terms(self) -> Terms:
        """Values that were observed."""
        assert self.maps.item is not None
        site = self.maps.item[self._own].astype(np.int64)
        site = np.where(site < 0, len(self._labels) - 1, site)
        unit = np.repeat(np.arange(len(self.maps)), self.maps.stop - self.maps.start)
        nats = self._prediction.log_prob(self._all_values)
        return Terms(unit[self._element], site, nats[self._element])

    @cached_property
    def other(self) -> Float64[np.ndarray, "terms"] | None:
        """What the second model says of the same values."""
        other = self._against
        if other is None:
            return None
        if gives_masses(self.model.family_) != gives_masses(other.family_):
            raise ExfamError(
                "`against` must predict the same kind of values as `model`, got "
                f"{type(other.family_).__name__} beside {type(self.model.family_).__name__}."
            )
        return other.predict_dist(self.maps).log_prob(self._all_values)[self._element]

    @cached_property
    def slicings(self) -> Mapping[str, Slicing]:
        """By station, by value, by number of values on the map, by attributes and place."""
        terms = self.terms
        own = {
            "station": of_labels(terms.part, self._labels),
            f"value of {self._column}": of_bins(self.value, outcome=self._column),
            "values on the map": of_bins(np.bincount(terms.unit)[terms.unit]),
        }
        for name, column in self.maps.group_attributes.items():
            if column.ndim == 1:
                own[name] = of_bins(column[terms.unit])
        places = self.maps.attributes["coordinates"][self._own]
        for axis in range(places.shape[1]):
            own[f"coordinate {axis + 1}"] = of_bins(places[:, axis])
        return own

    def name_of_unit(self, unit: int) -> str:
        names = self.maps.group_names
        return str(self._map[unit] if names is None else names[unit])

    def name_of_part(self, part: int) -> str:
        return self._labels[part]

    def value_of(self, term: int) -> str:
        return f"{self.value[term]:.6g}"

    def address(self, term: int) -> Mapping[str, Any]:
        site = int(self.terms.part[term])
        fields = {"time": int(self._map[self.terms.unit[term]])}
        return fields if site == len(self._labels) - 1 else {**fields, "station": site}

    def calibration(self, column: str, terms: Int64[np.ndarray, "chosen"]) -> Answer:
        terms = terms[some_of(len(terms), _MOST_CALIBRATED)]
        value = torch.from_numpy(self.value[terms])
        # One distribution an element, in their order.
        rows = np.argsort(self._prediction.rows)[self._element[terms]]
        return values_come_true(self._prediction.mixture[torch.from_numpy(rows)].double(), value)

    def shift(self, after: "ScoredMaps") -> Answer:
        numbers = (self.value, after.value)
        moved = moved_parts(self.terms, after.terms, own="mean value", numbers=numbers)
        return moved | {"has_bars": True}

    def bars(self, after: "ScoredMaps", part: str) -> Answer:
        site = self._labels.index(part) if part in self._labels else -1
        return bars_of_numbers(
            self.value[self.terms.part == site], after.value[after.terms.part == site]
        )
