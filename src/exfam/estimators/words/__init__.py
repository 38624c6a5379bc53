"""Estimators of word vectors; none needs torch to be trained."""

from exfam.estimators.words.cbow import CBOW
from exfam.estimators.words.pmi import PMIFactorization
from exfam.estimators.words.skipgram import SkipGram

__all__ = ["CBOW", "PMIFactorization", "SkipGram"]
