"""Lemmas 11 and 15, checked by two ways of getting probabilities that share no code.

The one way goes through all sentences and orders (`enumerate_law`): from it come p(w_i, c_j) and
p(c_j | W), and so both sides' matrix and rho. The other (`WordLaw`) finds sets in an index of
places: from it come p(W | c_j), p(W) and p(w_i | c_j), and so sigma, delta and xi. An identity that
mixes them holds only if both are right.
"""

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from exfam.checks import DataError
from exfam_studies.common.statements import Check
from exfam_studies.experts.paraphrases.enumeration import Enumerated, Tau, enumerate_law
from exfam_studies.experts.paraphrases.laws import WordLaw
from exfam_studies.experts.paraphrases.terms import paraphrase_terms
from exfam_studies.experts.paraphrases.windows import attention_windows, sentence_windows

# What an identity may miss by rounding, in nats.
TOLERANCE = 1e-8

WordSets = tuple[Collection[str], Collection[str]]


def check_lemma_11(
    sentences: Sequence[Sequence[str]],
    probability: Float[np.ndarray, "sentences"],
    *,
    pairs: Iterable[WordSets] | None = None,
    window: int | None = None,
) -> Check:
    """Lemma 11: sum of M over W* = sum of M over W + rho + sigma^W - sigma^W* + delta.

    `sentences`, `probability`: a law's, or different sentences of a corpus with their counts
    `pairs`: of word sets W and W*; None for all disjoint pairs of sets of two (default None)
    `window`: the largest distance; None for whole sentences (default None)

    M_ij = log p(w_i, c_j) / p(c_j) + log |V|, and rho + delta = xi. Assumes that W and W* have as
    many words (otherwise log |V| does not cancel), and that p(W) and p(W*) are above 0; sets that
    never occur are no cells. Concludes that both forms hold at every j where no probability is 0,
    to 1e-8, and that rho = xi - delta, by two ways that share no code.
    Measured: "max difference", "finite cells" among "cells", and "pairs of sets".
    Raises DataError for what are no sentences or sets.
    Source: Lemma 11 and Appendix J of the paper on bidirectional attention as a mixture of experts.
    """
    law = WordLaw(sentence_windows(sentences, probability=probability, window=window))
    return _check("Lemma 11", law, _slow(sentences, probability, None, window), pairs)


def check_lemma_15(
    sentences: Sequence[Sequence[str]],
    probability: Float[np.ndarray, "sentences"],
    *,
    tau: Tau,
    pairs: Iterable[WordSets] | None = None,
    window: int | None = None,
) -> Check:
    """Lemma 15: sum of N over W* = sum of N over W + rho + sigma^W - sigma^W* + delta, all barred.

    `tau`: of each word, and of MASK, which is in the denominator of gamma

    N_ij = log p_bar(w_i, c_j) / p_bar(c_j) + log |V| with p_bar(w_i, c_j) = sum of gamma_j^i / E.
    All else as in `check_lemma_11`.
    Raises DataError also for a `tau` that is missing, or not above 0.
    Source: Lemma 15 of the paper on bidirectional attention as a mixture of experts.
    """
    windows = sentence_windows(sentences, probability=probability, window=window)
    of_word, of_mask = tau
    missing = [word for word in windows.words if word not in of_word]
    if missing:
        raise DataError(f"`tau` must have a number for each word, got none for {missing[0]!r}.")
    listed = np.array([of_word[word] for word in windows.words], dtype=np.float64)
    law = WordLaw(attention_windows(windows, listed, mask=of_mask))
    return _check("Lemma 15", law, _slow(sentences, probability, tau, window), pairs)


# Enumerations by the size of the sets, each made once.
_Slow = Callable[[int], Enumerated]


def _slow(
    sentences: Sequence[Sequence[str]],
    probability: Float[np.ndarray, "sentences"],
    tau: Tau | None,
    window: int | None,
) -> _Slow:
    listed = probability.tolist()
    return cache(lambda size: enumerate_law(sentences, listed, size=size, tau=tau, window=window))


