"""The public sets of sentences: their sizes, labels and parts."""

import numpy as np
import pytest

from exfam.checks import DataError, ExfamError
from exfam_studies.positions.public_sentences import (
    SENTENCE_SETS,
    SentencePart,
    draw_parts,
    sentence_task,
)

# Name -> rows, labels, and rows of the test part where it is given.
PUBLISHED = {
    "mr": (10_662, 2, None),
    "subj": (10_000, 2, None),
    "mpqa": (10_603, 2, None),
    "trec": (5_952, 6, 500),
    "mrpc": (5_801, 2, 1_725),
}


@pytest.fixture(scope="module")
def tasks(data_folder):
    if not (data_folder / "sentences").is_dir():
        pytest.skip("the folder has no sentences")
    return {name: sentence_task(name, seed=0) for name in SENTENCE_SETS}


def parts(task):
    return task.train, task.validation, task.test


@pytest.mark.parametrize("name", SENTENCE_SETS)
def test_sets_are_whole(tasks, name):
    n_rows, n_labels, n_test = PUBLISHED[name]
    task = tasks[name]
    # Ten questions of TREC's train part stand in its test part too.
    assert sum(map(len, parts(task))) == n_rows - (10 if name == "trec" else 0)
    labels = set(task.train.targets)
    assert len(labels) == n_labels
    if n_test:
        assert len(task.test) == n_test
    train, validation, test = (set(part.sentences) for part in parts(task))
    assert not train & validation and not train & test and not validation & test
    for part in parts(task):
        assert len(part) == len(part.targets)
        assert set(part.targets) == labels


@pytest.mark.parametrize("name", SENTENCE_SETS)
def test_parts_have_their_share_of_every_label(tasks, name):
    task = tasks[name]
    for label in set(task.train.targets):
        assert task.train.share(label) == pytest.approx(task.validation.share(label), abs=0.02)
    n_drawn = len(task.train) + len(task.validation)
    if PUBLISHED[name][2] is None:
        n_drawn += len(task.test)
    assert len(task.validation) / n_drawn == pytest.approx(0.1, abs=0.005)


def test_sentences_are_what_they_are(tasks):
    labels = np.unique(tasks["trec"].train.targets).tolist()
    assert labels == ["ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"]
    assert any("sisterðcity" in entry for entry in tasks["trec"].train.sentences)
    # What is not ASCII is one character, not the bytes of one.
    assert any("é" in entry for entry in tasks["mr"].train.sentences)
    assert not any("Ã" in entry for entry in tasks["mr"].train.sentences)
    assert any('"' in entry for pair in tasks["mrpc"].train.sentences for entry in pair)
    positive = tasks["mr"].train.sentences[int(np.argmax(tasks["mr"].train.targets == "positive"))]
    assert positive.startswith(("the rock is destined to be the 21st", "the gorgeously elaborate"))


def test_the_seed_draws_the_parts(tasks):
    again, other = sentence_task("trec", seed=0), sentence_task("trec", seed=1)
    assert again.validation.sentences == tasks["trec"].validation.sentences
    assert other.validation.sentences != again.validation.sentences
    assert other.test.sentences == again.test.sentences


def test_missing_files_and_other_names_are_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("EXFAM_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    missing = "`sentences` must have its files .* got no sentences/rt-po"
    with pytest.raises(DataError, match=missing):
        sentence_task("mr", seed=0)
    with pytest.raises(ExfamError, match="`name` must be one of 'mr', .* got 'sst'"):
        sentence_task("sst", seed=0)


def test_copies_stay_together_whatever_their_label():
    rng = np.random.default_rng(0)
    sentences = tuple(f"s{number}" + " " * (number % 2) for number in rng.integers(0, 60, 300))
    part = SentencePart(sentences, np.where(rng.random(300) < 0.3, "x", "y"))
    drawn, other = (draw_parts(part, fractions=[0.2, 0.3], seed=seed) for seed in (3, 4))
    kinds = [{sentence.strip() for sentence in own.sentences} for own in drawn]
    assert sum(map(len, drawn)) == 300 and sum(map(len, kinds)) == len(set.union(*kinds))
    assert len(kinds[1]) == pytest.approx(12, abs=1) and len(kinds[2]) == pytest.approx(18, abs=1)
    assert [own.sentences for own in other] != [own.sentences for own in drawn]
    with pytest.raises(ExfamError, match="`seed` must be an integer >= 0, got -1"):
        draw_parts(part, fractions=[0.1], seed=-1)
