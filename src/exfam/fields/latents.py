"""Between values and what models of fields see: standardized values, or their latent numbers."""

from typing import NamedTuple

import torch
from jaxtyping import Float64
from torch import Tensor

from exfam.families import Family, Scaled
from exfam.families.latent import OfLatent

Numbers = Float64[Tensor, "*shape"]


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
