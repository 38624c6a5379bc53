"""The text that experiments of word vectors are fitted to: a file of one's own, or Wikipedia's."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from exfam.checks import DataError
from exfam.reading.public_sets.published import find_file
from exfam.reading.streams import opener_of
from exfam.reading.text import (
    PreparedText,
    dump_lines,
    is_dump,
    is_prepared_text,
    open_text,
    prepare_text,
)
from exfam_studies.common.harness import Options

# 100,000,000 bytes, cleaned as text8 is, of another year.
USUAL_CORPUS = "corpora/enwiki2014_100m.bz2"
# What the paper's figures are of, where rows of a corpus stand beside those of another.
PAPERS_TEXT = {"enwiki2014_100m": "paper: text8, another text"}
# The head that smoke runs read: bytes, or lines of a dump.
_FAST_BYTES, _FAST_LINES = 400_000, 4000
_WORDS_A_SENTENCE = 1000


def corpus_path(options: Options) -> Path:
    """The file that `--corpus` names, else the usual one below EXFAM_DATA."""
    if options.corpus is not None:
        if not options.corpus.is_file():
            raise DataError(f"`corpus` must be a file, got no such file at {options.corpus}.")
        return options.corpus
    found = find_file(USUAL_CORPUS)
    if found is None:
        raise DataError(
            f"`corpus` must be in the folder that EXFAM_DATA names, got no {USUAL_CORPUS} there. "
            "It is the first 100,000,000 bytes of a Wikipedia of 2014, cleaned by wikifil.pl. Name "
            "another text by --corpus FILE."
        )
    return found


def corpus_name(options: Options) -> str:
    """What the corpus is called in rows and in names of kept results."""
    path = Path(USUAL_CORPUS) if options.corpus is None else options.corpus
    return path.name.split(".")[0] + ("-head" if options.fast else "")


def read_corpus(options: Options, *, min_count: int) -> PreparedText:
    """The corpus as codes, a dump of Wikipedia cleaned as text8 was; of smoke runs its head."""
    path, folder = corpus_path(options), None
    if options.folder is not None and not options.fast:
        folder = options.folder / "texts" / f"{corpus_name(options)}-{min_count}"
    if not is_dump(path):
        source: Any = list(_head(path)) if options.fast else path
        return prepare_text(source, folder=folder, min_count=min_count)
    if folder is not None:
        # Lines are not known unread: another file of the name has another size.
        folder = folder.with_name(f"{folder.name}-{path.stat().st_size}")
        if is_prepared_text(folder):
            return open_text(folder)
    lines = itertools.islice(dump_lines(path), _FAST_LINES if options.fast else None)
    return prepare_text(
        lines, folder=folder, min_count=min_count, sentences="none", cleaning="wikifil"
    )


def _head(path: Path) -> Iterator[list[str]]:
    with (opener_of(path) or open)(path, "rb") as file:
        words = iter(file.read(_FAST_BYTES).decode(errors="ignore").split())
    while sentence := list(itertools.islice(words, _WORDS_A_SENTENCE)):
        yield sentence
