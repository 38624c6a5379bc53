"""What fitted estimators of language share: their network's history, files, and labels' odds."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float64, Shaped
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from exfam.checks import DataError
from exfam.estimator.tags import NoArrays
from exfam.language.targets import checked_targets
from exfam.training.history import History

__all__ = ["LabelPredictions", "OneNetwork"]

_Loaded = TypeVar("_Loaded")


class OneNetwork(NoArrays, ABC):
    """An estimator of one network, which is saved and loaded.

    `parameters_`: those of the fit. What is fitted is used, and built again, by these: what
    `set_params` changes later is for the next fit.
    """

    members_: list[Any]
    histories_: list[History]
    parameters_: dict[str, Any]

    @property
    def history_(self) -> History:
        """What happened in training, epoch by epoch."""
        check_is_fitted(self, "members_")
        return self.histories_[0]

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the fitted model to a folder: safetensors, JSON and Parquet, no pickle."""
        from exfam.estimator.saving import save_estimator

        check_is_fitted(self, "members_")
        save_estimator(self, path, overwrite=overwrite)

    @classmethod
    def load(cls: type[_Loaded], path: str | Path) -> _Loaded:
        """The model saved in a folder.

        Raises ModelFileError if it is damaged, newer, or of another estimator.
        """
        from exfam.estimator.saving import load_estimator

        loaded: _Loaded = load_estimator(path, expected=cls)
        return loaded


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

        Raises DataError where there are no sentences, and for not as many labels.
        """
        told = self.predict(X)
        if not len(told):
            raise DataError("`X` must have sentences to score, got none.")
        return float((told == checked_targets(y, n_sentences=len(told), name="X")).mean())
