"""Estimators of word vectors; none needs torch to be trained."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from exfam.words.cbow import CBOW
    from exfam.words.pmi import PMIFactorization
    from exfam.words.word_estimator import SkipGram

__all__ = ["CBOW", "PMIFactorization", "SkipGram"]

# Imported one by one: skip-gram needs neither scipy nor what imports it, which take memory.
_HOMES = {"CBOW": "cbow", "PMIFactorization": "pmi", "SkipGram": "word_estimator"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
