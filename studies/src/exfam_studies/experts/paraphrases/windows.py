"""Texts, or all sentences of a law, as windows: which words lie around which, and what they weigh.

A pair is a context word at a place s and a center word at another place m of its window. It weighs

    CBOW         1                                      (times the probability of its sentence)
    attention    gamma_s^m = tau_s / (tau_MASK + sum of tau over m's window but m itself)

where m is the place that is masked and tau of a word is exp(c^T W^KQ c_MASK / sqrt(dim)). Both are
products of what s weighs as context and m as center, so that one structure holds either.
Source: Appendix G of the paper on bidirectional attention as a mixture of experts; Proposition 14.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int64

from exfam.checks import DataError, check_positive, check_whole
from exfam.reading.text.prepared import PreparedText
from exfam.vectors.queries import unknown_word


@dataclass(frozen=True, eq=False)
class Windows:
    """Places of words, the window around each, and what each weighs as context and as center.

    `words`: of the codes 0, 1, …
    `tokens`: the code at each place; -1 where no word is counted: at ends of sentences, and for
        words that are left out but keep their places
    `first`, `last`: of each place's window, itself inside, the last excluded
    `as_context`, `as_center`: what places weigh; 0 where the code is -1

    Places see each other or do not: m is in the window of s just if s is in that of m.
    """

    words: tuple[str, ...]
    tokens: Int64[np.ndarray, "places"]
    first: Int64[np.ndarray, "places"]
    last: Int64[np.ndarray, "places"]
    as_context: Float[np.ndarray, "places"]
    as_center: Float[np.ndarray, "places"]

    def __repr__(self) -> str:
        counted = int((self.tokens >= 0).sum())
        return f"Windows({len(self.words)} words at {counted} places)"

    @cached_property
    def index(self) -> dict[str, int]:
        """The code of each word."""
        return {word: code for code, word in enumerate(self.words)}

    def code(self, word: str) -> int:
        """The word's code. Raises UnknownWordError, with near spellings, for an unknown word."""
        code = self.index.get(word)
        if code is None:
            raise unknown_word(word, self.words)
        return code

    def places(self, code: int) -> Int64[np.ndarray, "found"]:
        """Where a word stands, in rising order."""
        order, start = self._inverted
        return order[start[code] : start[code + 1]]

    @cached_property
    def around(self) -> Float[np.ndarray, "places"]:
        """Weight of all centers in each place's window, but for itself."""
        return self._sums(self.as_center)

    @cached_property
    def _inverted(self) -> tuple[Int64[np.ndarray, "counted"], Int64[np.ndarray, "starts"]]:
        order = np.argsort(self.tokens, kind="stable")
        start = np.searchsorted(self.tokens[order], np.arange(len(self.words) + 1))
        return order, start

    def _sums(self, weight: Float[np.ndarray, "places"]) -> Float[np.ndarray, "places"]:
        """Sum of a weight over each place's window, but for itself."""
        total = np.concatenate([[0.0], np.cumsum(weight)])
        own = total[1:] - total[:-1]
        # Differences of running sums round: a place alone in its window has exactly nothing.
        alone = self.last - self.first == 1
        return np.where(alone, 0.0, total[self.last] - total[self.first] - own)


def sentence_windows(
    sentences: Sequence[Sequence[str]],
    *,
    probability: Float[np.ndarray, "sentences"] | None = None,
    window: int | None = None,
) -> Windows:
    """Windows of sentences given as words, of a law's with their probabilities.

    `probability`: what each sentence weighs; None for 1 (default None)
    `window`: the largest distance of words that see each other; None for whole sentences
        (default None)

    Words are coded in alphabetical order.
    Raises DataError without sentences or for weights that are not finite numbers >= 0, ExfamError
    for a window below 1.

    >>> sentence_windows([["I", "like", "history"], ["like", "history"]]).words
    ('I', 'history', 'like')
    """
    if not sum(map(len, sentences)):
        raise DataError("`sentences` must hold at least one word, got none.")
    weight = np.ones(len(sentences)) if probability is None else probability
    if weight.shape != (len(sentences),):
        raise DataError(
            f"`probability` must be one number a sentence, got shape {weight.shape} for "
            f"{len(sentences)} sentences."
        )
    _check_weights("probability", weight)
    words = tuple(sorted({word for sentence in sentences for word in sentence}))
    code = {word: number for number, word in enumerate(words)}
    tokens = [number for each in sentences for number in [*(code[w] for w in each), -1]]
    lengths = [len(sentence) + 1 for sentence in sentences]
    return _windows(words, np.array(tokens), np.repeat(weight, lengths), window)


