"""Labels and numbers of sentences, checked, and labels predicted from log-probabilities."""

import warnings
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, Shaped
from sklearn.base import ClassifierMixin

from exfam.checks import DataError, ExfamWarning, regular_array

_PLAIN = (str, bool, int, float)


def checked_targets(y: Any, *, n_sentences: int, name: str) -> Shaped[np.ndarray, "sentences"]:
    """Targets, one per sentence of `name`. Raises DataError for another shape.

    >>> checked_targets(["a", "b"], n_sentences=2, name="X").tolist()
    ['a', 'b']
    """
    targets = regular_array(
        y,
        otherwise="`y` must have one target per sentence, got ones of several lengths. Give a list "
        "of labels or numbers.",
    )
    if targets.shape != (n_sentences,):
        raise DataError(
            f"`y` must have a target for each of {n_sentences} sentences of `{name}`, got shape "
            f"{targets.shape}."
        )
    return targets


def checked_validation(validation: Any) -> tuple[Any, Any]:
    """The sentences and targets to choose an epoch by. Raises DataError for what is no pair.

    >>> checked_validation((["a"], [1]))
    (['a'], [1])
    """
    if not isinstance(validation, list | tuple) or len(validation) != 2:
        raise DataError(f"`validation` must be a pair (X, y), got {type(validation).__name__}.")
    return validation[0], validation[1]


def known_labels(y: Shaped[np.ndarray, "sentences"]) -> Shaped[np.ndarray, "labels"]:
    """The different labels, sorted. Raises DataError for fewer than two, or ones of no plain kind.

    >>> known_labels(np.array(["b", "a", "b"])).tolist()
    ['a', 'b']
    """
    wrong = next((label for label in y.tolist() if not isinstance(label, _PLAIN)), None)
    kinds = sorted({type(label).__name__ for label in y.tolist()})
    if wrong is not None or len(kinds) > 1:
        raise DataError(
            f"`y` must be texts, numbers or truth values, all of one kind, got {', '.join(kinds)}."
        )
    labels = np.unique(y)
    if len(labels) < 2:
        raise DataError(f"`y` must have at least two labels, got {len(labels)}.")
    return labels


def label_codes(
    y: Shaped[np.ndarray, "sentences"], labels: Shaped[np.ndarray, "labels"], *, name: str
) -> Int64[np.ndarray, "sentences"]:
    """The index of each label among the known ones. Raises DataError for another label.

    >>> label_codes(np.array(["b", "a"]), np.array(["a", "b"]), name="X").tolist()
    [1, 0]
    """
    unknown = ~np.isin(y, labels)
    if unknown.any():
        at = int(unknown.argmax())
        raise DataError(
            f"`{name}` must have labels of the training sentences, got {y.tolist()[at]!r} at index "
            f"{at}."
        )
    return np.searchsorted(labels, y).astype(np.int64)


def warn_unknown_labels(
    y: Shaped[np.ndarray, "sentences"], labels: Shaped[np.ndarray, "labels"]
) -> None:
    """Warn, once, of labels to score that training did not have.

    >>> warn_unknown_labels(np.array(["b", "a"]), np.array(["a", "b"]))
    """
    unknown = ~np.isin(y, labels)
    if unknown.any():
        warnings.warn(
            f"{unknown.sum()} of the {len(y)} labels of `y` are none that training had, such as "
            f"{y.tolist()[int(unknown.argmax())]!r} at index {unknown.argmax()}: they count as "
            "wrong.",
            ExfamWarning,
            stacklevel=3,
        )


def finite_numbers(
    y: Shaped[np.ndarray, "sentences"], *, name: str
) -> Float64[np.ndarray, "sentences"]:
    """Targets as finite numbers. Raises DataError, naming the index, for anything else.

    >>> finite_numbers(np.array([1, 2]), name="X").tolist()
    [1.0, 2.0]
    """
    try:
        numbers = y.astype(np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise DataError(f"`y` must be numbers, one per sentence of `{name}` ({error}).") from error
    if not np.isfinite(numbers).all():
        at = int((~np.isfinite(numbers)).argmax())
        raise DataError(f"`y` must be finite, got {numbers[at]} at index {at} of `{name}`.")
    return numbers


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
        log_proba = self.predict_log_proba(X)
        return self.classes_[log_proba.argmax(axis=1)]

    def score(self, X: Any, y: Any) -> float:
        """Accuracy: how many of the sentences have their label predicted, in [0, 1].

        Labels that training did not have count as wrong, with a warning that counts them.
        Raises DataError where there are no sentences, and for not as many labels.
        """
        predicted = self.predict(X)
        if not len(predicted):
            raise DataError("`X` must have sentences to score, got none.")
        targets = checked_targets(y, n_sentences=len(predicted), name="X")
        warn_unknown_labels(targets, self.classes_)
        return float((predicted == targets).mean())
