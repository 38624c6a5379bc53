"""Language models: p(token | all before it, or all others around it); what sentences are told by."""

from exfam.estimators.language.lstm import LSTMLanguageModel
from exfam.estimators.language.masked import MaskedLanguageModel
from exfam.estimators.language.positional import PositionalSentenceClassifier

__all__ = ["LSTMLanguageModel", "MaskedLanguageModel", "PositionalSentenceClassifier"]
