"""Sentences as words that have vectors, their labels and numbers, and labels predicted."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64, Shaped
from sklearn.base import ClassifierMixin

from exfam.checks import DataError, ExfamWarning, regular_array
from exfam.groups import Groups
from exfam.groups.arrange import sequential_batches
from exfam.language.networks.sentence_networks import SentenceBatch
from exfam.language.tokens import sentence_list
from exfam.training.batching import digest, epoch_batches, groups_digest, read_at_random

Targets = Shaped[np.ndarray, "sentences"]
_PLAIN = (str, bool, int, float)


@dataclass(frozen=True, eq=False)
class LabeledSentences:
    """Sentences with labels as a source of batches.

    `words`: the rows of `vectors` that are each sentence's words, as items of groups
    """

    words: Groups
    vectors: Float32[np.ndarray, "vocabulary dim"]
    label: Int64[np.ndarray, "sentences"]

    @property
    def lengths(self) -> Int64[np.ndarray, "sentences"]:
        return self.words.lengths

    def total(self, first: int, last: int) -> float:
        """How many of these sentences have a word."""
        return float((self.lengths[first:last] > 0).sum())

    def epoch_batches(
        self, *, generator: np.random.Generator, batch_size: int | None, max_tokens: int | None
    ) -> Iterator[np.ndarray]:
        return epoch_batches(
            self.words, generator=generator, batch_size=batch_size, max_tokens=max_tokens
        )

    def sequential_batches(self, *, max_tokens: int) -> Iterator[np.ndarray]:
        return sequential_batches(self.words, max_tokens=max_tokens)

    def pad(self, index: Int64[np.ndarray, "batch"]) -> SentenceBatch:
        words = self.words.pad(index)
        assert words.item is not None
        vectors = self.vectors[words.item.numpy()]
        vectors[~words.present.numpy()] = 0.0
        parts = (vectors, self.lengths[index], self.label[index])
        return SentenceBatch(*map(torch.from_numpy, parts))

    def fingerprint(self) -> dict[str, str]:
        digests = {"vectors": digest([self.vectors]), "labels": digest([self.label])}
        return {"words": groups_digest(self.words), **digests}

    def read_at_random(self) -> AbstractContextManager[None]:
        return read_at_random(self.words)


def split_sentences(X: Any, *, name: str) -> list[list[str]]:
    """The words of each sentence: of a text, what stands between white space."""
    split = []
    for index, sentence in enumerate(sentence_list(X, name=name)):
        words = sentence.split() if isinstance(sentence, str) else sentence
        is_list = isinstance(words, list | tuple | np.ndarray)
        if not is_list or not all(isinstance(word, str) for word in words):
            raise DataError(
                f"`{name}` must be sentences, each a text or a list of words, got "
                f"{type(sentence).__name__} at index {index}."
            )
        split.append([str(word) for word in words])
    return split


def known_words(
    sentences: Sequence[Sequence[str]], index: Mapping[str, int], *, longest: int
) -> tuple[Groups, float]:
    """The rows of the words that have one, and the share of words that do.

    A word is looked up as it is spelled, then in lower case; what is unknown is dropped, and of
    what is left no more than the first `longest` words stay.
    """
    codes: list[int] = []
    ends, n_known = [0], 0
    for words in sentences:
        looked_up = (index.get(word, index.get(word.lower())) for word in words)
        known = [code for code in looked_up if code is not None]
        n_known += len(known)
        codes += known[:longest]
        ends.append(len(codes))
    bounds = np.array(ends, dtype=np.int64)
    groups = Groups(start=bounds[:-1], stop=bounds[1:], item=np.array(codes, dtype=np.int32))
    return groups, n_known / max(1, sum(map(len, sentences)))


def checked_targets(y: Any, *, n_sentences: int, name: str) -> Targets:
    """Targets, one per sentence of `name`. Raises DataError for another shape."""
    otherwise = "`y` must have one target per sentence, got ones of several lengths. Give a list."
    targets = regular_array(y, otherwise=otherwise)
    if targets.shape != (n_sentences,):
        raise DataError(
            f"`y` must have a target for each of {n_sentences} sentences of `{name}`, got shape "
            f"{targets.shape}."
        )
    return targets


def known_labels(y: Targets) -> Shaped[np.ndarray, "labels"]:
    """The different labels, sorted. Raises DataError for fewer than two, or of no plain kind."""
    listed = y.tolist()
    kinds = sorted({type(label).__name__ for label in listed})
    if len(kinds) > 1 or not all(isinstance(label, _PLAIN) for label in listed):
        raise DataError(
            f"`y` must be texts, numbers or truth values, all of one kind, got {', '.join(kinds)}."
        )
    labels = np.unique(y)
    if len(labels) < 2:
        raise DataError(f"`y` must have at least two labels, got {len(labels)}.")
    return labels


def label_codes(y: Targets, labels: np.ndarray, *, name: str) -> Int64[np.ndarray, "sentences"]:
    """The index of each label among the known ones. Raises DataError for another label."""
    unknown = ~np.isin(y, labels)
    if unknown.any():
        at = int(unknown.argmax())
        raise DataError(
            f"`{name}` must have labels of the training sentences, got {y.tolist()[at]!r} at index "
            f"{at}."
        )
    return np.searchsorted(labels, y).astype(np.int64)


def finite_numbers(y: Targets, *, name: str) -> Float64[np.ndarray, "sentences"]:
    """Targets as finite numbers. Raises DataError, naming the index, for anything else."""
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
        return self.classes_[self.predict_log_proba(X).argmax(axis=1)]

    def score(self, X: Any, y: Any) -> float:
        """Accuracy: the share of sentences whose label is predicted.

        Labels that training did not have count as wrong, with a warning.
        """
        predicted = self.predict(X)
        if not len(predicted):
            raise DataError("`X` must have sentences to score, got none.")
        targets = checked_targets(y, n_sentences=len(predicted), name="X")
        unknown = ~np.isin(targets, self.classes_)
        if unknown.any():
            at = int(unknown.argmax())
            warnings.warn(
                f"{unknown.sum()} of the {len(targets)} labels of `y` are none that training had, "
                f"such as {targets.tolist()[at]!r} at index {at}: they count as wrong.",
                ExfamWarning,
                stacklevel=2,
            )
        return float((predicted == targets).mean())
