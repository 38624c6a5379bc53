"""Pairs of words that people have judged: how similar or related the two are."""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from exfam.checks import DataError, check_choice
from exfam.reading.public_sets.published import PublicFiles, read_file
from exfam.reading.streams import opened

# Name -> file below the folder of data, and the md5 of its content.
_FILES = {
    "wordsim-353": ("EN-WS-353-ALL.txt", "a1f5efadd664457727b18ddb42b43a96"),
    "wordsim-353-similarity": ("EN-WS-353-SIM.txt", "e5d93a68121655b8f04aea15b89c130a"),
    "wordsim-353-relatedness": ("EN-WS-353-REL.txt", "9ad3af42e7379e087fc2157895db08f0"),
    "men": ("EN-MEN-TR-3k.txt", "cd6488cef0a1acdb9b5777a11bdb41f6"),
    "mturk-287": ("EN-MTurk-287.txt", "470969d9587c0b376910d56866882aa8"),
    "mturk-771": ("EN-MTurk-771.txt", "c93ee527320f953039dd476066e24952"),
    "rare-words": ("EN-RW-STANFORD.txt", "b50f92e38334c81fc02af695aa9f61ad"),
    "simlex-999": ("EN-SIMLEX-999.txt", "3ed196cb6c0042b77d7498c3d21c7c18"),
    "simverb-3500": ("EN-SimVerb-3500.txt", "c6a8722b8a3ba85798ddb02849175848"),
    "rg-65": ("EN-RG-65.txt", "9135bc37d3c3557666236aa3fb0b5541"),
}
PAIR_SETS = tuple(_FILES)
SOURCE = PublicFiles(
    "word pairs",
    how_to_get="They are in the folder data/word-sim of "
    "https://github.com/mfaruqui/eval-word-vectors: put that folder's files into FOLDER/wordsim "
    "and set EXFAM_DATA=FOLDER.",
    md5={f"wordsim/{file}": md5 for file, md5 in _FILES.values()},
)


@dataclass(frozen=True, eq=False)
class WordPairs:
    """Pairs of words, and what people say of each: the higher, the more alike."""

    name: str
    pairs: tuple[tuple[str, str], ...]
    scores: Float64[np.ndarray, "pairs"]

    def __len__(self) -> int:
        return len(self.pairs)


def word_pairs(name: str) -> WordPairs:
    """A published set by its name, one of PAIR_SETS.

    Files are looked for in the folder `wordsim` of the one that EXFAM_DATA names, then in the
    user's cache. Raises ExfamError for an unknown name; DataError, saying how to obtain the file,
    where it cannot be had or is not the published one.
    """
    check_choice("name", name, PAIR_SETS)
    file = f"wordsim/{_FILES[name][0]}"
    return _parsed(read_file(SOURCE, file), name=name, file=file)


def read_word_pairs(path: str | os.PathLike[str]) -> WordPairs:
    """Pairs of a file of one's own: two words and a number a line, apart by tabs, commas or spaces.

    A first line without a number is a header. Raises DataError, naming file and line.
    """
    with opened(path) as file:
        return _parsed(file.read(), name=Path(path).name, file=os.fspath(path))


def text_lines(content: bytes, *, file: str) -> Iterator[tuple[int, str]]:
    """Number and text of each line that is not blank. Raises DataError for what is not UTF-8."""
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        try:
            text = line.decode().strip()
        except UnicodeDecodeError as error:
            raise DataError(
                f"`path` must be encoded in UTF-8, got {line[:40]!r} at line {number} of {file}. "
                "Convert the file to UTF-8."
            ) from error
        if text:
            yield number, text


def _parsed(content: bytes, *, name: str, file: str) -> WordPairs:
    pairs: list[tuple[str, str]] = []
    scores: list[float] = []
    for number, line in text_lines(content, file=file):
        separator = next((mark for mark in "\t," if mark in line), None)
        fields = [field.strip() for field in line.split(separator)]
        try:
            score = float(fields[2]) if len(fields) == 3 else math.nan
        except ValueError:
            score = math.nan
        if not math.isfinite(score) or not all(fields):
            if not pairs and number == 1 and len(fields) == 3:
                continue
            raise DataError(
                "`path` must have two words and a finite number in each line, got "
                f"{line[:60]!r} at line {number} of {file}."
            )
        pairs.append((fields[0], fields[1]))
        scores.append(score)
    if not pairs:
        raise DataError(f"`path` must hold at least one pair of words, got none in {file}.")
    return WordPairs(name, tuple(pairs), np.array(scores))
