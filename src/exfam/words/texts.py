"""Texts for word models: read, or prepared before, coded by a vocabulary that may grow."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int32

from exfam.checks import DataError
from exfam.reading.text import PreparedText, Vocabulary, is_prepared_text, open_text, prepare_text
from exfam.reading.text.checks import warn_unknown_words

__all__ = ["ReadingOptions", "known_tokens", "read_text", "recoded"]


@dataclass(frozen=True)
class ReadingOptions:
    """How a text that was not prepared is read; see `prepare_text`."""

    min_count: int
    max_words: int | None
    sentences: str
    lower: bool
    cleaning: str | None

    def prepare(self, source: Any, vocabulary: Vocabulary | None) -> PreparedText:
        """Read a source, its words added to those of a vocabulary."""
        return prepare_text(
            source,
            min_count=self.min_count,
            max_words=self.max_words,
            sentences=self.sentences,
            lower=self.lower,
            cleaning=self.cleaning,
            vocabulary=vocabulary,
        )


def read_text(
    source: Any, options: ReadingOptions, *, vocabulary: Vocabulary | None = None
) -> tuple[Int32[np.ndarray, "tokens"], Vocabulary]:
    """Codes of a text, -1 at the ends of sentences, and the vocabulary, grown by that of the text.

    Raises DataError for a text that cannot be read or has fewer than two words.
    """
    text = _opened(source)
    if text is None:
        text = options.prepare(source, vocabulary)
        return text.tokens, text.vocabulary
    if vocabulary is None:
        return text.tokens, text.vocabulary
    grown = vocabulary.grown(text.vocabulary)
    return recoded(text, grown), grown


def known_tokens(
    source: Any, options: ReadingOptions, *, vocabulary: Vocabulary
) -> Int32[np.ndarray, "tokens"]:
    """Codes of the words of a text that a vocabulary holds; others are left out, with a warning.

    Raises DataError if there are none.
    """
    text = _opened(source)
    if text is None:
        every = ReadingOptions(
            1, len(vocabulary), options.sentences, options.lower, options.cleaning
        )
        text = every.prepare(source, vocabulary)
        tokens = text.tokens
    else:
        tokens = recoded(text, vocabulary)
    n_known = int((tokens >= 0).sum())
    if not n_known:
        raise DataError(
            f"`X` must hold words of the vocabulary, got none of its {len(vocabulary)} words. "
            "Take text of the same language and spelling."
        )
    warn_unknown_words(text.n_tokens - n_known, text.n_tokens)
    return tokens


def recoded(text: PreparedText, vocabulary: Vocabulary) -> Int32[np.ndarray, "tokens"]:
    """The text by the codes of another vocabulary, without the words that it does not hold."""
    index = vocabulary.index
    left_out = -2
    # One more: code -1 is the last entry.
    codes = [*(index.get(word, left_out) for word in text.vocabulary.words), -1]
    tokens = np.array(codes, np.int32)[text.tokens]
    return tokens[tokens != left_out]


def _opened(source: Any) -> PreparedText | None:
    if isinstance(source, PreparedText):
        return source
    return open_text(source) if is_prepared_text(source) else None
