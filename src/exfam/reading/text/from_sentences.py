"""Pieces of sentences, each a text or a list of words."""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from exfam.checks import CheckpointError, DataError
from exfam.reading.text.hashing import measure
from exfam.reading.text.pieces import PIECE, Piece, Position

# The text of a sentence, and how many words it was made of; None if it was a text.
Line = tuple[str, int | None]


def pieces_of_sentences(
    sentences: Iterable[Any], *, start: Position, size: int = PIECE
) -> Iterator[Piece]:
    """The pieces of some sentences, of about `size` bytes or a sentence, from some position on.

    A sentence is a line; one that is a text may be of several lines.
    Raises DataError naming the sentence that is neither text nor a list of words without white
    space, that has a NUL, half of a character or a word longer than a megabyte; CheckpointError if
    the sentences before `start` are others than those once read.

    >>> [piece.text for piece in pieces_of_sentences(["a b", ["c", "d"]], start=Position())]
    [b'a b\\nc d\\n', b'']
    """
    rest = iter(sentences)
    checksum = _skipped(rest, start)
    number = start.sentence
    for batch in _batches(rest, number, size):
        text = _joined(batch, number)
        number += len(batch)
        checksum = zlib.crc32(text, checksum)
        yield Piece(text, Position(sentence=number, checksum=checksum), ends=False, done=number)
    yield Piece(b"", Position(file=1, sentence=number, checksum=checksum), ends=True, done=number)


def _skipped(sentences: Iterator[Any], start: Position) -> int:
    """Read the sentences before `start` again; returns their checksum."""
    checksum = n_skipped = 0
    # After the end there must not be one more.
    for batch in _batches(islice(sentences, start.sentence + start.file), 0, PIECE):
        checksum = zlib.crc32(_joined(batch, n_skipped), checksum)
        n_skipped += len(batch)
    if (n_skipped, checksum) != (start.sentence, start.checksum):
        raise CheckpointError(
            "`source` must have the sentences whose preparation was interrupted, got others among "
            f"the first {start.sentence}. Pass resume=False to begin anew."
        )
    return checksum


def _batches(sentences: Iterator[Any], number: int, size: int) -> Iterator[list[Line]]:
    batch: list[Line] = []
    n_characters = 0
    for at, sentence in enumerate(sentences, start=number + 1):
        batch.append(_line(sentence, at))
        n_characters += len(batch[-1][0])
        if n_characters >= size:
            yield batch
            batch, n_characters = [], 0
    if batch:
        yield batch


def _line(sentence: Any, number: int) -> Line:
    if isinstance(sentence, str):
        return sentence, None
    is_list = isinstance(sentence, Sequence | np.ndarray) and np.iterable(sentence)
    if not is_list or isinstance(sentence, bytes):
        raise DataError(
            "`source` must hold sentences, each a text or a list of words, got "
            f"{type(sentence).__name__} at sentence {number}."
        )
    try:
        return " ".join(sentence), len(sentence)
    except TypeError:
        odd = next(word for word in sentence if not isinstance(word, str))
        raise DataError(
            f"`source` must hold words that are text, got {odd!r} ({type(odd).__name__}) in "
            f"sentence {number}. Convert it: str(word)."
        ) from None


def _joined(batch: Sequence[Line], number: int) -> bytes:
    """The sentences as lines of UTF-8; `number`: sentences before them."""
    try:
        text = "".join(f"{line}\n" for line, _ in batch).encode()
    except UnicodeEncodeError:
        text = b"\0"
    lists = [line for line, n_words in batch if n_words is not None]
    n_expected = sum(n_words or 0 for _, n_words in batch)
    listed = text if len(lists) == len(batch) else "\n".join(lists).encode(errors="replace")
    n_words, longest = _measured(text)
    n_listed = n_words if listed is text else _measured(listed)[0]
    if b"\0" in text or longest > PIECE or (lists and n_listed != n_expected):
        for at, line in enumerate(batch, start=number + 1):
            _check(*line, at)
    return text


def _measured(text: bytes) -> tuple[int, int]:
    return measure(np.frombuffer(text, np.uint8))


def _check(text: str, n_words: int | None, number: int) -> None:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"`source` must hold Unicode text, got {text[error.start]!r} alone, half of a "
            f"character, in sentence {number}. Read its file as UTF-8."
        ) from None
    n_found, longest = _measured(data)
    if b"\0" in data:
        raise DataError(f"`source` must hold text, got a NUL in sentence {number}.")
    if longest > PIECE:
        raise DataError(
            f"`source` must have words of at most {PIECE} bytes, got one of {longest} in sentence "
            f"{number}. Separate words by white space."
        )
    if n_words not in (None, n_found):
        raise DataError(
            "`source` must hold words without white space that are not empty, got "
            f"{n_words} that read as {n_found} in sentence {number}. Write 'new_york' for "
            "'new york'."
        )
