"""Between values and what models of fields see: standardized values, or their latent numbers.

Real numbers are value = location + scale * anomaly. Counts are standardized as log(1 + count), and
a log mean is placed as location + scale * output.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from exfam.checks import ExfamError, shown
from exfam.families import (
    FAMILIES,
    CensoredStudentT,
    Family,
    LogStudentT,
    RoundedRootStudentT,
    Scaled,
    StudentT,
)
from exfam.families.latent import OfLatent
from exfam.fields.networks.climate import Normal

Numbers = Float64[Tensor, "*shape"]

BASE_FAMILIES = (
    "student-t",
    "log-student-t",
    "censored-student-t",
    "rounded-root-student-t",
)
_COUNTS = ("negative-binomial", "poisson")

Values = Float[Tensor, "batch length"]


class ModelUnit(NamedTuple):
    """Numbers as explained are shift + factor * those that models see."""

    shift: float
    factor: float


def unit_of(family: Family) -> float:
    """How much of the value one standardized unit is."""
    return family.scale if isinstance(family, Scaled) else 1.0


def family_in_units(family: Family) -> Family:
    """The family of what models see: standardized values, or latent numbers of these."""
    of_units = family.of_units
    return of_units.latent if isinstance(of_units, OfLatent) else of_units


def to_units(value: Tensor, family: Family) -> Numbers:
    """What models see of values."""
    unit, of_units = family.standardize(value), family.of_units
    return of_units.to_latent(unit) if isinstance(of_units, OfLatent) else unit


def from_units(unit: Numbers, family: Family) -> Numbers:
    """The values of what models see."""
    of_units = family.of_units
    return family.restore(of_units.from_latent(unit) if isinstance(of_units, OfLatent) else unit)


def limit_of(family: Family) -> float | None:
    """What models see of a value that says no more than that its latent number is at most this."""
    of_units = family.of_units
    return of_units.limit if isinstance(of_units, OfLatent) else None


def log_slopes(value: Tensor, family: Family) -> Numbers:
    """Log of how fast what models see rises with values; 0 where values have probabilities."""
    of_units, unit = family.of_units, family.standardize(value)
    log_unit = torch.tensor(unit_of(family)).double().log()
    slope = of_units.log_slope(unit) if isinstance(of_units, OfLatent) else torch.zeros_like(unit)
    return torch.where(of_units.has_mass(unit), 0.0, slope - log_unit)


def model_unit(family: Family) -> ModelUnit:
    """The unit of explanations: that of the value, or of its latent number where there is one."""
    of_units = family.of_units
    if isinstance(of_units, OfLatent):
        return ModelUnit(*of_units.latent_unit(unit_of(family)))
    center = family.center if isinstance(family, Scaled) else 0.0
    return ModelUnit(center, unit_of(family))


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
