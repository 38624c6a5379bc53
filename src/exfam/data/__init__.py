"""Data in and out: batches, public data sets, simulators."""

import importlib
from typing import Any

__all__ = ["public"]

# Public name -> the module it lives in, loaded when the name is first used (PEP 562).
_HOMES = {"public": "exfam.data.public_sets.named"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'exfam.data' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
