"""How well a probing task can be solved from vectors of its sentences, beside what chance can do.

Source: Conneau et al. (2018), section 3; the control of shuffled labels after Zhang & Bowman
(2018), "Language modeling teaches you more syntax than translation does".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64

from exfam.checks import DataError, check_positive, check_whole, regular_array
from exfam.scores.metrics import Interval, paired_bootstrap
from exfam_studies.positions.linguistic.balancing import PARTS, ProbingTask
from exfam_studies.positions.linguistic.softmax import SoftmaxFit, fit_softmax

PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
# A vector for each sentence, given as its words.
SentenceEncoder = Callable[[list[list[str]]], Float[np.ndarray, "sentences dim"]]


@dataclass(frozen=True, eq=False)
class TaskFeatures:
    """A vector for each sentence of a task's parts, all of one dimension."""

    train: Float[np.ndarray, "train _"]
    validation: Float[np.ndarray, "validation _"]
    test: Float[np.ndarray, "test _"]


@dataclass(frozen=True, kw_only=True)
class ProbeScore:
    """Share of a task's test sentences whose label is right; intervals redraw groups of them.

    `validation`: the same on the part that `penalty` was chosen by
    `majority`: of the class that is most frequent to learn from
    `shuffled`: of a classifier that learned one shuffling of the labels, with the same penalty; of
        few unlike vectors, chance is wider than its interval
    """

    task: str
    version: str
    accuracy: Interval
    validation: float
    penalty: float
    majority: float
    shuffled: Interval
    sizes: Mapping[str, int]


def task_features(
    encoder: SentenceEncoder, task: ProbingTask, *, sentences_at_once: int = 64
) -> TaskFeatures:
    """Encode the sentences of a task, so many at once.

    Raises DataError unless the encoder gives one vector of finite numbers for each sentence, all of
    one dimension.
    """
    check_whole("sentences_at_once", sentences_at_once)
    sentences = [list(example.words) for part in task.parts.values() for example in part]
    batches: list[np.ndarray] = []
    for first in range(0, len(sentences), sentences_at_once):
        some = sentences[first : first + sentences_at_once]
        batches.append(_checked(encoder(some), some, batches[0].shape[1] if batches else None))
    ends = np.cumsum(list(task.sizes.values()))
    train, validation, test = np.split(np.concatenate(batches), ends[:-1])
    return TaskFeatures(train, validation, test)


def probe_task(
    features: TaskFeatures,
    task: ProbingTask,
    *,
    penalties: Sequence[float] | Float[np.ndarray, "penalties"] = PENALTIES,
    seed: int = 0,
    level: float = 0.95,
) -> ProbeScore:
    """Learn a task's labels from vectors by logistic regression, and score it on the test part.

    `penalties`: of squared weights, to choose by accuracy on the validation part; the largest of
        equals
    `seed`: of shuffled labels and redrawn sentences (default 0)
    `level`: of the intervals (default 0.95)
    Raises DataError where vectors are not those of the task's sentences or not finite, and without
    a penalty; ExfamError for a seed that is not an integer >= 0.
    """
    check_whole("seed", seed, least=0)
    _check(features, task)
    _check_penalties(penalties)
    vectors = {part: getattr(features, part).astype(np.float64) for part in PARTS}
    codes = {part: _codes(task, part) for part in PARTS}
    fit = partial(fit_softmax, vectors["train"], n_classes=len(task.classes))

    def right(fitted: SoftmaxFit, part: str) -> Float64[np.ndarray, "_"]:
        return (fitted.predict(vectors[part]) == codes[part]).astype(np.float64)

    def interval(fitted: SoftmaxFit) -> Interval:
        group = np.unique([example.group for example in task.test], return_inverse=True)[1]
        return paired_bootstrap(right(fitted, "test"), group, seed=seed, level=level)

    fits = {value: fit(codes["train"], penalty=value) for value in sorted(penalties, reverse=True)}
    validation = {value: float(right(of, "validation").mean()) for value, of in fits.items()}
    penalty = max(validation, key=lambda value: validation[value])
    shuffled = np.random.default_rng(seed).permutation(codes["train"])
    return ProbeScore(
        task=task.name,
        version=task.version,
        accuracy=interval(fits[penalty]),
        validation=validation[penalty],
        penalty=penalty,
        majority=float((codes["test"] == np.bincount(codes["train"]).argmax()).mean()),
        shuffled=interval(fit(shuffled, penalty=penalty)),
        sizes=task.sizes,
    )


def _checked(given: Any, sentences: list[list[str]], dim: int | None) -> np.ndarray:
    vectors = regular_array(
        given,
        otherwise="`encoder` must give a vector for each sentence, all of one dimension, got lists "
        f"of unlike lengths for {len(sentences)} sentences.",
    )
    wanted = (len(sentences), vectors.shape[-1] if dim is None and vectors.ndim == 2 else dim)
    if vectors.shape != wanted:
        raise DataError(
            "`encoder` must give a vector for each sentence, all of one dimension, got an array of "
            f"shape {vectors.shape} for {len(sentences)} sentences."
        )
    if not (finite := _finite(vectors)).all():
        at = int((~finite).any(1).argmax())
        raise DataError(
            "`encoder` must give finite numbers, got others for the sentence "
            f"{' '.join(sentences[at])[:60]!r}."
        )
    return vectors


def _finite(vectors: np.ndarray) -> Bool[np.ndarray, "sentences dim"]:
    """Which entries are finite numbers."""
    is_real = vectors.dtype.kind in "biuf"
    return np.isfinite(vectors) if is_real else np.zeros(vectors.shape, dtype=bool)


def _check(features: TaskFeatures, task: ProbingTask) -> None:
    for part, size in task.sizes.items():
        given = getattr(features, part)
        if given.ndim != 2 or given.shape != (size, *features.train.shape[1:]):
            raise DataError(
                f"`features` must have a vector for each of the {size} {part} sentences of "
                f"{task.name}, all of one dimension, got shape {given.shape}. Encode this very "
                "task."
            )
        if not (finite := _finite(given)).all():
            at = int((~finite).any(1).argmax())
            raise DataError(
                f"`features` must be finite numbers, got others for {part} sentence {at} of "
                f"{task.name}: {' '.join(task.parts[part][at].words)[:60]!r}."
            )


def _check_penalties(penalties: Sequence[float] | Float[np.ndarray, "penalties"]) -> None:
    if not len(penalties):
        raise DataError("`penalties` must hold at least one number, got none.")
    for penalty in penalties:
        check_positive("penalties", penalty)


def _codes(task: ProbingTask, part: str) -> Int64[np.ndarray, "_"]:
    index = {label: code for code, label in enumerate(task.classes)}
    return np.array([index[example.label] for example in task.parts[part]], dtype=np.int64)
