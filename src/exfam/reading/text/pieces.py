"""A corpus as pieces of whole words of UTF-8."""

from dataclasses import dataclass

PIECE = 1 << 20


@dataclass(frozen=True)
class Position:
    """Where reading goes on.

    `file`: the number of the file; `offset`: the byte of its unpacked text; `line`: its line;
    `sentence`: sentences read where there are no files; `checksum`: CRC-32 of what they were.
    """

    file: int = 0
    offset: int = 0
    line: int = 1
    sentence: int = 0
    checksum: int = 0


@dataclass(frozen=True)
class Piece:
    """Whole words of UTF-8 text, none of them longer than `2 * PIECE` bytes, without NUL.

    `after`: where the next piece begins; `ends`: whether a file, or all sentences, end here;
    `done`: bytes read of all files as they are stored, or sentences read.
    """

    text: bytes
    after: Position
    ends: bool
    done: int
