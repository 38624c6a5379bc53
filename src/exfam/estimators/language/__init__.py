"""Language models: p(token | all tokens before it); classifiers of sentences."""

from exfam.estimators.language.lstm import LSTMLanguageModel
from exfam.estimators.language.positional import PositionalSentenceClassifier

__all__ = ["LSTMLanguageModel", "PositionalSentenceClassifier"]
