"""The ten tasks of Chen, Varoquaux & Suchanek (2023), as GLUE and SentEval store them.

Source: its appendix A.4. The labels of GLUE's test parts are not published: what is reported on is
its "dev" part.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from exfam.checks import DataError, check_choice
from exfam_studies.positions.sentence_sets.reading import (
    TsvColumns,
    read_labeled_sentences,
    read_sentence_tsv,
)
from exfam_studies.positions.sentence_sets.splits import draw_parts, without
from exfam_studies.positions.sentence_sets.tasks import SentencePart, SentenceTask

__all__ = ["PAPER_TASKS", "LabelFiles", "TsvFiles", "read_sentence_task"]


@dataclass(frozen=True)
class TsvFiles:
    """Files below a folder, their columns, and the metric that the paper reports.

    `validation`: "" where a tenth of `train` is drawn for it
    """

    columns: TsvColumns
    train: str
    test: str
    validation: str = ""
    metric: str = "accuracy"


@dataclass(frozen=True)
class LabelFiles:
    """Label -> file of its sentences, below a folder; parts are drawn."""

    files: Mapping[str, str]
    metric: str = "accuracy"


_ENTAILMENT = ("entailment", "not_entailment")
_BINARY = ("0", "1")
_MNLI = TsvColumns(
    ("sentence1", "sentence2"), "gold_label", labels=("contradiction", "entailment", "neutral")
)

# The paper's score of MNLI is the mean of its two, which differ in their test part alone.
PAPER_TASKS: Mapping[str, TsvFiles | LabelFiles] = MappingProxyType(
    {
        "mr": LabelFiles({"negative": "MR/rt-polarity.neg", "positive": "MR/rt-polarity.pos"}),
        "subj": LabelFiles(
            {"objective": "SUBJ/subj.objective", "subjective": "SUBJ/subj.subjective"}
        ),
        "sst-2": TsvFiles(
            TsvColumns(("sentence",), "label", labels=_BINARY),
            train="SST-2/train.tsv",
            test="SST-2/dev.tsv",
        ),
        "qnli": TsvFiles(
            TsvColumns(("question", "sentence"), "label", labels=_ENTAILMENT),
            train="QNLI/train.tsv",
            test="QNLI/dev.tsv",
        ),
        "rte": TsvFiles(
            TsvColumns(("sentence1", "sentence2"), "label", labels=_ENTAILMENT),
            train="RTE/train.tsv",
            test="RTE/dev.tsv",
        ),
        "mnli-matched": TsvFiles(_MNLI, train="MNLI/train.tsv", test="MNLI/dev_matched.tsv"),
        "mnli-mismatched": TsvFiles(_MNLI, train="MNLI/train.tsv", test="MNLI/dev_mismatched.tsv"),
        "mrpc": TsvFiles(
            TsvColumns(("#1 String", "#2 String"), "Quality", labels=_BINARY),
            train="MRPC/train.tsv",
            test="MRPC/dev.tsv",
        ),
        "qqp": TsvFiles(
            TsvColumns(("question1", "question2"), "is_duplicate", labels=_BINARY, leaves_out=True),
            train="QQP/train.tsv",
            test="QQP/dev.tsv",
        ),
        "sts-b": TsvFiles(
            TsvColumns(("sentence1", "sentence2"), "score", kind="regression"),
            train="STS-B/train.tsv",
            test="STS-B/dev.tsv",
            metric="spearman",
        ),
        "sick-r": TsvFiles(
            TsvColumns(("sentence_A", "sentence_B"), "relatedness_score", kind="regression"),
            train="SICK/SICK_train.txt",
            test="SICK/SICK_test_annotated.txt",
            validation="SICK/SICK_trial.txt",
            metric="spearman",
        ),
    }
)


def read_sentence_task(folder: str | os.PathLike[str], name: str, *, seed: int) -> SentenceTask:
    """A task of PAPER_TASKS from the folder that holds GLUE's or SentEval's folders.

    Files may be gzip-packed (NAME.gz). Where no validation part is stored it is a tenth of the
    train part, and where no test part is, another tenth, drawn by `seed` label by label; what of
    the train part also stands in a stored other part is left out of it.
    Raises ExfamError for another name, or a negative seed where parts are drawn; DataError as the
    readers of files do, and where nothing is left of a part.

    >>> list(PAPER_TASKS)[:3]
    ['mr', 'subj', 'sst-2']
    """
    check_choice("name", name, PAPER_TASKS)
    task = PAPER_TASKS[name]
    if isinstance(task, LabelFiles):
        files = {label: _file(folder, each) for label, each in task.files.items()}
        train, validation, test = draw_parts(
            read_labeled_sentences(files), fractions=(0.1, 0.1), by_label=True, seed=seed
        )
        return SentenceTask(name, "classification", task.metric, train, validation, test)
    train, validation, test = _tsv_parts(folder, task, seed=seed)
    return SentenceTask(name, task.columns.kind, task.metric, train, validation, test)


def _tsv_parts(
    folder: str | os.PathLike[str], task: TsvFiles, *, seed: int
) -> tuple[SentencePart, SentencePart, SentencePart]:
    def part(name: str) -> SentencePart:
        return read_sentence_tsv(_file(folder, name), columns=task.columns)

    test = part(task.test)
    train = without(part(task.train), test)
    if task.validation:
        validation = part(task.validation)
        train, validation = without(train, validation), without(validation, test)
        _check_any(train, task.train, folder)
        _check_any(validation, task.validation, folder)
        return train, validation, test
    _check_any(train, task.train, folder)
    by_label = task.columns.kind == "classification"
    rest, validation = draw_parts(train, fractions=(0.1,), by_label=by_label, seed=seed)
    return rest, validation, test


def _check_any(part: SentencePart, name: str, folder: str | os.PathLike[str]) -> None:
    if not len(part):
        raise DataError(
            f"`folder` must hold sentences in {name} that no other part has, got none in "
            f"{os.fspath(folder)}. Put the file of that part there, not a copy of another."
        )


def _file(folder: str | os.PathLike[str], name: str) -> Path:
    places = [Path(folder, name), Path(folder, f"{name}.gz")]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise DataError(
            f"`folder` must hold {name} (or {name}.gz), got none in {os.fspath(folder)}. Name the "
            "folder that holds GLUE's folders (MRPC, RTE, ...) or SentEval's (MR, SUBJ, SICK)."
        )
    return found
