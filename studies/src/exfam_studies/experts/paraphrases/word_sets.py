"""Probabilities of word sets around a word, and how far two sets are from paraphrasing each other.

A context word c's position s is drawn with the weight of all its pairs, then k positions of its
window without replacement, each in proportion to what the pair (m, s) weighs. For one word this is
the paper's p(w_i, c_j), or p_bar(w_i, c_j). p(W | c) is the probability that the k words drawn are
those of W in one given order, mean over orders: the product of p(w_i | c) of independent words.

    rho_j     = log p(c_j | W*) / p(c_j | W)
    sigma_j^W = log p(W | c_j) / product over W of p(w_i | c_j)
    delta     = log p(W*) / p(W), the same for all j
    xi_j      = log p(W* | c_j) / p(W | c_j)

Source: Appendix G of the paper on bidirectional attention as a mixture of experts, Definition 10
and Lemmas 11 and 15.
"""

import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int64

from exfam.checks import DataError, check_fraction
from exfam_studies.experts.paraphrases.windows import Windows

Contexts = Float[np.ndarray, "contexts"]
Positions = Int64[np.ndarray, "sets"]


@dataclass(frozen=True, eq=False)
class WordSets:
    """p(W), p(c) and p(W | c) of any word set W; the bar versions of attention windows.

    `smoothing`: share of independent words in p(W | c): of the product of p(w) over W
    `shrinkage`: None, or a number of pairs K with which sets of two words or more are smoothed
        towards words that are independent given c: p(W | c) is (n + K) / (e + K) times the product
        of p(w | c), where n pairs' worth of sets were counted around c and e were expected

    Raises DataError where a word has nothing around it.
    """

    windows: Windows
    smoothing: float = 0.0
    shrinkage: float | None = None

    def __post_init__(self) -> None:
        check_fraction("smoothing", self.smoothing)
        alone = np.flatnonzero(~(self._context_weight > 0))
        if len(alone):
            raise DataError(
                "`windows` must have words around each word, got none around "
                f"{self.words[alone[0]]!r} ({len(alone)} of {len(self.words)} words). "
                "Leave such words out, or take wider windows."
            )

    @property
    def words(self) -> tuple[str, ...]:
        """All words, in the order of contexts."""
        return self.windows.words

    @cached_property
    def context(self) -> Contexts:
        """p(c_j) = sum over i of p(w_i, c_j)."""
        return self._context_weight / self._context_weight.sum()

    @cached_property
    def center(self) -> Float[np.ndarray, "words"]:
        """p(w_i) = sum over j of p(w_i, c_j); of CBOW the same as p(c_i)."""
        windows = self.windows
        total = windows.by_word(windows.as_center * windows.sums(windows.as_context))
        return total / total.sum()

    @cached_property
    def pairs(self) -> Float[np.ndarray, "words contexts"]:
        """p(w_i | c_j), words i in rows; each column sums to 1."""
        return np.stack([self.given_context([word])[0] for word in self.words])

    def given_context(
        self, words: Collection[str]
    ) -> tuple[Contexts, Bool[np.ndarray, "contexts"]]:
        """p(W | c_j) of all contexts j, and whether W was counted around c_j at all.

        Raises DataError for a word twice, UnknownWordError for unknown words.
        """
        codes = [self.windows.code(word) for word in words]
        if len(set(codes)) < len(codes):
            raise DataError(f"`words` must be different, got one twice in {', '.join(words)}.")
        counted = self._counted(codes)
        if self.shrinkage is not None and len(codes) > 1:
            return self._shrunk(counted, codes), counted > 0
        independent = float(np.prod(self.center[codes]))
        return (1 - self.smoothing) * counted + self.smoothing * independent, counted > 0

    def probability(self, words: Collection[str]) -> float:
        """p(W) = sum over j of p(W | c_j) p(c_j)."""
        return float(self.given_context(words)[0] @ self.context)

    def _shrunk(self, counted: Contexts, codes: Sequence[int]) -> Contexts:
        """A gamma prior, of mean 1 and weight K, on how often sets are seen against expectation."""
        apart = np.prod(self.pairs[codes], axis=0)
        n_pairs = self._context_weight / self._pair_weight
        return apart * ((n_pairs * counted + self.shrinkage) / (n_pairs * apart + self.shrinkage))

    @cached_property
    def _pair_weight(self) -> float:
        counted = (self.windows.as_center > 0).astype(np.float64)
        n_pairs = self.windows.sums(counted)[self.windows.as_context > 0].sum()
        return float(self._context_weight.sum() / n_pairs)

    @cached_property
    def _context_weight(self) -> Contexts:
        return self.windows.by_word(self.windows.as_context * self.windows.around)

    def _counted(self, codes: Sequence[int]) -> Contexts:
        context, members = _positions_of_sets(self.windows, codes)
        weight = self.windows.as_context[context] * self._drawn(context, members)
        return self.windows.by_word(weight, context) / self._context_weight

    def _drawn(self, context: Positions, members: list[Positions]) -> Float[np.ndarray, "sets"]:
        """All weight around each context times the chance to draw its members, mean over orders."""
        around = self.windows.around[context]
        own = [self.windows.as_center[member] for member in members]
        chance = np.zeros(len(context))
        for order in itertools.permutations(own):
            left, product = around, around.copy()
            for weight in order:
                product *= weight / left
                left = left - weight
            chance += product
        return chance / math.factorial(len(own))


