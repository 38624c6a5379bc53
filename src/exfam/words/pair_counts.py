"""Words, how often each was read, and how often each pair occurred together."""

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Int64

from exfam.kernels.cooccurrence import count_cooccurrences
from exfam.reading.text import PreparedText, prepare_text
from exfam.words.word_estimator import prepared_before


@dataclass(frozen=True, eq=False)
class PairCounts:
    """Counts of words and of pairs of them, within a window."""

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
        code = np.array([index[word] for word in self.words], dtype=np.int64)
        counts = np.zeros(len(words), dtype=np.int64)
        counts[code] = self.counts
        pairs = self.pairs.tocoo()
        wide = (pairs.data, (code[pairs.row], code[pairs.col]))
        shape = (len(words), len(words))
        return PairCounts(words, counts, scipy.sparse.csr_array(wide, shape=shape))


def with_rare_words(source: Any) -> PreparedText:
    """A prepared text: `source` itself, the folder it is in, or made of files or sentences.

    Words are kept however rare they are, so that they hold their positions in windows.
    """
    text = prepared_before(source)
    return prepare_text(source, min_count=1) if text is None else text


def count_pairs(
    text: PreparedText,
    words: tuple[str, ...],
    window: int,
    *,
    weights: str,
    max_bytes: int,
    folder: str | PathLike[str] | None = None,
) -> PairCounts:
    """Counts of `words` and pairs of them; all other words keep their positions in windows."""
    codes = {word: code for code, word in enumerate(words)}
    own = text.vocabulary.words
    code = np.array([codes.get(word, len(words)) for word in own] + [-1], dtype=np.int32)
    counts = np.zeros(len(words) + 1, dtype=np.int64)
    np.add.at(counts, code[:-1], text.vocabulary.counts)
    # Codes that stay as they are need no copy of the text.
    known = min(len(own), len(words))
    as_is = np.array_equal(code[:known], np.arange(known)) and (code[known:-1] >= known).all()
    tokens = text.tokens if as_is else code[text.tokens]
    options: dict[str, Any] = {"weights": weights, "folder": folder, "max_bytes": max_bytes}
    pairs = count_cooccurrences(tokens, len(words), window=window, **options)
    return PairCounts(words, counts[:-1], pairs)
