"""Pairs of sentences with what the first entails: the Stanford Natural Language Inference corpus.

Source: Bowman, Angeli, Potts & Manning (2015), https://nlp.stanford.edu/projects/snli.
"""

import csv
import json
import os
from dataclasses import dataclass, field
from typing import Any

from exfam.checks import DataError, check_choice, is_utf8
from exfam.reading.public_sets.published import PublicFiles, read_file
from exfam.reading.public_sets.word_pairs import text_lines
from exfam.reading.streams import opened
from exfam_studies.positions.trees import Tree, parse_brackets

# In the order of the numbers that tables of the corpus write for them.
LABELS = ("entailment", "neutral", "contradiction")
# What the corpus writes where fewer than three of five annotators agree.
_NO_LABEL = "-"
_FILES = {
    "test": ("sentences/snli_test.csv", "e460b3ef6f8cc5d23cfedc0254c71dd6"),
    "parsed": (
        "sentences/snli_1.0_test_partial_with_parses.jsonl",
        "48acde5028a26433a2b0cfdbf6349f31",
    ),
}
PARTS = tuple(_FILES)
SOURCE = PublicFiles(
    "SNLI",
    how_to_get="The corpus is at https://nlp.stanford.edu/projects/snli, and these extracts of it "
    "are in JiachengPang/csci544_project and Deltaus/sBiMPM on GitHub: put them into "
    "FOLDER/sentences and set EXFAM_DATA=FOLDER. `read_snli` reads the corpus' own files.",
    md5=dict(_FILES.values()),
)
_FIELDS = ("sentence1", "sentence2", "gold_label", "sentence1_parse", "sentence2_parse")


@dataclass(frozen=True)
class SentencePair:
    """A premise, a hypothesis, and what the one says of the other.

    `label`: one of LABELS; None where the annotators did not agree
    `premise_parse`, `hypothesis_parse`: their constituents; None where they were not parsed
    """

    premise: str
    hypothesis: str
    label: str | None
    premise_parse: Tree | None = field(default=None, hash=False)
    hypothesis_parse: Tree | None = field(default=None, hash=False)


def snli_pairs(part: str) -> list[SentencePair]:
    """Pairs of a part: "test", the 9,824 of the test set that have a label, without parses.

    "parsed": 1,277 pairs with parses, 23 of them without a label. It calls itself the test set, but
    shares no premise with it: a model trained on the corpus may have seen these pairs.

    Raises DataError, saying how to obtain the file, where it cannot be had in EXFAM_DATA/sentences
    or the user's cache, or is not the published one.
    """
    check_choice("part", part, PARTS)
    name = _FILES[part][0]
    content = read_file(SOURCE, name)
    if part == "parsed":
        return _from_lines(content, name)
    rows = list(csv.reader(line for _, line in text_lines(content, file=name)))[1:]
    return [SentencePair(one.strip(), two.strip(), LABELS[int(code)]) for _, one, two, code in rows]


def read_snli(path: str | os.PathLike[str]) -> list[SentencePair]:
    """Pairs of a file of JSON lines in the corpus' own format, gzip-packed or not.

    Each line has the fields `sentence1`, `sentence2` and `gold_label` ("-" for none), and may have
    `sentence1_parse` and `sentence2_parse`. Raises DataError, naming file and line, for anything
    else, and for a file without a pair.
    """
    with opened(path) as file:
        return _from_lines(file.read(), os.fspath(path))


def _from_lines(content: bytes, file: str) -> list[SentencePair]:
    pairs = [
        _pair(line, f"line {number} of {file}") for number, line in text_lines(content, file=file)
    ]
    if not pairs:
        raise DataError(f"`path` must hold at least one pair, got none in {file}.")
    return pairs


def _pair(line: str, where: str) -> SentencePair:
    try:
        record = json.loads(line)
        if not isinstance(record, dict):
            raise ValueError(f"a {type(record).__name__}")
    except ValueError as error:
        raise DataError(
            f"`path` must have one JSON object in each line, got {line[:60]!r} ({error}) at "
            f"{where}."
        ) from error
    premise, hypothesis, label, *parses = (_text(record, name, where) for name in _FIELDS)
    if label not in (*LABELS, _NO_LABEL):
        raise DataError(
            f"`gold_label` must be one of {', '.join(LABELS)}, or {_NO_LABEL!r} for none, got "
            f"{label!r} at {where}."
        )
    trees = [parse_brackets(parse, where=where) if parse else None for parse in parses]
    return SentencePair(premise, hypothesis, None if label == _NO_LABEL else label, *trees)


def _text(record: dict[str, Any], name: str, where: str) -> str:
    """The text of a field; "" of a parse that is not there."""
    text = record.get(name, "" if name.endswith("parse") else None)
    if not isinstance(text, str) or not (text.strip() or name.endswith("parse")):
        raise DataError(f"`{name}` must be a text that is not empty, got {text!r} at {where}.")
    if not is_utf8(text):  # JSON can write halves of a character
        raise DataError(
            f"`{name}` must be a text that UTF-8 can write, got half a character in {text[:60]!r} "
            f"at {where}."
        )
    return text.strip()
