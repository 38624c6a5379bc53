"""Which of the words read get a code."""

import numpy as np
from jaxtyping import Int64

from exfam.checks import DataError
from exfam.reading.text.options import TextOptions
from exfam.reading.text.table import WordTable
from exfam.reading.text.vocabulary import Vocabulary

__all__ = ["choose_words"]


def choose_words(
    table: WordTable, *, options: TextOptions, known: Vocabulary | None
) -> tuple[Vocabulary, Int64[np.ndarray, "codes"]]:
    """The vocabulary of what a table has read, and the number of the word of each code.

    Known words keep their codes; new ones follow, by falling count (ties: alphabetical).
    Raises DataError if nothing was read, if fewer than two words are left, or, where words are
    known, if none was met.
    """
    if table.n_tokens == 0:
        raise DataError("`source` must have words, got white space alone, or nothing.")
    numbers, words = _new_words(table, options)
    fresh = Vocabulary(tuple(words), table.counts[numbers], table.n_tokens)
    if known is None:
        _check_enough(fresh, table, options)
        return fresh, numbers
    seen = Vocabulary(known.words, table.counts[: len(known)].copy(), 0)
    if seen.counts.sum() + fresh.counts.sum() == 0:
        raise DataError(
            f"`source` must have words of the vocabulary, got none of its {len(known)} among "
            f"{table.n_tokens} words read. Is it of the same language, in lower case or not?"
        )
    return known.grown(seen).grown(fresh), np.concatenate([np.arange(len(known)), numbers])


def _new_words(
    table: WordTable, options: TextOptions
) -> tuple[Int64[np.ndarray, "codes"], list[str]]:
    """Numbers and texts of the words to add, in their order."""
    counts = table.counts
    numbers = table.n_known + np.flatnonzero(counts[table.n_known :] >= options.min_count)
    room = len(numbers)
    if options.max_words is not None:
        room = min(room, max(options.max_words - table.n_known, 0))
    if 0 < room < len(numbers):
        # All words of the last count that has room: their order tells which of them stay.
        least = np.partition(counts[numbers], -room)[-room]
        numbers = numbers[counts[numbers] >= least]
    words = table.texts(numbers)
    order = sorted(range(len(words)), key=lambda at: (-counts[numbers[at]], words[at]))[:room]
    return numbers[np.array(order, np.int64)], [words[at] for at in order]


def _check_enough(vocabulary: Vocabulary, table: WordTable, options: TextOptions) -> None:
    if len(vocabulary) >= 2:
        return
    top = int(np.argmax(table.counts))
    [word] = table.texts(np.array([top]))
    if not len(vocabulary):
        raise DataError(
            f"`min_count` must leave words, got {options.min_count}, where the most frequent word, "
            f"{word!r}, was read {table.counts[top]} times. Choose a lower one."
        )
    raise DataError(
        "`source` must have two words or more after `min_count` and `max_words`, got "
        f"{word!r} alone: there is nothing to tell it from."
    )