def _positions_of_sets(windows: Windows, codes: Sequence[int]) -> tuple[Positions, list[Positions]]:
    """Every position with the whole set in its window, and where its words stand there."""
    listed = sorted((windows.positions[code] for code in codes), key=len)
    start = listed[0]
    for other in listed[1:]:
        low, high = windows.first[windows.first[start]], windows.last[windows.last[start] - 1]
        start = start[np.searchsorted(other, low) < np.searchsorted(other, high)]
    which, context = _ranges(windows.first[start], windows.last[start])
    members = [start[which]]
    kept = (context != members[0]) & (windows.tokens[context] >= 0)
    context, members = context[kept], [members[0][kept]]
    for other in listed[1:]:
        low = np.searchsorted(other, windows.first[context])
        which, occurrence = _ranges(low, np.searchsorted(other, windows.last[context]))
        position, context = other[occurrence], context[which]
        kept = position != context
        members = [member[which][kept] for member in members] + [position[kept]]
        context = context[kept]
    return context, members


def _ranges(
    low: Int64[np.ndarray, "ranges"], high: Int64[np.ndarray, "ranges"]
) -> tuple[Int64[np.ndarray, "numbers"], Int64[np.ndarray, "numbers"]]:
    """Which range each number is of, and every number from `low` to below `high`."""
    length = high - low
    which = np.repeat(np.arange(len(low)), length)
    before = np.cumsum(length) - length
    return which, np.arange(len(which)) - before[which] + low[which]


class ParaphraseTerms(NamedTuple):
    """The terms of two sets W and W*, in nats, one number a context word but for `delta`."""

    rho: Contexts
    sigma: Contexts
    sigma_star: Contexts
    delta: float
    xi: Contexts


def paraphrase_terms(
    sets: WordSets, words: Collection[str], star: Collection[str]
) -> ParaphraseTerms:
    """The terms of W = `words` and W* = `star`; infinite or NaN where a probability is 0."""
    p, p_star = sets.probability(words), sets.probability(star)
    (given, _), (given_star, _) = sets.given_context(words), sets.given_context(star)

    def sigma(words: Collection[str], given: np.ndarray) -> np.ndarray:
        codes = [sets.windows.code(word) for word in words]
        return np.log(given) - sum(np.log(sets.pairs[codes]))

    with np.errstate(divide="ignore", invalid="ignore"):
        # p(c_j | W) = p(W | c_j) p(c_j) / p(W)
        of_context, of_context_star = given * sets.context / p, given_star * sets.context / p_star
        return ParaphraseTerms(
            rho=np.log(of_context_star) - np.log(of_context),
            sigma=sigma(words, given),
            sigma_star=sigma(star, given_star),
            delta=float(np.log(p_star) - np.log(p)),
            xi=np.log(given_star) - np.log(given),
        )


def factorized_matrix(sets: WordSets) -> Float[np.ndarray, "words contexts"]:
    """M_ij = log p(w_i, c_j) / p(c_j) + log |V|, or N of attention windows: what is factorized.

    Raises DataError where a pair has probability 0.
    """
    pairs = sets.pairs
    if not (pairs > 0).all():
        i, j = np.argwhere(~(pairs > 0))[0]
        raise DataError(
            f"`sets` must give each pair a probability above 0, got 0 for {sets.words[i]!r} around "
            f"{sets.words[j]!r} ({(pairs == 0).mean():.0%} of pairs). Take smoothing above 0."
        )
    return np.log(pairs) + np.log(len(sets.words))
