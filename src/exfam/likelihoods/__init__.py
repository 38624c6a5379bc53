"""Likelihoods: which terms are summed, over items and values."""

from exfam.likelihoods.terms import (
    LIKELIHOODS,
    Causal,
    LeaveOneOut,
    Likelihood,
    LogProb,
    ModelWithLogProb,
    counted,
    likelihood_for,
)

__all__ = [
    "LIKELIHOODS",
    "Causal",
    "LeaveOneOut",
    "Likelihood",
    "LogProb",
    "ModelWithLogProb",
    "counted",
    "likelihood_for",
]
