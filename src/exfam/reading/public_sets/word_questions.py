"""Analogies as questions: a is to b as c is to d, in categories."""

import os
from dataclasses import dataclass
from pathlib import Path

from exfam.checks import DataError, check_choice
from exfam.reading.public_sets.published import PublicFiles, read_file
from exfam.reading.public_sets.word_pairs import text_lines
from exfam.reading.streams import opened

KINDS = ("semantic", "syntactic")
_FILES = {
    "google": ("questions-words.txt", "8b7461cbf7ecc0aec9b32eb626821105"),
    "msr": ("msr.txt", "4b3ae29c0642c7f47b554bab83659b45"),
}
QUESTION_SETS = tuple(_FILES)
SOURCE = PublicFiles(
    "word questions",
    how_to_get="questions-words.txt is in https://github.com/tmikolov/word2vec, and msr.txt in the "
    "folder testsets/en/analogy of hyperwords, https://github.com/jfilter/hyperwords: put them "
    "into FOLDER/wordsim and set EXFAM_DATA=FOLDER.",
    md5={f"wordsim/{file}": md5 for file, md5 in _FILES.values()},
)


@dataclass(frozen=True)
class WordQuestions:
    """Questions (a, b, c, d) with the category of each.

    `kinds`: category -> "semantic" or "syntactic"
    """

    name: str
    questions: tuple[tuple[str, str, str, str], ...]
    categories: tuple[str, ...]
    kinds: dict[str, str]

    def __len__(self) -> int:
        return len(self.questions)


def word_questions(name: str) -> WordQuestions:
    """A published set by its name: "google" or "msr", which is syntactic throughout.

    Files are looked for in the folder `wordsim` of the one that EXFAM_DATA names, then in the
    user's cache. Raises ExfamError for an unknown name; DataError, saying how to obtain the file,
    where it cannot be had or is not the published one.
    """
    check_choice("name", name, QUESTION_SETS)
    file = f"wordsim/{_FILES[name][0]}"
    found = _parsed(read_file(SOURCE, file), name=name, file=file)
    if name == "google":
        return found
    return WordQuestions(name, found.questions, found.categories, {name: "syntactic"})


def read_word_questions(path: str | os.PathLike[str]) -> WordQuestions:
    """Questions of a file of one's own: four words a line, after lines ": category" if there are.

    As in Google's file, categories whose names begin with "gram" are syntactic and the others
    semantic; without categories there is one, the file's name. Raises DataError, naming file and
    line, for other numbers of words.
    """
    with opened(path) as file:
        return _parsed(file.read(), name=Path(path).name, file=os.fspath(path))


def _parsed(content: bytes, *, name: str, file: str) -> WordQuestions:
    questions, categories, category = [], [], name
    for number, line in text_lines(content, file=file):
        if line.startswith(":"):
            category = line[1:].strip()
            continue
        words = line.split()
        if len(words) != 4:
            raise DataError(
                "`path` must have four words in each line that does not begin with a colon, got "
                f"{line[:60]!r} at line {number} of {file}."
            )
        a, b, c, d = words
        questions.append((a, b, c, d))
        categories.append(category)
    if not questions:
        raise DataError(f"`path` must hold at least one question, got none in {file}.")
    kinds = {
        category: KINDS[category.startswith("gram")] for category in categories if category != name
    }
    return WordQuestions(name, tuple(questions), tuple(categories), kinds)
