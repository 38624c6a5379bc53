"""The one reading of a corpus: words are numbered in the order they come, and then coded.

ids.bin              the number of each word, -1 at the end of a sentence
state.npz            the table of words, and where reading goes on; replaced every 64 MB
renumbered-0.npy, …  new numbers of words, where the table was pruned
"""

import json
import os
import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, no_type_check

import numpy as np
from jaxtyping import Int64
from numba import njit

from exfam.checks import DataError
from exfam.reading.text.corpus import FileSource, Position, SentenceSource, TextPiece
from exfam.reading.text.text_options import TextOptions
from exfam.reading.text.vocabulary import Vocabulary
from exfam.reading.text.word_table import PIECE, WordTable

IDS, STATE = "ids.bin", "state.npz"
CODES, RENUMBERED = "codes-{}.npy", "renumbered-{}.npy"
IDS_PER_PIECE = 1 << 20

Codes = Int64[np.ndarray, "codes"]


@dataclass(frozen=True)
class Progress:
    """How far a preparation is.

    `stage`: "reading", then "encoding"; `done` of `total`: bytes of the files as they are stored,
    sentences (their total is not known: None), or numbers of words; `n_tokens`: words read.
    """

    stage: str
    done: int
    total: int | None
    n_tokens: int


@dataclass(frozen=True)
class Pace:
    """How much text is read at once, how much between two states that reading can go on from."""

    piece: int = PIECE
    checkpoint: int = 64 << 20
    report: Callable[[Progress], Any] = field(default=lambda progress: None)


@dataclass(frozen=True, eq=False)
class Preparation:
    """A source and all that decides what becomes of it; `recipe`: that as a text."""

    source: FileSource | SentenceSource
    options: TextOptions
    known: Vocabulary | None
    pace: Pace
    recipe: str


@dataclass(eq=False)
class Reading:
    """What was read so far; `segments`: how many ids there were whenever the table was pruned."""

    table: WordTable
    position: Position = Position()
    n_ids: int = 0
    segments: list[int] = field(default_factory=list)


def read_text(preparation: Preparation, folder: Path) -> Reading:
    """Read a corpus into `folder`, from where a reading of the same was interrupted."""
    source, options, pace = preparation.source, preparation.options, preparation.pace
    known = preparation.known
    # Whether there is room for words that are not known already.
    n_known = 0 if known is None else len(known)
    learns = options.max_words is None or options.max_words > n_known
    table = WordTable(max_distinct=options.max_distinct, known=known, learns=learns)
    reading, total = _resumed(folder, table) or Reading(table), source.total
    with open(folder / IDS, "r+b" if reading.n_ids else "w+b") as out:
        out.truncate(4 * reading.n_ids)
        out.seek(0, os.SEEK_END)
        unsaved = 0
        for piece in source.pieces(start=reading.position, size=pace.piece):
            _take(piece, reading, out, folder, options)
            unsaved += len(piece.text)
            if unsaved >= pace.checkpoint:
                _save(reading, out, folder)
                unsaved = 0
            pace.report(Progress("reading", piece.done, total, table.n_tokens))
        _save(reading, out, folder)
    return reading


def _take(
    piece: TextPiece, reading: Reading, out: BinaryIO, folder: Path, options: TextOptions
) -> None:
    table = reading.table
    for part in table.encode(options.cleaned(piece.text), by_lines=options.sentences == "lines"):
        out.write(part.ids.data)
        reading.n_ids += len(part.ids)
        if part.renumbered is not None:
            np.save(folder / RENUMBERED.format(len(reading.segments)), part.renumbered)
            reading.segments.append(reading.n_ids)
    if piece.ends and not table.ended:
        out.write(np.int32(-1).tobytes())
        reading.n_ids += 1
        table.ended = True
    reading.position = piece.after


def _save(reading: Reading, out: BinaryIO, folder: Path) -> None:
    out.flush()
    os.fsync(out.fileno())
    progress = {
        "position": asdict(reading.position),
        "n_ids": reading.n_ids,
        "segments": reading.segments,
    }
    beside = folder / f"new-{STATE}"
    with open(beside, "wb") as file:
        text = np.frombuffer(json.dumps(progress).encode(), np.uint8)
        np.savez(file, progress=text, **reading.table.arrays())  # type: ignore[arg-type]
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, folder / STATE)


