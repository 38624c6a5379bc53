"""Estimators: fit, predict, score, save, load."""

import importlib
from typing import Any

__all__ = ["EFA", "LatentFactor", "Marginal", "ShrunkOffset"]

# Public name -> the module it lives in, loaded when the name is first used (PEP 562): estimators of
# words are in a folder of this one, and need no torch.
_HOMES = {
    "EFA": "exfam.estimators.efa",
    "LatentFactor": "exfam.estimators.latent_factor",
    "Marginal": "exfam.estimators.baselines",
    "ShrunkOffset": "exfam.estimators.baselines",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'exfam.estimators' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
