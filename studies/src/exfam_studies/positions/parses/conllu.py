"""Sentences with the head of each word, from CoNLL-U files.

Words are numbered from 1; a word's head is another one's number, or 0 for the root of the sentence.
Lines of several words at once ("1-2") and of words that are not written ("1.1") are left out.
Source: Universal Dependencies, https://universaldependencies.org/format.html.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import conllu
import numpy as np
from conllu.exceptions import ParseException
from jaxtyping import Int64

from exfam.checks import DataError
from exfam.reading.streams import opened
from exfam_studies.positions.lines import decoded_lines


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


def read_conllu(path: str | os.PathLike[str]) -> list[DependencyParse]:
    """All sentences of a file, gzip-packed or not.

    Raises DataError, naming file and line, for sentences that are not CoNLL-U, words that are
    empty, numbers that do not count up, heads that are not in the sentence, sentences without
    exactly one root or whose heads go round in a circle, for text that is not UTF-8, and for a file
    without a sentence.
    """
    with opened(path) as file:
        return parses_of(file.read(), where=os.fspath(path))


def parses_of(content: bytes, *, where: str) -> list[DependencyParse]:
    """All sentences of a file's content; `where` names the file in errors, as in `read_conllu`."""
    parses = [
        _parse(sentence, f"in the sentence at line {number} of {where}")
        for number, text in _sentences(content, where)
        for sentence in _tokens(text, f"in the sentence at line {number} of {where}")
    ]
    if not parses:
        raise DataError(f"`path` must hold at least one sentence, got none in {where}.")
    return parses


def _sentences(content: bytes, where: str) -> Iterator[tuple[int, str]]:
    """The text of each sentence, with the number of its first line."""
    lines: list[tuple[int, str]] = []
    for number, line in [*decoded_lines(content, where=where), (0, "")]:
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


def _tokens(text: str, where: str) -> list[Any]:
    try:
        return conllu.parse(text)
    except ParseException as error:
        raise DataError(f"`path` must be CoNLL-U, got {error} {where}.") from error


def _parse(sentence: Any, where: str) -> DependencyParse:
    # Numbers of several words at once, and of words that are not written, are tuples.
    words = [token for token in sentence if isinstance(token["id"], int)]
    if not words:
        raise DataError(f"`path` must have words in each sentence, got none {where}.")
    for number, token in enumerate(words, 1):
        if token["id"] != number:
            raise DataError(
                f"`path` must number the words of a sentence 1, 2, ..., got {token['id']} for "
                f"{number} {where}."
            )
        if not token["form"].strip():
            raise DataError(
                f"`path` must have a word in the second column, got an empty one for word {number} "
                f"{where}."
            )
        if token["head"] not in {*range(len(words) + 1)} - {number}:
            raise DataError(
                f"`path` must have heads that are 0 or another word's number, got {token['head']} "
                f"for word {number} of {len(words)} {where}."
            )
    heads = np.array([token["head"] for token in words], dtype=np.int64) - 1
    _check_tree(heads, where)
    return DependencyParse(
        words=tuple(token["form"] for token in words),
        tags=tuple(token["upos"] for token in words),
        features=tuple(token["feats"] or {} for token in words),
        heads=heads,
        relations=tuple(token["deprel"] for token in words),
    )


def _check_tree(heads: Int64[np.ndarray, "words"], where: str) -> None:
    """Raise unless there is one root, to which all words come by going from head to head."""
    if (heads < 0).sum() != 1:
        raise DataError(
            f"`path` must have one root in each sentence, got {(heads < 0).sum()} {where}."
        )
    at = np.arange(len(heads))
    for _ in range(len(heads)):
        at = np.where(at >= 0, heads[at], -1)
    if (at >= 0).any():
        raise DataError(f"`path` must have heads that lead to the root, got a circle {where}.")
