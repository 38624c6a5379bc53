"""Baselines of fields in closed form, with the same face: Gaussian laws of each value."""

from typing import Any

from torch import nn

from exfam.checks import ExfamError
from exfam.fields import declarations
from exfam.fields.field_estimator import FieldEstimator
from exfam.fields.networks.climatology import ClimatologyPart
from exfam.fields.networks.gaussian_process import GaussianProcessPart, fit_gaussian_process
from exfam.fields.networks.kriging import KrigingPart, fit_kriging
from exfam.fields.networks.ridge import (
    RidgeCovariancePart,
    RidgeSitePart,
    fit_ridge_covariance,
    fit_ridge_site,
)
from exfam.fields.plan import FieldPlan

__all__ = [
    "FieldClimatology",
    "FieldGaussianProcess",
    "FieldKriging",
    "FieldRidge",
    "FieldRidgeCovariance",
]


class FieldClimatology(FieldEstimator):
    """What is normal at a place and a time; the others on the map are not read.

    Columns of a frame (not needed for groups made with `read_field`):
    `time`: the column of times: dates, timestamps or numbers (default None)
    `site`: the column of sites (default None)
    `coordinates`: the columns of the sites' coordinates (default None)
    `value`: the column of values; missing ones are predicted, never learned from (default None)
    `metric`: "haversine" for (latitude, longitude) in degrees, or "euclidean"
        (default "haversine")
    `missing`: number(s) that stand for a missing value, such as -99 (default ())

    Model:
    `standardize`: what anomalies are taken from: "none", "global", "site" (its mean and spread), or
        "seasonal" (with a yearly course) (default "site")
    `period`: length of the year in the unit of the times (default 365.25)
    `validation_fraction`: share of the maps, the last ones, left out; nothing is chosen by them
        (default 0.0)

    >>> frame = {"day": [1, 1, 2, 2, 3, 3], "city": ["Oslo", "Bonn"] * 3, "x": [0, 5] * 3,
    ...     "celsius": [5.0, 9.0, 4.0, 7.0, 6.0, 9.0]}
    >>> model = FieldClimatology(
    ...     time="day", site="city", coordinates="x", value="celsius", metric="euclidean")
    >>> model.fit(frame).predict(frame).shape
    (6,)
    """

    kind = "field-climatology"
    parameter_rules = declarations.CLIMATOLOGY
    family = "gaussian"
    lags = 0
    step = None

    def __init__(
        self,
        *,
        time: str | None = None,
        site: str | None = None,
        coordinates: Any = None,
        value: str | None = None,
        metric: str = "haversine",
        missing: Any = (),
        standardize: str = "site",
        period: float = 365.25,
        validation_fraction: float = 0.0,
    ) -> None:
        self.time = time
        self.site = site
        self.coordinates = coordinates
        self.value = value
        self.metric = metric
        self.missing = missing
        self.standardize = standardize
        self.period = period
        self.validation_fraction = validation_fraction

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.standardize == "none":
            raise ExfamError(
                "`standardize` must be 'global', 'site' or 'seasonal' for a climatology, which has "
                "nothing else to tell, got 'none'."
            )

    def _fit_parts(self, plan: FieldPlan) -> list[nn.Module]:
        return [ClimatologyPart(self._fit_climate(plan.train))]

    def _empty_part(self) -> nn.Module:
        return ClimatologyPart(self._empty_climate())


class FieldGaussianProcess(FieldEstimator):
    """An exact Gaussian process of anomalies in space and, with lags, in time.

    Columns of a frame (not needed for groups made with `read_field`):
    `time`: the column of times: dates, timestamps or numbers (default None)
    `site`: the column of sites (default None)
    `coordinates`: the columns of the sites' coordinates (default None)
    `value`: the column of values; missing ones are predicted, never learned from (default None)
    `metric`: "haversine" for (latitude, longitude) in degrees, or "euclidean"
        (default "haversine")
    `missing`: number(s) that stand for a missing value, such as -99 (default ())

    Model:
    `kernel`: "matern" (3/2) or "exponential" (default "matern")
    `lags`: how many earlier maps are seen as well (default 0)
    `step`: time from a map to the next (in days for dates); the most frequent gap if None
        (default None)
    `standardize`: what anomalies are taken from: "none", "global", "site" (its mean and spread), or
        "seasonal" (with a yearly course) (default "site")
    `period`: length of the year in the unit of the times (default 365.25)
    `validation_fraction`: share of the maps, the last ones, left out; nothing is chosen by them
        (default 0.0)

    >>> frame = {"day": [1, 1, 2, 2, 3, 3], "city": ["Oslo", "Bonn"] * 3, "x": [0, 5] * 3,
    ...     "celsius": [5.0, 9.0, 4.0, 7.0, 6.0, 9.0]}
    >>> model = FieldGaussianProcess(
    ...     time="day", site="city", coordinates="x", value="celsius", metric="euclidean")
    >>> model.fit(frame).predict(frame).shape
    (6,)
    """

    kind = "field-gaussian-process"
    parameter_rules = declarations.GAUSSIAN_PROCESS
    family = "gaussian"

    def __init__(
        self,
        *,
        time: str | None = None,
        site: str | None = None,
        coordinates: Any = None,
        value: str | None = None,
        metric: str = "haversine",
        missing: Any = (),
        kernel: str = "matern",
        lags: int = 0,
        step: float | None = None,
        standardize: str = "site",
        period: float = 365.25,
        validation_fraction: float = 0.0,
    ) -> None:
        self.time = time
        self.site = site
        self.coordinates = coordinates
        self.value = value
        self.metric = metric
        self.missing = missing
        self.kernel = kernel
        self.lags = lags
        self.step = step
        self.standardize = standardize
        self.period = period
        self.validation_fraction = validation_fraction

    def _fit_parts(self, plan: FieldPlan) -> list[nn.Module]:
        climate = self._fit_climate(plan.train)
        return [fit_gaussian_process(plan.train, climate, kernel=self.kernel)]

    def _empty_part(self) -> nn.Module:
        return GaussianProcessPart(self._empty_climate(), kernel=self.kernel)


