"""Sentences with the head of each word, from CoNLL-U files such as Universal Dependencies'.

Words are numbered from 1; a word's head is another one's number, or 0 for the root of the sentence.
Lines of several words at once ("1-2") and of words that are not written ("1.1") are left out.
Source: https://universaldependencies.org/format.html.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import conllu
import numpy as np
from conllu.exceptions import ParseException
from jaxtyping import Int64

from exfam.checks import DataError, check_choice
from exfam.reading.public_sets.published import PublicFiles, read_file
from exfam.reading.streams import opened

PARTS = ("dev", "test")
_MD5 = {"dev": "cb1da95ff28a449cb9bc286c922e15e1", "test": "01630da0129f8600ef761dbcfd18b9e2"}
SOURCE = PublicFiles(
    "English Web Treebank",
    how_to_get="They are in https://github.com/UniversalDependencies/UD_English-EWT: put them into "
    "FOLDER/parses and set EXFAM_DATA=FOLDER.",
    md5={f"parses/en_ewt-ud-{part}.conllu": md5 for part, md5 in _MD5.items()},
)


@dataclass(frozen=True, eq=False)
class DependencyParse:
    """A sentence: its words, and for each its tag, its head's index, and the relation to it.

    `heads`: from 0, and -1 for the root
    `tags`: universal parts of speech; `features`: such as {"Number": "Sing"}
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    features: tuple[Mapping[str, str], ...]
    heads: Int64[np.ndarray, "words"]
    relations: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.words)


def english_parses(part: str) -> list[DependencyParse]:
    """Sentences of weblogs, mail and reviews: "dev" or "test" of the English Web Treebank.

    Raises DataError, saying how to obtain the file, where it cannot be had in EXFAM_DATA/parses or
    the user's cache, or is not the published one.
    """
    check_choice("part", part, PARTS)
    name = f"parses/en_ewt-ud-{part}.conllu"
    return _parses(read_file(SOURCE, name), name)


def read_conllu(path: str | os.PathLike[str]) -> list[DependencyParse]:
    """All sentences of a file, gzip-packed or not.

    Raises DataError, naming file and line, for sentences that are not CoNLL-U in UTF-8 or no trees
    of words under one root, and for a file without a sentence.
    """
    with opened(path) as file:
        return _parses(file.read(), os.fspath(path))


def _parses(content: bytes, where: str) -> list[DependencyParse]:
    parses = []
    for number, text in _sentences(content, where):
        at = f"in the sentence at line {number} of {where}"
        try:
            (tokens,) = conllu.parse(text)
        except ParseException as error:
            raise DataError(f"`path` must be CoNLL-U, got {error} {at}.") from error
        parses.append(_parse(tokens, at))
    if not parses:
        raise DataError(f"`path` must hold at least one sentence, got none in {where}.")
    return parses


def _sentences(content: bytes, where: str) -> Iterator[tuple[int, str]]:
    """The text of each sentence, with the number of its first line."""
    lines: list[tuple[int, str]] = []
    encoded_lines = [*content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), b""]
    for number, encoded in enumerate(encoded_lines, 1):
        try:
            line = encoded.decode().removesuffix("\r")
        except UnicodeDecodeError as error:
            raise DataError(
                f"`path` must be encoded in UTF-8, got {encoded[:40]!r} at line {number} of "
                f"{where}. Convert the file to UTF-8."
            ) from error
        if line and not line.startswith("#"):
            n_columns = len(line.split("\t"))
            if n_columns != 10:
                raise DataError(
                    f"`path` must have 10 columns apart by tabs in each line, got {n_columns} at "
                    f"line {number} of {where}: {line[:60]!r}."
                )
            lines.append((number, line))
        elif not line and lines:
            yield lines[0][0], "\n".join(text for _, text in lines)
            lines = []


def _parse(tokens: Any, where: str) -> DependencyParse:
    def require(is_met: bool | np.bool_, rule: str) -> None:
        if not is_met:
            raise DataError(f"`path` must {rule} {where}.")

    # Numbers of several words at once, and of words that are not written, are tuples.
    words = [token for token in tokens if isinstance(token["id"], int)]
    require(words != [], "have words in each sentence, got none")
    numbers = range(1, len(words) + 1)
    for number, token in zip(numbers, words, strict=True):
        own, head = token["id"], token["head"]
        require(own == number, f"number the words of a sentence 1, 2, ..., got {own} for {number}")
        require(
            token["form"].strip() != "",
            f"have a word in the second column, got an empty one for word {number}",
        )
        require(
            head != number and head in (0, *numbers),
            f"have heads that are 0 or another word's number, got {head} for word {number} of "
            f"{len(words)}",
        )
    heads = np.array([token["head"] for token in words], dtype=np.int64) - 1
    n_roots = (heads < 0).sum()
    require(n_roots == 1, f"have one root in each sentence, got {n_roots}")
    at = np.arange(len(heads))
    for _ in range(len(heads)):
        at = np.where(at >= 0, heads[at], -1)
    require((at < 0).all(), "have heads that lead to the root, got a circle")
    return DependencyParse(
        words=tuple(token["form"] for token in words),
        tags=tuple(token["upos"] for token in words),
        features=tuple(token["feats"] or {} for token in words),
        heads=heads,
        relations=tuple(token["deprel"] for token in words),
    )