def disjoint_pairs(words: Sequence[str], size: int = 2) -> list[WordSets]:
    """All pairs of sets of `size` words that have no word in common, each pair once."""
    sets = itertools.combinations(words, size)
    return [(a, b) for a, b in itertools.combinations(sets, 2) if not set(a) & set(b)]


class _Cells(NamedTuple):
    """Cells of a pair of sets, the finite ones, and how far the worst is off."""

    n: int
    n_finite: int
    worst: float


def _check(name: str, law: WordLaw, slow: _Slow, pairs: Iterable[WordSets] | None) -> Check:
    listed = disjoint_pairs(law.words) if pairs is None else list(pairs)
    if not listed:
        raise DataError("`pairs` must hold at least one pair of word sets, got none.")
    matrix = _enumerated_matrix(law.words, slow(1))
    probability = {
        each: law.probability(each) for each in {tuple(words) for pair in listed for words in pair}
    }
    failed: dict[str, None] = {}
    cells = []
    for words, star in listed:
        occur = min(probability[tuple(words)], probability[tuple(star)]) > 0
        cells.append(
            _cells(law, slow, matrix, (words, star)) if occur else _Cells(len(law.words), 0, 0.0)
        )
        if len(words) != len(star):
            failed[
                f"sets must have as many words, got {len(words)} and {len(star)} in "
                f"W = {_shown(words)}, W* = {_shown(star)}"
            ] = None
    if pairs is not None:
        never = [each for each, p in sorted(probability.items()) if not p > 0]
        failed |= {f"p(W) must be above 0, got 0 for {_shown(each)}": None for each in never}
    worst = max((each.worst for each in cells if each.n_finite), default=0.0)
    n_finite = sum(each.n_finite for each in cells)
    conclusions = [] if worst <= TOLERANCE else [f"both sides alike, got {worst:.2g} nats apart"]
    if not n_finite:
        failed["at least one cell must be finite, got none"] = None
    return Check(
        statement=name,
        measured={
            "max difference": worst,
            "finite cells": float(n_finite),
            "cells": float(sum(each.n for each in cells)),
            "pairs of sets": float(len(listed)),
        },
        expected={"max difference": 0.0},
        failed_assumptions=tuple(failed),
        failed_conclusions=tuple(conclusions),
    )


def _enumerated_matrix(
    words: Sequence[str], singles: Enumerated
) -> Mapping[str, Float[np.ndarray, "contexts"]]:
    """Rows of M by their word."""
    size, context = len(words), np.array([singles.context(word) for word in words])
    rows = {}
    with np.errstate(divide="ignore"):
        for word in words:
            joint = [singles.joint.get((frozenset([word]), other), 0.0) for other in words]
            rows[word] = np.log(joint) - np.log(context) + np.log(size)
    return rows


def _cells(law: WordLaw, slow: _Slow, matrix: Mapping[str, np.ndarray], sets: WordSets) -> _Cells:
    words, star = sets
    terms = paraphrase_terms(law, words, star)
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = _enumerated_rho(law.words, slow, sets)
        left = sum(matrix[word] for word in star) - sum(matrix[word] for word in words)
        right = rho + terms.dependence + terms.delta
        by_xi = terms.xi + terms.dependence
        apart = np.stack([left - right, left - by_xi, rho - (terms.xi - terms.delta)])
    finite = np.isfinite(apart).all(axis=0)
    # The two ways see the same sets around the same words, or one of them is wrong.
    assert (terms.finite == finite).all()
    return _Cells(
        len(law.words), int(finite.sum()), float(np.abs(apart[:, finite]).max(initial=0.0))
    )


def _enumerated_rho(
    words: Sequence[str], slow: _Slow, sets: WordSets
) -> Float[np.ndarray, "contexts"]:
    logs = []
    for each in sets:
        law, key = slow(len(each)), frozenset(each)
        logs.append(np.log([law.context_given(key, word) for word in words]))
    return logs[1] - logs[0]


def _shown(words: Collection[str]) -> str:
    return "{" + ", ".join(words) + "}"
