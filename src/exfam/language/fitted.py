"""Labels of sentences from their log-probabilities."""

from abc import ABC, abstractmethod
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float64, Shaped
from sklearn.base import ClassifierMixin

from exfam.checks import DataError
from exfam.language.targets import checked_targets, warn_unknown_labels

__all__ = ["LabelPredictions"]

_Loaded = TypeVar("_Loaded")


class LabelPredictions(ClassifierMixin, ABC):
    """Labels of sentences from their log-probabilities."""

    classes_: np.ndarray

    @abstractmethod
    def predict_log_proba(self, X: Any) -> Float64[np.ndarray, "sentences labels"]:
        """Log-probability in nats of each of `classes_`."""

    def predict_proba(self, X: Any) -> Float64[np.ndarray, "sentences labels"]:
        """Probability of each of `classes_`."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> Shaped[np.ndarray, "sentences"]:
        """The likeliest label of each sentence."""
        told = self.predict_log_proba(X)
        return self.classes_[told.argmax(axis=1)]

    def score(self, X: Any, y: Any) -> float:
        """Accuracy: how many of the sentences have their label predicted, in [0, 1].

        Labels that training did not have count as wrong, with a warning that counts them.
        Raises DataError where there are no sentences, and for not as many labels.
        """
        told = self.predict(X)
        if not len(told):
            raise DataError("`X` must have sentences to score, got none.")
        targets = checked_targets(y, n_sentences=len(told), name="X")
        warn_unknown_labels(targets, self.classes_)
        return float((told == targets).mean())
