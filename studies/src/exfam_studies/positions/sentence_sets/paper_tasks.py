"""The ten tasks of Chen, Varoquaux & Suchanek (2023), as GLUE and SentEval store them.

Source: its appendix A.4. The labels of GLUE's test parts are not published: what is reported on is
its "dev" part.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from exfam.checks import DataError, check_choice
from exfam.reading.streams import opened
from exfam_studies.positions.sentence_sets.parts import (
    SentencePart,
    SentenceTask,
    draw_parts,
    without,
)
from exfam_studies.positions.sentence_sets.reading import TsvColumns, labeled_part, tsv_part


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


def _glue(folder: str, sentences: tuple[str, ...], target: str, *labels: str) -> TsvFiles:
    columns = TsvColumns(sentences, target, labels=labels, leaves_out=folder == "QQP")
    return TsvFiles(columns, train=f"{folder}/train.tsv", test=f"{folder}/dev.tsv")


def _similarity(
    sentences: tuple[str, str], target: str, train: str, test: str, validation: str = ""
) -> TsvFiles:
    columns = TsvColumns(sentences, target, kind="regression")
    return TsvFiles(columns, train, test, validation, metric="spearman")


_PAIR = ("sentence1", "sentence2")
_ENTAILMENT = ("entailment", "not_entailment")
_MNLI = _glue("MNLI", _PAIR, "gold_label", "contradiction", "entailment", "neutral")
# The paper's score of MNLI is the mean of its two, which differ in their test part alone.
PAPER_TASKS: Mapping[str, TsvFiles | LabelFiles] = MappingProxyType(
    {
        "mr": LabelFiles({"negative": "MR/rt-polarity.neg", "positive": "MR/rt-polarity.pos"}),
        "subj": LabelFiles(
            {"objective": "SUBJ/subj.objective", "subjective": "SUBJ/subj.subjective"}
        ),
        "sst-2": _glue("SST-2", ("sentence",), "label", "0", "1"),
        "qnli": _glue("QNLI", ("question", "sentence"), "label", *_ENTAILMENT),
        "rte": _glue("RTE", _PAIR, "label", *_ENTAILMENT),
        "mnli-matched": replace(_MNLI, test="MNLI/dev_matched.tsv"),
        "mnli-mismatched": replace(_MNLI, test="MNLI/dev_mismatched.tsv"),
        "mrpc": _glue("MRPC", ("#1 String", "#2 String"), "Quality", "0", "1"),
        "qqp": _glue("QQP", ("question1", "question2"), "is_duplicate", "0", "1"),
        "sts-b": _similarity(_PAIR, "score", "STS-B/train.tsv", "STS-B/dev.tsv"),
        "sick-r": _similarity(
            ("sentence_A", "sentence_B"), "relatedness_score", "SICK/SICK_train.txt",
            "SICK/SICK_test_annotated.txt", "SICK/SICK_trial.txt",
        ),
    }
)  # fmt: skip


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
        contents = {label: _content(folder, name) for label, name in task.files.items()}
        train, validation, test = draw_parts(
            labeled_part(contents), fractions=(0.1, 0.1), by_label=True, seed=seed
        )
        return SentenceTask(name, "classification", task.metric, train, validation, test)
    train, validation, test = _tsv_parts(folder, task, seed=seed)
    return SentenceTask(name, task.columns.kind, task.metric, train, validation, test)


def _tsv_parts(
    folder: str | os.PathLike[str], task: TsvFiles, *, seed: int
) -> tuple[SentencePart, SentencePart, SentencePart]:
    def part(name: str) -> SentencePart:
        where, content = _content(folder, name)
        return tsv_part(content, columns=task.columns, where=where)

    test = part(task.test)
    train = without(part(task.train), test)
    if not task.validation:
        _check_any(train, task.train, folder)
        by_label = task.columns.kind == "classification"
        train, validation = draw_parts(train, fractions=(0.1,), by_label=by_label, seed=seed)
        return train, validation, test
    validation = part(task.validation)
    train, validation = without(train, validation), without(validation, test)
    _check_any(train, task.train, folder)
    _check_any(validation, task.validation, folder)
    return train, validation, test


def _check_any(part: SentencePart, name: str, folder: str | os.PathLike[str]) -> None:
    if not len(part):
        raise DataError(
            f"`folder` must hold sentences in {name} that no other part has, got none in "
            f"{os.fspath(folder)}. Put the file of that part there, not a copy of another."
        )


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
