"""A table that numbers words as they are first read, within a bound of memory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, no_type_check

import numpy as np
from jaxtyping import Int32, Int64
from numba import njit

from exfam.checks import DataError
from exfam.reading.text.vocabulary import Vocabulary

# Bytes of text that are read at once.
PIECE = 1 << 20
FIRST_WORDS, FIRST_BYTES = 1 << 16, 1 << 20
BYTES_PER_WORD = 32
LONGEST_WORD = 2 * PIECE
COLUMNS = ("pool", "starts", "hashes", "counts")
_BASIS, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_HALF = np.uint64(32)
LINE_END = 10


class Arrays(NamedTuple):
    """A table of words, some of it free.

    `pool`: the bytes of all words, one after the other; `starts`: where each begins, and where the
    last one ends; `hashes`: 32 bits of each word; `slots`: the table, -1 where it is free, of a
    power of two; `counts`: how often each word was read.
    """

    pool: np.ndarray
    starts: np.ndarray
    hashes: np.ndarray
    slots: np.ndarray
    counts: np.ndarray


# Tests check shapes with functions of their own around ours, which Numba cannot compile:
# `no_type_check` keeps them away.
@njit(cache=True, nogil=True)
@no_type_check
def _white(text, at):
    """Bytes of the white space at `at`, as `str.split` knows it; 0 if there is none."""
    byte = text[at]
    if byte <= 32:
        return int(byte == 32 or 9 <= byte <= 13 or 28 <= byte <= 31)
    if byte < 0xC2 or byte > 0xE3 or at + 1 >= text.size:
        return 0
    second = text[at + 1]
    if byte == 0xC2:
        return 2 if second == 0x85 or second == 0xA0 else 0
    if byte < 0xE1 or at + 2 >= text.size:
        return 0
    third = text[at + 2]
    if byte == 0xE2 and second == 0x80:
        is_space = third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF
    elif byte == 0xE2:
        is_space = second == 0x81 and third == 0x9F
    elif byte == 0xE1:
        is_space = second == 0x9A and third == 0x80
    else:
        is_space = second == 0x80 and third == 0x80
    return 3 if is_space else 0


@njit(cache=True, nogil=True)
@no_type_check
def _find(text, begin, stop, short, table):
    """The slot of the word text[begin:stop]: its own, or the free one where it belongs."""
    mask = table.slots.size - 1
    slot = np.int64(short) & mask
    while True:
        word = table.slots[slot]
        if word < 0:
            return slot
        first = table.starts[word]
        if table.hashes[word] == short and table.starts[word + 1] - first == stop - begin:
            at = begin
            while at < stop and table.pool[first + at - begin] == text[at]:
                at += 1
            if at == stop:
                return slot
        slot = (slot + 1) & mask


@njit(cache=True, nogil=True)
@no_type_check
def _learn(text, begin, stop, short, slot, n_words, table):
    """Add a word to the table; False if there is no room."""
    used = table.starts[n_words]
    if n_words == table.counts.size or used + stop - begin > table.pool.size:
        return False
    for at in range(begin, stop):
        table.pool[used + at - begin] = text[at]
    table.slots[slot] = n_words
    table.hashes[n_words] = short
    table.starts[n_words + 1] = used + stop - begin
    table.counts[n_words] = 0
    return True


@njit(cache=True, nogil=True)
@no_type_check
def number_words(text, at, table, state, ids, learns, by_lines):
    """Write the numbers of words from byte `at` on; new words are added only if it `learns`.

    `state`: words known, numbers written, whether the last one ended a sentence, words read.
    Returns the byte where it stopped: the end, or the beginning of a word without room.
    FNV-1a, folded to 32 bits.
    """
    n_words, n_ids, ended, n_read = state[0], 0, state[2], 0
    while at < text.size:
        width = _white(text, at)
        if width:
            if by_lines and not ended and text[at] == LINE_END:
                ids[n_ids] = -1
                n_ids += 1
                ended = 1
            at += width
            continue
        begin, full = at, _BASIS
        while at < text.size and not _white(text, at):
            full = (full ^ np.uint64(text[at])) * _PRIME
            at += 1
        short = np.uint32(full ^ (full >> _HALF))
        slot = _find(text, begin, at, short, table)
        word = table.slots[slot]
        if word < 0 and learns:
            if not _learn(text, begin, at, short, slot, n_words, table):
                at = begin
                break
            word = n_words
            n_words += 1
        n_read += 1
        if word >= 0:
            table.counts[word] += 1
            ids[n_ids] = word
            n_ids += 1
            ended = 0
    state[0], state[1], state[2], state[3] = n_words, n_ids, ended, n_read
    return at


@njit(cache=True, nogil=True)
@no_type_check
def fill_slots(table, n_words):
    """Give each word a slot; all slots are free before."""
    mask = table.slots.size - 1
    for word in range(n_words):
        slot = np.int64(table.hashes[word]) & mask
        while table.slots[slot] >= 0:
            slot = (slot + 1) & mask
        table.slots[slot] = word


@njit(cache=True, nogil=True)
@no_type_check
def keep_words(table, keep):
    """Move the words to keep to the front, in their order; returns how many there are."""
    n_kept, used, first = 0, 0, 0
    for word in range(keep.size):
        stop = table.starts[word + 1]
        if keep[word]:
            for at in range(first, stop):
                table.pool[used + at - first] = table.pool[at]
            used += stop - first
            table.hashes[n_kept], table.counts[n_kept] = table.hashes[word], table.counts[word]
            n_kept += 1
            table.starts[n_kept] = used
        first = stop
    return n_kept


@njit(cache=True, nogil=True)
@no_type_check
def measure(text):
    """How many words there are in UTF-8 text, as `str.split` cuts it, and the longest's bytes."""
    at, n_words, length, longest = 0, 0, 0, 0
    while at < text.size:
        width = _white(text, at)
        length = 0 if width else length + 1
        n_words += length == 1
        longest = max(longest, length)
        at += max(width, 1)
    return n_words, longest


