"""The visible text of a dump of Wikipedia, line by line, as wikifil.pl finds it."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from exfam.checks import DataError
from exfam.reading.streams import opener_of, unpacking

_START = b"<mediawiki"
# In this order: entities become characters before tags are removed.
_ENTITIES = ((b"&amp;", b"&"), (b"&lt;", b"<"), (b"&gt;", b">"))
_MARKUP = [
    (re.compile(pattern), kept)
    for pattern, kept in (
        (rb"<ref[^<]*</ref>", b""),
        (rb"<[^>]*>", b""),
        # Of links their visible text stays, of pictures the caption, of categories the name.
        (rb"\[http:[^] ]*", b"["),
        (rb"(?i)\|thumb|\|left|\|right|\|\d+px", b""),
        (rb"(?i)\[\[image:[^\[\]]*\|", b""),
        (rb"(?i)\[\[category:([^|\]]*)[^]]*\]\]", rb"[[\1]]"),
        # Links to other languages.
        (rb"\[\[[a-z\-]*:[^\]]*\]\]", b""),
        (rb"\[\[[^|\]]*\|", b"[["),
        (rb"\{\{[^}]*\}\}", b""),
        (rb"\{[^}]*\}", b""),
        (rb"[\[\]]", b""),
        (rb"&[^;]*;", b" "),
    )
]
_FIRST_TAGS = re.compile(rb"<.*>")


def is_dump(path: str | os.PathLike[str]) -> bool:
    """Whether a file, plain or packed (.gz, .bz2), begins as dumps of Wikipedia do."""
    with _opened(path) as file:
        return bool(file.read(len(_START)) == _START)


def dump_lines(path: str | os.PathLike[str]) -> Iterator[str]:
    """Lines of articles without markup, for `prepare_text` with `cleaning="wikifil"`.

    What is between <text> and </text> but for redirections; lines without visible text are left
    out. Together with `sentences="none"` that is how text8 and cleaned enwik9 were made.
    Raises DataError for a file that is not there or is no dump.
    Source: M. Mahoney, wikifil.pl, up to its last steps.
    """
    file = Path(path)
    if not file.is_file():
        raise DataError(f"`path` must be a file, got no such file at {file}.")
    if not is_dump(file):
        raise DataError(
            f"`path` must be a dump of Wikipedia, which begins with <mediawiki, got {file}. Pass "
            "other text to `prepare_text` itself."
        )
    return _visible(file)


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    with open(path, "rb") as stored:
        yield stored if opener_of(path) is None else unpacking(path, stored, name="path")


def _visible(path: Path) -> Iterator[str]:
    inside = False
    with _opened(path) as file:
        for line in file:
            if b"<text " in line:
                inside = True
            if b"#redirect" in line.lower():
                inside = False
            if not inside:
                continue
            if b"</text>" in line:
                inside = False
            text = _FIRST_TAGS.sub(b"", line, count=1)
            for entity, character in _ENTITIES:
                text = text.replace(entity, character)
            for pattern, kept in _MARKUP:
                text = pattern.sub(kept, text)
            if text := text.strip():
                yield text.decode(errors="replace")
