"""Sentences of files: of columns apart by tabs under a header, or of a file for each label.

A quote is a character like any other: the files of GLUE are so.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from exfam.checks import DataError, check_choice
from exfam_studies.positions.lines import decoded_lines
from exfam_studies.positions.sentence_sets.parts import SentencePart


@dataclass(frozen=True)
class TsvColumns:
    """Which columns of a file under a header hold one or two sentences and the target.

    `kind`: "classification", of labels, or "regression", of finite numbers (default
        "classification")
    `labels`: the labels that there may be; any where empty (default ())
    `leaves_out`: whether rows of too few fields or with an empty sentence are left out, as QQP has
        them where a question holds a line end; else they are refused (default False)

    Raises ExfamError for another kind.
    """

    sentences: tuple[str, ...]
    target: str
    kind: str = "classification"
    labels: tuple[str, ...] = ()
    leaves_out: bool = False

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, ("classification", "regression"))
        check_choice("len(sentences)", len(self.sentences), (1, 2))


def labeled_part(contents: Mapping[str, tuple[str, bytes]]) -> SentencePart:
    """The sentences of label -> (name, content) of a file, one per line; blank ones are left out.

    Text is UTF-8 or, where a file is not, Latin-1. Raises DataError for a file without sentences.

    >>> labeled_part({"positive": ("rt-polarity.pos", b"a charming film .")}).targets
    array(['positive'], dtype='<U8')
    """
    sentences: list[str] = []
    labels: list[str] = []
    for label, (where, content) in contents.items():
        lines = decoded_lines(content, where=where, encoding="utf-8 or latin-1")
        own = [line.strip() for _, line in lines if line.strip()]
        if not own:
            raise DataError(f"`path` must hold at least one sentence, got none in {where}.")
        sentences += own
        labels += [label] * len(own)
    return SentencePart(tuple(sentences), np.array(labels))


def tsv_part(content: bytes, *, columns: TsvColumns, where: str) -> SentencePart:
    """The rows of a file's content, of columns apart by tabs under a header, in UTF-8.

    Raises DataError, naming file (`where`) and line, for a column that is missing, a row with more
    or fewer fields than the header, an empty sentence, a target that is no finite number or none of
    the labels, for what is not UTF-8, and for a file without rows.

    >>> content = b'sentence\\tlabel\\na "quoted film\\t1'
    >>> tsv_part(content, columns=TsvColumns(("sentence",), "label"), where="a.tsv").sentences
    ('a "quoted film',)
    """
    lines = ((number, line.split("\t")) for number, line in decoded_lines(content, where=where))
    header = next(lines, (1, []))[1]
    *of_sentences, of_target = (
        _index(name, header, where) for name in (*columns.sentences, columns.target)
    )
    sentences: list[Any] = []
    targets: list[str | float] = []
    n_left_out = 0
    for number, fields in lines:
        at = f"at line {number} of {where}"
        wrong = _wrong(fields, len(header), of_sentences)
        if wrong and columns.leaves_out and len(fields) <= len(header):
            n_left_out += 1
            continue
        if wrong:
            raise DataError(f"`path` must have {wrong} {at}.")
        texts = tuple(fields[index].strip() for index in of_sentences)
        sentences.append(texts if len(texts) > 1 else texts[0])
        targets.append(_target(fields[of_target].strip(), columns, at))
    if not sentences:
        raise DataError(f"`path` must hold at least one row below its header, got none in {where}.")
    return SentencePart(tuple(sentences), np.array(targets), n_left_out)


def _index(name: str, header: Sequence[str], where: str) -> int:
    if name not in header:
        listed = ", ".join(map(repr, header))
        raise DataError(
            f"`path` must have a column {name!r} in its header, got {listed or 'no header'} at "
            f"line 1 of {where}."
        )
    return header.index(name)


def _wrong(fields: Sequence[str], n_columns: int, indices: Sequence[int]) -> str:
    if len(fields) != n_columns:
        return f"{n_columns} fields apart by tabs in each row, as in its header, got {len(fields)}"
    if not all(fields[index].strip() for index in indices):
        return "a sentence in each row, got an empty one"
    return ""


def _target(field: str, columns: TsvColumns, at: str) -> str | float:
    if columns.kind == "regression":
        try:
            number = float(field)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise DataError(
                f"`path` must have a finite number as {columns.target!r}, got {field!r} {at}."
            )
        return number
    if not field or (columns.labels and field not in columns.labels):
        allowed = ", ".join(repr(label) for label in columns.labels) or "a label"
        raise DataError(f"`path` must have {allowed} as {columns.target!r}, got {field!r} {at}.")
    return field
