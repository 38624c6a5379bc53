"""Baselines of fields in closed form, with the same methods: Gaussian distributions of each value.

>>> frame = {"day": [1, 1, 2, 2, 3, 3], "city": ["Oslo", "Bonn"] * 3, "x": [0, 5] * 3,
...     "celsius": [5.0, 9.0, 4.0, 7.0, 6.0, 9.0]}
>>> columns = {"time": "day", "site": "city", "coordinates": "x", "value": "celsius"}
>>> for baseline in FieldClimatology, FieldGaussianProcess, FieldKriging:
...     print(baseline(**columns, metric="euclidean").fit(frame).predict(frame).shape)
(6,)
(6,)
(6,)
"""

from torch import nn

from exfam.checks import ExfamError
from exfam.estimator.base import parameter
from exfam.estimator.rules import Choice
from exfam.fields.declarations import Lags, RidgeSplit
from exfam.fields.field_estimator import FieldEstimator
from exfam.fields.networks.climatology import ClimatologyPart
from exfam.fields.networks.gaussian_process import (
    KERNELS,
    GaussianProcessPart,
    fit_gaussian_process,
)
from exfam.fields.networks.kriging import VARIOGRAMS, KrigingPart, fit_kriging
from exfam.fields.networks.ridge import (
    RidgeCovariancePart,
    RidgeSitePart,
    fit_ridge_covariance,
    fit_ridge_site,
)
from exfam.fields.plan import FieldPlan


class FieldClimatology(FieldEstimator):
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

    def _fit_parts(self, plan: FieldPlan) -> list[nn.Module]:
        return [ClimatologyPart(self._fit_climate(plan.train))]

    def _empty_part(self) -> nn.Module:
        return ClimatologyPart(self._empty_climate())


class FieldGaussianProcess(Lags, FieldEstimator):
    """An exact Gaussian process of anomalies in space and, with lags, in time.

    {parameters}
    """

    kind = "field-gaussian-process"
    kernel: str = parameter(Choice(KERNELS), '"matern" (3/2) or "exponential"', default="matern")

    def _fit_parts(self, plan: FieldPlan) -> list[nn.Module]:
        climate = self._fit_climate(plan.train)
        return [fit_gaussian_process(plan.train, climate, kernel=self.kernel)]

    def _empty_part(self) -> nn.Module:
        return GaussianProcessPart(self._empty_climate(), kernel=self.kernel)


class FieldKriging(FieldEstimator):
    """Ordinary kriging of anomalies, map by map, with one variogram for all maps.

    {parameters}
    """

    kind = "field-kriging"
    variogram: str = parameter(
        Choice(VARIOGRAMS), '"exponential" or "spherical"', default="exponential"
    )

    def _fit_parts(self, plan: FieldPlan) -> list[nn.Module]:
        climate = self._fit_climate(plan.train)
        return [fit_kriging(plan.train, climate, kind=self.variogram)]

    def _empty_part(self) -> nn.Module:
        return KrigingPart(self._empty_climate(), kind=self.variogram)


class FieldRidge(Lags, RidgeSplit, FieldEstimator):
    """A ridge regression of each site on all others, and on all of earlier maps.

    It knows the sites of training alone: `predict_dist(at=…)` is refused, and rows of other sites
    are predicted by what is normal there, with an ExfamWarning that counts them.

    {parameters}
    """

    kind = "field-ridge"
    reads_around_new_sites = False

    def _fit_parts(self, plan: FieldPlan) -> list[nn.Module]:
        climate = self._fit_climate(plan.train)
        return [fit_ridge_site(plan.train, climate=climate, validation=plan.validation)]

    def _empty_part(self) -> nn.Module:
        shape = self.shape_
        return RidgeSitePart(self._empty_climate(), n_sites=shape.n_sites, n_lags=shape.lags)


class FieldRidgeCovariance(Lags, RidgeSplit, FieldEstimator):
    """One Gaussian distribution of all sites, its covariance with a ridge.

    Exact for any sites observed. As `FieldRidge`, it knows the sites of training alone.

    {parameters}
    """

    kind = "field-ridge-covariance"
    reads_around_new_sites = False

    def _fit_parts(self, plan: FieldPlan) -> list[nn.Module]:
        climate = self._fit_climate(plan.train)
        return [fit_ridge_covariance(plan.train, climate=climate, validation=plan.validation)]

    def _empty_part(self) -> nn.Module:
        shape = self.shape_
        return RidgeCovariancePart(self._empty_climate(), n_sites=shape.n_sites, n_lags=shape.lags)
