"""How well a probing task can be solved from vectors of its sentences, beside what chance can do.

Source: Conneau et al. (2018), section 3; shuffled labels after Zhang & Bowman (2018).
"""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64, Int64
from scipy.optimize import minimize
from scipy.special import log_softmax

from exfam.scores.metrics import Interval, paired_bootstrap
from exfam_studies.positions.linguistic.balancing import PARTS, ProbingTask

PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
STEPS = 500
SENTENCES_AT_ONCE = 64
# A vector for each sentence, given as its words.
SentenceEncoder = Callable[[list[list[str]]], Float[np.ndarray, "sentences dim"]]


def length_alone(sentences: list[list[str]]) -> Float[np.ndarray, "sentences 60"]:
    """Vectors with a 1 at the number of words; longer sentences count as of 60 words."""
    return np.eye(60)[np.clip([len(words) for words in sentences], 1, 60) - 1]


def hashed_words(
    sentences: list[list[str]], *, dim: int = 1024
) -> Float[np.ndarray, "sentences dim"]:
    """Counts of words, whatever their case and order, at indices given by a hash."""
    counts = np.zeros((len(sentences), dim))
    for row, words in enumerate(sentences):
        for word in words:
            # Python's own hash differs from run to run.
            counts[row, zlib.crc32(word.lower().encode()) % dim] += 1
    return counts


@dataclass(frozen=True, kw_only=True)
class ProbeScore:
    """Share of a task's test sentences whose label is right; intervals redraw groups of them.

    `shuffled`: of a classifier that learned one shuffling of the labels, with the same penalty
    """

    accuracy: Interval
    validation: float
    shuffled: Interval


def probe_task(encoder: SentenceEncoder, task: ProbingTask, *, seed: int = 0) -> ProbeScore:
    """Learn a task's labels from vectors by logistic regression, and score it on the test part.

    The penalty is that of most accuracy on the validation part, the largest of equals.
    """
    vectors, codes = _features(encoder, task), {part: _codes(task, part) for part in PARTS}
    group = np.unique([example.group for example in task.test], return_inverse=True)[1]
    n_classes = len(task.classes)
    validation, penalty, best = fit_best_softmax(vectors, codes, n_classes=n_classes)
    labels = np.random.default_rng(seed).permutation(codes["train"])
    control = fit_softmax(vectors["train"], labels, n_classes=n_classes, penalty=penalty)
    right = [(fit.predict(vectors["test"]) == codes["test"]) * 1.0 for fit in (best, control)]
    accuracy, shuffled = (paired_bootstrap(own, group, seed=seed) for own in right)
    return ProbeScore(accuracy=accuracy, validation=validation, shuffled=shuffled)


def majority_share(task: ProbingTask) -> float:
    """Accuracy of the class that is most frequent to learn from."""
    return float((_codes(task, "test") == np.bincount(_codes(task, "train")).argmax()).mean())


def _features(
    encoder: SentenceEncoder, task: ProbingTask
) -> dict[str, Float64[np.ndarray, "sentences dim"]]:
    sentences = [list(example.words) for part in task.parts.values() for example in part]
    batches = [
        encoder(sentences[first : first + SENTENCES_AT_ONCE])
        for first in range(0, len(sentences), SENTENCES_AT_ONCE)
    ]
    ends = np.cumsum(list(task.sizes.values()))
    parts = np.split(np.concatenate(batches).astype(np.float64), ends[:-1])
    return dict(zip(task.parts, parts, strict=True))


def _codes(task: ProbingTask, part: str) -> Int64[np.ndarray, "_"]:
    index = {label: code for code, label in enumerate(task.classes)}
    return np.array([index[example.label] for example in task.parts[part]], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class SoftmaxFit:
    """A fitted logistic regression of vectors less `center`, divided by `scale`."""

    weights: Float[np.ndarray, "dim classes"]
    offsets: Float[np.ndarray, "classes"]
    center: Float[np.ndarray, "dim"]
    scale: float

    def log_prob(
        self, features: Float[np.ndarray, "sentences dim"]
    ) -> Float[np.ndarray, "sentences classes"]:
        """Log probability of each class, in nats."""
        scaled = (features - self.center) / self.scale
        return np.asarray(log_softmax(scaled @ self.weights + self.offsets, axis=1))

    def predict(self, features: Float[np.ndarray, "sentences dim"]) -> Int64[np.ndarray, "_"]:
        """The most probable class of each, the first of equals."""
        return self.log_prob(features).argmax(1)


def fit_softmax(
    features: Float[np.ndarray, "sentences dim"],
    codes: Int64[np.ndarray, "sentences"],
    *,
    n_classes: int,
    penalty: float,
) -> SoftmaxFit:
    """Minimize mean nats + penalty / 2 * sum of squared weights, by L-BFGS of at most 500 steps.

    Dimensions are centered, and divided by one number, the root of their mean variance, so that
    neither the scale of vectors nor a constant added to all matters.
    """
    center = features.mean(0)
    scale = float(np.sqrt(features.var(0).mean())) or 1.0
    scaled = (features - center) / scale
    n, dim = scaled.shape
    targets = np.eye(n_classes)[codes]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights, offsets = flat[:-n_classes].reshape(dim, n_classes), flat[-n_classes:]
        log_prob = log_softmax(scaled @ weights + offsets, axis=1)
        error = (np.exp(log_prob) - targets) / n
        slope = scaled.T @ error + penalty * weights
        nats = -(targets * log_prob).sum() / n + penalty / 2 * (weights**2).sum()
        return float(nats), np.concatenate([slope.ravel(), error.sum(0)])

    start = np.zeros((dim + 1) * n_classes)
    flat = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS}).x
    return SoftmaxFit(flat[:-n_classes].reshape(dim, n_classes), flat[-n_classes:], center, scale)


def fit_best_softmax(
    vectors: Mapping[str, np.ndarray], codes: Mapping[str, np.ndarray], *, n_classes: int
) -> tuple[float, float, SoftmaxFit]:
    """Accuracy on the validation part, penalty and fit of the best of PENALTIES.

    Fitted to the train part; of penalties that are equally good the largest is taken.
    """

    def tried(penalty: float) -> tuple[float, float, SoftmaxFit]:
        fit = fit_softmax(vectors["train"], codes["train"], n_classes=n_classes, penalty=penalty)
        right = fit.predict(vectors["validation"]) == codes["validation"]
        return float(right.mean()), penalty, fit

    return max(map(tried, PENALTIES), key=lambda fitted: fitted[:2])
