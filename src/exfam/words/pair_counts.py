"""Words, how often each was read, and how often each pair occurred together."""

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Int32, Int64

from exfam.kernels.cooccurrence import CountingLimits, count_cooccurrences
from exfam.reading.text import PreparedText, is_prepared_text, open_text, prepare_text

__all__ = ["PairCounts", "WindowOptions", "count_pairs", "opened"]


@dataclass(frozen=True)
class WindowOptions:
    """How pairs are counted; see `count_cooccurrences`."""

    window: int
    weights: str
    max_bytes: int

    def count(
        self,
        tokens: Int32[np.ndarray, "tokens"],
        n_words: int,
        folder: str | PathLike[str] | None,
    ) -> scipy.sparse.csr_array:
        """Counts of pairs of codes below `n_words`."""
        return count_cooccurrences(
            tokens,
            n_words,
            window=self.window,
            weights=self.weights,
            folder=folder,
            limits=CountingLimits(max_bytes=self.max_bytes),
        )


@dataclass(frozen=True, eq=False)
class PairCounts:
    """Counts of words and of pairs of them, within a window.

    >>> pairs = scipy.sparse.csr_array([[0, 2], [2, 0]])
    >>> both = PairCounts(("a", "b"), np.array([2, 1]), pairs)
    >>> both.kept(2).words, both.added(both).counts.tolist()
    (('a',), [4, 2])
    """

    words: tuple[str, ...]
    counts: Int64[np.ndarray, "words"]
    pairs: scipy.sparse.csr_array

    def kept(self, min_count: int) -> "PairCounts":
        """Those of words read at least so often, the most frequent first."""
        order = np.argsort(-self.counts, kind="stable")
        order = order[self.counts[order] >= min_count]
        words = tuple(self.words[code] for code in order)
        return PairCounts(words, self.counts[order], self.pairs[order][:, order])

    def added(self, other: "PairCounts") -> "PairCounts":
        """Sums of both; words of `other` that are new follow those of this."""
        words = tuple(dict.fromkeys(self.words + other.words))
        own, others = self._widened(words), other._widened(words)
        return PairCounts(words, own.counts + others.counts, own.pairs + others.pairs)

    def _widened(self, words: tuple[str, ...]) -> "PairCounts":
        index = {word: code for code, word in enumerate(words)}
        place = np.array([index[word] for word in self.words], dtype=np.int64)
        counts = np.zeros(len(words), dtype=np.int64)
        counts[place] = self.counts
        pairs = self.pairs.tocoo()
        wide = (pairs.data, (place[pairs.row], place[pairs.col]))
        shape = (len(words), len(words))
        return PairCounts(words, counts, scipy.sparse.csr_array(wide, shape=shape))


def opened(source: Any) -> PreparedText:
    """A prepared text: `source` itself, the folder it is in, or made of files or sentences.

    Words are kept however rare they are, so that they hold their places in windows.

    >>> opened(["a b a", "b c"]).vocabulary.words
    ('a', 'b', 'c')
    """
    if isinstance(source, PreparedText):
        return source
    return open_text(source) if is_prepared_text(source) else prepare_text(source, min_count=1)


def count_pairs(
    text: PreparedText,
    words: tuple[str, ...],
    options: WindowOptions,
    *,
    folder: str | PathLike[str] | None = None,
) -> PairCounts:
    """Counts of `words` in a text; all others keep their places in windows.

    >>> text = opened(["a b a", "b c"])
    >>> count_pairs(text, ("b", "d"), WindowOptions(1, "flat", 10**6)).counts.tolist()
    [2, 0]
    """
    codes = {word: code for code, word in enumerate(words)}
    own = text.vocabulary.words
    place = np.array([codes.get(word, len(words)) for word in own] + [-1], dtype=np.int32)
    counts = np.zeros(len(words) + 1, dtype=np.int64)
    np.add.at(counts, place[:-1], text.vocabulary.counts)
    # Codes that stay as they are need no copy of the text.
    known = min(len(own), len(words))
    as_is = np.array_equal(place[:known], np.arange(known)) and (place[known:-1] >= known).all()
    tokens = text.tokens if as_is else place[text.tokens]
    return PairCounts(words, counts[:-1], options.count(tokens, len(words), folder))
