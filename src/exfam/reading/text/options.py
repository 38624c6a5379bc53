"""What decides the tokens of a text but for the text itself: cleaning, counts, sentences."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from exfam.checks import ExfamError, check_choice
from exfam.reading.text.vocabulary import Vocabulary

SENTENCES = ("lines", "none")
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_KEPT = b"abcdefghijklmnopqrstuvwxyz0123456789\n"
_PLAIN = bytes(byte if byte in _KEPT else ord(" ") for byte in bytes(range(256)).lower())


def wikifil(text: bytes) -> bytes:
    """Text of a-z and single spaces alone: lower case, digits spelled out, all else a space.

    Letters outside of a-z, accented ones too, become spaces. Markup is not removed.
    Source: M. Mahoney, wikifil.pl (the last steps, which made text8), but for line ends.

    >>> wikifil("Le 14 Juillet: l'été!".encode())
    b'le one four juillet l t '
    """
    text = text.translate(_PLAIN)
    for digit, word in enumerate(DIGITS):
        text = text.replace(b"%d" % digit, b" %s " % word.encode())
    while b"  " in text:
        text = text.replace(b"  ", b" ")
    return text


def lowered(text: bytes) -> bytes:
    """UTF-8 text in lower case, as `str.lower`.

    >>> lowered("ÉTÉ".encode()).decode()
    'été'
    """
    return text.lower() if text.isascii() else text.decode().lower().encode()


CLEANINGS: Mapping[str, Callable[[bytes], bytes]] = {"wikifil": wikifil}


@dataclass(frozen=True)
class TextOptions:
    """How text becomes tokens; see `prepare_text`."""

    min_count: int
    max_words: int | None
    sentences: str
    lower: bool
    cleaning: str | None
    max_distinct: int

    def check(self) -> None:
        """Raise ExfamError for an option that is not what it must be."""
        for name in ("min_count", "max_words", "max_distinct"):
            _check_whole(name, getattr(self, name), none=name == "max_words")
        check_choice("sentences", self.sentences, SENTENCES)
        check_choice("cleaning", self.cleaning, (None, *CLEANINGS))
        check_choice("lower", self.lower, (False, True))

    def learns(self, n_known: int) -> bool:
        """Whether there is room for words that are not known already."""
        return self.max_words is None or self.max_words > n_known

    def cleaned(self, text: bytes) -> bytes:
        """A piece of text as words are cut out of it.

        >>> TextOptions(1, None, "lines", True, None, 100).cleaned(b"The Cat")
        b'the cat'
        """
        if self.cleaning is not None:
            text = CLEANINGS[self.cleaning](text)
        return lowered(text) if self.lower else text


def recipe(options: TextOptions, known: Vocabulary | None, fingerprint: Any) -> str:
    """All that decides the bytes of a prepared text, as JSON: equal recipes, equal bytes.

    >>> options = TextOptions(1, None, "lines", True, None, 100)
    >>> recipe(options, None, None)[:14]
    '{"min_count": '
    """
    digest = None if known is None else _digest(known)
    return json.dumps({**asdict(options), "vocabulary": digest, "source": fingerprint})


def _digest(known: Vocabulary) -> str:
    counts = np.asarray(known.counts, np.int64).tobytes()
    words = "\n".join(known.words).encode(errors="replace")
    return hashlib.sha256(b"%d\n%s\n%s" % (known.n_tokens, words, counts)).hexdigest()


def _check_whole(name: str, value: Any, *, none: bool) -> None:
    if none and value is None:
        return
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        rule = "None or a whole number >= 1" if none else "a whole number >= 1"
        raise ExfamError(f"`{name}` must be {rule}, got {value!r}.")
