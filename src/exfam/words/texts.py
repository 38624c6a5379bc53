"""Texts for word models: read, or prepared before, coded by a vocabulary that may grow."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Int32

from exfam.checks import DataError
from exfam.reading.text import PreparedText, Vocabulary, is_prepared_text, open_text, prepare_text
from exfam.reading.text.corpus import warn_unknown_words


def coded_text(
    source: Any, reading: Mapping[str, Any], *, vocabulary: Vocabulary | None = None
) -> tuple[Int32[np.ndarray, "tokens"], Vocabulary]:
    """Codes of a text, -1 at the ends of sentences, and the vocabulary, grown by that of the text.

    `reading`: options of `prepare_text`, for a text that was not prepared before
    """
    text = prepared_before(source)
    if text is None:
        text = prepare_text(source, vocabulary=vocabulary, **reading)
        return text.tokens, text.vocabulary
    if vocabulary is None:
        return text.tokens, text.vocabulary
    grown = vocabulary.grown(text.vocabulary)
    return recoded(text, grown), grown


def known_tokens(
    source: Any, reading: Mapping[str, Any], *, vocabulary: Vocabulary
) -> Int32[np.ndarray, "tokens"]:
    """Codes of the words of a text that a vocabulary holds; others are left out, with a warning."""
    text = prepared_before(source)
    if text is None:
        every = {**reading, "min_count": 1, "max_words": len(vocabulary)}
        text = prepare_text(source, vocabulary=vocabulary, **every)
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
    # The last entry is that of code -1.
    codes = [*(index.get(word, left_out) for word in text.vocabulary.words), -1]
    tokens = np.array(codes, np.int32)[text.tokens]
    return tokens[tokens != left_out]


def prepared_before(source: Any) -> PreparedText | None:
    """The prepared text that `source` is, or that is in its folder; None for any other source."""
    if isinstance(source, PreparedText):
        return source
    return open_text(source) if is_prepared_text(source) else None
