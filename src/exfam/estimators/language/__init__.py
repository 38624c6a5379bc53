"""Language models: p(token | all before it, or all around it), and what sentences are told by."""

from exfam.estimators.language.lstm import LSTMLanguageModel
from exfam.estimators.language.masked import MaskedLanguageModel
from exfam.estimators.language.positional import PositionalSentenceClassifier
from exfam.estimators.language.tuned import SentenceClassifier, SentenceRegressor

__all__ = [
    "LSTMLanguageModel",
    "MaskedLanguageModel",
    "PositionalSentenceClassifier",
    "SentenceClassifier",
    "SentenceRegressor",
]
