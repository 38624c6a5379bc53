"""What skip-gram and attention factorize, measured in smoke runs and once in full."""

import json

import numpy as np
import pytest

from exfam.reading.text import prepare_text
from exfam_studies.common.harness import Options
from exfam_studies.experts import factorization
from exfam_studies.experts.factorization_fits import (
    AttentionRecipe,
    by_frequency,
    fit_attention,
    judge_attention,
    judge_skipgram,
    word_groups,
)
from exfam_studies.experts.toy_sentences import toy_sentences


@pytest.fixture
def ptb(monkeypatch):
    """Sentences of several lengths in place of Penn Treebank's, with words of several rates."""

    def lines(part, options):
        random = np.random.default_rng(part == "train")
        words, rate = np.array([f"w{i}" for i in range(30)]), 1 / np.arange(2, 32)
        drawn = [random.choice(words, size=random.integers(2, 9), p=rate / rate.sum())]
        for _ in range(200):
            drawn.append(random.choice(words, size=random.integers(2, 9), p=rate / rate.sum()))
        return [list(map(str, each)) for each in drawn]

    monkeypatch.setattr(factorization, "_lines", lines)


@pytest.mark.filterwarnings("ignore:.*unknown to the model:exfam.checks.ExfamWarning")
def test_a_smoke_run_has_all_rows_and_is_kept(tmp_path, monkeypatch, ptb):
    monkeypatch.setattr(factorization, "TOY_DIMS", (4,))
    options = Options(fast=True, seeds=2, folder=tmp_path)
    rows = factorization.run(options)
    assert {row.task for row in rows} == {"toy", "ptb"} and {row.n_seeds for row in rows} == {2}
    models = {(row.task, row.model) for row in rows}
    assert models == {
        *(("toy", model) for model in ("frequencies", "sgns", "attention", "attention-at-once")),
        *(("ptb", model) for model in ("frequencies", "sgns", "cbow-softmax")),
    }
    bands = {row.settings["band"] for row in rows if row.task == "ptb" and "band" in row.settings}
    assert bands == {"all pairs", "below 50", "50 and more"}
    result = [row for row in rows if row.metric in ("spearman", "pearson")]
    assert all(row.settings["cells"] >= row.settings["defined"] > 1 for row in result)
    assert all(-1 <= row.value <= 1 for row in result) and len({row.value for row in result}) > 40
    kept = json.loads(next(tmp_path.rglob("attention/**/00.json")).read_text())
    assert {"nats", "factor-asymmetry", "factor-zeta-spread"} < kept["figures"].keys()
    monkeypatch.setattr(factorization, "_figures", lambda *_: pytest.fail("fitted again"))
    assert factorization.run(options) == rows


def test_only_the_wanted_task_is_run(monkeypatch):
    monkeypatch.setattr(factorization, "_ptb_jobs", lambda options: pytest.fail("not wanted"))
    monkeypatch.setattr(factorization, "_toy_jobs", lambda options: [])
    assert factorization.run(Options(fast=True, only=["toy"])) == []


def test_words_of_other_parts_are_those_of_the_training_part(ptb):
    train, test = (factorization._ptb(Options(fast=True), part) for part in ("train", "test"))
    assert test.vocabulary.words == train.vocabulary.words
    assert train.vocabulary.counts.min() >= factorization.FAST_MIN_COUNT
    assert len(test.tokens) > 100


@pytest.fixture(scope="module")
def toy():
    return prepare_text(toy_sentences(3_000, seed=0), min_count=1)


def test_skipgram_factorizes_mutual_information(toy):
    """Vectors of as many numbers as words fit every pair; with own noise excused, to .1 nats."""
    judged = judge_skipgram(toy, {"dim": 12, "window": 4, "epochs": 30}, seed=0)
    distances = []
    for _, products, matrix in judged.compared:
        apart = (products - matrix.values)[matrix.defined]
        distances.append(float(np.sqrt((apart**2).mean())))
    assert distances[1] < 0.15 < distances[0] < 0.3


def test_attention_that_starts_as_cbow_is_better_than_words_frequencies(toy):
    held_out = prepare_text(
        toy_sentences(1_000, seed=1), vocabulary=toy.vocabulary, max_words=12, min_count=1
    )
    recipe = AttentionRecipe(apart=20, together=10, rate=3e-4)
    judged = judge_attention(toy, 16, recipe, held_out=held_out, seed=0)
    share = toy.vocabulary.counts / toy.vocabulary.counts.sum()
    baseline = by_frequency(toy, window=None, held_out=held_out)
    assert baseline.figures["nats"] == pytest.approx(-(share @ np.log(share)), abs=0.05)
    assert judged.figures["nats"] < baseline.figures["nats"] - 1
    assert 0.005 < judged.figures["factor-asymmetry"] < 0.3
    result = [factorization.agreement(products, matrix) for _, products, matrix in judged.compared]
    lonely = [factorization.agreement(each.products, each.matrix) for each in baseline.compared]
    assert min(each.spearman for each in result) > max(each.spearman for each in lonely[1:]) + 0.1


def test_attention_that_is_not_trained_stays_with_all_alike(toy):
    model = fit_attention(toy, 4, AttentionRecipe(apart=1, together=0, rate=1e-3), seed=0)
    assert not model.log_tau().any() and bool(model.readout.weight.any())


def test_groups_are_the_texts_sentences(toy):
    groups = word_groups(toy)
    ends = np.flatnonzero(toy.tokens < 0)
    assert len(groups) == len(ends) and (groups.lengths == 5).all()
    np.testing.assert_array_equal(groups[1].pad([0]).item[0].numpy(), toy.tokens[6:11])