def text_windows(
    text: PreparedText, *, window: int | None = None, n_words: int | None = None
) -> Windows:
    """Windows of a prepared text.

    `window`: as in `sentence_windows` (default None)
    `n_words`: words that are counted, the most frequent ones; others keep their places and are
        neither center nor context. None for all (default None)

    Raises ExfamError for numbers below 1.

    >>> from exfam.reading.text import prepare_text
    >>> text_windows(prepare_text(["a b a c"], min_count=1), window=2, n_words=2)
    Windows(2 words at 3 places)
    """
    size = len(text.vocabulary)
    if n_words is not None:
        check_whole("n_words", n_words)
        size = min(size, n_words)
    tokens = np.asarray(text.tokens, dtype=np.int64)
    return _windows(text.vocabulary.words[:size], tokens, np.ones(len(tokens)), window)


def attention_windows(windows: Windows, tau: Float[np.ndarray, "words"], *, mask: float) -> Windows:
    """The same windows, pairs weighed by attention: gamma instead of 1.

    `tau`: of each word of `windows`, exp(c^T W^KQ c_MASK / sqrt(dim))
    `mask`: of MASK itself, which stands at the center and takes its part of the attention

    Places that are left out get none. The sum of gamma over all contexts of a center is then
    1 - tau_MASK / (all tau).
    Raises DataError unless there is a finite `tau` above 0 for each word, ExfamError for such a
    `mask`; DataError for windows that have been weighed by attention already.

    >>> plain = sentence_windows([["a", "b", "c"]])
    >>> attention_windows(plain, np.array([1.0, 2.0, 3.0]), mask=1.0).as_center[:3]
    array([0.16666667, 0.2       , 0.25      ])
    """
    check_positive("mask", mask)
    if len(tau) != len(windows.words):
        raise DataError(
            f"`tau` must be one number a word, got {len(tau)} for {len(windows.words)} words."
        )
    if not (np.isfinite(tau) & (tau > 0)).all():
        bad = int(np.flatnonzero(~(np.isfinite(tau) & (tau > 0)))[0])
        raise DataError(
            f"`tau` must be finite numbers > 0, got {tau[bad]} for {windows.words[bad]!r}. "
            "It is the exponential of a score."
        )
    counted = windows.tokens >= 0
    if not np.isin(windows.as_center, (0.0, 1.0)).all():
        raise DataError("`windows` must weigh pairs alike, got ones weighed by attention already.")
    own = np.where(counted, tau[windows.tokens], 0.0)
    center = np.where(counted, 1 / (mask + windows._sums(own)), 0.0)
    return replace(windows, as_context=windows.as_context * own, as_center=center)


def _windows(
    words: tuple[str, ...],
    tokens: Int64[np.ndarray, "places"],
    weight: Float[np.ndarray, "places"],
    window: int | None,
) -> Windows:
    if window is not None:
        check_whole("window", window)
    place = np.arange(len(tokens))
    ends = np.concatenate([[-1], np.flatnonzero(tokens == -1), [len(tokens)]])
    sentence = np.searchsorted(ends, place, side="left")
    first, last = ends[sentence - 1] + 1, ends[sentence]
    # An end of a sentence is a window of its own, of weight 0.
    first, last = np.minimum(first, place), np.maximum(last, place + 1)
    if window is not None:
        first, last = np.maximum(first, place - window), np.minimum(last, place + window + 1)
    counted = (tokens >= 0) & (tokens < len(words))
    return Windows(
        words=words,
        tokens=np.where(counted, tokens, -1),
        first=first,
        last=last,
        as_context=np.where(counted, weight, 0.0),
        as_center=counted.astype(np.float64),
    )


def _check_weights(name: str, weight: Float[np.ndarray, "weights"]) -> None:
    if not (np.isfinite(weight) & (weight >= 0)).all() or not weight.any():
        raise DataError(f"`{name}` must be finite numbers >= 0, and not all 0.")
