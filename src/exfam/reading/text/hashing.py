"""Compiled loops over bytes: words are cut out of UTF-8 and numbered by a hash table."""

from typing import NamedTuple, no_type_check

import numpy as np
from numba import njit

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
def encode(text, at, table, state, ids, learns, by_lines):
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
def place(table, n_words):
    """Give each word a slot; all slots are free before."""
    mask = table.slots.size - 1
    for word in range(n_words):
        slot = np.int64(table.hashes[word]) & mask
        while table.slots[slot] >= 0:
            slot = (slot + 1) & mask
        table.slots[slot] = word


@njit(cache=True, nogil=True)
@no_type_check
def compact(table, keep):
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
