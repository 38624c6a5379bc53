"""Pairs of a center word and a word of its context, counted in a corpus."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse
from jaxtyping import Float64, Int32, Int64

from exfam.checks import DataError
from exfam.kernels.cooccurrence import count_cooccurrences
from exfam.reading.text import PreparedText


@dataclass(frozen=True, eq=False)
class CountedPairs:
    """How often word i was a center with word j in its context, and what contexts were like.

    `counts`: centers i in rows, words j of their contexts in columns
    `context_sizes`: how many centers had a context of 0, 1, 2, … words

    >>> from exfam.reading.text import prepare_text
    >>> pairs = count_word_pairs(prepare_text(["a b", "a c", "a"], min_count=1), window=None)
    >>> pairs.joint[0], pairs.context, pairs.context_sizes
    (array([0.  , 0.25, 0.25]), array([0.5 , 0.25, 0.25]), array([1, 4]))
    """

    counts: scipy.sparse.csr_array
    context_sizes: Int64[np.ndarray, "sizes"]

    @property
    def n_words(self) -> int:
        """How many words were counted."""
        return self.counts.shape[0]

    @property
    def weights(self) -> Float64[np.ndarray, "words contexts"]:
        """The counts as a full matrix: 8 bytes for each two words."""
        return self.counts.toarray().astype(np.float64)

    @property
    def joint(self) -> Float64[np.ndarray, "words contexts"]:
        """p(w_i, c_j) of all pairs, which sum to 1."""
        return self.weights / self.counts.sum()

    @property
    def conditional(self) -> Float64[np.ndarray, "words contexts"]:
        """p(w_i, c_j) / p(c_j): columns sum to 1, or are nan where a word is no context."""
        weights = self.weights
        with np.errstate(invalid="ignore"):
            return weights / weights.sum(axis=0)

    @property
    def center(self) -> Float64[np.ndarray, "words"]:
        """p(w_i): shares of the centers of pairs."""
        return np.asarray(self.counts.sum(axis=1), np.float64) / self.counts.sum()

    @property
    def context(self) -> Float64[np.ndarray, "words"]:
        """p(c_j): shares of the contexts of pairs."""
        return np.asarray(self.counts.sum(axis=0), np.float64) / self.counts.sum()


def count_word_pairs(
    text: PreparedText, *, window: int | None, weights: str = "flat"
) -> CountedPairs:
    """Count the pairs of a corpus; words out of its vocabulary are as if not written.

    `window`: the largest distance of two words of a sentence; None for the whole sentence
    `weights`: of a pair by its distance: "flat", "harmonic" or "dynamic", see
        `count_cooccurrences`; "dynamic" is what windows drawn from 1 to `window` come to, as those
        of `SkipGram` (default "flat")

    Centers without context, as the word of a sentence of one, are in no pair.
    Raises DataError for a text without any pair, ExfamError for other windows or weights.

    >>> from exfam.reading.text import prepare_text
    >>> text = prepare_text(["a b a c"], min_count=1)
    >>> count_word_pairs(text, window=1).counts.toarray().tolist()
    [[0, 2, 1], [2, 0, 0], [1, 0, 0]]
    """
    sentence, length = by_sentence(text.tokens)
    if length.max(initial=0) < 2:
        raise DataError(
            "`text` must hold a sentence of two words or more, got none. Prepare longer sentences, "
            "or a vocabulary that leaves fewer words out."
        )
    reach = int(length.max()) - 1 if window is None else window
    counts = count_cooccurrences(text.tokens, len(text.vocabulary), window=reach, weights=weights)
    place = np.arange(len(sentence)) - (np.cumsum(length) - length)[sentence]
    after = length[sentence] - 1 - place
    return CountedPairs(counts, np.bincount(np.minimum(place, reach) + np.minimum(after, reach)))


def by_sentence(
    tokens: Int32[np.ndarray, "tokens"],
) -> tuple[Int64[np.ndarray, "words"], Int64[np.ndarray, "sentences"]]:
    """The sentence of every word, from 0, and the number of words of every sentence.

    >>> by_sentence(np.array([4, 2, -1, 2, -1], np.int32))
    (array([0, 0, 1]), array([2, 1]))
    """
    sentence = np.cumsum(tokens < 0)[tokens >= 0]
    return sentence, np.bincount(sentence)
