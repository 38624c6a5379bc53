"""Lemmas 11 and 15, checked by two ways of getting probabilities that share no code.

`enumerate_sets` goes through all sentences and orders: from it come both sides' matrix and rho.
`WordSets` finds sets in an index of positions: from it come sigma, delta and xi.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache

import numpy as np
from jaxtyping import Float

from exfam_studies.common.statements import Check, unmet
from exfam_studies.experts.paraphrases.windows import attention_windows, sentence_windows
from exfam_studies.experts.paraphrases.word_sets import WordSets, paraphrase_terms

# What an identity may miss by rounding, in nats.
TOLERANCE = 1e-8

# tau of each word, and that of MASK.
Tau = tuple[Mapping[str, float], float]
# p(W, c) of every word set W that occurs around c.
Joint = Mapping[tuple[frozenset[str], str], float]
Contexts = Float[np.ndarray, "contexts"]
SetPair = tuple[Collection[str], Collection[str]]
# p(W, c) of a word set W, by c.
Enumerated = Callable[[Collection[str]], Contexts]


def check_lemma_11(
    sentences: Sequence[Sequence[str]],
    probability: Float[np.ndarray, "sentences"],
    *,
    tau: Tau | None = None,
    pairs: Iterable[SetPair] | None = None,
) -> Check:
    """Lemma 11: sum of M over W* = sum of M over W + rho + sigma^W - sigma^W* + delta.

    `sentences`, `probability`: a grammar's, or different sentences of a corpus with their counts
    `tau`: of each word, and of MASK: makes it Lemma 15, of N, p_bar and the barred terms
    `pairs`: of word sets W and W*; None for all disjoint pairs of sets of two

    Assumes that W and W* have as many words, and that p(W) and p(W*) are above 0. Concludes that
    this, and rho = xi - delta, hold at every j where no probability is 0, to 1e-8.
    """
    windows = sentence_windows(sentences, probability=probability)
    if tau is not None:
        of_words = np.array([tau[0][word] for word in windows.words])
        windows = attention_windows(windows, of_words, mask=tau[1])
    sets = WordSets(windows)
    listed_p = probability.tolist()
    slow = cache(lambda size: enumerate_sets(sentences, listed_p, size=size, tau=tau))

    def enumerated(chosen: Collection[str]) -> Contexts:
        joint, key = slow(len(chosen)), frozenset(chosen)
        return np.array([joint.get((key, word), 0.0) for word in sets.words])

    listed = disjoint_pairs(sets.words) if pairs is None else list(pairs)
    occurs = cache(lambda words: sets.probability(words) > 0)
    matrix, failed = _enumerated_matrix(sets.words, enumerated), dict[str, None]()
    n_finite, worst = 0, 0.0
    for words, star in listed:
        if len(words) != len(star):
            sizes = f"{len(words)} and {len(star)} in W = {_shown(words)}, W* = {_shown(star)}"
            failed[f"sets must have as many words, got {sizes}"] = None
        never = [own for own in (words, star) if not occurs(tuple(own))]
        if never and pairs is not None:
            failed[f"p(W) must be above 0, got 0 for {_shown(never[0])}"] = None
        if not never:
            apart = _apart(sets, enumerated, matrix, (words, star))
            finite = np.isfinite(apart).all(axis=0)
            n_finite += int(finite.sum())
            worst = max(worst, float(np.abs(apart[:, finite]).max(initial=0.0)))
    if not n_finite:
        failed["at least one cell must be finite, got none"] = None
    measured = {
        "max difference": worst,
        "finite cells": float(n_finite),
        "cells": float(len(listed) * len(sets.words)),
        "pairs of sets": float(len(listed)),
    }
    name, alike = "Lemma 11" if tau is None else "Lemma 15", f"got {worst:.2g} nats apart"
    conclusions = unmet((worst <= TOLERANCE, f"both sides alike, {alike}"))
    return Check(name, measured, {"max difference": 0.0}, tuple(failed), conclusions)


def disjoint_pairs(words: Sequence[str], size: int = 2) -> list[SetPair]:
    """All pairs of sets of `size` words that have no word in common, each pair once."""
    sets = itertools.combinations(words, size)
    return [(a, b) for a, b in itertools.combinations(sets, 2) if not set(a) & set(b)]


def _enumerated_matrix(words: Sequence[str], enumerated: Enumerated) -> Mapping[str, Contexts]:
    joint = np.array([enumerated([word]) for word in words])
    context = [math.fsum(column) for column in joint.T]
    with np.errstate(divide="ignore"):
        rows = np.log(joint) - np.log(context) + np.log(len(words))
    return dict(zip(words, rows, strict=True))


def _apart(
    sets: WordSets, enumerated: Enumerated, matrix: Mapping[str, Contexts], pair: SetPair
) -> Float[np.ndarray, "forms contexts"]:
    words, star = pair
    terms = paraphrase_terms(sets, words, star)
    with np.errstate(divide="ignore", invalid="ignore"):
        log, log_star = (np.log(joint / math.fsum(joint)) for joint in map(enumerated, pair))
        rho, dependence = log_star - log, terms.sigma - terms.sigma_star
        left = sum(matrix[word] for word in star) - sum(matrix[word] for word in words)
        with_rho, with_xi = rho + dependence + terms.delta, terms.xi + dependence
        return np.stack([left - with_rho, left - with_xi, rho - (terms.xi - terms.delta)])


def _shown(words: Collection[str]) -> str:
    return "{" + ", ".join(words) + "}"


def enumerate_sets(
    sentences: Sequence[Sequence[str]],
    probability: Sequence[float],
    *,
    size: int,
    tau: Tau | None = None,
    window: int | None = None,
) -> Joint:
    """p(W, c) of sets W of `size` words drawn around c, by every sentence, position and order."""
    gathered: dict[tuple[frozenset[str], str], list[float]] = defaultdict(list)
    total: list[float] = []
    for sentence, p in zip(sentences, probability, strict=True):
        for position, context in enumerate(sentence):
            centers = {
                m: p * _weight(sentence, m, position, tau, window)
                for m in _around(sentence, position, window)
            }
            total.extend(centers.values())
            for words, chance in _drawn_sets(sentence, centers, size):
                gathered[words, context].append(chance)
    whole = math.fsum(total)
    return {key: math.fsum(chances) / whole for key, chances in gathered.items()}


def _around(sentence: Sequence[str], position: int, window: int | None) -> list[int]:
    reach = len(sentence) if window is None else window
    return [m for m in range(len(sentence)) if 0 < abs(m - position) <= reach]


def _weight(
    sentence: Sequence[str], center: int, context: int, tau: Tau | None, window: int | None
) -> float:
    if tau is None:
        return 1.0
    of_word, of_mask = tau
    others = [of_word[sentence[m]] for m in _around(sentence, center, window)]
    return of_word[sentence[context]] / (of_mask + math.fsum(others))


def _drawn_sets(
    sentence: Sequence[str], centers: Mapping[int, float], size: int
) -> Iterator[tuple[frozenset[str], float]]:
    """Sets of different words, with their chances in each order, as a share of one order."""
    for drawn in itertools.permutations(centers, size):
        words = frozenset(sentence[m] for m in drawn)
        if len(words) < size:
            continue
        chance = left = math.fsum(centers.values())
        for m in drawn:
            chance *= centers[m] / left
            left -= centers[m]
        yield words, chance / math.factorial(size)
