"""Sentences of five words about school subjects, of twelve words in all, whose law is known.

    "I like S1 and S2"     subjects by how much they are liked
    "S1 and S2 is A"       any two subjects; A by the sum of their scores
    "S is A1 and A2"       any subject; A1, A2 by its scores

The three are equally frequent and all draws independent, so that S1 = S2 occurs.
Source: Appendix I of the paper on bidirectional attention as a mixture of experts.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from exfam.checks import ExfamError, check_whole

SUBJECTS = ("mathematics", "statistics", "sociology", "history")
ADJECTIVES = ("fun", "boring", "easy", "difficult")
# How well each adjective (columns) goes with each subject (rows).
_SCORES = np.array([[4, 2, 4, 2], [6, 0, 5, 1], [1, 5, 2, 4], [0, 6, 0, 6]])
_LIKED = np.array([4, 5, 1, 1]) / 11


def toy_sentences(n_sentences: int = 10_000, *, seed: int) -> list[list[str]]:
    """Draw sentences; the paper draws ten thousand.

    Raises ExfamError unless `n_sentences` is a whole number above 0.

    >>> sentences = toy_sentences(100, seed=0)
    >>> {len(sentence) for sentence in sentences}, len({*sum(sentences, [])})
    ({5}, 12)
    """
    check_whole("n_sentences", n_sentences)
    random = np.random.default_rng(seed)
    return [_KINDS[kind](random) for kind in random.integers(len(_KINDS), size=n_sentences)]


class Population(NamedTuple):
    """All sentences that a law allows, each once, and how probable they are; that sums to 1."""

    sentences: tuple[tuple[str, ...], ...]
    probability: Float[np.ndarray, "sentences"]


def toy_population() -> Population:
    """What `toy_sentences` draws from: every sentence that it may say, with its probability.

    >>> population = toy_population()
    >>> len(population.sentences), round(float(population.probability.sum()), 12)
    (122, 1.0)
    """
    kinds = (_every_liked(), _every_two_subjects(), _every_two_adjectives())
    listed = [(words, p / len(kinds)) for kind in kinds for words, p in kind if p > 0]
    sentences, probability = zip(*listed, strict=True)
    return Population(sentences, np.array(probability))


def toy_conditionals(sentences: Sequence[Sequence[str]]) -> Float[np.ndarray, "sentences words"]:
    """log p(word | all others of its sentence) in nats, exactly: no model has a higher mean.

    Raises ExfamError for a sentence that the law does not allow.

    >>> toy_conditionals([["I", "like", "statistics", "and", "history"]]).round(3)
    array([[ 0.   ,  0.   , -0.788,  0.   , -2.398]])
    """
    law = dict(zip(*toy_population(), strict=True))
    words = sorted({word for sentence in law for word in sentence})
    log_p = np.empty((len(sentences), 5))
    for row, sentence in enumerate(map(tuple, sentences)):
        if sentence not in law:
            raise ExfamError(f"`sentences` must be of the law, got {' '.join(sentence)!r}.")
        for place in range(5):
            others = [(*sentence[:place], word, *sentence[place + 1 :]) for word in words]
            total = sum(law.get(other, 0.0) for other in others)
            log_p[row, place] = np.log(law[sentence] / total)
    return log_p


def _every_liked() -> Iterator[tuple[tuple[str, ...], float]]:
    for (first, p), (second, q) in itertools.product(zip(SUBJECTS, _LIKED, strict=True), repeat=2):
        yield ("I", "like", first, "and", second), p * q


def _every_two_subjects() -> Iterator[tuple[tuple[str, ...], float]]:
    for i, j in itertools.product(range(len(SUBJECTS)), repeat=2):
        summed = _SCORES[i] + _SCORES[j]
        for adjective, p in zip(ADJECTIVES, summed / summed.sum(), strict=True):
            yield (SUBJECTS[i], "and", SUBJECTS[j], "is", adjective), p / len(SUBJECTS) ** 2


def _every_two_adjectives() -> Iterator[tuple[tuple[str, ...], float]]:
    for subject, scores in zip(SUBJECTS, _SCORES, strict=True):
        of_subject = list(zip(ADJECTIVES, scores / scores.sum(), strict=True))
        for (first, p), (second, q) in itertools.product(of_subject, repeat=2):
            yield (subject, "is", first, "and", second), p * q / len(SUBJECTS)


def _liked(random: np.random.Generator) -> list[str]:
    first, second = random.choice(SUBJECTS, size=2, p=_LIKED)
    return ["I", "like", str(first), "and", str(second)]


def _two_subjects(random: np.random.Generator) -> list[str]:
    first, second = random.integers(len(SUBJECTS), size=2)
    [adjective] = _adjectives(random, _SCORES[first] + _SCORES[second], size=1)
    return [SUBJECTS[first], "and", SUBJECTS[second], "is", adjective]


def _two_adjectives(random: np.random.Generator) -> list[str]:
    subject = random.integers(len(SUBJECTS))
    first, second = _adjectives(random, _SCORES[subject], size=2)
    return [SUBJECTS[subject], "is", first, "and", second]


def _adjectives(random: np.random.Generator, scores: np.ndarray, *, size: int) -> list[str]:
    return [str(each) for each in random.choice(ADJECTIVES, size=size, p=scores / scores.sum())]


_KINDS = (_liked, _two_subjects, _two_adjectives)
