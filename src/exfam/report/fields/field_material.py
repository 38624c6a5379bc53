"""What a report of a field is made of: a model, its maps, and those that it is scored on."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64

from exfam.checks import ExfamError
from exfam.estimator.seen import Overlap
from exfam.families.mixtures import Mixture
from exfam.fields.data.facts import is_observed
from exfam.groups import Groups
from exfam.report.contents import ReportRequest
from exfam.report.words import clean
from exfam.scores.prediction import Prediction

# Elements that are predicted: fewer where there are many sites.
_WORK, _LEAST, _MOST = 2e6, 2_000, 20_000
# The share of maps that baselines are fitted on where no training data are given.
_LEARNED, _FEWEST_MAPS = 0.6, 5


@dataclass(frozen=True, eq=False)
class FieldMaterial:
    """A model of a field, all maps given in its units, and the maps that it is scored on.

    `scored`: all maps or evenly spaced ones, with those before that the model sees; `learn`: the
    maps that baselines are fitted on, if any; `compared`: which maps of `scored` they meet on;
    `given_train`: whether `learn` was given
    """

    model: Any
    maps: Groups | None
    scored: Groups | None
    learn: Groups | None
    compared: Bool[np.ndarray, "maps"]
    given_train: bool
    overlap: Overlap | None
    seed: int

    @cached_property
    def prediction(self) -> Prediction:
        """Of every element of `scored`, given the others observed on its map and before."""
        prediction: Prediction = self.model.predict_dist(self.scored)
        return prediction

    @cached_property
    def value(self) -> Float[np.ndarray, "elements"]:
        """The values of the same elements; NaN where they are missing."""
        assert self.scored is not None
        return values_of(self.scored)

    @property
    def site(self) -> Int64[np.ndarray, "elements"]:
        """Their sites' codes, -1 for those that training never saw."""
        assert self.scored is not None and self.scored.item is not None
        return self.scored.item[self.scored.elements()].astype(np.int64)

    @property
    def map_of(self) -> Int64[np.ndarray, "elements"]:
        """The map of `scored` that each element is of."""
        assert self.scored is not None
        return np.repeat(np.arange(len(self.scored)), self.scored.stop - self.scored.start)

    @property
    def observed(self) -> tuple[Mixture, Float[torch.Tensor, "values"]]:
        """Distributions of the observed values, and these."""
        there = np.flatnonzero(~np.isnan(self.value[self.prediction.rows]))
        own = self.prediction.mixture[torch.from_numpy(there)].double("cpu")
        value = self.value[self.prediction.rows[there]]
        return own, torch.from_numpy(value)

    @property
    def column(self) -> str:
        """The name of the values."""
        return clean(self.model.shape_.column, most=40)

    def site_name(self, code: int, *, most: int = 40) -> str:
        """What a site is called."""
        return clean(self.model.vocabulary_["item"][code], most=most)


def values_of(groups: Groups) -> Float[np.ndarray, "elements"]:
    """The values of own elements; NaN where they are missing."""
    (column,) = groups.values.values()
    own = groups.elements()
    return np.where(is_observed(groups)[own], column[own].astype(np.float64), np.nan)


def gather_field(model: Any, request: ReportRequest) -> FieldMaterial:
    """Read the maps and choose those that the model is scored on."""
    model._check_fitted()
    maps, train = _read(model, request.data, "data"), _read(model, request.train, "train")
    scored, learn, compared, overlap = maps, None, np.zeros(0, dtype=bool), None
    if maps is not None:
        chosen = np.arange(len(maps))
        if request.baselines and train is None and len(maps) >= 2 * _FEWEST_MAPS:
            learn = plain_maps_of(maps[: int(_LEARNED * len(maps))])
            chosen = chosen[int(_LEARNED * len(maps)) :]
        elif request.baselines and train is not None:
            learn = plain_maps_of(train)
        scored = maps[evenly(chosen, _affordable(model, maps))]
        overlap = model._seen(scored)
        compared = np.ones(len(scored), dtype=bool)
        if not overlap.is_chance:
            compared &= overlap.seen == 0
        if not compared.any():
            learn = None
    return FieldMaterial(
        model, maps, scored, learn, compared, train is not None, overlap, request.seed
    )


def evenly(chosen: Int64[np.ndarray, "all"], most: int) -> Int64[np.ndarray, "some"]:
    """At most so many of them, evenly spaced, the last among them."""
    if len(chosen) <= most:
        return chosen
    return chosen[np.unique(np.linspace(0, len(chosen) - 1, most).round().astype(np.int64))]


def _affordable(model: Any, maps: Groups) -> int:
    """How many maps can be predicted in some seconds."""
    elements = float(np.clip(_WORK / model.shape_.n_sites, _LEAST, _MOST))
    return max(1, int(elements / max(float(maps.lengths.mean()), 1.0)))


def _read(model: Any, given: Any, name: str) -> Groups | None:
    if given is None:
        return None
    maps: Groups = model._inputs(given).given
    if np.isnan(values_of(maps)).all():
        raise ExfamError(f"`{name}` must hold at least one observed value, got none.")
    return maps


def plain_maps_of(maps: Groups) -> Groups:
    """The same maps without those that are seen before."""
    return maps.with_(context_start=None, context_stop=None).compact()
