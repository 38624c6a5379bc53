"""Words that are not known, and the known ones that are spelled alike."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from exfam.checks import UnknownItemError

__all__ = ["UnknownWordError", "near_spellings", "unknown_word"]

# Words that are compared letter by letter; of a vocabulary in order of counts, the commonest.
_LOOKED_AT, _COMPARED, _SHOWN = 200_000, 3000, 3


class UnknownWordError(UnknownItemError, KeyError):
    """A word has no vector; also a KeyError, as mappings raise."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError shows the repr of its message


def unknown_word(word: Any, words: Sequence[str]) -> UnknownWordError:
    """The error of a word that is not among `words`, with near spellings.

    >>> print(unknown_word("kitchn", ["cat", "kitchen"]))
    `word` must be one of 2 known words, got 'kitchn'. Near: 'kitchen'.
    """
    near = near_spellings(word, words) if isinstance(word, str) else []
    hint = f"Near: {', '.join(map(repr, near))}." if near else "No known word is spelled alike."
    return UnknownWordError(f"`word` must be one of {len(words)} known words, got {word!r}. {hint}")


def near_spellings(word: str, words: Sequence[str]) -> list[str]:
    """Up to 3 words that are spelled alike, nearest first; other cases of letters come before all.

    Looked for among the first 200,000 words, at most 3,000 of which are compared: those of nearly
    the same length with the same first or last letter.

    >>> near_spellings("hte", ["of", "the", "to"])
    ['the']
    """
    plain = word.lower()
    looked_at = words[:_LOOKED_AT]
    near = list(_spelled_nearly(plain, looked_at))
    same = [each for each in near if each.lower() == plain][:_SHOWN]
    alike = difflib.get_close_matches(plain, near[:_COMPARED], n=_SHOWN, cutoff=0.6)
    return list(dict.fromkeys([*same, *alike]))[:_SHOWN]


def _spelled_nearly(word: str, words: Iterable[str]) -> Iterable[str]:
    ends = (word[:1], word[-1:])
    for each in words:
        low = each.lower()
        if abs(len(low) - len(word)) <= 2 and (low[:1] == ends[0] or low[-1:] == ends[1]):
            yield each