class FieldKriging(FieldEstimator):
    """Ordinary kriging of anomalies, map by map, with one variogram for all maps.

    Columns of a frame (not needed for groups made with `read_field`):
    `time`: the column of times: dates, timestamps or numbers (default None)
    `site`: the column of sites (default None)
    `coordinates`: the columns of the sites' coordinates (default None)
    `value`: the column of values; missing ones are predicted, never learned from (default None)
    `metric`: "haversine" for (latitude, longitude) in degrees, or "euclidean"
        (default "haversine")
    `missing`: number(s) that stand for a missing value, such as -99 (default ())

    Model:
    `variogram`: "exponential" or "spherical" (default "exponential")
    `standardize`: what anomalies are taken from: "none", "global", "site" (its mean and spread), or
        "seasonal" (with a yearly course) (default "site")
    `period`: length of the year in the unit of the times (default 365.25)
    `validation_fraction`: share of the maps, the last ones, left out; nothing is chosen by them
        (default 0.0)

    >>> frame = {"day": [1, 1, 2, 2, 3, 3], "city": ["Oslo", "Bonn"] * 3, "x": [0, 5] * 3,
    ...     "celsius": [5.0, 9.0, 4.0, 7.0, 6.0, 9.0]}
    >>> model = FieldKriging(
    ...     time="day", site="city", coordinates="x", value="celsius", metric="euclidean")
    >>> model.fit(frame).predict(frame).shape
    (6,)
    """

    kind = "field-kriging"
    parameter_rules = declarations.KRIGING
    family = "gaussian"
    lags = 0
    step = None

    def __init__(
        self,
        *,
        time: str | None = None,
        site: str | None = None,
        coordinates: Any = None,
        value: str | None = None,
        metric: str = "haversine",
        missing: Any = (),
        variogram: str = "exponential",
        standardize: str = "site",
        period: float = 365.25,
        validation_fraction: float = 0.0,
    ) -> None:
        self.time = time
        self.site = site
        self.coordinates = coordinates
        self.value = value
        self.metric = metric
        self.missing = missing
        self.variogram = variogram
        self.standardize = standardize
        self.period = period
        self.validation_fraction = validation_fraction

    def _fit_parts(self, plan: FieldPlan) -> list[nn.Module]:
        climate = self._fit_climate(plan.train)
        return [fit_kriging(plan.train, climate, kind=self.variogram)]

    def _empty_part(self) -> nn.Module:
        return KrigingPart(self._empty_climate(), kind=self.variogram)


