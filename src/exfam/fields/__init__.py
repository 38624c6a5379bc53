"""Estimators of fields: values at sites and times, map after map.

A *part* of `networks` gives, for every value of a batch of maps, the distribution given the
observed others (`eta`); a `Climate` says what is normal at a site and time, and parts predict
departures from it. Estimators fit parts; `FieldEstimator` derives all answers from parts alone.
"""

from exfam.fields.baselines import (
    FieldClimatology,
    FieldGaussianProcess,
    FieldKriging,
    FieldRidge,
    FieldRidgeCovariance,
)
from exfam.fields.efa import FieldEFA
from exfam.fields.gaussian import FieldGaussian
from exfam.fields.latent_factor import FieldLatentFactor
from exfam.fields.stations import StationPlan, station_plan

__all__ = [
    "FieldClimatology",
    "FieldEFA",
    "FieldGaussian",
    "FieldGaussianProcess",
    "FieldKriging",
    "FieldLatentFactor",
    "FieldRidge",
    "FieldRidgeCovariance",
    "StationPlan",
    "station_plan",
]
