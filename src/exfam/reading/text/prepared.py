"""Prepared texts: folders of token ids and words, opened without being read.

text.json        format, format version, sizes and checksums of the files, how they were made
tokens.npy       one 32-bit integer a token
vocabulary.json  the word of every code, and how often it was read
"""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from jaxtyping import Int32

from exfam.checks import DataError
from exfam.files import is_inside, write_atomically
from exfam.reading.text.vocabulary import Vocabulary

__all__ = [
    "FORMAT_VERSION",
    "MANIFEST",
    "TOKENS",
    "WORDS",
    "PreparedText",
    "is_prepared_text",
    "open_text",
    "recipe_of",
    "write_manifest",
]

FORMAT_VERSION = 1
MANIFEST, TOKENS, WORDS = "text.json", "tokens.npy", "vocabulary.json"
_FORMAT = "exfam-text"
# Tokens that are checked at once.
_BLOCK = 1 << 20
_AGAIN = "Prepare the text again, or copy the folder anew from where it is whole."


@dataclass(frozen=True, eq=False)
class PreparedText:
    """A corpus as token ids.

    `tokens`: codes of words of the `vocabulary`, -1 at the end of each sentence; a memory map that
    cannot be written to. Words out of the vocabulary are left out, and sentences of none but them.
    `n_tokens`: raw tokens read, those left out too. `forgotten`: counts up to which rare words were
    forgotten while reading, to bound memory; 0 if none were.

    >>> from exfam.reading.text import prepare_text
    >>> prepare_text(["a b a", "b c"], min_count=2)
    PreparedText(5 tokens, 2 words)
    """

    tokens: Int32[np.ndarray, "tokens"]
    vocabulary: Vocabulary
    n_tokens: int
    forgotten: int = 0

    def __repr__(self) -> str:
        return f"PreparedText({self.n_tokens} tokens, {len(self.vocabulary)} words)"


def write_manifest(folder: Path, *, recipe: str, n_tokens: int, forgotten: int) -> None:
    """Write `text.json`, the last file of a prepared text."""
    document = {
        "format": _FORMAT,
        "format_version": FORMAT_VERSION,
        "recipe": recipe,
        "n_tokens": n_tokens,
        "forgotten": forgotten,
        "files": {
            name: {"size": (folder / name).stat().st_size, "sha256": _checksum(folder / name)}
            for name in (TOKENS, WORDS)
        },
    }
    document["checksum"] = _own_checksum(document)
    write_atomically(folder / MANIFEST, json.dumps(document, indent=1) + "\n")


def open_text(folder: str | os.PathLike[str], *, verify: bool = False) -> PreparedText:
    """The prepared text in a folder, its tokens mapped into memory.

    Files are checked by their size, the vocabulary in full, and tokens are read once, so that none
    is out of the vocabulary; they take no memory.

    `verify`: whether to check every byte of the tokens too (default False)

    Raises DataError naming the file if one is missing, cut, damaged, foreign or of a newer version.
    """
    place = Path(folder)
    manifest = _read_manifest(place)
    try:
        for name in (TOKENS, WORDS):
            told = manifest["files"][name]
            _check_file(place / name, told, verify=verify or name == WORDS)
        tokens = np.asarray(np.load(place / TOKENS, mmap_mode="r"))
        vocabulary = Vocabulary.read_json(place / WORDS)
        counts = [int(manifest[name]) for name in ("n_tokens", "forgotten")]
        if tokens.dtype != np.int32 or tokens.ndim != 1:
            raise ValueError(f"tokens of type {tokens.dtype} and shape {tokens.shape}")
        _check_codes(tokens, len(vocabulary), file=place / TOKENS)
    except DataError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{place} must hold a text as it was prepared, got {error}. It was not written by "
            f"exfam. {_AGAIN}"
        ) from error
    return PreparedText(tokens, vocabulary, *counts)


def _check_codes(tokens: Int32[np.ndarray, "tokens"], n_words: int, *, file: Path) -> None:
    """Raise DataError for codes of no word: compiled loops use them as indices, unchecked."""
    for start in range(0, len(tokens), _BLOCK):
        block = tokens[start : start + _BLOCK]
        for code in (int(block.min()), int(block.max())):
            if not -1 <= code < n_words:
                _fail(
                    f"{file} must hold codes of {n_words} words, and -1 at the ends of sentences, "
                    f"got {code}: a damaged or changed file. {_AGAIN}"
                )


def is_prepared_text(path: Any) -> bool:
    """Whether there is a prepared text at `path`, be it whole or damaged.

    >>> is_prepared_text("corpus.txt")
    False
    """
    if not isinstance(path, str | os.PathLike):
        return False
    try:
        with open(Path(path, MANIFEST), "rb") as file:
            start = file.read(200)
    except (OSError, ValueError):
        return False
    return b'"format"' in start and f'"{_FORMAT}"'.encode() in start


def recipe_of(folder: Path) -> str:
    """What a prepared text was made with and of; DataError as `open_text`."""
    return str(_read_manifest(folder).get("recipe"))


def _read_manifest(folder: Path) -> dict[str, Any]:
    file = folder / MANIFEST
    if not file.is_file():
        got = "a folder without" if folder.is_dir() else "a file" if folder.exists() else "no"
        _fail(f"`folder` must be a prepared text, got {got} {MANIFEST} at {folder}.")
    try:
        document = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        _damaged(file)
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        _fail(f"`folder` must be a prepared text, got the {MANIFEST} of something else: {file}.")
    version = document.get("format_version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        _fail(
            f"{file} must have format version {FORMAT_VERSION} at most, got {version}. Install the "
            "version of exfam that wrote it, or a newer one."
        )
    if document.pop("checksum", None) != _own_checksum(document):
        _damaged(file)
    return document


def _check_file(file: Path, told: dict[str, Any], *, verify: bool) -> None:
    if not file.is_file():
        _fail(f"{file} must be there, got no such file in this prepared text. {_AGAIN}")
    if not is_inside(file):
        _fail(f"{file} must be in its folder, got a link to a file elsewhere. {_AGAIN}")
    size = file.stat().st_size
    if size != told["size"]:
        _fail(f"{file} must have {told['size']} bytes, got {size}: cut or changed. {_AGAIN}")
    if verify and _checksum(file) != told["sha256"]:
        _damaged(file)


def _checksum(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _own_checksum(document: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document).encode()).hexdigest()


def _damaged(file: Path) -> NoReturn:
    _fail(f"{file} must be as it was written, got a damaged or changed file. {_AGAIN}")


def _fail(message: str) -> NoReturn:
    raise DataError(message)
