"""Estimators: fit, predict, score, save, load."""

from exfam.estimators.baselines import Marginal, ShrunkOffset
from exfam.estimators.efa import EFA
from exfam.estimators.latent_factor import LatentFactor

__all__ = ["EFA", "LatentFactor", "Marginal", "ShrunkOffset"]
