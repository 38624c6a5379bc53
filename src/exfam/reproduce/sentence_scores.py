"""How well sentences are told apart by an encoder as it is, and by one that is trained along."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from exfam.analysis.probes.linguistic import HashedWords
from exfam.analysis.probes.linguistic.scoring import PENALTIES
from exfam.analysis.probes.linguistic.softmax import fit_softmax
from exfam.data.sentences import SentencePart, SentenceTask
from exfam.estimators.language import MaskedLanguageModel, SentenceClassifier

__all__ = ["SentenceScore", "frozen_score", "majority_score", "tuned_score", "word_score"]

# Sentences -> a vector each.
_Encode = Callable[[Sequence[Any]], Float[np.ndarray, "sentences dim"]]


@dataclass(frozen=True, kw_only=True)
class SentenceScore:
    """Accuracies on the test part and on the one that anything was chosen by."""

    test: float
    validation: float
    cpu_seconds: float
    settings: Mapping[str, float]


def frozen_score(model: MaskedLanguageModel, task: SentenceTask) -> SentenceScore:
    """Of a logistic regression on the mean of the last layer's vectors."""

    def encode(sentences: Sequence[Any]) -> Float[np.ndarray, "sentences dim"]:
        if not task.has_pairs:
            return model.embed(sentences)
        first, second = (model.embed([pair[side] for pair in sentences]) for side in (0, 1))
        return np.hstack([np.abs(first - second), first * second])

    return _linear_score(encode, task)


def word_score(task: SentenceTask) -> SentenceScore:
    """Of a logistic regression on counts of words, their order unknown."""
    count = HashedWords(2048)

    def encode(sentences: Sequence[Any]) -> Float[np.ndarray, "sentences dim"]:
        if not task.has_pairs:
            return count([each.split() for each in sentences])
        first, second = (count([pair[side].split() for pair in sentences]) for side in (0, 1))
        return np.hstack([np.abs(first - second), first * second])

    return _linear_score(encode, task)


def majority_score(task: SentenceTask) -> SentenceScore:
    """Of the most frequent label of the training part."""
    labels, counts = np.unique(task.train.targets, return_counts=True)
    told = labels[counts.argmax()]
    test, validation = (float((part.targets == told).mean()) for part in _held(task))
    return SentenceScore(test=test, validation=validation, cpu_seconds=0.0, settings={})


def tuned_score(
    model: MaskedLanguageModel, task: SentenceTask, *, settings: Mapping[str, Any], seed: int
) -> SentenceScore:
    """Of a classifier whose encoder is trained along.

    Raises KeyboardInterrupt where Ctrl-C cut the fit short.
    """
    start = time.process_time()
    classifier = SentenceClassifier(**settings, long_sentences="cut", seed=seed)
    train, validation = task.train, task.validation
    classifier.fit(
        train.sentences,
        train.targets,
        encoder=model,
        validation=(validation.sentences, validation.targets),
    )
    if classifier.history_.interrupted:
        raise KeyboardInterrupt("a fit was cut short")
    test, held = (
        float((classifier.predict(part.sentences) == part.targets).mean()) for part in _held(task)
    )
    told = {"learning_rate": float(settings["learning_rate"])}
    seconds = time.process_time() - start
    return SentenceScore(test=test, validation=held, cpu_seconds=seconds, settings=told)


def _held(task: SentenceTask) -> tuple[SentencePart, SentencePart]:
    return task.test, task.validation


def _linear_score(encode: _Encode, task: SentenceTask) -> SentenceScore:
    """The penalty is the one of best accuracy on the validation part."""
    start = time.process_time()
    labels = np.unique(task.train.targets)
    features = encode(task.train.sentences).astype(np.float64)
    codes = np.searchsorted(labels, task.train.targets).astype(np.int64)
    held = [encode(part.sentences).astype(np.float64) for part in _held(task)]
    told = []
    for penalty in PENALTIES:
        fit = fit_softmax(features, codes, n_classes=len(labels), penalty=penalty)
        test, validation = (
            float((labels[fit.predict(each)] == part.targets).mean())
            for each, part in zip(held, _held(task), strict=True)
        )
        told.append((validation, test, penalty))
    validation, test, penalty = max(told)
    seconds = time.process_time() - start
    return SentenceScore(
        test=test, validation=validation, cpu_seconds=seconds, settings={"penalty": penalty}
    )
