"""The one reading of a corpus: words are counted and numbered in the order they come.

ids.bin              the number of each word, -1 at the end of a sentence
state.npz            the table of words, and where reading goes on; replaced every 64 MB
renumbered-0.npy, …  new numbers of words, where the table was pruned
"""

import json
import os
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from exfam.reading.text.from_files import pieces_of_files
from exfam.reading.text.from_sentences import pieces_of_sentences
from exfam.reading.text.location import STATE
from exfam.reading.text.options import TextOptions
from exfam.reading.text.pieces import PIECE, Piece, Position
from exfam.reading.text.sources import FileSource, SentenceSource
from exfam.reading.text.table import WordTable
from exfam.reading.text.vocabulary import Vocabulary

IDS = "ids.bin"


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


@dataclass(eq=False)
class Reading:
    """What was read so far; `segments`: how many ids there were whenever the table was pruned."""

    table: WordTable
    position: Position = Position()
    n_ids: int = 0
    segments: list[int] = field(default_factory=list)


def read_text(
    source: FileSource | SentenceSource,
    folder: Path,
    *,
    options: TextOptions,
    known: Vocabulary | None,
    pace: Pace,
) -> Reading:
    """Read a corpus into `folder`, from where a reading of the same was interrupted.

    Raises DataError as the pieces of a corpus do.
    """
    learns = options.learns(0 if known is None else len(known))
    table = WordTable(max_distinct=options.max_distinct, known=known, learns=learns)
    reading = _resumed(folder, table) or Reading(table)
    total = None
    if isinstance(source, FileSource):
        total = sum(path.stat().st_size for path in source.paths)
    with open(folder / IDS, "r+b" if reading.n_ids else "w+b") as out:
        out.truncate(4 * reading.n_ids)
        out.seek(0, os.SEEK_END)
        unsaved = 0
        for piece in _pieces(source, reading.position, pace.piece):
            _take(piece, reading, out, folder, options)
            unsaved += len(piece.text)
            if unsaved >= pace.checkpoint:
                _save(reading, out, folder)
                unsaved = 0
            pace.report(Progress("reading", piece.done, total, table.n_tokens))
        _save(reading, out, folder)
    return reading


def renumbered_file(folder: Path, segment: int) -> Path:
    """Where the new numbers of a segment's words are.

    >>> renumbered_file(Path("text"), 0).name
    'renumbered-0.npy'
    """
    return folder / f"renumbered-{segment}.npy"


def _pieces(source: FileSource | SentenceSource, start: Position, size: int) -> Iterator[Piece]:
    if isinstance(source, FileSource):
        return pieces_of_files(source.paths, start=start, size=size)
    return pieces_of_sentences(source.sentences, start=start, size=size)


def _take(
    piece: Piece, reading: Reading, out: BinaryIO, folder: Path, options: TextOptions
) -> None:
    table = reading.table
    for part in table.encode(options.cleaned(piece.text), by_lines=options.sentences == "lines"):
        out.write(part.ids.data)
        reading.n_ids += len(part.ids)
        if part.renumbered is not None:
            np.save(renumbered_file(folder, len(reading.segments)), part.renumbered)
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
