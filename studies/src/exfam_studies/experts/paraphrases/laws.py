"""Probabilities of word sets around a word, from windows of a text or of a law's sentences.

One joint law of a context word c and k words around it: c's place s is drawn with the weight of all
its pairs, then k places of its window one after the other, without replacement, each in proportion
to what the pair (m, s) weighs. For one word this is the paper's p(w_i, c_j) = #(w_i, c_j) / D, or
p_bar(w_i, c_j) = sum of gamma_j^i / E. p(W | c) is the probability that the k words drawn are those
of W in one given order, mean over orders: all of W lie in one window with c, at places of their
own, each way counted. The mean over orders makes p(W | c) the product of p(w_i | c) where words are
independent; it is a constant 1 / k! that cancels in all that compares sets of one size.

The paper defines p_bar for pairs alone; drawing in proportion to gamma is what extends it to sets.
"""

import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int64

from exfam.checks import DataError, check_fraction, check_positive
from exfam_studies.experts.paraphrases.windows import Windows


@dataclass(frozen=True, eq=False)
class WordLaw:
    """p(W), p(c), p(W | c) and p(c | W) of any word set W; the bar versions of attention windows.

    `windows`: of `sentence_windows`, `text_windows` or `attention_windows`
    `smoothing`: share of independent words in [0, 1): p(W | c) is (1 - smoothing) times what was
        counted plus smoothing times the product of p(w) over W, for sets of any size, so that all
        probabilities still belong to one law. p(c) and p(w) stay (default 0.0)
    `shrinkage`: None, or a number of pairs K above 0 with which sets of two words or more are
        smoothed otherwise, towards words that are independent given c: p(W | c) is then
        (n + K) / (e + K) times the product of p(w | c) over W, smoothed, where n pairs' worth of
        sets were counted around c and e were to be expected (default None)

    In a text most sets are around most words never seen. Without shrinkage p(W | c) is then about
    the same around all c, as if sets paraphrased each other; with it, words are independent given
    c, as if nothing but paraphrase could fail. Which of rho and sigma an error is laid to thus
    depends on the choice; their sum, delta apart, does not.
    Raises DataError where a word has nothing around it, ExfamError for other numbers.
    """

    windows: Windows
    smoothing: float = 0.0
    shrinkage: float | None = None

    def __post_init__(self) -> None:
        check_fraction("smoothing", self.smoothing)
        if self.shrinkage is not None:
            check_positive("shrinkage", self.shrinkage)
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
    def context(self) -> Float[np.ndarray, "contexts"]:
        """p(c_j) = sum over i of p(w_i, c_j)."""
        return self._context_weight / self._context_weight.sum()

    @cached_property
    def center(self) -> Float[np.ndarray, "words"]:
        """p(w_i) = sum over j of p(w_i, c_j); of CBOW the same as p(c_i)."""
        windows = self.windows
        weight = windows.as_center * windows._sums(windows.as_context)
        total = self._by_word(np.arange(len(weight)), weight)
        return total / total.sum()

    @cached_property
    def pairs(self) -> Float[np.ndarray, "words contexts"]:
        """p(w_i | c_j), words i in rows; each column sums to 1."""
        return np.stack([self.given_context([word]) for word in self.words])

    def given_context(self, words: Collection[str]) -> Float[np.ndarray, "contexts"]:
        """p(W | c_j) of all contexts j, smoothed.

        Raises DataError for an empty set or a word twice, UnknownWordError, with near spellings,
        for unknown words.
        """
        return self.given_and_seen(words)[0]

    def given_and_seen(
        self, words: Collection[str]
    ) -> tuple[Float[np.ndarray, "contexts"], Bool[np.ndarray, "contexts"]]:
        """p(W | c_j), and whether W was counted around c_j at all. Raises as `given_context`."""
        codes = self.codes(words)
        counted = self._counted(codes)
        if self.shrinkage is not None and len(codes) > 1:
            return self._shrunk(counted, codes), counted > 0
        return self._mixed(counted, codes), counted > 0

    def single(self, word: str) -> Float[np.ndarray, "contexts"]:
        """p(w | c_j) of one word, a row of `pairs`; found once, and kept.

        Raises UnknownWordError, with near spellings, for an unknown word.
        """
        code = self.windows.code(word)
        if code not in self._singles:
            self._singles[code] = self._mixed(self._counted([code]), [code])
        return self._singles[code]

    @cached_property
    def _singles(self) -> dict[int, np.ndarray]:
        return {}

    def probability(self, words: Collection[str]) -> float:
        """p(W) = sum over j of p(W | c_j) p(c_j)."""
        return float(self.given_context(words) @ self.context)

    def context_given(self, words: Collection[str]) -> Float[np.ndarray, "contexts"]:
        """p(c_j | W) by Bayes' rule. Raises DataError for a set that never occurs in a window."""
        joint = self.given_context(words) * self.context
        total = joint.sum()
        if not total > 0:
            raise never_together(words)
        return joint / total

    def centers_given(self, context: str) -> Float[np.ndarray, "words"]:
        """p(w_i | c) of all words i around one context word: a column of `pairs`.

        Raises UnknownWordError, with near spellings, for an unknown word.
        """
        code = self.windows.code(context)
        place, [own] = _places_of_sets(self.windows, [code])
        windows = self.windows
        weight = windows.as_center[place] * windows.as_context[own]
        counted = self._by_word(place, weight) / self._context_weight[code]
        return (1 - self.smoothing) * counted + self.smoothing * self.center

    def codes(self, words: Collection[str]) -> list[int]:
        """Codes of the words of a set. Raises as `given_context` does."""
        listed = list(words)
        if not listed:
            raise DataError("`words` must be a set of at least one word, got an empty one.")
        if len(set(listed)) < len(listed):
            twice = next(word for word in listed if listed.count(word) > 1)
            raise DataError(f"`words` must be a set of different words, got {twice!r} twice.")
        return [self.windows.code(word) for word in listed]

    def _mixed(
        self, counted: Float[np.ndarray, "contexts"], codes: Sequence[int]
    ) -> Float[np.ndarray, "contexts"]:
        independent = float(np.prod(self.center[codes]))
        return (1 - self.smoothing) * counted + self.smoothing * independent

    def _shrunk(
        self, counted: Float[np.ndarray, "contexts"], codes: Sequence[int]
    ) -> Float[np.ndarray, "contexts"]:
        """A gamma prior, of mean 1 and weight K, on how often sets are seen against expectation."""
        assert self.shrinkage is not None
        apart = np.prod([self.single(self.words[code]) for code in codes], axis=0)
        n_pairs = self._context_weight / self._pair_weight
        ratio = (n_pairs * counted + self.shrinkage) / (n_pairs * apart + self.shrinkage)
        return apart * ratio

    @cached_property
    def _pair_weight(self) -> float:
        """Mean weight of a pair."""
        windows = self.windows
        counted = (windows.as_center > 0).astype(np.float64)
        n_pairs = windows._sums(counted)[windows.as_context > 0].sum()
        return float(self._context_weight.sum() / n_pairs)

    @cached_property
    def _context_weight(self) -> Float[np.ndarray, "contexts"]:
        """Weight of all pairs of each context word."""
        weight = self.windows.as_context * self.windows.around
        return self._by_word(np.arange(len(weight)), weight)

    def _counted(self, codes: Sequence[int]) -> Float[np.ndarray, "contexts"]:
        """p(W | c_j) as counted."""
        context, members = _places_of_sets(self.windows, codes)
        weight = self.windows.as_context[context] * self._drawn(context, members)
        return self._by_word(context, weight) / self._context_weight

    def _drawn(
        self, context: Int64[np.ndarray, "found"], members: list[Int64[np.ndarray, "found"]]
    ) -> Float[np.ndarray, "found"]:
        """All weight around each place, times the chance to draw its members, mean over orders."""
        around = self.windows.around[context]
        own = [self.windows.as_center[each] for each in members]
        chance = np.zeros(len(context))
        for order in itertools.permutations(own):
            left, product = around, around.copy()
            for each in order:
                product *= each / left
                left = left - each
            chance += product
        return chance / math.factorial(len(own))

    def _by_word(
        self, place: Int64[np.ndarray, "found"], weight: Float[np.ndarray, "found"]
    ) -> Float[np.ndarray, "contexts"]:
        tokens = self.windows.tokens[place]
        counted = tokens >= 0
        total = np.bincount(tokens[counted], weight[counted], minlength=len(self.words))
        return total.astype(np.float64)  # nothing at all is counted in integers


