"""Estimators of fields: values at places and times."""

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
