"""Sentences read from files: what a file may hold, what is refused."""

import gzip

import numpy as np
import pytest

from exfam.checks import DataError, ExfamError
from exfam_studies.positions.sentence_sets import (
    PAPER_TASKS,
    SentencePart,
    TsvColumns,
    TsvFiles,
    draw_parts,
    labeled_part,
    read_sentence_task,
    tsv_part,
)

ONE = TsvColumns(("sentence",), "label", labels=("0", "1"))
TWO = TsvColumns(("a", "b"), "score")


def file_of(folder, content, name="a.tsv"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return path


def read(content, columns):
    raw = content if isinstance(content, bytes) else content.encode()
    return tsv_part(raw, columns=columns, where="a.tsv")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_columns_are_found_by_name(end):
    lines = ["\ufefflabel\tnumber\tsentence", '1\t7\tan "odd quote', "0\t8\t plain ", ""]
    part = read(end.join(lines), ONE)
    assert part.sentences == ('an "odd quote', "plain")
    assert part.targets.tolist() == ["1", "0"]


@pytest.mark.parametrize(
    ("columns", "content", "message"),
    [
        (ONE, "sentence\ty\nx\t1\n", "a column 'label' in its header, got 'sentence', 'y' at line"),
        (
            ONE,
            "sentence\tlabel\nx\t1\ny\n",
            "2 fields apart by tabs in each row, .* got 1 at line 3",
        ),
        (ONE, "sentence\tlabel\n \t1\n", "a sentence in each row, got an empty one at line 2 of"),
        (ONE, "sentence\tlabel\nx\t2\n", "'0', '1' as 'label', got '2' at line 2 of .*a.tsv"),
        (TWO, "a\tb\tscore\nx\ty\tnan\n", "a finite number as 'score', got 'nan' at line 2 of"),
        (TWO, "a\tb\tscore\n", "at least one row below its header, got none in .*a.tsv"),
        (TWO, "", "a column 'a' in its header, got no header at line 1 of a.tsv"),
        (ONE, b"sentence\tlabel\n\xe9t\xe9\t1\n", r"in UTF-8, got b'\\xe9' at line 2 of .*a\.tsv"),
    ],
)
def test_wrong_files_are_refused_with_their_line(columns, content, message):
    with pytest.raises(DataError, match=message):
        read(content, columns)


def test_broken_rows_are_left_out_only_where_wanted():
    columns = TsvColumns(("sentence",), "label", labels=("0", "1"), leaves_out=True)
    part = read("sentence\tlabel\na question\nof two lines\t1\n\t0\n\nlast\t1\n", columns)
    assert part.sentences == ("of two lines", "last")
    pairs = read("a\tb\tscore\nx y\tz\t3.5\nx\tu\t-1e-1", TWO)
    assert pairs.sentences == (("x y", "z"), ("x", "u"))
    np.testing.assert_array_equal(pairs.targets, [3.5, -0.1])


def test_files_of_labels_are_of_either_encoding():
    one, two = "café .\n\nnot so good . \n".encode("latin-1"), "a café .\n".encode()
    part = labeled_part({"negative": ("neg", one), "positive": ("pos", two)})
    assert part.sentences == ("café .", "not so good .", "a café .")
    assert part.targets.tolist() == ["negative", "negative", "positive"]
    with pytest.raises(DataError, match="at least one sentence, got none in blank"):
        labeled_part({"negative": ("blank", b"\n \n")})


def rows_of(columns, n):
    """A header in another order than the columns are named, and some rows."""
    names = ["other", columns.target, *reversed(columns.sentences)]
    lines = ["\t".join(names)]
    for row in range(n):
        label = columns.labels[row % len(columns.labels)] if columns.labels else f"{row / 7}"
        cells = [f'"{name} of {row}' for name in columns.sentences]
        lines.append("\t".join(["-", label, *reversed(cells)]))
    return "\n".join(lines) + "\n"


def folder_of_tasks(folder, name, packed):
    task, end = PAPER_TASKS[name], ".gz" if packed else ""
    if not isinstance(task, TsvFiles):
        for label, file in task.items():
            lines = "".join(f"{label} {row} .\n" for row in range(50))
            file_of(folder, lines, file + end)
        return
    for number, file in enumerate({task.train, task.test, task.validation} - {""}):
        # Files differ, but for the last row of one that another has too.
        content = rows_of(task.columns, 60).replace("of ", f"of {file} ")
        shared = rows_of(task.columns, 1).split("\n")[1]
        file_of(folder, f"{content}{shared}\n" if number else content, file + end)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", PAPER_TASKS)
def test_the_papers_tasks_are_read(tmp_path, name, packed):
    folder_of_tasks(tmp_path, name, packed)
    task = read_sentence_task(tmp_path, name, seed=0)
    parts = [set(part.sentences) for part in (task.train, task.validation, task.test)]
    assert all(parts)
    assert not parts[0] & parts[1] and not parts[0] & parts[2] and not parts[1] & parts[2]
    is_number = task.test.targets.dtype == np.float64
    assert (task.metric == "spearman") == (task.kind == "regression") == is_number
    if not is_number:
        assert set(task.validation.targets) == set(task.train.targets)
    again = read_sentence_task(tmp_path, name, seed=0)
    assert again.validation.sentences == task.validation.sentences


def test_files_that_are_not_there_are_named(tmp_path):
    with pytest.raises(
        DataError, match="`folder` must hold RTE/dev.tsv .* got none in .* Name the"
    ):
        read_sentence_task(tmp_path, "rte", seed=0)
    with pytest.raises(ExfamError, match="`name` must be one of 'mr', .* got 'cola'"):
        read_sentence_task(tmp_path, "cola", seed=0)
    folder_of_tasks(tmp_path, "rte", packed=False)
    with pytest.raises(ExfamError, match="`seed` must be an integer >= 0, got -1"):
        read_sentence_task(tmp_path, "rte", seed=-1)


@pytest.mark.parametrize(
    ("name", "copied", "emptied"),
    [("rte", "RTE/dev.tsv", "RTE/train.tsv"), ("sick-r", "SICK/SICK_test_annotated.txt", "SICK/S")],
)
def test_parts_that_stand_in_another_as_a_whole_are_refused(tmp_path, name, copied, emptied):
    folder_of_tasks(tmp_path, name, packed=False)
    task = PAPER_TASKS[name]
    (tmp_path / (task.validation or task.train)).write_bytes((tmp_path / copied).read_bytes())
    with pytest.raises(DataError, match=f"must hold sentences in {emptied}.* that no other part"):
        read_sentence_task(tmp_path, name, seed=0)


def test_copies_stay_together_whatever_their_label():
    rng = np.random.default_rng(0)
    sentences = tuple(f"s{number}" + " " * (number % 2) for number in rng.integers(0, 60, 300))
    part = SentencePart(sentences, np.where(rng.random(300) < 0.3, "x", "y"))
    parts = draw_parts(part, fractions=[0.2, 0.3], by_label=True, seed=3)
    found = [{each.strip() for each in one.sentences} for one in parts]
    assert sum(map(len, parts)) == 300 and sum(map(len, found)) == len(set.union(*found))
    assert len(found[1]) == pytest.approx(12, abs=1) and len(found[2]) == pytest.approx(18, abs=1)
    other = draw_parts(part, fractions=[0.2, 0.3], by_label=True, seed=4)
    assert [each.sentences for each in other] != [each.sentences for each in parts]
