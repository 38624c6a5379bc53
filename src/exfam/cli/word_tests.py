"""Test sets of words: the published ones that are there, or those of a folder."""

from pathlib import Path

from exfam.checks import DataError
from exfam.cli.errors import reworded
from exfam.reading.public_sets import word_pairs
from exfam.reading.public_sets.word_pairs import WordPairs, read_word_pairs
from exfam.reading.public_sets.word_questions import WordQuestions, read_word_questions
from exfam.reading.public_sets.word_sets import published_word_sets
from exfam.reading.streams import opened

_ENDINGS = (".txt", ".csv", ".tsv")


def found_sets() -> tuple[list[WordPairs | WordQuestions], list[str]]:
    """The published sets that are on this machine, and the names of the others."""
    sets, missing = published_word_sets()
    if not sets:
        raise DataError(
            "Test sets of words must be in EXFAM_DATA's folder or the user's cache, got none. "
            f"{word_pairs.SOURCE.how_to_get} Or use --tests FOLDER."
        )
    return sets, missing


def sets_of(folder: str) -> list[WordPairs | WordQuestions]:
    """All pairs and analogies in the files of a folder, by name."""
    path = Path(folder)
    if not path.is_dir():
        got = "a file" if path.is_file() else "nothing"
        raise DataError(f"`--tests` must be a folder, got {got} at {folder}.")
    files = sorted(
        file
        for file in path.iterdir()
        if file.is_file() and file.name.lower().removesuffix(".gz").endswith(_ENDINGS)
    )
    if not files:
        raise DataError(
            f"`--tests` must hold files that end in {', '.join(_ENDINGS)} (and maybe .gz), got "
            f"none in {folder}."
        )
    with reworded({"`path`": "`--tests`"}):
        return [_read(file) for file in files]


def _read(file: Path) -> WordPairs | WordQuestions:
    with opened(file) as content:
        first = content.readline().split()
    of_questions = len(first) == 4 or b"".join(first).startswith(b":")
    return read_word_questions(file) if of_questions else read_word_pairs(file)
