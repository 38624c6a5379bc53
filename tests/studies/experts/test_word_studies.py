"""Smoke runs of the studies of words, and what the toy grammar says."""

from collections import Counter

import numpy as np
import pytest

from exfam.checks import ExfamError
from exfam.reading.text import prepare_text
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import Measured, Store
from exfam_studies.experts import cbow_factorization, expert_weights, factorization, paraphrase
from exfam_studies.experts.factorized import agreement
from exfam_studies.experts.factorized_attention import AttentionRecipe
from exfam_studies.experts.toy_sentences import toy_conditionals, toy_population, toy_sentences


@pytest.fixture
def options(tmp_path, monkeypatch):
    """Smoke runs on sentences of several lengths in place of Penn Treebank's."""
    random = np.random.default_rng(0)
    words, rate = np.array([f"w{i}" for i in range(30)]), 1 / np.arange(2, 32)
    drawn = [random.choice(words, random.integers(2, 9), p=rate / rate.sum()) for _ in range(300)]
    (tmp_path / "lm").mkdir()
    for part in ("train", "valid", "test"):
        random.shuffle(drawn)
        content = "\n".join([" ".join(drawn[0]), "", *map(" ".join, drawn[1:])])
        (tmp_path / "lm" / f"ptb.{part}.txt").write_text(content)
    monkeypatch.setenv("EXFAM_DATA", str(tmp_path))
    monkeypatch.setattr(factorization, "TOY_DIMS", (4,))
    monkeypatch.setattr(cbow_factorization, "DIMS", (4, 30))
    monkeypatch.setattr(expert_weights, "FAST_SENTENCES", 20)
    monkeypatch.setattr(expert_weights, "N_WORDS", 5)
    expert_weights._parts.cache_clear()
    factorization.read_texts.cache_clear()
    return Options(fast=True, seeds=2, folder=tmp_path / "kept")


MODELS = {
    factorization: {
        "toy": ["frequencies", "sgns", "attention", "attention-at-once"],
        "ptb": ["frequencies", "sgns", "cbow-softmax"],
    },
    cbow_factorization: {"toy-corpus": ["unigram", "cbow-softmax"]},
    expert_weights: {
        "toy-corpus": ["unigram", "truth", "cbow", "linear-attention", "awe"],
        "ptb": ["unigram", "cbow", "linear-attention", "awe"],
    },
}


@pytest.mark.filterwarnings("ignore:.*unknown to the model:exfam.checks.ExfamWarning")
@pytest.mark.parametrize("study", MODELS, ids=lambda study: study.__name__.rpartition(".")[2])
def test_a_smoke_run_has_all_rows_and_is_kept(study, options, monkeypatch):
    rows = study.run(options)
    assert {row.task for row in rows} == {*study.TASKS}
    for task, names in MODELS[study].items():
        assert list(dict.fromkeys(row.model for row in rows if row.task == task)) == names
    assert {row.n_seeds for row in rows} <= {1, 2} and {row.paper for row in rows} == {None}
    assert all(row.value is not None for row in rows)
    if study is factorization:
        shown = [row for row in rows if row.metric == "pearson" and row.task == "ptb"]
        assert {row.settings["band"] for row in shown} == {"all pairs", "below 50", "50 and more"}
        assert all(row.settings["cells"] >= row.settings["defined"] > 1 for row in shown)
    if study is expert_weights:
        nats = {row.model: row.value for row in rows if row.task == "toy-corpus"}
        assert nats.pop("truth") < min(nats.values())
    monkeypatch.setattr(Store, "put", lambda *_: pytest.fail("fitted again"))
    assert study.run(options) == rows


def test_penn_treebank_is_read_in_the_words_of_its_training_part(options):
    parts = expert_weights._parts("ptb", 0, (3, 3, 3))
    words = parts.train.vocabulary["item"].tolist()
    assert words[0] == "<unk>" and len(words) == 5 and 0 in parts.train.item
    # Empty lines are no sentences.
    assert len(parts.train) == 2 and parts.test.vocabulary["item"].tolist() == words
    train, test = factorization.read_texts("ptb", 300, 20, 0)
    assert test.vocabulary.words == train.vocabulary.words and len(test.tokens) > 100


def test_figures_of_cbow_are_near_the_papers(monkeypatch):
    """One corpus, the smallest dimension; all four over five corpora are in docs/results."""
    settings = cbow_factorization._settings(30, Options())
    figures = cbow_factorization._measure(settings, 10_000, 1).figures
    for metric, paper in cbow_factorization.PAPER.items():
        assert figures[metric] == pytest.approx(paper[30], abs=0.05)
    # Frequencies alone: 2.2.
    assert figures["nats"] < 0.82
    monkeypatch.setattr(cbow_factorization, "_measure", lambda *_: Measured(figures))
    rows = {row.metric: row for row in cbow_factorization._rows(300, Options(seeds=1))}
    assert rows["pearson"].paper == 0.70 and rows["nats"].paper is None


@pytest.fixture(scope="module")
def toy():
    return prepare_text(toy_sentences(3_000, seed=0), min_count=1)


