"""Estimators of fields: values at places and times."""

from exfam.estimators.fields.baselines import (
    FieldClimatology,
    FieldGaussianProcess,
    FieldKriging,
    FieldRidge,
    FieldRidgeCovariance,
)
from exfam.estimators.fields.efa import FieldEFA
from exfam.estimators.fields.latent_factor import FieldLatentFactor

__all__ = [
    "FieldClimatology",
    "FieldEFA",
    "FieldGaussianProcess",
    "FieldKriging",
    "FieldLatentFactor",
    "FieldRidge",
    "FieldRidgeCovariance",
]
