"""How well sentences are classified by an encoder as it is, and by one that is trained along.

Accuracy of labels; Spearman's correlation with numbers. Penalties are chosen by the same on the
validation part, the largest of equals.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Float64
from scipy.stats import spearmanr
from sklearn.linear_model import Ridge

from exfam.language import MaskedLanguageModel, SentenceClassifier, SentenceRegressor
from exfam_studies.positions.linguistic import HashedWords
from exfam_studies.positions.linguistic.scoring import PENALTIES
from exfam_studies.positions.linguistic.softmax import fit_softmax
from exfam_studies.positions.sentence_sets import SentencePart, SentenceTask

# Sentences -> a vector each.
_Encode = Callable[[Sequence[Any]], Float[np.ndarray, "sentences dim"]]


@dataclass(frozen=True, kw_only=True)
class SentenceScore:
    """Of the test part and of the one that anything was chosen by."""

    test: float
    validation: float
    cpu_seconds: float
    settings: Mapping[str, float]


def frozen_score(model: MaskedLanguageModel, task: SentenceTask) -> SentenceScore:
    """Of a linear model on the mean of the last layer's vectors."""
    return _linear_score(model.embed, task)


def word_score(task: SentenceTask) -> SentenceScore:
    """Of a linear model on counts of words, their order unknown."""
    count = HashedWords(2048)
    return _linear_score(lambda sentences: count([each.split() for each in sentences]), task)


def majority_score(task: SentenceTask) -> SentenceScore:
    """Of the most frequent label of the training part; numbers have no such score."""
    labels, counts = np.unique(task.train.targets, return_counts=True)
    usual = labels[counts.argmax()]
    test, validation = (float((part.targets == usual).mean()) for part in _held(task))
    return SentenceScore(test=test, validation=validation, cpu_seconds=0.0, settings={})


def tuned_score(
    model: MaskedLanguageModel, task: SentenceTask, *, settings: Mapping[str, Any], seed: int
) -> SentenceScore:
    """Of a classifier whose encoder is trained along.

    Raises KeyboardInterrupt where Ctrl-C cut the fit short.
    """
    start = time.process_time()
    kind = SentenceClassifier if task.kind == "classification" else SentenceRegressor
    fitted: SentenceClassifier | SentenceRegressor = kind(
        **settings, device=model.device, precision=model.precision, long_sentences="cut", seed=seed
    )
    train, validation = task.train, task.validation
    fitted.fit(
        train.sentences,
        train.targets,
        encoder=model,
        validation=(validation.sentences, validation.targets),
    )
    if fitted.history_.interrupted:
        raise KeyboardInterrupt("a fit was cut short")
    test, held = (fitted.score(part.sentences, part.targets) for part in _held(task))
    used = {"learning_rate": float(settings["learning_rate"])}
    seconds = time.process_time() - start
    return SentenceScore(test=test, validation=held, cpu_seconds=seconds, settings=used)


def _held(task: SentenceTask) -> tuple[SentencePart, SentencePart]:
    return task.test, task.validation


def _linear_score(encode: _Encode, task: SentenceTask) -> SentenceScore:
    start = time.process_time()
    features = _features(encode, task.train, pairs=task.has_pairs)
    held = [_features(encode, part, pairs=task.has_pairs) for part in _held(task)]
    fit = _fitted_labels if task.kind == "classification" else _fitted_numbers
    tried = []
    for penalty in PENALTIES:
        score = fit(features, task.train.targets, penalty)
        test, validation = (
            score(each, part.targets) for each, part in zip(held, _held(task), strict=True)
        )
        tried.append((validation, penalty, test))
    validation, penalty, test = max(tried)
    seconds = time.process_time() - start
    return SentenceScore(
        test=test, validation=validation, cpu_seconds=seconds, settings={"penalty": penalty}
    )


def _features(
    encode: _Encode, part: SentencePart, *, pairs: bool
) -> Float64[np.ndarray, "sentences dim"]:
    """Vectors of sentences; of pairs, how far both are apart and their product, as in SentEval."""
    if not pairs:
        return encode(part.sentences).astype(np.float64)
    first, second = (encode([pair[side] for pair in part.sentences]) for side in (0, 1))
    return np.hstack([np.abs(first - second), first * second]).astype(np.float64)


_Score = Callable[[np.ndarray, np.ndarray], float]


def _fitted_labels(features: np.ndarray, targets: np.ndarray, penalty: float) -> _Score:
    labels, codes = np.unique(targets, return_inverse=True)
    fit = fit_softmax(features, codes, n_classes=len(labels), penalty=penalty)
    return lambda vectors, targets: float((labels[fit.predict(vectors)] == targets).mean())


def _fitted_numbers(features: np.ndarray, targets: np.ndarray, penalty: float) -> _Score:
    scale = float(features.std()) or 1.0
    fit = Ridge(alpha=penalty * len(features)).fit(features / scale, targets)
    return lambda vectors, targets: float(
        spearmanr(fit.predict(vectors / scale), targets).statistic
    )
