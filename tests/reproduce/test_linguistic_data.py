"""The ten probing tasks of public files."""

import pytest

from exfam.checks import DataError, ExfamError
from exfam.data.text.wikitext import wikitext_sentences
from exfam.reproduce import linguistic_data
from exfam.reproduce.linguistic_data import TASKS, linguistic_tasks
from exfam.reproduce.lstm_data import CORPORA, read_texts
from probing_cases import assert_sound, everything


@pytest.fixture(scope="module")
def tasks(data_folder):
    for name in ("lm", "parses", "sentences"):
        if not (data_folder / name).is_dir():
            pytest.skip(f"EXFAM_DATA must name a folder that holds {name}")
    return linguistic_tasks(per_class={"SentLen": 60, "BShift": 90})


@pytest.mark.slow
def test_all_ten_are_there(tasks):
    assert tuple(tasks) == TASKS == tuple(task.name for task in tasks.values())
    assert sum(tasks["SentLen"].sizes.values()) == 6 * 60
    assert sum(tasks["BShift"].sizes.values()) == 2 * 90
    assert len({task.version for task in tasks.values()}) == 10


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_classes_are_alike_and_parts_share_no_sentence(tasks, name):
    task = tasks[name]
    if name == "CoordInv":  # both orders are there
        assert len(everything(task)) == 2 * len({each.group for each in everything(task)})
    assert_sound(task)
    assert min(task.sizes.values()) >= 40 and len(task.classes) >= 2
    assert all(5 <= len(each.words) <= 50 or "T" == name[0] for each in everything(task))


@pytest.mark.slow
def test_sentences_to_change_are_not_of_the_training_part(tasks):
    texts = read_texts(CORPORA["wikitext-2"])
    lines = linguistic_data._lines(texts, "validation")
    assert sum(map(len, lines)) + len(lines) == CORPORA["wikitext-2"].n_tokens[1]
    train = {" ".join(each) for each in wikitext_sentences(linguistic_data._lines(texts, "train"))}
    assert not train & {each.group for each in everything(tasks["BShift"])}


def test_names_of_other_tasks_are_refused():
    with pytest.raises(ExfamError, match="`per_class` must be one of 'SentLen', .*, got 'Bshift'"):
        linguistic_tasks(per_class={"Bshift": 100})


def test_missing_files_are_told(tmp_path, monkeypatch):
    monkeypatch.setenv("EXFAM_DATA", str(tmp_path))
    monkeypatch.setattr("exfam.data.public_sets.files.cache_folder", lambda: tmp_path)
    with pytest.raises(DataError, match="`wikitext-2` must have its train part in the folder"):
        linguistic_tasks()
