"""Language models: p(token | all tokens before it)."""

from exfam.estimators.language.lstm import LSTMLanguageModel

__all__ = ["LSTMLanguageModel"]
