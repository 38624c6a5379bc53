"""What all estimators of fields share: fit, predict, impute, draw, score, save, load."""

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from exfam.checks import ExfamError, check_seed, check_whole
from exfam.estimator.base import Estimator, attribute
from exfam.estimator.evaluate import value_parameters
from exfam.estimator.members import train_members
from exfam.estimator.record import recorded
from exfam.estimator.schema import check_in_support
from exfam.estimator.seen import Overlap, overlap_of_groups, seen_groups
from exfam.families import FAMILIES, Family, family_from_config, family_to_config
from exfam.families.mixtures import Mixture
from exfam.fields.covariates import check_ahead, places_of, with_covariates
from exfam.fields.data.facts import is_observed, with_lags
from exfam.fields.data.further import with_places, with_times
from exfam.fields.declarations import FieldColumnNames, FieldSplit, FieldTraining, Year
from exfam.fields.draws import Forecast, Sensing, fill_maps, next_sites
from exfam.fields.inputs import (
    REMEDY,
    FieldInputs,
    arranged,
    check_places,
    filled,
    read_field_inputs,
    warn_of_new_sites,
)
from exfam.fields.networks.assemble import FieldShape
from exfam.fields.networks.climate import Climate, fit_climate
from exfam.fields.networks.links import (
    check_field_family,
    counts,
    family_in_units,
    from_units,
    model_unit,
    unit_of,
)
from exfam.fields.plan import FieldPlan, plan_field_fit, standardized_maps
from exfam.groups import Groups
from exfam.likelihoods.two_part import TwoPartModel
from exfam.scores.prediction import Prediction


