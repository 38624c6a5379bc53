"""Text files of any encoding as UTF-8, which alone DuckDB reads."""

import codecs
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from exfam.checks import DataError
from exfam.reading.database import Database
from exfam.reading.paths import plain_file

CHUNK = 1 << 20
# Letters that a line about an encoding shows as an example.
_LONGEST = 30
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]+")
_WORD = re.compile(rb"[^\s,;|\"]*[\x80-\xff][^\s,;|\"]*")
# Of the languages of Western Europe: more than two such letters stand together in none.
_MOST_LETTERS, _MOST_TOGETHER = 2, 3
_LETTERS = frozenset("ŠšŽžŒœ") | {chr(k) for k in range(0xC0, 0xFF)} - set("×÷")
_SIGNS = frozenset("€‚„…‹›‘’“”•–—™\xa0¡£¥§¨©ª«®¯°±²³´µ¶·¹º»¼½¾¿×")
# Letters of other encodings that stand in words where these signs do not.
_NEVER_AFTER_LETTERS = frozenset("¡¿£¥¨¯´¼½¾×")
_NEVER_BEFORE_LETTERS = frozenset("ª²³¹º¨¯´¼½¾×")


@dataclass(frozen=True)
class Decoded:
    """A file in UTF-8, and how it was written, where that was found by looking."""

    path: Path
    encoding: str = ""
    example: str = ""

    @property
    def words(self) -> str:
        return f"{self.encoding} ({self.example!r})" if self.example else self.encoding


def text_files(
    database: Database, paths: Sequence[Path], *, unmarked: bool = False
) -> list[tuple[str, Path]]:
    """Files by what errors call them, unpacked and in UTF-8; notes encodings that were found.

    `unmarked`: whether they must not begin with a byte order mark
    """
    files = []
    for path in paths:
        plain = plain_file(path, database.folder)
        given, likely = database.dialect.encoding, database.dialect.likely.get("encoding")
        own = decoded(plain, database.folder, name=str(path), encoding=given, likely=likely)
        if unmarked and _begins_with_mark(own.path):
            own = replace(own, path=_rewritten(own.path, database.folder, str(path), "utf-8-sig"))
        if own.encoding and (own.encoding != likely or database.dialect.found is not None):
            database.note(str(path), own.words, encoding=own.encoding)
        files.append((str(path), own.path))
    return files


def decoded(
    path: Path, folder: Path, *, name: str, encoding: str | None, likely: str | None = None
) -> Decoded:
    """The file itself if it is UTF-8, or its text as UTF-8 in a new file in `folder`.

    `name`: what errors call the file; `encoding`: None for what a byte order mark says, UTF-8, or
    latin-1 or cp1252 where all that is not ASCII are letters and signs as in Western languages;
    `likely`: that of a model's training data, which decides where none of these fits

    Raises DataError for a file that `encoding` does not fit, or of no encoding that can be found.
    """
    if encoding is not None:
        return Decoded(_as_utf8(path, folder, name, encoding))
    with open(path, "rb") as file:
        head = file.read(1 << 12)
    marked = next((known for mark, known in _MARKS if head.startswith(mark)), None)
    if marked is not None:
        return Decoded(_as_utf8(path, folder, name, marked))
    if (wide := _wide(head)) is not None:
        return Decoded(_as_utf8(path, folder, name, wide), wide)
    wrong = None if _is_ascii(path) else bad_encoding(path)
    if wrong is None:
        return Decoded(path)
    western, example = _western(path)
    western = western or likely
    if western is None:
        raise DataError(wrong.replace("FILE", name))
    return Decoded(_as_utf8(path, folder, name, western), western, example)


