"""Families: exact distributions p(y; eta) of one value given the raw output `eta` of a network.

>>> import torch
>>> family = Poisson(shift=1)
>>> family.log_prob(torch.tensor([1.0, 2.0]), torch.zeros(2, 1))
tensor([-1., -1.])
"""

from exfam.families.angles import VonMises
from exfam.families.atoms import ZeroInflated, ZeroOneInflatedBeta
from exfam.families.base import FAMILIES, ExponentialFamily, Family, PlainFamily
from exfam.families.beta import Beta
from exfam.families.categories import Categorical, Ordinal
from exfam.families.censored import CensoredStudentT
from exfam.families.config import family_from_config, family_to_config, register_family
from exfam.families.counts import Bernoulli, Binomial, NegativeBinomial, Poisson
from exfam.families.discretized import Discretized, IntervalCensored
from exfam.families.histogram import Histogram
from exfam.families.joint import DirichletMultinomial, MultivariateNormal
from exfam.families.limited import Censored, Hurdle, Truncated
from exfam.families.logarithms import LogNormal, LogStudentT
from exfam.families.per_item import PerItem
from exfam.families.positive import Exponential, Gamma, Weibull
from exfam.families.real import Gaussian, Scaled, location_and_scale, scaled_to
from exfam.families.rounded_root import RoundedRootStudentT
from exfam.families.rounded_student_t import RoundedStudentT
from exfam.families.sinh import SinhStudentT
from exfam.families.student_t import StudentT
from exfam.families.tweedie import Tweedie
from exfam.families.words import choose_family, family_of_words

__all__ = [
    "FAMILIES",
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Censored",
    "CensoredStudentT",
    "DirichletMultinomial",
    "Discretized",
    "Exponential",
    "ExponentialFamily",
    "Family",
    "Gamma",
    "Gaussian",
    "Histogram",
    "Hurdle",
    "IntervalCensored",
    "LogNormal",
    "LogStudentT",
    "MultivariateNormal",
    "NegativeBinomial",
    "Ordinal",
    "PerItem",
    "PlainFamily",
    "Poisson",
    "RoundedRootStudentT",
    "RoundedStudentT",
    "Scaled",
    "SinhStudentT",
    "StudentT",
    "Truncated",
    "Tweedie",
    "VonMises",
    "Weibull",
    "ZeroInflated",
    "ZeroOneInflatedBeta",
    "choose_family",
    "family_from_config",
    "family_of_words",
    "family_to_config",
    "location_and_scale",
    "register_family",
    "scaled_to",
]

# All that are listed and have a name.
FAMILIES.update(
    (kind.name, kind)
    for kind in map(globals().__getitem__, __all__)
    if isinstance(kind, type)
    and issubclass(kind, Family)
    and isinstance(getattr(kind, "name", None), str)
)