class FieldEstimator(FieldColumnNames, Year, FieldSplit, Estimator, ABC):
    """Estimators of p(value at a site and time | values elsewhere, and before).

    Data are a frame or file with one row per time and site, or groups made with `read_field`.
    Outputs have one entry per row, in the order of the rows.
    """

    # Whether predictions at sites that training did not observe read the values around them.
    reads_around_new_sites: ClassVar[bool] = True

    # Of an estimator without such a parameter.
    family: Any = attribute("gaussian")
    standardize: str = attribute("none")
    lags: Any = attribute(0)
    step: float | None = attribute(None)
    members_: list[TwoPartModel] = attribute()
    shape_: FieldShape = attribute()
    family_: Family = attribute()
    vocabulary_: dict[str, np.ndarray] = attribute()
    site_coordinates_: Float[np.ndarray, "sites space"] = attribute()

    @abstractmethod
    def _fit_parts(self, plan: FieldPlan, climate: Climate) -> list[nn.Module]:
        """The fitted value parts, one per member."""

    @abstractmethod
    def _empty_part(self, climate: Climate) -> nn.Module:
        """A value part of the fitted shape, its numbers to be loaded."""

    @property
    def _sees_covariates(self) -> bool:
        """Whether numbers beside values are used."""
        return "covariates" in self.declared

    def _settled(self, plan: FieldPlan) -> FieldPlan:
        """The plan with what its training maps choose before anything is fitted."""
        return plan

    def check_family(self, family: Any) -> None:
        """Raise ExfamError unless the estimator can model values of this family."""
        check_field_family(family)

    def fit_choices(self) -> tuple[Any, float]:
        """The family of the values and the share of the last maps that a fit holds out."""
        return self.family, float(self.validation_fraction)

    @recorded
    def fit(
        self,
        X: Any,
        y: None = None,
        *,
        validation: Any = None,
        checkpoint: str | Path | None = None,
    ) -> "FieldEstimator":
        """Fit to `X`: a frame, a file or field groups.

        `validation`: data that choose when to stop; the last maps of `X` unless given.
        `checkpoint`: a folder from which a fit that was interrupted or killed goes on.
        Sites without any observed value count as never seen.
        Raises DataError for data that are no field, SupportError for values that the family cannot
        produce, naming the row.
        """
        self._check_parameters()
        plan = self._settled(plan_field_fit(self, X, validation=validation, checkpoint=checkpoint))
        # A fit that fails must not leave the last one's members beside this one's shape.
        self.__dict__.pop("members_", None)
        self.parameters_ = self.get_params(deep=False)
        self.shape_, self.family_ = plan.shape, plan.family
        self.vocabulary_ = {"item": plan.train.vocabulary["item"]}
        self.site_coordinates_ = plan.places
        seen = [plan.train] if plan.validation is None else [plan.train, plan.validation]
        self.seen_ = seen_groups(seen)
        self.data_counts_ = {"maps": sum(map(len, seen)), "sites": len(self.vocabulary_["item"])}
        plan = plan.standardized()
        maps = plan.train
        if counts(self.family_):  # which are standardized as log(1 + count)
            maps = maps.with_(values={name: np.log1p(v) for name, v in maps.values.items()})
        climate = fit_climate(maps, kind=self.standardize, **self._climate_options)
        self.members_ = [self._member(part) for part in self._fit_parts(plan, climate)]
        return self

    def predict(self, X: Any, *, at: Any = None) -> Float[np.ndarray, "rows"]:
        """Predictive means, or medians of a family without means; see `predict_dist`."""
        return self.predict_dist(X, at=at).center

    def predict_dist(self, X: Any, *, at: Any = None) -> Prediction:
        """The distribution of each row's value given the others observed at its time, and before.

        A model with lags sees the maps before among the rows of `X`: give it those as well.

        `at`: coordinates of places, one row each, to predict at instead of at the rows of `X`: the
        result has one row per time and place, all places of the first time first. A model with
        covariates of sites needs these behind the coordinates, or a frame with the columns of both.

        Raises DataError for data that are no field or a site that moved since training, and
        ExfamError for `at` where the model knows the sites of training alone. Rows of other sites
        are then predicted by what is normal there, and an ExfamWarning counts them.
        """
        if at is not None and not self.reads_around_new_sites:
            raise ExfamError(
                f"`at` must be left out for {type(self).__name__}, which knows the sites of "
                "training alone: at other places it could give no more than what is normal there. "
                f"{REMEDY}; FieldClimatology gives what is normal."
            )
        inputs = self._inputs(X)
        if at is None:
            return self._of_rows(inputs).like(X)
        places, more = places_of(at, self, self.shape_)
        wide = with_places(inputs.given, places, covariates=more)
        wide = standardized_maps(wide, self.family_, self.shape_)
        new = wide.stop[:, None] - np.arange(len(places), 0, -1)
        return self._prediction(wide, new.ravel(), np.arange(new.size)).like(X)

    def log_prob(self, X: Any) -> Float[np.ndarray, "rows"]:
        """Log-density (of counts: log-probability) in nats of each row's value given the others.

        NaN where the value is missing.
        """
        inputs = self._inputs(X)
        observed = np.where(is_observed(inputs.groups), inputs.values, np.nan)
        return self._of_rows(inputs).log_prob(inputs.spread(observed))

    def score(self, X: Any, y: None = None) -> float:
        """Mean log-density in nats of an observed value given the others; higher is better.

        A pseudo-log-likelihood: each value is predicted from all others of its map.
        """
        nats = self.log_prob(X)
        if np.isnan(nats).all():
            raise ExfamError("`X` must hold at least one observed value to score, got none.")
        return float(np.nanmean(nats))

    def impute(self, frame: Any, *, level: float = 0.9) -> Any:
        """The frame with missing values filled in by their predictive means.

        A frame of the kind that was given, rows in their order, with three more columns:
        `…_imputed` (was the value missing?), `…_low` and `…_high` (the central interval of
        probability `level`; the value itself where it was observed).
        """
        if isinstance(frame, Groups | str | os.PathLike):
            raise ExfamError(
                f"`frame` must be a frame to fill in, got {type(frame).__name__}. Read the file "
                "into a frame, or use predict_dist."
            )
        inputs = self._inputs(frame)
        return filled(frame, inputs, self._of_rows(inputs), column=str(self.value), level=level)

    def sample(
        self, X: Any, *, n: int = 1, sweeps: int = 0, seed: int = 0
    ) -> Float[np.ndarray, "draws rows"]:
        """Joint draws of all missing values given those observed; observed ones stay as they are.

        Map after map, earlier ones drawn before. Models with a base draw a map together: each value
        from its own predicted distribution, values hanging together as in the base (a copula).
        Others draw values one after the other, each given the observed and those drawn before it.
        Then, `sweeps` times, each is drawn again given all others (Gibbs sampling). Conditionals
        are learned one by one, so that no joint distribution need agree with all of them.
        """
        draws = _drawing(n, sweeps, seed)
        inputs = self._inputs(X)
        drawn = fill_maps(self.members_, inputs.groups, **draws)
        values = np.where(is_observed(inputs.groups), inputs.values, self._in_unit(drawn))
        return inputs.spread(values)

    def forecast(
        self, X: Any, *, steps: int = 1, n: int = 100, sweeps: int = 0, seed: int = 0
    ) -> Forecast:
        """Draws of the next `steps` maps at all sites of `X`, each map given those before it.

        Joint draws as those of `sample`. Raises ExfamError for a model without lags.
        """
        self._check_fitted()
        check_whole("steps", steps)
        draws = _drawing(n, sweeps, seed)
        if not self.shape_.lags:
            chosen = " (chosen by the training maps)" if self.lags else ""
            raise ExfamError(
                f"`lags` must be at least 1 to forecast, got 0{chosen}. Fit with lags=1, so that "
                "earlier maps are seen."
            )
        check_ahead(self.shape_)
        maps, shape, steps = self._inputs(X).given, self.shape_, int(steps)
        last = max(maps.group_attributes["time"].tolist(), default=0.0)
        plain = maps.with_(context_start=None, context_stop=None).compact()
        maps = with_times(plain, last + shape.step * np.arange(1, steps + 1))
        recent = maps.group_attributes["time"] > last - (shape.lags + 0.5) * shape.step
        maps = with_lags(maps[recent].compact(), shape.lags, step=shape.step)
        # What is missing in the maps that the next ones need is drawn as well.
        drawn = fill_maps(self.members_, standardized_maps(maps, self.family_, shape), **draws)
        future = maps[len(maps) - steps :]
        own = future.elements()
        first = own[: len(own) // steps]
        assert maps.item is not None
        labels = np.array([*maps.vocabulary["item"].tolist(), None], dtype=object)
        names = future.group_names
        forecast = Forecast(
            times=future.group_attributes["time"] if names is None else names,
            sites=labels[maps.item[first]],
            coordinates=maps.attributes["coordinates"][first],
            draws=self._in_unit(drawn[:, own]).reshape(len(drawn), steps, -1),
        )
        return forecast.like(X)

    def next_site(self, X: Any, *, n: int = 8, seed: int = 0) -> Sensing:
        """Which missing value would, once measured, say most about the others that are missing.

        For every row without a value: by how much its measurement would reduce the mean predictive
        variance at the other such rows of the same time, averaged over `n` values drawn from what
        is predicted there.
        """
        check_whole("n", n)
        check_seed("seed", seed)
        inputs = self._inputs(X)
        sensing = next_sites(self.members_, inputs.groups, inputs.rows, n=int(n), seed=int(seed))
        unit = model_unit(self.family_).factor
        # One factor after the other: the square of a unit may be too small for a number.
        sensing = Sensing(unit * (unit * sensing.reduction), unit * (unit * sensing.variance))
        return sensing.like(X)

    def _in_unit(self, drawn: np.ndarray) -> np.ndarray:
        return from_units(torch.from_numpy(drawn), self.family_).numpy()

    def seen_in_fit(self, X: Any) -> Overlap:
        """Which maps of `X` the model was fitted on, or its epoch was chosen by.

        Maps are the same if time, sites and values are, at half of the sites at least.
        """
        return self._seen(self._inputs(X).given).like(X)

    def _seen(self, groups: Groups) -> Overlap:
        return overlap_of_groups(self, groups)

    def _inputs(self, X: Any) -> FieldInputs:
        self._check_fitted()
        inputs = read_field_inputs(X, self, sites=self.vocabulary_["item"])
        groups = inputs.groups
        if list(groups.values) != [self.shape_.column]:
            raise ExfamError(
                f"`value` must be {self.shape_.column!r}, as in training, got "
                f"{next(iter(groups.values))!r}."
            )
        groups = with_covariates(groups, self.shape_)
        check_places(groups, self.site_coordinates_, length=self.shape_.length)
        check_in_support(groups, {self.shape_.column: self.family_})
        if not self.reads_around_new_sites:
            part: Any = self.members_[0].value_part  # nn.Module's attributes have no better type
            warn_of_new_sites(groups, part.seen.numpy(), estimator=type(self).__name__)
        laid_out = arranged(groups, lags=self.shape_.lags, step=self.shape_.step)
        return FieldInputs(
            standardized_maps(laid_out, self.family_, self.shape_), inputs.rows, laid_out
        )

    def _of_rows(self, inputs: FieldInputs) -> Prediction:
        return self._prediction(inputs.groups, inputs.groups.elements(), inputs.rows)

    def _prediction(self, groups: Groups, elements: np.ndarray, rows: np.ndarray) -> Prediction:
        eta = value_parameters(self.members_, groups)[self.shape_.column][:, elements]
        wrong = np.flatnonzero(~eta.isfinite().all(-1).all(0).numpy())
        if len(wrong):
            raise ExfamError(
                "`X` must lead to parameters that are finite numbers, got others at row "
                f"{rows[wrong[0]]} ({len(wrong)} of {len(rows)} rows). Look for extreme values on "
                "its map, or fit with a lower learning rate."
            )
        return Prediction(Mixture(self.family_, eta), rows, len(rows))

    def _member(self, part: nn.Module) -> TwoPartModel:
        model = TwoPartModel(
            direction="bidirectional",
            value_part=part,
            families={self.shape_.column: family_in_units(self.family_)},
            log_units={self.shape_.column: math.log(unit_of(self.family_))},
        )
        return model.eval()

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        config = {"shape": asdict(self.shape_), "family": family_to_config(self.family_)}
        return config, {"site_coordinates": torch.from_numpy(self.site_coordinates_)}

    def _restore(self, config: Any, tensors: Any, vocabulary: Any) -> None:
        self.shape_ = FieldShape.from_config(config["shape"])
        if self.lags not in (self.shape_.lags, "auto"):
            raise ValueError(f"a network of {self.shape_.lags} lags where `lags` is {self.lags}")
        self.family_ = family_from_config(config["family"])
        # A class whose family is no parameter is built for values of that family, of any scale.
        own = family_in_units(self.family_)
        if "family" not in self.declared and own != FAMILIES[self.family]():
            raise ExfamError(
                f"`family` of {type(self).__name__} must be {self.family}, got {own!r}."
            )
        self.site_coordinates_ = tensors["site_coordinates"].numpy()
        self.vocabulary_ = vocabulary

    def _restored_member(self, config: Any) -> TwoPartModel:
        shape = self.shape_
        climate = Climate(
            self.standardize, n_sites=shape.n_sites, n_dims=shape.n_dims, **self._climate_options
        )
        return self._member(self._empty_part(climate))

    @property
    def _climate_options(self) -> dict[str, Any]:
        return {"metric": self.shape_.metric, "period": self.period, "step": self.shape_.step}


class TrainedField(FieldTraining, FieldEstimator, ABC):
    """Estimators of fields whose networks are trained, one for each member of an ensemble."""

    def _train(
        self, plan: FieldPlan, build: Callable[[torch.Generator], nn.Module]
    ) -> list[nn.Module]:
        seeds = range(int(self.seed), int(self.seed) + int(self.ensemble))
        members, self.histories_ = train_members(
            self, lambda generator: self._member(build(generator)), plan, seeds=seeds
        )
        return [member.value_part for member in members if member.value_part is not None]


def _drawing(n: Any, sweeps: Any, seed: Any) -> dict[str, int]:
    """How to draw, as plain integers. Raises ExfamError for numbers out of range."""
    check_whole("n", n)
    check_whole("sweeps", sweeps, least=0)
    check_seed("seed", seed)
    return {"n": int(n), "sweeps": int(sweeps), "seed": int(seed)}
