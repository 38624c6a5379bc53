"""Language models: p(token | all before it, or all around it), and models of sentences."""

from exfam.language.lstm import LSTMLanguageModel
from exfam.language.masked import MaskedLanguageModel
from exfam.language.positional import PositionalSentenceClassifier
from exfam.language.tuned import SentenceClassifier, SentenceRegressor

__all__ = [
    "LSTMLanguageModel",
    "MaskedLanguageModel",
    "PositionalSentenceClassifier",
    "SentenceClassifier",
    "SentenceRegressor",
]