def never_together(words: Collection[str]) -> DataError:
    """The error of a set whose words never occur in one window."""
    return DataError(
        f"`words` must occur together: p({', '.join(words)}) is 0. Take wider windows, a longer "
        "text, or smoothing."
    )


def _places_of_sets(
    windows: Windows, codes: Sequence[int]
) -> tuple[Int64[np.ndarray, "found"], list[Int64[np.ndarray, "found"]]]:
    """Every place with the whole set in its window, and where its words stand there.

    Found from the places of the rarest word alone: those with no other of the set in reach are
    dropped before windows are looked at.
    """
    listed = sorted((windows.places(code) for code in codes), key=len)
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
        which, found = _ranges(low, np.searchsorted(other, windows.last[context]))
        place, context = other[found], context[which]
        kept = place != context
        members = [each[which][kept] for each in members] + [place[kept]]
        context = context[kept]
    return context, members


def _ranges(
    low: Int64[np.ndarray, "ranges"], high: Int64[np.ndarray, "ranges"]
) -> tuple[Int64[np.ndarray, "found"], Int64[np.ndarray, "found"]]:
    """Every number from `low` to below `high`, and which range it is of."""
    length = high - low
    which = np.repeat(np.arange(len(low)), length)
    before = np.cumsum(length) - length
    return which, np.arange(len(which)) - before[which] + low[which]
