"""Values are standardized on the way in, and a family's parameters placed back on the way out.

Real numbers are value = location + scale * anomaly. Counts are standardized as log(1 + count), and
a log mean is placed as location + scale * output.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from exfam.checks import ExfamError, shown
from exfam.families import (
    FAMILIES,
    CensoredStudentT,
    Family,
    LogStudentT,
    RoundedRootStudentT,
    StudentT,
)
from exfam.fields.networks.climate import Normal

BASE_FAMILIES = (
    "student-t",
    "log-student-t",
    "censored-student-t",
    "rounded-root-student-t",
)
_COUNTS = ("negative-binomial", "poisson")

Values = Float[Tensor, "batch length"]


def check_field_family(family: Any) -> None:
    """Raise ExfamError unless a field model can place the family's location."""
    _check_is_family(family)
    if not (counts(family) or family.equivariance == "location-scale"):
        real = [name for name, k in FAMILIES.items() if k.equivariance == "location-scale"]
        listed = ", ".join(repr(name) for name in (*real, *_COUNTS))
        raise ExfamError(
            f"`family` must be one of {listed} for a field, got {family.name!r}. Use the EFA "
            "estimator for other values."
        )


def _check_is_family(family: Any) -> None:
    if not isinstance(family, Family):
        raise ExfamError(f"`family` must be a Family, got {shown(family)}.")


def check_base_family(family: Any) -> None:
    """Raise ExfamError unless a base can model the family's values."""
    _check_is_family(family)
    if not is_base_family(family):
        raise ExfamError(
            f"`family` must be one of {', '.join(repr(name) for name in BASE_FAMILIES)} for a "
            f'base, without fixed degrees of freedom, got {family!r}. FieldEFA(base="none") takes '
            "others."
        )


def is_base_family(family: Any) -> bool:
    """Whether a base can model the family's values; names stand for families."""
    if isinstance(family, str):
        return family in BASE_FAMILIES
    of_roots = isinstance(family, CensoredStudentT | RoundedRootStudentT)
    return of_roots or family in (StudentT(), LogStudentT())


def counts(family: Family) -> bool:
    """Whether the family is of counts, which are standardized as log(1 + count)."""
    return family.name in _COUNTS


def anomaly(value: Values, normal: Normal, family: Family) -> Values:
    """Standardized values: 0 is normal, 1 is one standard deviation above."""
    plain = value.clamp_min(0).log1p() if counts(family) else value
    return (plain - normal.location) / normal.scale


def placed(
    outputs: Float[Tensor, "*shape params"], normal: Normal, family: Family
) -> Float[Tensor, "*shape params"]:
    """The family's parameters in the value's own unit; doubt adds to the variance."""
    location, scale, doubt = normal
    first = location + scale * outputs[..., 0]
    if counts(family) or family.n_params == 1:
        return torch.cat([first[..., None], outputs[..., 1:]], -1)
    log_scale = outputs[..., 1] + scale.log()
    # log sqrt(exp(2 a) + b^2), exactly a where b is 0.
    wider = 0.5 * torch.log1p((doubt * (-log_scale).exp()).square())
    return torch.cat([torch.stack([first, log_scale + wider], -1), outputs[..., 2:]], -1)
