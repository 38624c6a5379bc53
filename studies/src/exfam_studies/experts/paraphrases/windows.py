"""Texts, or all sentences of a grammar, as windows: which words lie around which, and their weight.

A context word at a position s and a center word at another one m of its window weigh 1 (times the
probability of the sentence) in CBOW, and in attention gamma_s^m = tau_s / (tau_MASK + sum of tau
over m's window but m itself), tau of a word being exp(c^T W^KQ c_MASK / sqrt(dim)).
Source: Appendix G of the paper on bidirectional attention as a mixture of experts; Proposition 14.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int64

from exfam.checks import DataError, check_positive
from exfam.reading.text.prepared_text import PreparedText
from exfam.vectors.queries import unknown_word

Weights = Float[np.ndarray, "positions"]
Codes = Int64[np.ndarray, "positions"]


@dataclass(frozen=True, eq=False)
class Windows:
    """Positions of words, the window around each, and what each weighs as context and as center.

    `tokens`: the code at each position; -1 at ends of sentences and for words that are left out
    `first`, `last`: of each position's window, itself inside, the last excluded
    """

    words: tuple[str, ...]
    tokens: Codes
    first: Codes
    last: Codes
    as_context: Weights
    as_center: Weights

    @cached_property
    def index(self) -> dict[str, int]:
        """The code of each word."""
        return {word: code for code, word in enumerate(self.words)}

    def code(self, word: str) -> int:
        """The word's code. Raises UnknownWordError, with near spellings, for an unknown word."""
        if word not in self.index:
            raise unknown_word(word, self.words)
        return self.index[word]

    @cached_property
    def positions(self) -> list[Int64[np.ndarray, "occurrences"]]:
        """Where every word stands, in rising order, by its code."""
        order = np.argsort(self.tokens, kind="stable")
        start = np.searchsorted(self.tokens[order], np.arange(len(self.words) + 1))
        return np.split(order, start)[1:-1]

    @cached_property
    def around(self) -> Weights:
        """Weight of all centers in each position's window, but for itself."""
        return self.sums(self.as_center)

    def sums(self, weight: Weights) -> Weights:
        """Sum of a weight over each position's window, but for itself."""
        total = np.concatenate([[0.0], np.cumsum(weight)])
        own = total[1:] - total[:-1]
        # Differences of running sums round: a word alone in its window has exactly nothing.
        alone = self.last - self.first == 1
        return np.where(alone, 0.0, total[self.last] - total[self.first] - own)

    def by_word(
        self,
        weight: Float[np.ndarray, "chosen"],
        position: Int64[np.ndarray, "chosen"] | None = None,
    ) -> Float[np.ndarray, "words"]:
        """Sum of a weight over the positions of each word, all or those chosen."""
        tokens = self.tokens if position is None else self.tokens[position]
        counted = tokens >= 0
        total = np.bincount(tokens[counted], weight[counted], minlength=len(self.words))
        return total.astype(np.float64)  # nothing at all is counted in integers


def sentence_windows(
    sentences: Sequence[Sequence[str]],
    *,
    probability: Float[np.ndarray, "sentences"] | None = None,
    window: int | None = None,
) -> Windows:
    """Windows of sentences given as words, of words in alphabetical order.

    `probability`: what each sentence weighs; `window`: the largest distance, None for all
    """
    words = tuple(sorted({word for sentence in sentences for word in sentence}))
    code = {word: number for number, word in enumerate(words)}
    tokens = [number for sentence in sentences for number in [*(code[w] for w in sentence), -1]]
    weight = np.ones(len(sentences)) if probability is None else probability
    lengths = [len(sentence) + 1 for sentence in sentences]
    return _windows(words, np.array(tokens), np.repeat(weight, lengths), window)


def text_windows(
    text: PreparedText, *, window: int | None = None, n_words: int | None = None
) -> Windows:
    """Windows of a prepared text; beyond the `n_words` most frequent, words only stand there."""
    tokens = np.asarray(text.tokens, dtype=np.int64)
    return _windows(text.vocabulary.words[:n_words], tokens, np.ones(len(tokens)), window)


def attention_windows(windows: Windows, tau: Float[np.ndarray, "words"], *, mask: float) -> Windows:
    """The same windows, pairs weighed by attention: `tau` of each word, `mask` that of MASK."""
    check_positive("mask", mask)
    if len(tau) != len(windows.words) or not (np.isfinite(tau) & (tau > 0)).all():
        raise DataError(
            f"`tau` must be a finite number > 0 for each of {len(windows.words)} words, got "
            f"{len(tau)} from {tau.min():g} to {tau.max():g}. It is the exponential of a score."
        )
    counted = windows.tokens >= 0
    own = np.where(counted, tau[windows.tokens], 0.0)
    center = np.where(counted, 1 / (mask + windows.sums(own)), 0.0)
    return replace(windows, as_context=windows.as_context * own, as_center=center)


def _windows(words: tuple[str, ...], tokens: Codes, weight: Weights, window: int | None) -> Windows:
    position = np.arange(len(tokens))
    ends = np.concatenate([[-1], np.flatnonzero(tokens == -1), [len(tokens)]])
    sentence = np.searchsorted(ends, position, side="left")
    # An end of a sentence is a window of its own, of weight 0.
    first = np.minimum(ends[sentence - 1] + 1, position)
    last = np.maximum(ends[sentence], position + 1)
    if window is not None:
        first = np.maximum(first, position - window)
        last = np.minimum(last, position + window + 1)
    counted = (tokens >= 0) & (tokens < len(words))
    return Windows(
        words=words,
        tokens=np.where(counted, tokens, -1),
        first=first,
        last=last,
        as_context=np.where(counted, weight, 0.0),
        as_center=counted.astype(np.float64),
    )
