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
    "Binomial": "exfam.families",
    "CBOW": "exfam.estimators.words",
    "Categorical": "exfam.families",
    "CheckpointError": "exfam.checks",
    "DataError": "exfam.checks",
    "EFA": "exfam.estimators",
    "ExfamError": "exfam.checks",
    "Exponential": "exfam.families",
    "ExfamWarning": "exfam.checks",
    "ExponentialFamily": "exfam.families",
    "FAMILIES": "exfam.families",
    "Family": "exfam.families",
    "FieldClimatology": "exfam.estimators.fields",
    "FieldEFA": "exfam.estimators.fields",
    "FieldGaussianProcess": "exfam.estimators.fields",
    "FieldKriging": "exfam.estimators.fields",
    "FieldLatentFactor": "exfam.estimators.fields",
    "FieldRidge": "exfam.estimators.fields",
    "FieldRidgeCovariance": "exfam.estimators.fields",
    "Gamma": "exfam.families",
    "Gaussian": "exfam.families",
    "Groups": "exfam.groups",
    "LSTMLanguageModel": "exfam.estimators.language",
    "LatentFactor": "exfam.estimators",
    "Marginal": "exfam.estimators",
    "MaskedLanguageModel": "exfam.estimators.language",
    "MaskedTable": "exfam.estimators.tables",
    "MaskedTableClassifier": "exfam.estimators.tables",
    "MaskedTableRegressor": "exfam.estimators.tables",
    "ModelFileError": "exfam.checks",
    "NegativeBinomial": "exfam.families",
    "Ordinal": "exfam.families",
    "PMIFactorization": "exfam.estimators.words",
    "PerItem": "exfam.families",
    "PlainFamily": "exfam.families",
    "Poisson": "exfam.families",
    "PositionalSentenceClassifier": "exfam.estimators.language",
    "SentenceClassifier": "exfam.estimators.language",
    "SentenceRegressor": "exfam.estimators.language",
    "ShrunkOffset": "exfam.estimators",
    "SkipGram": "exfam.estimators.words",
    "StudentT": "exfam.families",
    "SupportError": "exfam.checks",
    "UnknownItemError": "exfam.checks",
    "WordVectors": "exfam.analysis.vectors",
    "load": "exfam.estimators.saving",
    "open_prepared": "exfam.data.prepared",
    "prepare": "exfam.data.prepared",
    "read": "exfam.data.reading",
    "read_field": "exfam.data.fields",
    "register_family": "exfam.families",
}

__all__ = sorted(["__version__", *_HOMES])


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'exfam' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