def _resumed(folder: Path, table: WordTable) -> Reading | None:
    try:
        with open(folder / STATE, "rb") as file, np.load(file) as state:
            arrays = {name: state[name] for name in state.files}
        progress = json.loads(arrays.pop("progress").tobytes())
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):  # none yet, or not as written now
        return None
    table.restore(arrays)
    return Reading(table, Position(**progress["position"]), progress["n_ids"], progress["segments"])


def choose_words(table: WordTable, preparation: Preparation) -> tuple[Vocabulary, Codes]:
    """The vocabulary of what a table has read, and the number of the word of each code.

    Known words keep their codes; new ones follow, by falling count (ties: alphabetical).
    """
    options, known = preparation.options, preparation.known
    if table.n_tokens == 0:
        raise DataError("`source` must have words, got white space alone, or nothing.")
    numbers, words = _new_words(table, options)
    fresh = Vocabulary(tuple(words), table.counts[numbers], table.n_tokens)
    if known is None:
        [top] = table.texts(np.array([int(np.argmax(table.counts))]))
        if not len(fresh):
            raise DataError(
                f"`min_count` must leave words, got {options.min_count}, where the most frequent "
                f"word, {top!r}, was read {table.counts.max()} times. Choose a lower one."
            )
        if len(fresh) < 2:
            raise DataError(
                "`source` must have two words or more after `min_count` and `max_words`, got "
                f"{top!r} alone: there is nothing to predict it from."
            )
        return fresh, numbers
    seen = Vocabulary(known.words, table.counts[: len(known)].copy(), 0)
    if seen.counts.sum() + fresh.counts.sum() == 0:
        raise DataError(
            f"`source` must have words of the vocabulary, got none of its {len(known)} among "
            f"{table.n_tokens} words read. Is it of the same language, in lower case or not?"
        )
    return known.grown(seen).grown(fresh), np.concatenate([np.arange(len(known)), numbers])


def _new_words(table: WordTable, options: TextOptions) -> tuple[Codes, list[str]]:
    counts = table.counts
    numbers = table.n_known + np.flatnonzero(counts[table.n_known :] >= options.min_count)
    room = len(numbers)
    if options.max_words is not None:
        room = min(room, max(options.max_words - table.n_known, 0))
    if 0 < room < len(numbers):
        # All words of the last count that has room: their order decides which of them stay.
        least = np.partition(counts[numbers], -room)[-room]
        numbers = numbers[counts[numbers] >= least]
    words = table.texts(numbers)
    order = sorted(range(len(words)), key=lambda at: (-counts[numbers[at]], words[at]))[:room]
    return numbers[np.array(order, np.int64)], [words[at] for at in order]


def write_tokens(reading: Reading, folder: Path, file: Path, *, numbers: Codes, pace: Pace) -> int:
    """Write the codes of a reading in `folder` as a NumPy file, -1 after each sentence; how many.

    `numbers`: the number of the word of each code
    """
    codes = np.full(reading.table.n_words, -1, np.int32)
    codes[numbers] = np.arange(len(numbers), dtype=np.int32)
    # The code of each number, for each segment: a table that is pruned changes numbers.
    np.save(folder / CODES.format(len(reading.segments)), codes)
    for segment in reversed(range(len(reading.segments))):
        renumbered = np.load(folder / RENUMBERED.format(segment))
        codes = np.where(renumbered >= 0, codes[renumbered], np.int32(-1))
        np.save(folder / CODES.format(segment), codes)
    n_written, n_read, ended = 0, 0, True
    with open(folder / IDS, "rb") as ids, open(file, "wb") as out:
        _write_header(out, 0)
        for segment, stop in enumerate([*reading.segments, reading.n_ids]):
            codes = np.load(folder / CODES.format(segment))
            while n_read < stop:
                piece = np.fromfile(ids, np.int32, min(IDS_PER_PIECE, stop - n_read))
                n_read += len(piece)
                n_kept, ended = _recode(piece, codes, ended)
                out.write(piece[:n_kept].data)
                n_written += int(n_kept)
                pace.report(Progress("encoding", n_read, reading.n_ids, reading.table.n_tokens))
        _write_header(out, n_written)
    return n_written


def _write_header(out: BinaryIO, n_tokens: int) -> None:
    # NumPy leaves room for any length: the header written last is as long as the first.
    out.seek(0)
    header = {"descr": "<i4", "fortran_order": False, "shape": (n_tokens,)}
    np.lib.format.write_array_header_1_0(out, header)


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
