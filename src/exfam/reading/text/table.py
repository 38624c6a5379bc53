"""A table that numbers words as they are first read, within a bound of memory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int32, Int64

from exfam.checks import DataError
from exfam.reading.text.hashing import Arrays, compact, encode, place
from exfam.reading.text.pieces import PIECE
from exfam.reading.text.vocabulary import Vocabulary

FIRST_WORDS, FIRST_BYTES = 1 << 16, 1 << 20
BYTES_PER_WORD = 32
LONGEST_WORD = 2 * PIECE
COLUMNS = ("pool", "starts", "hashes", "counts")


@dataclass(frozen=True, eq=False)
class Encoded:
    """Numbers of words, -1 at the end of a sentence.

    `renumbered`: the new number of each old one, -1 if it was removed, where the table was pruned
    right after these; None where it was not.
    """

    ids: Int32[np.ndarray, "ids"]
    renumbered: Int32[np.ndarray, "words"] | None


class WordTable:
    """Words and how often they were read; a word's number is its place among those first read.

    `max_distinct`: with more distinct words (or more than 32 bytes times it in all of them) the
    rarest are forgotten, as word2vec does: those read once, then those read at most twice, and so
    on, until half of the room is free. `known`: words that come first and are never forgotten.
    `learns`: whether words that are not known are counted; otherwise they are skipped.

    >>> table = WordTable(max_distinct=100)
    >>> [each.ids.tolist() for each in table.encode(b"a b a", by_lines=False)]
    [[0, 1, 0]]
    >>> table.texts(np.array([1, 0]))
    ['b', 'a']
    """

    def __init__(
        self, *, max_distinct: int, known: Vocabulary | None = None, learns: bool = True
    ) -> None:
        self.n_words = 0
        self.n_tokens = 0
        self.ended = True
        self.forgotten = 0
        self.n_known = 0 if known is None else len(known)
        self.learns = True
        first = b"" if known is None else "\n".join(known.words).encode()
        self.limit = max(max_distinct, 2 * self.n_known)
        self.byte_limit = max(BYTES_PER_WORD * max_distinct, 2 * len(first), 2 * LONGEST_WORD)
        self._table = _arrays(min(FIRST_WORDS, self.limit), FIRST_BYTES)
        self._put_first(first)
        self.learns = learns

    def encode(self, text: bytes, *, by_lines: bool) -> Iterator[Encoded]:
        """The numbers of all words of a text, in as many parts as the table grows or is pruned.

        `by_lines`: whether line ends are ends of sentences; a sentence without words has none.
        """
        data = np.frombuffer(text, np.uint8)
        ids = np.empty(len(data), np.int32)  # no byte is of two words, or of a word and a line end
        at = 0
        while at < len(data):
            state = np.array([self.n_words, 0, self.ended, 0])
            at = encode(data, at, self._table, state, ids, self.learns, by_lines)
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

    def _put_first(self, known: bytes) -> None:
        for _ in self.encode(known, by_lines=False):
            pass
        if (self.n_words, self.n_tokens) != (self.n_known, self.n_known):
            raise DataError(
                f"`vocabulary` must hold words without white space, got {self.n_known} entries "
                f"of {self.n_tokens} words. Write 'new_york' for 'new york', here and in the text."
            )
        self.counts[:] = 0
        self.n_tokens, self.ended = 0, True

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
        place(self._table, self.n_words)

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
        self.n_words = compact(self._table, keep)
        self._table.slots.fill(-1)
        place(self._table, self.n_words)
        return renumbered


def _arrays(n_words: int, n_bytes: int) -> Arrays:
    return Arrays(
        pool=np.empty(n_bytes, np.uint8),
        starts=np.zeros(n_words + 1, np.int64),
        hashes=np.empty(n_words, np.uint32),
        slots=np.full(1 << (2 * n_words - 1).bit_length(), -1, np.int32),
        counts=np.zeros(n_words, np.int64),
    )