def bad_encoding(path: Path, encoding: str = "utf-8") -> str | None:
    """What is wrong with a file's encoding, of FILE; None if it is this one."""
    decoder = codecs.getincrementaldecoder(encoding)()
    before, lines = 0, 0
    with open(path, "rb") as file:
        chunk = None
        while chunk != b"":
            chunk = file.read(CHUNK)
            pending = len(decoder.getstate()[0])
            try:
                decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                offset = error.start - pending
                line = lines + chunk[: max(offset, 0)].count(b"\n") + 1
                return (
                    f"`source` must be encoded in {encoding.upper()}, got byte "
                    f"{error.object[error.start]:#04x} at byte {before + offset} (line {line}) of "
                    "FILE. Name its encoding, such as encoding='cp1252', or convert it to UTF-8."
                )
            before, lines = before + len(chunk), lines + chunk.count(b"\n")
    return None


def _is_ascii(path: Path) -> bool:
    with open(path, "rb") as file:
        return all(chunk.isascii() for chunk in iter(partial(file.read, CHUNK), b""))


def _as_utf8(path: Path, folder: Path, name: str, encoding: str) -> Path:
    codec = codecs.lookup(encoding).name
    if codec in ("utf-8", "utf-8-sig", "ascii"):
        wrong = bad_encoding(path, codec.removesuffix("-sig"))
        if wrong is not None:
            raise DataError(wrong.replace("FILE", name))
        return path
    return _rewritten(path, folder, name, encoding)


def _begins_with_mark(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8


def _rewritten(path: Path, folder: Path, name: str, encoding: str) -> Path:
    target = folder / f"{len(list(folder.iterdir()))}-utf8-{path.name}"
    try:
        with (
            open(path, encoding=encoding, newline="") as text,
            open(target, "w", encoding="utf-8", newline="") as plain,
        ):
            shutil.copyfileobj(text, plain, CHUNK)
    except UnicodeError as error:
        raise DataError(
            f"`encoding` must be that of {name}, got {encoding!r}: {error}. Name another one, such "
            "as 'utf-8' or 'cp1252'."
        ) from error
    except OSError as error:
        raise DataError(
            f"`TMPDIR` must name a folder with room for {name} in UTF-8, got {error}."
        ) from error
    return target


def _wide(head: bytes) -> str | None:
    """UTF-16 without a mark: every other byte of nearly all letters is 0."""
    half = len(head) // 2
    if half < 2:
        return None
    even, odd = head[0 : 2 * half : 2].count(0), head[1 : 2 * half : 2].count(0)
    if odd > 0.6 * half and even < 0.1 * half:
        return "utf-16-le"
    return "utf-16-be" if even > 0.6 * half and odd < 0.1 * half else None


def _western(path: Path) -> tuple[str | None, str]:
    """latin-1 or cp1252 if the file looks like it, and a word of it; else None."""
    encoding, example = "latin-1", ""
    for piece in _pieces(path):
        for match in _BEYOND_ASCII.finditer(piece):
            if not _is_western(piece, match):
                return None, ""
            if any(byte < 0xA0 for byte in match[0]):
                encoding = "cp1252"
        found = None if example else _WORD.search(piece)
        if found is not None:
            example = found[0][:_LONGEST].decode("cp1252", errors="replace")
    return encoding, example


def _pieces(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while piece := file.read(CHUNK):
            yield piece + file.readline(CHUNK)


def _is_western(text: bytes, match: re.Match[bytes]) -> bool:
    """Whether letters beyond ASCII can be those of a Western language where they stand."""
    try:
        letters = match[0].decode("cp1252")
    except UnicodeDecodeError:
        return False
    if any(letter not in _LETTERS | _SIGNS for letter in letters):
        return False
    n_letters = sum(letter in _LETTERS for letter in letters)
    if n_letters > _MOST_LETTERS or len(letters) > _MOST_TOGETHER or _is_utf8(match[0]):
        return False
    before, after = (
        text[max(match.start() - 1, 0) : match.start()],
        text[match.end() : match.end() + 1],
    )
    around = f"{before.decode('latin-1')} "[:1] + letters + f"{after.decode('latin-1')} "[:1]
    return not any(
        (own in _NEVER_AFTER_LETTERS and left.isalpha())
        or (own in _NEVER_BEFORE_LETTERS and right.isalpha())
        for left, own, right in zip(around[:-2], letters, around[2:], strict=True)
    )


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
