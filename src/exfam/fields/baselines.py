"""Baselines of fields in closed form, with the same methods: Gaussian distributions of each value.

>>> frame = {"day": [1, 1, 2, 2, 3, 3], "city": ["Oslo", "Bonn"] * 3, "x": [0, 5] * 3,
...     "celsius": [5.0, 9.0, 4.0, 7.0, 6.0, 9.0]}
>>> model = FieldKriging(time="day", site="city", coordinates="x", value="celsius",
...     metric="euclidean")
>>> model.fit(frame).predict(frame).shape
(6,)
"""

from abc import ABC
from typing import ClassVar

from torch import nn

from exfam.checks import ExfamError
from exfam.estimator.base import parameter
from exfam.estimator.rules import Choice
from exfam.fields.declarations import ClimateModel, Lags, RidgeSplit
from exfam.fields.field_estimator import FieldEstimator
from exfam.fields.networks.climate import Climate, ClimatologyPart
from exfam.fields.networks.covariances import (
    KERNELS,
    VARIOGRAMS,
    GaussianProcessPart,
    KrigingPart,
    fit_gaussian_process,
    fit_kriging,
)
from exfam.fields.networks.ridge import RidgeCovariancePart, RidgePart, RidgeSitePart, fit_ridge
from exfam.fields.plan import FieldPlan


class FieldClimatology(ClimateModel, FieldEstimator):
    """What is normal at a site and a time; the other values of the map are not read.

    {parameters}
    """

    kind = "field-climatology"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.standardize == "none":
            raise ExfamError(
                "`standardize` must be 'global', 'site' or 'seasonal' for a climatology, which has "
                "nothing else to predict by, got 'none'."
            )

    def _fit_parts(self, plan: FieldPlan, climate: Climate) -> list[nn.Module]:
        return [self._empty_part(climate)]

    def _empty_part(self, climate: Climate) -> nn.Module:
        return ClimatologyPart(climate)


class FieldGaussianProcess(ClimateModel, Lags, FieldEstimator):
    """An exact Gaussian process of anomalies in space and, with lags, in time.

    {parameters}
    """

    kind = "field-gaussian-process"
    kernel: str = parameter(Choice(KERNELS), '"matern" (3/2) or "exponential"', default="matern")

    def _fit_parts(self, plan: FieldPlan, climate: Climate) -> list[nn.Module]:
        return [fit_gaussian_process(plan.train, climate, kernel=self.kernel)]

    def _empty_part(self, climate: Climate) -> nn.Module:
        return GaussianProcessPart(climate, kernel=self.kernel)


class FieldKriging(ClimateModel, FieldEstimator):
    """Ordinary kriging of anomalies, map by map, with one variogram for all maps.

    {parameters}
    """

    kind = "field-kriging"
    variogram: str = parameter(
        Choice(VARIOGRAMS), '"exponential" or "spherical"', default="exponential"
    )

    def _fit_parts(self, plan: FieldPlan, climate: Climate) -> list[nn.Module]:
        return [fit_kriging(plan.train, climate, kind=self.variogram)]

    def _empty_part(self, climate: Climate) -> nn.Module:
        return KrigingPart(climate, kind=self.variogram)


class _KnownSites(ClimateModel, Lags, RidgeSplit, FieldEstimator, ABC):
    """Estimators that know the sites of training alone, by a part that `fit_ridge` fills."""

    reads_around_new_sites = False
    _part: ClassVar[type[RidgePart]]

    def _fit_parts(self, plan: FieldPlan, climate: Climate) -> list[nn.Module]:
        return [fit_ridge(self._empty_part(climate), plan.train, validation=plan.validation)]

    def _empty_part(self, climate: Climate) -> RidgePart:
        shape = self.shape_
        return self._part(climate, n_sites=shape.n_sites, n_lags=shape.lags)


class FieldRidge(_KnownSites):
    """A ridge regression of each site on all others, and on all of earlier maps.

    It knows the sites of training alone: others are predicted by what is normal there, with an
    ExfamWarning, and `predict_dist(at=…)` is refused.

    {parameters}
    """

    kind = "field-ridge"
    _part = RidgeSitePart


class FieldRidgeCovariance(_KnownSites):
    """One Gaussian distribution of all sites, its covariance with a ridge.

    Exact for any sites observed. As `FieldRidge`, it knows the sites of training alone.

    {parameters}
    """

    kind = "field-ridge-covariance"
    _part = RidgeCovariancePart
