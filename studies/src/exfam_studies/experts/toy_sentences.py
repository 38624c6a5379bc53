"""Sentences of five words about school subjects, of twelve words in all, with known probabilities.

    "I like S1 and S2"     subjects by how much they are liked
    "S1 and S2 is A"       any two subjects; A by the sum of their scores
    "S is A1 and A2"       any subject; A1, A2 by its scores

Kinds are equally frequent, draws independent.
Source: Appendix I of the paper on bidirectional attention as a mixture of experts.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float

from exfam.checks import ExfamError

SUBJECTS = ("mathematics", "statistics", "sociology", "history")
ADJECTIVES = ("fun", "boring", "easy", "difficult")
# How well each adjective (columns) goes with each subject (rows).
_SCORES = np.array([[4, 2, 4, 2], [6, 0, 5, 1], [1, 5, 2, 4], [0, 6, 0, 6]])
_LIKED = np.array([4, 5, 1, 1]) / 11


def toy_sentences(n_sentences: int = 10_000, *, seed: int) -> list[list[str]]:
    """Draw sentences; the paper draws ten thousand."""
    random = np.random.default_rng(seed)
    return [_drawn(random, kind) for kind in random.integers(3, size=n_sentences).tolist()]


def _drawn(random: np.random.Generator, kind: int) -> list[str]:
    if kind == 0:
        first, second = random.choice(SUBJECTS, size=2, p=_LIKED).tolist()
        return ["I", "like", first, "and", second]
    if kind == 1:
        i, j = random.integers(len(SUBJECTS), size=2)
        scores = _SCORES[i] + _SCORES[j]
        [adjective] = random.choice(ADJECTIVES, size=1, p=scores / scores.sum()).tolist()
        return [SUBJECTS[i], "and", SUBJECTS[j], "is", adjective]
    i = random.integers(len(SUBJECTS))
    first, second = random.choice(ADJECTIVES, size=2, p=_SCORES[i] / _SCORES[i].sum()).tolist()
    return [SUBJECTS[i], "is", first, "and", second]


def toy_population() -> tuple[tuple[tuple[str, ...], ...], Float[np.ndarray, "sentences"]]:
    """Every sentence that `toy_sentences` may draw, once, and its probability; they sum to 1."""
    listed = [(words, p / 3) for words, p in _every() if p > 0]
    sentences, probability = zip(*listed, strict=True)
    return sentences, np.array(probability)


def _every() -> Iterator[tuple[tuple[str, ...], float]]:
    pairs = list(itertools.product(range(len(SUBJECTS)), repeat=2))
    for i, j in pairs:
        yield ("I", "like", SUBJECTS[i], "and", SUBJECTS[j]), _LIKED[i] * _LIKED[j]
    for i, j in pairs:
        summed = _SCORES[i] + _SCORES[j]
        for adjective, p in zip(ADJECTIVES, summed / summed.sum(), strict=True):
            yield (SUBJECTS[i], "and", SUBJECTS[j], "is", adjective), p / len(SUBJECTS) ** 2
    for subject, scores in zip(SUBJECTS, _SCORES, strict=True):
        of_subject = list(zip(ADJECTIVES, scores / scores.sum(), strict=True))
        for (first, p), (second, q) in itertools.product(of_subject, repeat=2):
            yield (subject, "is", first, "and", second), p * q / len(SUBJECTS)


def toy_conditionals(sentences: Sequence[Sequence[str]]) -> Float[np.ndarray, "sentences words"]:
    """log p(word | all others of its sentence) in nats, exactly: no model has a higher mean.

    Raises ExfamError for a sentence that the grammar does not allow.
    """
    probability = dict(zip(*toy_population(), strict=True))
    words = sorted({word for sentence in probability for word in sentence})
    log_p = np.empty((len(sentences), 5))
    for row, sentence in enumerate(map(tuple, sentences)):
        if sentence not in probability:
            raise ExfamError(f"`sentences` must be of the grammar, got {' '.join(sentence)!r}.")
        for position in range(5):
            others = [(*sentence[:position], word, *sentence[position + 1 :]) for word in words]
            total = sum(probability.get(other, 0.0) for other in others)
            log_p[row, position] = np.log(probability[sentence] / total)
    return log_p
