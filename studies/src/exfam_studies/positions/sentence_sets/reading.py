"""Sentences of files: of columns apart by tabs under a header, or of a file for each label.

A quote is a character like any other: the files of GLUE are so.
"""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from exfam.checks import DataError, check_choice
from exfam.reading.streams import opened
from exfam_studies.positions.sentence_sets.tasks import Sentence, SentencePart

__all__ = [
    "KINDS",
    "TsvColumns",
    "decoded_lines",
    "labeled_part",
    "read_labeled_sentences",
    "read_sentence_tsv",
    "tsv_part",
]

KINDS = ("classification", "regression")


@dataclass(frozen=True)
class TsvColumns:
    """Which columns of a file under a header hold one or two sentences and the target.

    `kind`: "classification", of labels, or "regression", of finite numbers (default
        "classification")
    `labels`: the labels that there may be; any where empty (default ())
    `leaves_out`: whether rows of too few fields or with an empty sentence are left out, as QQP has
        them where a question holds a line end; else they are refused (default False)

    Raises ExfamError for another kind.

    >>> TsvColumns(("sentence",), "label").kind
    'classification'
    """

    sentences: tuple[str, ...]
    target: str
    kind: str = "classification"
    labels: tuple[str, ...] = ()
    leaves_out: bool = False

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        check_choice("len(sentences)", len(self.sentences), (1, 2))


def read_sentence_tsv(path: str | os.PathLike[str], *, columns: TsvColumns) -> SentencePart:
    """The rows of a file of columns apart by tabs under a header, gzip-packed or not, in UTF-8.

    Raises DataError, naming file and line, for a column that is missing, a row with more or fewer
    fields than the header, an empty sentence, a target that is no finite number or none of the
    labels, for what is not UTF-8, and for a file without rows.

    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp(), "train.tsv")
    >>> _ = path.write_text('sentence\\tlabel\\na "quoted film\\t1\\n')
    >>> read_sentence_tsv(path, columns=TsvColumns(("sentence",), "label")).sentences
    ('a "quoted film',)
    """
    with opened(path) as file:
        return tsv_part(file.read(), columns=columns, where=os.fspath(path))


def read_labeled_sentences(paths: Mapping[str, str | os.PathLike[str]]) -> SentencePart:
    """The sentences of a file for each label, one a line; blank lines are left out.

    Text is UTF-8 or, where a file is not, Latin-1. Raises DataError for a file without sentences.

    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp(), "rt-polarity.pos")
    >>> _ = path.write_text("a charming film .\\n")
    >>> read_labeled_sentences({"positive": path}).targets
    array(['positive'], dtype='<U8')
    """
    contents = {}
    for label, path in paths.items():
        with opened(path) as file:
            contents[label] = (os.fspath(path), file.read())
    return labeled_part(contents)


def labeled_part(contents: Mapping[str, tuple[str, bytes]]) -> SentencePart:
    """The sentences of label -> (name, content) of a file, as in `read_labeled_sentences`."""
    sentences: list[str] = []
    labels: list[str] = []
    for label, (where, content) in contents.items():
        lines = decoded_lines(content, where=where, encoding="utf-8 or latin-1")
        found = [line.strip() for _, line in lines if line.strip()]
        if not found:
            raise DataError(f"`path` must hold at least one sentence, got none in {where}.")
        sentences += found
        labels += [label] * len(found)
    return SentencePart(tuple(sentences), np.array(labels))


def tsv_part(content: bytes, *, columns: TsvColumns, where: str) -> SentencePart:
    """The rows of a file's content; `where` names the file, as in `read_sentence_tsv`."""
    lines = ((number, line.split("\t")) for number, line in decoded_lines(content, where=where))
    header = next(lines, (1, []))[1]
    places = [_place(name, header, where) for name in columns.sentences]
    at = _place(columns.target, header, where)
    sentences: list[Sentence] = []
    targets: list[str | float] = []
    n_left_out = 0
    for number, fields in lines:
        told = f"at line {number} of {where}"
        wrong = _wrong(fields, len(header), places)
        if wrong and columns.leaves_out and len(fields) <= len(header):
            n_left_out += 1
            continue
        if wrong:
            raise DataError(f"`path` must have {wrong} {told}.")
        sentences.append(tuple(fields[place].strip() for place in places))  # type: ignore[arg-type]
        targets.append(_target(fields[at].strip(), columns, told))
    if not sentences:
        raise DataError(f"`path` must hold at least one row below its header, got none in {where}.")
    if len(places) == 1:
        sentences = [each[0] for each in sentences]
    return SentencePart(tuple(sentences), np.array(targets), n_left_out)  # type: ignore[arg-type]


def decoded_lines(
    content: bytes, *, where: str, encoding: str = "utf-8"
) -> Iterator[tuple[int, str]]:
    """Number and text of each line, without its end; a line end at the end of the file ends it.

    `encoding`: "utf-8", or "utf-8 or latin-1" for Latin-1 where the file is not UTF-8 (default
        "utf-8")

    Raises DataError, naming file and line, for what is not UTF-8 but should be.

    >>> list(decoded_lines(b"a\\r\\nb", where="a.txt"))
    [(1, 'a'), (2, 'b')]
    """
    content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        if encoding == "utf-8":
            number = content.count(b"\n", 0, error.start) + 1
            raise DataError(
                f"`path` must be encoded in UTF-8, got {content[error.start : error.end]!r} at "
                f"line {number} of {where}. Convert the file to UTF-8."
            ) from error
        text = content.decode("latin-1")
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, 1):
        yield number, line.removesuffix("\r")


def _place(name: str, header: Sequence[str], where: str) -> int:
    if name not in header:
        listed = ", ".join(repr(each) for each in header)
        raise DataError(
            f"`path` must have a column {name!r} in its header, got {listed or 'no header'} at "
            f"line 1 of {where}."
        )
    return header.index(name)


def _wrong(fields: Sequence[str], n_columns: int, places: Sequence[int]) -> str:
    if len(fields) != n_columns:
        return f"{n_columns} fields apart by tabs in each row, as in its header, got {len(fields)}"
    if not all(fields[place].strip() for place in places):
        return "a sentence in each row, got an empty one"
    return ""


def _target(field: str, columns: TsvColumns, told: str) -> str | float:
    if columns.kind == "regression":
        try:
            number = float(field)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise DataError(
                f"`path` must have a finite number as {columns.target!r}, got {field!r} {told}."
            )
        return number
    if not field or (columns.labels and field not in columns.labels):
        allowed = ", ".join(repr(label) for label in columns.labels) or "a label"
        raise DataError(f"`path` must have {allowed} as {columns.target!r}, got {field!r} {told}.")
    return field