@dataclass(frozen=True, eq=False)
class Encoded:
    """Numbers of words, -1 at the end of a sentence.

    `renumbered`: new numbers of the old ones, -1 if removed, where the table was pruned then.
    """

    ids: Int32[np.ndarray, "ids"]
    renumbered: Int32[np.ndarray, "words"] | None


class WordTable:
    """Words and how often they were read; words are numbered as they are first read.

    `max_distinct`: with more distinct words (or more than 32 bytes times it in all of them) the
    rarest are forgotten, as word2vec does: those read once, then those read at most twice, and so
    on, until half of the room is free. `known`: words that come first and are never forgotten.
    `learns`: whether words that are not known are counted; otherwise they are skipped.
    """

    def __init__(
        self, *, max_distinct: int, known: Vocabulary | None = None, learns: bool = True
    ) -> None:
        self.n_words = self.n_tokens = self.forgotten = 0
        self.ended = True
        self.n_known = 0 if known is None else len(known)
        self.learns = True
        first = b"" if known is None else "\n".join(known.words).encode()
        self.limit = max(max_distinct, 2 * self.n_known)
        self.byte_limit = max(BYTES_PER_WORD * max_distinct, 2 * len(first), 2 * LONGEST_WORD)
        self._table = _arrays(min(FIRST_WORDS, self.limit), FIRST_BYTES)
        for _ in self.encode(first, by_lines=False):
            pass
        if (self.n_words, self.n_tokens) != (self.n_known, self.n_known):
            raise DataError(
                f"`vocabulary` must hold words without white space, got {self.n_known} entries "
                f"of {self.n_tokens} words. Write 'new_york' for 'new york', here and in the text."
            )
        self.counts[:] = 0
        self.n_tokens, self.ended, self.learns = 0, True, learns

    def encode(self, text: bytes, *, by_lines: bool) -> Iterator[Encoded]:
        """The numbers of all words of a text, in as many parts as the table grows or is pruned.

        `by_lines`: whether line ends are ends of sentences; a sentence without words has none.
        """
        data = np.frombuffer(text, np.uint8)
        ids = np.empty(len(data), np.int32)  # no byte is of two words, or of a word and a line end
        at = 0
        while at < len(data):
            state = np.array([self.n_words, 0, self.ended, 0])
            at = number_words(data, at, self._table, state, ids, self.learns, by_lines)
            self.n_words, n_ids = int(state[0]), int(state[1])
            self.ended = bool(state[2])
            self.n_tokens += int(state[3])
            renumbered = self._make_room() if at < len(data) else None
            yield Encoded(ids[:n_ids].copy(), renumbered)

    @property
    def counts(self) -> Int64[np.ndarray, "words"]:
        """How often each word was read since it was last forgotten."""
        return self._table.counts[: self.n_words]

    def texts(self, numbers: Int64[np.ndarray, "some"]) -> list[str]:
        """The words of some numbers."""
        starts, pool = self._table.starts, self._table.pool
        first, stop = starts[numbers].tolist(), starts[numbers + 1].tolist()
        return [str(pool.data[a:b], "utf-8") for a, b in zip(first, stop, strict=True)]

    def arrays(self) -> dict[str, np.ndarray]:
        """What `restore` needs to go on."""
        table = self._table
        numbers = [self.n_words, self.n_tokens, self.ended, self.forgotten]
        return {
            "numbers": np.array(numbers, np.int64),
            "pool": table.pool[: table.starts[self.n_words]],
            "starts": table.starts[: self.n_words + 1],
            "hashes": table.hashes[: self.n_words],
            "counts": self.counts,
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go on where a table of the same arguments was when these were its `arrays`."""
        self.n_words, self.n_tokens, ended, self.forgotten = arrays["numbers"].tolist()
        self.ended = bool(ended)
        n_words = max(self.n_words, min(FIRST_WORDS, self.limit))
        self._table = _arrays(n_words, max(len(arrays["pool"]), FIRST_BYTES))
        self._fill(arrays)

    def _make_room(self) -> Int32[np.ndarray, "words"] | None:
        """Grow, or forget what is rare: then the new numbers."""
        table = self._table
        n_words, n_bytes = len(table.counts), len(table.pool)
        if self.n_words == n_words and n_words < self.limit:
            n_words = min(2 * n_words, self.limit)
        elif self.n_words < n_words and n_bytes < self.byte_limit:
            n_bytes = min(2 * n_bytes, self.byte_limit)
        else:
            return self._forget()
        arrays = self.arrays()
        self._table = _arrays(n_words, n_bytes)
        self._fill(arrays)
        return None

    def _fill(self, arrays: Mapping[str, np.ndarray]) -> None:
        for name in COLUMNS:
            getattr(self._table, name)[: len(arrays[name])] = arrays[name]
        fill_slots(self._table, self.n_words)

    def _forget(self) -> Int32[np.ndarray, "words"]:
        """Remove the rarest until at most half of the room is taken."""
        counts, sizes = self.counts, np.diff(self._table.starts[: self.n_words + 1])
        keep = np.ones(self.n_words, bool)
        while keep.sum() > self.limit // 2 or sizes[keep].sum() > self.byte_limit // 2:
            # Counts since the last time start anew: what was forgotten once is bounded by the sum.
            self.forgotten += 1
            keep = counts > self.forgotten
            keep[: self.n_known] = True
        renumbered = np.where(keep, np.cumsum(keep) - 1, -1).astype(np.int32)
        self.n_words = keep_words(self._table, keep)
        self._table.slots.fill(-1)
        fill_slots(self._table, self.n_words)
        return renumbered


def _arrays(n_words: int, n_bytes: int) -> Arrays:
    return Arrays(
        pool=np.empty(n_bytes, np.uint8),
        starts=np.zeros(n_words + 1, np.int64),
        hashes=np.empty(n_words, np.uint32),
        slots=np.full(1 << (2 * n_words - 1).bit_length(), -1, np.int32),
        counts=np.zeros(n_words, np.int64),
    )
