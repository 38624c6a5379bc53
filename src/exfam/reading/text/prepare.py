"""A corpus read once, into token ids and a vocabulary."""

import os
import shutil
import warnings
import weakref
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from exfam.checks import DataError, check_path
from exfam.columns.dialect import check_encoding
from exfam.files import as_path, lock_folder, new_scratch_folder, release, write_atomically
from exfam.folders import put_folder
from exfam.reading.folders import unwritable
from exfam.reading.text.corpus import FileSource, find_source
from exfam.reading.text.numbering import (
    STATE,
    Pace,
    Preparation,
    Progress,
    choose_words,
    read_text,
    write_tokens,
)
from exfam.reading.text.prepared_text import (
    TEXT,
    TOKENS,
    WORDS,
    PreparedText,
    is_prepared_text,
    open_text,
    write_manifest,
)
from exfam.reading.text.text_options import TextOptions, recipe
from exfam.reading.text.vocabulary import Vocabulary

RECIPE = "recipe.json"


def prepare_text(
    source: Any,
    *,
    folder: str | os.PathLike[str] | None = None,
    min_count: int = 5,
    max_words: int | None = None,
    sentences: str = "lines",
    lower: bool = False,
    cleaning: str | None = None,
    vocabulary: Vocabulary | None = None,
    max_distinct: int = 5_000_000,
    resume: bool = True,
    overwrite: bool = False,
    progress: Callable[[Progress], Any] | None = None,
    encoding: str | None = None,
) -> PreparedText:
    """Read a corpus once, in pieces, into token ids that are mapped into memory and a vocabulary.

    `source`: a file (plain, .gz or .bz2), a folder, a list of paths, or sentences, each a
    text or a list of words. `folder`: where the prepared text is kept, for `open_text`; without one
    it is a temporary file that is gone with the tokens. Words end at white space, as in
    `str.split`.

    `min_count`: how often a word must be read to get a code (default 5)
    `max_words`: the most words that get one, the most frequent (default None)
    `sentences`: "lines", or "none" where a sentence ends only at the end of a file
        (default "lines")
    `lower`: whether text is read in lower case (default False)
    `cleaning`: "wikifil" for a-z alone, digits spelled out (default None)
    `vocabulary`: words whose codes stay; new ones follow, and counts add up. With
        `max_words=len(vocabulary)` there are none (default None)
    `max_distinct`: distinct words that are counted at once; where there are more, the rarest are
        forgotten, as word2vec does, and a warning says so; five million take some 300 MB
        (default 5_000_000)
    `resume`: whether to go on where a preparation of the same was interrupted (default True)
    `overwrite`: whether a prepared text in `folder` may be replaced; one of the same files and
        options is opened otherwise (default False)
    `progress`: called with a `Progress` after each piece (default None)
    `encoding`: of files, such as "latin-1" or "utf-16"; None for UTF-8 (default None)

    Raises DataError for a source that cannot be read, naming file, line and byte or the sentence,
    for one that leaves fewer than two words, and for a `folder` that is not free; ExfamError for an
    option that is not what it must be; CheckpointError for other sentences than those whose
    preparation was interrupted. What was there is left as it was.
    """
    options = TextOptions(min_count, max_words, sentences, lower, cleaning, max_distinct)
    pace = Pace() if progress is None else Pace(report=progress)
    preparation = preparation_of(
        source, options=options, known=vocabulary, pace=pace, encoding=encoding
    )
    if folder is None:
        return _prepared_for_now(preparation)
    return prepare_into(folder, preparation, resume=resume, overwrite=overwrite)


def preparation_of(
    source: Any,
    *,
    options: TextOptions,
    known: Vocabulary | None,
    pace: Pace,
    encoding: str | None = None,
) -> Preparation:
    """What there is to do; raises for what is wrong before any text is read."""
    options.check()
    if encoding is not None:
        check_encoding("encoding", encoding)
    if is_prepared_text(source):
        raise DataError(
            f"`source` must be text, got a prepared text: {os.fspath(source)!r}. Open it: "
            "open_text(source)."
        )
    corpus = find_source(source, encoding=encoding)
    return Preparation(corpus, options, known, pace, recipe(options, known, corpus.fingerprint))


