"""Estimators of word vectors; none needs torch to be trained."""

from typing import TYPE_CHECKING

from exfam.lazy import lazy_names

if TYPE_CHECKING:
    from exfam.words.cbow import CBOW
    from exfam.words.pmi import PMIFactorization
    from exfam.words.word_estimator import SkipGram

__all__ = ["CBOW", "PMIFactorization", "SkipGram"]

# Imported one by one: skip-gram needs neither scipy nor what imports it, which take memory.
__getattr__ = lazy_names(
    __name__,
    {
        "CBOW": "exfam.words.cbow",
        "PMIFactorization": "exfam.words.pmi",
        "SkipGram": "exfam.words.word_estimator",
    },
)
