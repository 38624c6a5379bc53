"""Language models: p(token | all before it, or all around it), and models of sentences."""

from typing import TYPE_CHECKING

from exfam.lazy import lazy_names

if TYPE_CHECKING:
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

# One by one: scikit-learn is imported with the models of sentences alone.
__getattr__ = lazy_names(
    __name__,
    {
        "LSTMLanguageModel": "exfam.language.lstm",
        "MaskedLanguageModel": "exfam.language.masked",
        "PositionalSentenceClassifier": "exfam.language.positional",
        "SentenceClassifier": "exfam.language.tuned",
        "SentenceRegressor": "exfam.language.tuned",
    },
)
