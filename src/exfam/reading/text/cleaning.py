"""Cleaning of text, a piece of whole words at a time; line ends stay."""

from collections.abc import Callable, Mapping

__all__ = ["CLEANINGS", "lowered", "wikifil"]

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