def test_skipgram_factorizes_mutual_information(toy):
    """Vectors of as many numbers as words fit every pair; with own noise excused, to .1 nats."""
    settings = {"dim": 12, "window": 4, "epochs": 30}
    compared, _ = factorization._skipgram((toy, toy), settings, 0)
    plain, excused = (
        float(np.sqrt(((products - matrix.values)[matrix.defined] ** 2).mean()))
        for products, matrix in compared.values()
    )
    assert excused < 0.15 < plain < 0.3


def test_attention_that_starts_as_cbow_is_better_than_words_frequencies(toy):
    held_out = prepare_text(
        toy_sentences(1_000, seed=1), vocabulary=toy.vocabulary, max_words=12, min_count=1
    )
    recipe = AttentionRecipe(apart=20, together=10, rate=3e-4)
    texts, settings = (toy, held_out), {"dim": 16, "recipe": recipe}
    compared, figures = factorization.judge_attention(texts, settings, 0)
    share = toy.vocabulary.counts / toy.vocabulary.counts.sum()
    of_baseline, baseline = factorization.judge_frequencies(texts, {"window": None}, 0)
    assert baseline["nats"] == pytest.approx(-(share @ np.log(share)), abs=0.05)
    assert figures["nats"] < baseline["nats"] - 1
    assert 0.005 < figures["factor-asymmetry"] < 0.3
    result, lonely = (
        [agreement(*pair).spearman for pair in own.values()] for own in (compared, of_baseline)
    )
    assert min(result) > max(lonely[1:]) + 0.1


def figures_of(rows, model):
    return {row.metric: row.value for row in rows if row.model == model}


def test_the_identities_of_paraphrases_hold_to_rounding():
    rows = paraphrase.run(Options(fast=True, only=["toy-grammar"]))
    for model in ("cbow", "attention"):
        result = figures_of(rows, model)
        assert result["max-difference-lemma"] < 1e-8
        assert max(result[f"max-difference-proposition-{dim}"] for dim in paraphrase.DIMS) < 1e-6
        assert (result["count-finite-cells"], result["count-cells"]) == (5549, 17820)
    assert figures_of(rows, "cbow")["paraphrase-asymmetry"] < 1e-12
    assert figures_of(rows, "attention")["paraphrase-asymmetry"] > 0.1


def test_fitted_vectors_have_a_residual_and_truncated_ones_none(tmp_path, monkeypatch):
    options = Options(fast=True, only=["toy-corpus"], folder=tmp_path)
    rows = paraphrase.run(options)
    assert figures_of(rows, "truncated-svd")["paraphrase-norm-residual"] < 1e-10
    result = figures_of(rows, "cbow-softmax")
    assert result["paraphrase-norm-residual"] > 0.01
    assert sum(result[f"paraphrase-share-{name}"] for name in paraphrase.TERMS) == pytest.approx(1)
    monkeypatch.setattr(Store, "put", lambda *_: pytest.fail("fitted again"))
    assert paraphrase.run(options) == rows


def test_questions_of_a_text_are_answered_with_both_smoothings(tmp_path):
    path = tmp_path / "toy.txt"
    path.write_text("\n".join(map(" ".join, toy_sentences(4000, seed=0))))
    rows = paraphrase.run(Options(fast=True, only=["corpus"], corpus=path))
    mixed, shrunk = (
        {row.metric: row for row in rows if row.settings["sets"] == sets}
        for sets in ("mixed", "shrunk")
    )
    for metric in ("accuracy", "paraphrase-auc-gap", "paraphrase-auc-statistics"):
        assert mixed[metric].value == pytest.approx(shrunk[metric].value)
    assert mixed["paraphrase-norm-rho"].value != shrunk["paraphrase-norm-rho"].value
    auc = mixed["paraphrase-auc-gap"]
    assert auc.settings["low"] <= auc.value <= auc.settings["high"]
    assert 0 < mixed["accuracy"].value < 1


def test_the_toy_grammar_is_that_of_the_sentences_that_are_drawn():
    probability = dict(zip(*toy_population(), strict=True))
    drawn = Counter(map(tuple, toy_sentences(40_000, seed=4)))
    assert sum(probability.values()) == pytest.approx(1.0) and set(drawn) <= set(probability)
    for sentence, chance in probability.items():
        error = 5 * np.sqrt(chance / 40_000)
        assert abs(drawn[sentence] / 40_000 - chance) <= error + 1e-12, sentence
    # Three kinds, subjects by how much they are liked, adjectives by their scores.
    liked = [p for words, p in probability.items() if words[:3] == ("I", "like", "statistics")]
    assert sum(liked) == pytest.approx(1 / 3 * 5 / 11)
    both = ("mathematics", "and", "statistics", "is", "fun")
    assert probability[both] == pytest.approx(1 / 3 * 1 / 16 * 10 / 24)
    sentence = ("statistics", "is", "fun", "and", "easy")
    result = np.exp(toy_conditionals([sentence])[0])
    for i in range(5):
        around = sentence[:i], sentence[i + 1 :]
        alike = sum(p for words, p in probability.items() if (words[:i], words[i + 1 :]) == around)
        assert result[i] == pytest.approx(probability[sentence] / alike)
    with pytest.raises(ExfamError, match="`sentences` must be of the grammar, got 'statistics"):
        toy_conditionals([("statistics", "is", "boring", "and", "easy")])
