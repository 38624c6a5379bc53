"""Estimators of fields: values at sites and times, map after map.

`data` reads frames and arranges them as Groups: one group per map, earlier maps as context ranges.
`plan` holds all that a fit works on; `units` standardizes values and coordinates, so that results
do not depend on their units. A *part* of `networks` gives, for every value of a batch of maps, the
distribution given the observed others (`eta`); a `Climate` says what is normal at a site and time,
and parts predict departures from it. Estimators fit parts, each with its declared parameters;
`FieldEstimator` derives predictions, draws, forecasts and choices of sites from parts alone.
"""

from exfam.fields.baselines import (
    FieldClimatology,
    FieldGaussianProcess,
    FieldKriging,
    FieldRidge,
    FieldRidgeCovariance,
)
from exfam.fields.efa import FieldEFA
from exfam.fields.latent_factor import FieldLatentFactor

__all__ = [
    "FieldClimatology",
    "FieldEFA",
    "FieldGaussianProcess",
    "FieldKriging",
    "FieldLatentFactor",
    "FieldRidge",
    "FieldRidgeCovariance",
]