def prepare_into(
    folder: str | os.PathLike[str], preparation: Preparation, *, resume: bool, overwrite: bool
) -> PreparedText:
    """Prepare a text in a folder, or go on; see `prepare_text`."""
    check_path("folder", folder)
    path = Path(os.path.realpath(as_path(folder)))
    if _is_done(path, preparation) and not overwrite:
        return open_text(path)
    _check_free(path, overwrite=overwrite)
    with _part_folder(path, recipe=preparation.recipe, resume=resume) as part:
        if not _is_done(part, preparation):
            _prepare(preparation, part)
        _clear(part, keep=(TEXT.manifest, TOKENS, WORDS))
        check = partial(_check_free, overwrite=overwrite)
        put_folder(part, path, check=check, ours=lambda name: True)
    return open_text(path)


@contextmanager
def _part_folder(folder: Path, *, recipe: str, resume: bool) -> Iterator[Path]:
    """`.NAME.part`, where NAME is prepared, with what a run of the same recipe left if `resume`.

    Stays as it is if a run is interrupted, and is gone after a DataError.
    """
    part = folder.with_name(f".{folder.name}.part")
    try:
        part.mkdir(parents=True, exist_ok=True)
        handle = lock_folder(part)
    except BlockingIOError:
        raise DataError(
            f"`folder` must not be prepared by two processes at once, got one at work in {part}."
        ) from None
    except OSError as error:
        raise unwritable(error, folder, "a text") from error
    try:
        file = part / RECIPE
        if not resume or not file.is_file() or file.read_text(encoding="utf-8") != recipe:
            _clear(part, keep=())
            write_atomically(file, recipe)
        yield part
    except DataError:  # a run that goes on would meet the same: nothing is worth keeping
        shutil.rmtree(part, ignore_errors=True)
        raise
    except OSError as error:  # what is there is kept, to go on from
        raise unwritable(error, folder, "a text") from error
    finally:
        release(handle)


def _clear(folder: Path, *, keep: Collection[str]) -> None:
    """Remove all files of a folder but some; the state first, which speaks of the others."""
    for path in sorted(folder.iterdir(), key=lambda path: path.name != STATE):
        if path.name not in keep:
            path.unlink()


def _is_done(folder: Path, preparation: Preparation) -> bool:
    """Whether a folder holds what would be prepared; of sentences this is not known unread."""
    is_known = isinstance(preparation.source, FileSource) and is_prepared_text(folder)
    return is_known and str(TEXT.read(folder).get("recipe")) == preparation.recipe


def _check_free(folder: Path, *, overwrite: bool) -> None:
    got = (
        "a text prepared of another source or with other options at {}. Open it with open_text, "
        "or pass overwrite=True to replace it."
    )
    TEXT.check_free(folder, overwrite=overwrite, got=got)


def _prepared_for_now(preparation: Preparation) -> PreparedText:
    """Prepare a text in a folder of its own that is removed with the last use of its tokens."""
    folder, remove = new_scratch_folder()
    try:
        _prepare(preparation, folder)
        _clear(folder, keep=(TEXT.manifest, TOKENS, WORDS))
        text = open_text(folder)
    except BaseException:
        remove()
        raise
    weakref.finalize(text.tokens.base, remove)
    return text


def _prepare(preparation: Preparation, folder: Path) -> None:
    """Write the files of a prepared text, among those that it is made with."""
    reading = read_text(preparation, folder)
    vocabulary, numbers = choose_words(reading.table, preparation)
    write_tokens(reading, folder, folder / TOKENS, numbers=numbers, pace=preparation.pace)
    vocabulary.write_json(folder / WORDS)
    forgotten = reading.table.forgotten
    if forgotten:
        warnings.warn(
            f"words read at most {forgotten} times were forgotten when there were more than "
            f"{preparation.options.max_distinct} distinct ones: counts of rare words are too low. "
            "Raise `max_distinct` if there is memory.",
            stacklevel=4,  # the caller of `prepare_text`
        )
    n_tokens = reading.table.n_tokens
    write_manifest(folder, recipe=preparation.recipe, n_tokens=n_tokens, forgotten=forgotten)
