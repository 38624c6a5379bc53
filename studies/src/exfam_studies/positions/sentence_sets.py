"""Sentences, or pairs of sentences, with a label or a number each: tasks, their parts and files.

The ten tasks of Chen, Varoquaux & Suchanek (2023), appendix A.4, are read as GLUE and SentEval
store them. A quote in such a file is a character like any other. The labels of GLUE's test parts
are not published: what is reported on is its "dev" part.
"""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Int64, Shaped

from exfam.checks import DataError, check_choice, check_whole
from exfam.reading.streams import opened
from exfam_studies.positions.files import decoded_lines

# A sentence, or a pair of sentences.
Sentence = str | tuple[str, str]


@dataclass(frozen=True, eq=False)
class SentencePart:
    """Sentences, or pairs of them, and the target of each: its label (str) or number (float)."""

    sentences: tuple[str, ...] | tuple[tuple[str, str], ...]
    targets: Shaped[np.ndarray, "sentences"]

    def __len__(self) -> int:
        return len(self.sentences)

    def rows(self, indices: Int64[np.ndarray, "indices"]) -> "SentencePart":
        """The sentences at some indices, in that order."""
        return SentencePart(
            tuple(self.sentences[index] for index in indices), self.targets[indices]
        )


@dataclass(frozen=True, eq=False)
class SentenceTask:
    """Sentences to fit on, to choose by and to report on; the three share no sentence or pair.

    `kind`: "classification" or "regression"
    `metric`: what is reported: "accuracy" or "spearman"
    """

    name: str
    kind: str
    metric: str
    train: SentencePart
    validation: SentencePart
    test: SentencePart

    def spread(self, n: int) -> "SentenceTask":
        """At most `n` sentences of each part, from the first to the last at equal steps."""
        parts = {name: getattr(self, name) for name in ("train", "validation", "test")}
        for name, part in parts.items():
            indices = np.linspace(0, len(part) - 1, min(n, len(part)))
            parts[name] = part.rows(indices.astype(np.int64))
        return replace(self, **parts)

    @property
    def has_pairs(self) -> bool:
        """Whether a target is of two sentences."""
        return not isinstance(self.train.sentences[0], str)


def draw_parts(
    part: SentencePart, *, fractions: Sequence[float], by_label: bool, seed: int
) -> list[SentencePart]:
    """The rest of a part, then parts of it with those fractions of its different sentences.

    Copies of a sentence, or of a pair, stay together; white space does not make two different.
    `by_label`: each part has its fraction of the sentences of every label (by their first copy)
    """
    check_whole("seed", seed, least=0)
    number: dict[Sentence, int] = {}
    copy_of = np.array([number.setdefault(_key(s), len(number)) for s in part.sentences])
    first = np.unique(copy_of, return_index=True)[1]
    strata = part.targets[first] if by_label else np.zeros(len(first))
    rng = np.random.default_rng(seed)
    part_of = np.zeros(len(first), dtype=np.int64)
    for stratum in np.unique(strata):
        drawn = rng.permutation(np.flatnonzero(strata == stratum))
        ends = np.rint(np.cumsum([0.0, *fractions]) * len(drawn)).astype(np.int64)
        for k, (start, end) in enumerate(zip(ends[:-1], ends[1:], strict=True), 1):
            part_of[drawn[start:end]] = k
    return [part.rows(np.flatnonzero(part_of[copy_of] == k)) for k in range(len(fractions) + 1)]


def without(part: SentencePart, other: SentencePart) -> SentencePart:
    """The part less what also stands in the other."""
    known = {_key(sentence) for sentence in other.sentences}
    stays = np.array([_key(sentence) not in known for sentence in part.sentences], dtype=bool)
    return part.rows(np.flatnonzero(stays))


def _key(sentence: Sentence) -> Sentence:
    if isinstance(sentence, str):
        return " ".join(sentence.split())
    return " ".join(sentence[0].split()), " ".join(sentence[1].split())


@dataclass(frozen=True)
class TsvColumns:
    """Which columns of a file under a header hold one or two sentences and the target.

    `labels`: the labels that there may be; targets are finite numbers where it is empty
    `leaves_out`: whether rows of too few fields or with an empty sentence are left out, as QQP has
        them where a question holds a line end; else they are refused
    """

    sentences: tuple[str, ...]
    target: str
    labels: tuple[str, ...] = ()
    leaves_out: bool = False


@dataclass(frozen=True)
class TsvFiles:
    """Files below a folder, and their columns.

    `validation`: "" where a tenth of `train` is drawn for it
    """

    columns: TsvColumns
    train: str
    test: str
    validation: str = ""


# Label -> file of its sentences, below a folder; parts are drawn.
LabelFiles = Mapping[str, str]


def _glue(folder: str, sentences: tuple[str, ...], target: str, *labels: str) -> TsvFiles:
    columns = TsvColumns(sentences, target, labels=labels, leaves_out=folder == "QQP")
    return TsvFiles(columns, train=f"{folder}/train.tsv", test=f"{folder}/dev.tsv")


