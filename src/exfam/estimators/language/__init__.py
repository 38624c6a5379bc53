"""Language models: p(token | all tokens before it), or all others around it."""

from exfam.estimators.language.lstm import LSTMLanguageModel
from exfam.estimators.language.masked import MaskedLanguageModel

__all__ = ["LSTMLanguageModel", "MaskedLanguageModel"]