class FieldRidge(FieldEstimator):
    """A ridge regression of each site on all others, and on all of earlier maps.

    It knows the sites of training alone: `predict_dist(at=…)` is refused, and rows of other sites
    are predicted by what is normal there, with an ExfamWarning that counts them.

    Columns of a frame (not needed for groups made with `read_field`):
    `time`: the column of times: dates, timestamps or numbers (default None)
    `site`: the column of sites (default None)
    `coordinates`: the columns of the sites' coordinates (default None)
    `value`: the column of values; missing ones are predicted, never learned from (default None)
    `metric`: "haversine" for (latitude, longitude) in degrees, or "euclidean"
        (default "haversine")
    `missing`: number(s) that stand for a missing value, such as -99 (default ())

    Model:
    `lags`: how many earlier maps are seen as well (default 0)
    `step`: time from a map to the next (in days for dates); the most frequent gap if None
        (default None)
    `standardize`: what anomalies are taken from: "none", "global", "site" (its mean and spread), or
        "seasonal" (with a yearly course) (default "site")
    `period`: length of the year in the unit of the times (default 365.25)
    `validation_fraction`: share of the maps, the last ones, that penalties are chosen by; without,
        they are chosen by folds of the training maps (default 0.0)

    >>> frame = {"day": [1, 1, 2, 2, 3, 3], "city": ["Oslo", "Bonn"] * 3, "x": [0, 5] * 3,
    ...     "celsius": [5.0, 9.0, 4.0, 7.0, 6.0, 9.0]}
    >>> model = FieldRidge(
    ...     time="day", site="city", coordinates="x", value="celsius", metric="euclidean")
    >>> model.fit(frame).predict(frame).shape
    (6,)
    """

    kind = "field-ridge"
    parameter_rules = declarations.RIDGE
    family = "gaussian"
    reads_around_new_sites = False

    def __init__(
        self,
        *,
        time: str | None = None,
        site: str | None = None,
        coordinates: Any = None,
        value: str | None = None,
        metric: str = "haversine",
        missing: Any = (),
        lags: int = 0,
        step: float | None = None,
        standardize: str = "site",
        period: float = 365.25,
        validation_fraction: float = 0.0,
    ) -> None:
        self.time = time
        self.site = site
        self.coordinates = coordinates
        self.value = value
        self.metric = metric
        self.missing = missing
        self.lags = lags
        self.step = step
        self.standardize = standardize
        self.period = period
        self.validation_fraction = validation_fraction

    def _fit_parts(self, plan: FieldPlan) -> list[nn.Module]:
        climate = self._fit_climate(plan.train)
        return [fit_ridge_site(plan.train, climate=climate, validation=plan.validation)]

    def _empty_part(self) -> nn.Module:
        shape = self.shape_
        return RidgeSitePart(self._empty_climate(), n_sites=shape.n_sites, n_lags=shape.lags)


class FieldRidgeCovariance(FieldEstimator):
    """One Gaussian law of all sites, its covariance with a ridge; exact for any sites observed.

    It knows the sites of training alone: `predict_dist(at=…)` is refused, and rows of other sites
    are predicted by what is normal there, with an ExfamWarning that counts them.

    Columns of a frame (not needed for groups made with `read_field`):
    `time`: the column of times: dates, timestamps or numbers (default None)
    `site`: the column of sites (default None)
    `coordinates`: the columns of the sites' coordinates (default None)
    `value`: the column of values; missing ones are predicted, never learned from (default None)
    `metric`: "haversine" for (latitude, longitude) in degrees, or "euclidean"
        (default "haversine")
    `missing`: number(s) that stand for a missing value, such as -99 (default ())

    Model:
    `lags`: how many earlier maps are seen as well (default 0)
    `step`: time from a map to the next (in days for dates); the most frequent gap if None
        (default None)
    `standardize`: what anomalies are taken from: "none", "global", "site" (its mean and spread), or
        "seasonal" (with a yearly course) (default "site")
    `period`: length of the year in the unit of the times (default 365.25)
    `validation_fraction`: share of the maps, the last ones, that penalties are chosen by; without,
        they are chosen by folds of the training maps (default 0.0)

    >>> frame = {"day": [1, 1, 2, 2, 3, 3], "city": ["Oslo", "Bonn"] * 3, "x": [0, 5] * 3,
    ...     "celsius": [5.0, 9.0, 4.0, 7.0, 6.0, 9.0]}
    >>> model = FieldRidgeCovariance(
    ...     time="day", site="city", coordinates="x", value="celsius", metric="euclidean")
    >>> model.fit(frame).predict(frame).shape
    (6,)
    """

    kind = "field-ridge-covariance"
    parameter_rules = declarations.RIDGE
    family = "gaussian"
    reads_around_new_sites = False

    def __init__(
        self,
        *,
        time: str | None = None,
        site: str | None = None,
        coordinates: Any = None,
        value: str | None = None,
        metric: str = "haversine",
        missing: Any = (),
        lags: int = 0,
        step: float | None = None,
        standardize: str = "site",
        period: float = 365.25,
        validation_fraction: float = 0.0,
    ) -> None:
        self.time = time
        self.site = site
        self.coordinates = coordinates
        self.value = value
        self.metric = metric
        self.missing = missing
        self.lags = lags
        self.step = step
        self.standardize = standardize
        self.period = period
        self.validation_fraction = validation_fraction

    def _fit_parts(self, plan: FieldPlan) -> list[nn.Module]:
        climate = self._fit_climate(plan.train)
        return [fit_ridge_covariance(plan.train, climate=climate, validation=plan.validation)]

    def _empty_part(self) -> nn.Module:
        shape = self.shape_
        return RidgeCovariancePart(self._empty_climate(), n_sites=shape.n_sites, n_lags=shape.lags)
