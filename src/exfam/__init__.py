"""exfam: every observation, given its context.

Fits probability models p(observation | its context), where the context is the rest of the
observation's group and its weights are learned by attention.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

# Public name -> the module it lives in, loaded when the name is first used (PEP 562).
_HOMES = {
    "Bernoulli": "exfam.families",
    "Beta": "exfam.families",
    "Between": "exfam.tables",
    "Binomial": "exfam.families",
    "CBOW": "exfam.words",
    "Categorical": "exfam.families",
    "Censored": "exfam.families",
    "CensoredStudentT": "exfam.families",
    "CheckpointError": "exfam.checks",
    "Community": "exfam.tables.community",
    "DataError": "exfam.checks",
    "DirichletMultinomial": "exfam.families",
    "Discretized": "exfam.families",
    "EASE": "exfam.efa.rankers",
    "EFA": "exfam.efa.efa",
    "EventEFA": "exfam.efa.events.event_efa",
    "ExfamError": "exfam.checks",
    "Exponential": "exfam.families",
    "ExfamWarning": "exfam.checks",
    "ExponentialFamily": "exfam.families",
    "FAMILIES": "exfam.families",
    "Family": "exfam.families",
    "FieldClimatology": "exfam.fields",
    "FieldEFA": "exfam.fields",
    "FieldGaussian": "exfam.fields",
    "FieldGaussianProcess": "exfam.fields",
    "FieldKriging": "exfam.fields",
    "FieldLatentFactor": "exfam.fields",
    "FieldRidge": "exfam.fields",
    "FieldRidgeCovariance": "exfam.fields",
    "Gamma": "exfam.families",
    "Gaussian": "exfam.families",
    "Groups": "exfam.groups",
    "Hurdle": "exfam.families",
    "IntervalCensored": "exfam.families",
    "ItemKNN": "exfam.efa.rankers",
    "LSTMLanguageModel": "exfam.language",
    "LatentFactor": "exfam.efa.latent_factor",
    "LogNormal": "exfam.families",
    "LogStudentT": "exfam.families",
    "Marginal": "exfam.efa.baselines",
    "MaskedLanguageModel": "exfam.language",
    "MaskedTable": "exfam.tables",
    "MaskedTableClassifier": "exfam.tables",
    "MaskedTableRegressor": "exfam.tables",
    "ModelFileError": "exfam.checks",
    "MultivariateNormal": "exfam.families",
    "NegativeBinomial": "exfam.families",
    "Ordinal": "exfam.families",
    "OneOf": "exfam.tables",
    "PMIFactorization": "exfam.words",
    "PerItem": "exfam.families",
    "PlainFamily": "exfam.families",
    "Poisson": "exfam.families",
    "PositionalSentenceClassifier": "exfam.language",
    "Popularity": "exfam.efa.rankers",
    "RoundedRootStudentT": "exfam.families",
    "RoundedStudentT": "exfam.families",
    "SentenceClassifier": "exfam.language",
    "SentenceRegressor": "exfam.language",
    "SkipGram": "exfam.words",
    "SinhStudentT": "exfam.families",
    "StudentT": "exfam.families",
    "SupportError": "exfam.checks",
    "Truncated": "exfam.families",
    "Tweedie": "exfam.families",
    "UnknownItemError": "exfam.checks",
    "VonMises": "exfam.families",
    "Weibull": "exfam.families",
    "WordVectors": "exfam.vectors",
    "ZeroInflated": "exfam.families",
    "ZeroOneInflatedBeta": "exfam.families",
    "evaluate_recommenders": "exfam.scores.recommenders",
    "explore": "exfam.explorer",
    "load": "exfam.estimator.saving",
    "open_prepared": "exfam.reading.prepared",
    "prepare": "exfam.reading.prepared",
    "read": "exfam.reading.reader",
    "read_field": "exfam.fields.data",
    "register_family": "exfam.families",
    "station_plan": "exfam.fields",
    "write_explorer": "exfam.explorer",
    "write_report": "exfam.report",
}

__all__ = sorted(["__version__", *_HOMES])


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'exfam' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
