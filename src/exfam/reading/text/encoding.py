"""Numbers of words become codes; words without one are left out, and sentences of none."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, no_type_check

import numpy as np
from jaxtyping import Int64
from numba import njit

from exfam.reading.text.reading import IDS, Pace, Progress, Reading, renumbered_file

__all__ = ["write_tokens"]

IDS_PER_PIECE = 1 << 20


def write_tokens(
    reading: Reading,
    folder: Path,
    file: Path,
    *,
    numbers: Int64[np.ndarray, "codes"],
    pace: Pace,
) -> int:
    """Write the codes of a reading in `folder` as a NumPy file, -1 after each sentence; how many.

    `numbers`: the number of the word of each code
    """
    codes = np.full(reading.table.n_words, -1, np.int32)
    codes[numbers] = np.arange(len(numbers), dtype=np.int32)
    _write_codes(folder, codes, len(reading.segments))
    n_written, n_read, ended = 0, 0, True
    with open(folder / IDS, "rb") as ids, open(file, "wb") as out:
        _write_header(out, 0)
        for segment, stop in enumerate([*reading.segments, reading.n_ids]):
            codes = np.load(_codes_file(folder, segment))
            for piece in _cut(ids, stop - n_read):
                n_read += len(piece)
                n_kept, ended = _recode(piece, codes, ended)
                out.write(piece[:n_kept].data)
                n_written += int(n_kept)
                pace.tell(Progress("encoding", n_read, reading.n_ids, reading.table.n_tokens))
        _write_header(out, n_written)
    return n_written


def _write_codes(folder: Path, codes: np.ndarray, n_segments: int) -> None:
    """Write the code of each number, for each segment: a table that is pruned changes numbers."""
    np.save(_codes_file(folder, n_segments), codes)
    for segment in reversed(range(n_segments)):
        renumbered = np.load(renumbered_file(folder, segment))
        codes = np.where(renumbered >= 0, codes[renumbered], np.int32(-1))
        np.save(_codes_file(folder, segment), codes)


def _codes_file(folder: Path, segment: int) -> Path:
    return folder / f"codes-{segment}.npy"


def _write_header(out: BinaryIO, n_tokens: int) -> None:
    # NumPy leaves room for any length: the header written last is as long as the first.
    out.seek(0)
    header = {"descr": "<i4", "fortran_order": False, "shape": (n_tokens,)}
    np.lib.format.write_array_header_1_0(out, header)


def _cut(ids: BinaryIO, n_ids: int) -> Iterator[np.ndarray]:
    for first in range(0, n_ids, IDS_PER_PIECE):
        yield np.fromfile(ids, np.int32, min(IDS_PER_PIECE, n_ids - first))


@njit(cache=True, nogil=True)
@no_type_check
def _recode(ids, codes, ended):
    """Replace numbers by their codes, in place; how many are left, whether a sentence ended."""
    n_kept = 0
    for at in range(ids.size):
        code = codes[ids[at]] if ids[at] >= 0 else -1
        if code >= 0 or (ids[at] < 0 and not ended):
            ids[n_kept] = code
            n_kept += 1
            ended = code < 0
    return n_kept, ended
