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
    """
    text = text.translate(_PLAIN)
    for digit, word in enumerate(DIGITS):
        text = text.replace(b"%d" % digit, b" %s " % word.encode())
    while b"  " in text:
        text = text.replace(b"  ", b" ")
    return text


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
            value, rule = getattr(self, name), "a whole number >= 1"
            if name == "max_words":
                if value is None:
                    continue
                rule = f"None or {rule}"
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
                raise ExfamError(f"`{name}` must be {rule}, got {value!r}.")
        check_choice("sentences", self.sentences, SENTENCES)
        check_choice("cleaning", self.cleaning, (None, *CLEANINGS))
        check_choice("lower", self.lower, (False, True))

    def cleaned(self, text: bytes) -> bytes:
        """A piece of text as words are cut out of it."""
        if self.cleaning is not None:
            text = CLEANINGS[self.cleaning](text)
        if not self.lower:
            return text
        return text.lower() if text.isascii() else text.decode().lower().encode()


def recipe(options: TextOptions, known: Vocabulary | None, fingerprint: Any) -> str:
    """All that decides the bytes of a prepared text, as JSON: equal recipes, equal bytes."""
    digest = None
    if known is not None:
        counts = np.asarray(known.counts, np.int64).tobytes()
        words = "\n".join(known.words).encode(errors="replace")
        content = b"%d\n%s\n%s" % (known.n_tokens, words, counts)
        digest = hashlib.sha256(content).hexdigest()
    return json.dumps({**asdict(options), "vocabulary": digest, "source": fingerprint})
