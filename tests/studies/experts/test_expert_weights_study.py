"""Kinds of weights on corpora: rows, least possible losses, and sentences as groups."""

import itertools
from collections import Counter

import numpy as np
import pytest

from exfam.checks import ExfamError
from exfam_studies.common.harness import Options
from exfam_studies.experts import expert_weights
from exfam_studies.experts.toy_sentences import toy_conditionals, toy_population, toy_sentences

KINDS = [
    (model, offsets) for model in ("cbow", "linear-attention", "awe") for offsets in (False, True)
]


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    monkeypatch.setattr(expert_weights, "FAST_SENTENCES", 20)
    monkeypatch.setattr(expert_weights, "N_WORDS", 5)
    (tmp_path / "lm").mkdir()
    lines = ["the <unk> of the bank rose", "the bank of N fell N", "", "a rare word"] * 10
    for part in ("train", "valid", "test"):
        (tmp_path / "lm" / f"ptb.{part}.txt").write_text("\n".join(lines))
    monkeypatch.setenv("EXFAM_DATA", str(tmp_path))
    expert_weights._parts.cache_clear()


def test_a_smoke_run_has_all_rows_and_is_kept(tmp_path, monkeypatch):
    options = Options(fast=True, folder=tmp_path / "kept")
    rows = expert_weights.run(options)
    result = [(row.task, row.model, row.settings.get("offsets")) for row in rows]
    toy = [("toy-corpus", "unigram", None), ("toy-corpus", "truth", None)]
    toy += [("toy-corpus", *kind) for kind in KINDS]
    assert result == toy + [("ptb", "unigram", None)] + [("ptb", *kind) for kind in KINDS]
    assert {row.metric for row in rows} == {"nats"}
    by_model = {row.model: row.value for row in rows if row.task == "toy-corpus"}
    assert all(value > by_model["truth"] for name, value in by_model.items() if name != "truth")
    fitted = [row for row in rows if row.steps is not None]
    assert len(fitted) == 12 and all(row.validation is not None for row in fitted)
    monkeypatch.setattr(expert_weights, "_measure", lambda *_: pytest.fail("fitted again"))
    assert expert_weights.run(options) == rows


def test_a_task_can_be_left_out():
    rows = expert_weights.run(Options(fast=True, only=["ptb"]))
    assert {row.task for row in rows} == {"ptb"}


def test_parts_of_the_treebank_have_the_frequent_words_alone():
    parts = expert_weights._ptb((3, 3, 3))
    words = parts.train.vocabulary["item"].tolist()
    assert words == ["<unk>", "the", "N", "bank", "of"]
    # Empty lines are no sentences; all parts have the training part's words.
    assert len(parts.train) == 2 and parts.test.vocabulary["item"].tolist() == words
    first = [words[code] for code in parts.train.item[:6]]
    assert first == ["the", "<unk>", "of", "the", "bank", "<unk>"]


def test_the_toy_law_is_that_of_the_sentences_that_are_drawn():
    law = dict(zip(*toy_population(), strict=True))
    drawn = Counter(map(tuple, toy_sentences(40_000, seed=4)))
    assert sum(law.values()) == pytest.approx(1.0) and set(drawn) <= set(law)
    for sentence, chance in law.items():
        error = 5 * np.sqrt(chance / 40_000)
        assert abs(drawn[sentence] / 40_000 - chance) <= error + 1e-12, sentence


def test_conditionals_of_the_toy_law_are_its_quotients():
    law = dict(zip(*toy_population(), strict=True))
    sentence = ("statistics", "is", "fun", "and", "easy")
    result = np.exp(toy_conditionals([sentence])[0])
    for place in range(5):
        alike = [
            chance
            for other, chance in law.items()
            if all(
                a == b for i, (a, b) in enumerate(zip(other, sentence, strict=True)) if i != place
            )
        ]
        assert result[place] == pytest.approx(law[sentence] / sum(alike))
    assert result.std() > 0.1
    impossible = ("statistics", "is", "boring", "and", "easy")
    for wrong in (impossible, ("statistics",)):
        with pytest.raises(ExfamError, match="`sentences` must be of the law, got 'statistics"):
            toy_conditionals([wrong])


def test_the_truth_is_better_than_any_other_law_on_its_own_sentences():
    law = dict(zip(*toy_population(), strict=True))
    sentences = toy_sentences(2_000, seed=5)
    truth = -toy_conditionals(sentences).mean()
    words = sorted(set(itertools.chain.from_iterable(law)))
    counts = Counter(itertools.chain.from_iterable(sentences))
    chance = np.array([counts[word] for word in words]) / (5 * len(sentences))
    assert 0.3 < truth < 0.5 * -(chance * np.log(chance)).sum()