_PAIR = ("sentence1", "sentence2")
_ENTAILMENT = ("entailment", "not_entailment")
_MNLI = _glue("MNLI", _PAIR, "gold_label", "contradiction", "entailment", "neutral")
# The paper's score of MNLI is the mean of its two, which differ in their test part alone.
PAPER_TASKS: Mapping[str, TsvFiles | LabelFiles] = MappingProxyType(
    {
        "mr": {"negative": "MR/rt-polarity.neg", "positive": "MR/rt-polarity.pos"},
        "subj": {"objective": "SUBJ/subj.objective", "subjective": "SUBJ/subj.subjective"},
        "sst-2": _glue("SST-2", ("sentence",), "label", "0", "1"),
        "qnli": _glue("QNLI", ("question", "sentence"), "label", *_ENTAILMENT),
        "rte": _glue("RTE", _PAIR, "label", *_ENTAILMENT),
        "mnli-matched": replace(_MNLI, test="MNLI/dev_matched.tsv"),
        "mnli-mismatched": replace(_MNLI, test="MNLI/dev_mismatched.tsv"),
        "mrpc": _glue("MRPC", ("#1 String", "#2 String"), "Quality", "0", "1"),
        "qqp": _glue("QQP", ("question1", "question2"), "is_duplicate", "0", "1"),
        "sts-b": _glue("STS-B", _PAIR, "score"),
        "sick-r": TsvFiles(
            TsvColumns(("sentence_A", "sentence_B"), "relatedness_score"),
            "SICK/SICK_train.txt", "SICK/SICK_test_annotated.txt", "SICK/SICK_trial.txt",
        ),
    }
)  # fmt: skip


def read_sentence_task(folder: str | os.PathLike[str], name: str, *, seed: int) -> SentenceTask:
    """A task of PAPER_TASKS from the folder that holds GLUE's or SentEval's folders.

    Files may be gzip-packed (NAME.gz). Where no validation part is stored it is a tenth of the
    train part, and where no test part is, another tenth, drawn by `seed` label by label; what of
    the train part also stands in a stored other part is left out of it.
    Raises ExfamError for another name; DataError, naming file and line, for files that are missing
    or not as they should be, and where nothing is left of a part.
    """
    check_choice("name", name, PAPER_TASKS)
    task = PAPER_TASKS[name]
    if not isinstance(task, TsvFiles):
        contents = {label: _content(folder, file) for label, file in task.items()}
        parts = draw_parts(labeled_part(contents), fractions=(0.1, 0.1), by_label=True, seed=seed)
        return SentenceTask(name, "classification", "accuracy", *parts)
    is_labeled = bool(task.columns.labels)

    def part(file: str, *others: SentencePart) -> SentencePart:
        where, content = _content(folder, file)
        own = tsv_part(content, columns=task.columns, where=where)
        for other in others:
            own = without(own, other)
        if not len(own):
            raise DataError(
                f"`folder` must hold sentences in {file} that no other part has, got none in "
                f"{os.fspath(folder)}. Put the file of that part there, not a copy of another."
            )
        return own

    test = part(task.test)
    if task.validation:
        validation = part(task.validation, test)
        train = part(task.train, test, validation)
    else:
        train, validation = draw_parts(
            part(task.train, test), fractions=(0.1,), by_label=is_labeled, seed=seed
        )
    kind = ("classification", "accuracy") if is_labeled else ("regression", "spearman")
    return SentenceTask(name, *kind, train, validation, test)


def _content(folder: str | os.PathLike[str], name: str) -> tuple[str, bytes]:
    """Path and content of a file, gzip-packed or not."""
    for path in (Path(folder, name), Path(folder, f"{name}.gz")):
        if path.is_file():
            with opened(path) as file:
                return os.fspath(path), file.read()
    raise DataError(
        f"`folder` must hold {name} (or {name}.gz), got none in {os.fspath(folder)}. Name the "
        "folder that holds GLUE's folders (MRPC, RTE, ...) or SentEval's (MR, SUBJ, SICK)."
    )


def labeled_part(contents: Mapping[str, tuple[str, bytes]]) -> SentencePart:
    """The sentences of label -> (name, content) of a file, one per line; blank ones are left out.

    Text is UTF-8 or, where a file is not, Latin-1. Raises DataError for a file without sentences.
    """
    sentences: list[str] = []
    labels: list[str] = []
    for label, (where, content) in contents.items():
        lines = decoded_lines(content, where=where, latin=True)
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
    """
    lines = ((number, line.split("\t")) for number, line in decoded_lines(content, where=where))
    header = next(lines, (1, []))[1]
    for name in (*columns.sentences, columns.target):
        if name not in header:
            listed = ", ".join(map(repr, header))
            raise DataError(
                f"`path` must have a column {name!r} in its header, got {listed or 'no header'} at "
                f"line 1 of {where}."
            )
    of_sentences = [header.index(name) for name in columns.sentences]
    sentences: list[Any] = []
    targets: list[str | float] = []
    for number, fields in lines:
        at = f"at line {number} of {where}"
        wrong = ""
        if len(fields) != len(header):
            wrong = f"{len(header)} fields apart by tabs in each row, as in its header, got "
            wrong += str(len(fields))
        elif not all(fields[index].strip() for index in of_sentences):
            wrong = "a sentence in each row, got an empty one"
        if wrong and columns.leaves_out and len(fields) <= len(header):
            continue
        if wrong:
            raise DataError(f"`path` must have {wrong} {at}.")
        texts = tuple(fields[index].strip() for index in of_sentences)
        sentences.append(texts if len(texts) > 1 else texts[0])
        targets.append(_target(fields[header.index(columns.target)].strip(), columns, at))
    if not sentences:
        raise DataError(f"`path` must hold at least one row below its header, got none in {where}.")
    return SentencePart(tuple(sentences), np.array(targets))


def _target(field: str, columns: TsvColumns, at: str) -> str | float:
    if columns.labels:
        if field not in columns.labels:
            allowed = ", ".join(map(repr, columns.labels))
            raise DataError(
                f"`path` must have {allowed} as {columns.target!r}, got {field!r} {at}."
            )
        return field
    try:
        number = float(field)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise DataError(
            f"`path` must have a finite number as {columns.target!r}, got {field!r} {at}."
        )
    return number
