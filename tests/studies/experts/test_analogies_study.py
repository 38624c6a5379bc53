"""The study of analogies, on a text drawn from a few words."""

import importlib.util
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from encoder_cases import save_tiny_bert
from exfam.checks import DataError
from exfam.language import MaskedLanguageModel
from exfam.reading.public_sets.word_questions import WordQuestions
from exfam.reading.text import prepare_text
from exfam.vectors import WordVectors
from exfam.words import SkipGram
from exfam_studies.common.harness import Options, reproduce
from exfam_studies.common.word_corpus import read_corpus
from exfam_studies.experts import analogies, analogy_errors, analogy_sets
from exfam_studies.experts.analogy_errors import EXPLAINED, stretches
from exfam_studies.experts.analogy_sets import FITTED, given_sets, text_lines
from exfam_studies.experts.factorized import asymmetry
from exfam_studies.experts.offsets import answer_by_offsets, common_questions, single_words
from exfam_studies.experts.paraphrases import WordLaw, attention_windows, text_windows

WORDS = [f"{first}{last}" for first in "bcdfg" for last in ("an", "en", "in", "on", "un", "yn")]
NEEDS_TOKENIZERS = pytest.mark.skipif(
    importlib.util.find_spec("tokenizers") is None,
    reason="tokenizers (extra hf) is not installed",
)


def questions():
    """A few of known words, in capitals too, and one of a word that no text has."""
    known = [tuple(WORDS[row + place] for place in range(4)) for row in range(0, 24, 2)]
    known[0] = tuple(word.capitalize() for word in known[0])
    asked = [*known, (*WORDS[:3], "gone")]
    categories = tuple("gram1-plural" if place % 2 else "family" for place in range(len(asked)))
    kinds = {"family": "semantic", "gram1-plural": "syntactic"}
    return WordQuestions("google", tuple(asked), categories, kinds)


@pytest.fixture
def options(tmp_path, monkeypatch):
    """A smoke run over a text of its own, without the package of an encoder."""
    random = np.random.default_rng(0)
    chance = 1 / np.arange(2, len(WORDS) + 2)
    path = tmp_path / "text.txt"
    path.write_text(" ".join(random.choice(WORDS, size=6000, p=chance / chance.sum())))
    monkeypatch.setattr(analogies, "word_questions", lambda name: questions())
    monkeypatch.setattr(analogy_sets, "packaged_encoder", lambda: None)
    return Options(fast=True, corpus=path, folder=tmp_path / "kept")


def values(rows):
    result = {(row.task, row.model, row.metric): row.value for row in rows}
    assert len(result) == len(rows)
    return result


def test_all_sets_are_asked_the_questions_that_all_know(options, monkeypatch, tmp_path):
    rows = analogies.run(replace(options, only=("words",)))
    result = values(rows)
    assert result["words", "questions", "count-overall"] == 12
    assert result["words", "questions", "count-semantic"] == 6
    assert result["words-categories", "questions", "count-gram1-plural"] == 6
    for model in ("sgns", "sgns-tied", "cbow"):
        row = next(row for row in rows if row.model == model)
        assert row.settings["tokens"] == 6000 and row.settings["words"] == len(WORDS)
        parts = [result["words", model, f"cosine-{name}"] for name in ("semantic", "syntactic")]
        assert np.mean(parts) == pytest.approx(result["words", model, "cosine-overall"])
        alone = result["words", f"{model}-c-alone", "cosine-overall"]
        assert alone != result["words", model, "cosine-overall"]
    cosines = [result["words", model, "cosine-overall"] for model in ("sgns", "sgns-tied", "cbow")]
    assert len(set(cosines)) == 3
    missing = [row for row in rows if row.model == "minilm"]
    assert [(row.value, row.note) for row in missing] == [(None, "not installed")]
    monkeypatch.setattr(analogy_sets, "fit_words", lambda *_, **__: pytest.fail("fitted again"))
    assert analogies.run(replace(options, only=("words",))) == rows


def test_scores_are_those_of_the_vectors_that_are_kept(options):
    result = values(analogies.run(replace(options, only=("words",), seeds=2)))
    files = sorted(options.folder.glob("analogies/text-head/cbow-*/*.safetensors"))
    assert [file.stem for file in files] == ["00", "01"]
    asked = questions()
    known = WordQuestions("x", asked.questions[:12], asked.categories[:12], {})
    scores = [
        answer_by_offsets(single_words(WordVectors.load(file)), known).overall for file in files
    ]
    mean = np.mean([score.cosine for score in scores])
    assert result["words", "cbow", "cosine-overall"] == pytest.approx(mean)
    assert scores[0].cosine != scores[1].cosine


@NEEDS_TOKENIZERS
def test_a_masked_language_model_is_compared_where_it_is_asked_for(options, monkeypatch):
    rows = analogies.run(replace(options, only=("masked-lm",)))
    result = values(rows)
    row = next(row for row in rows if row.model == "masked-lm")
    assert row.settings["tokens"] == 6000 and row.settings["words"] == len(WORDS)
    assert -1 <= result["masked-lm", "masked-lm", "cosine-overall"] <= 1
    assert {row.model for row in rows} >= {"sgns", "cbow", "minilm", "paper's bert"}
    monkeypatch.setattr(MaskedLanguageModel, "fit", lambda *_, **__: pytest.fail("fitted again"))
    assert analogies.run(replace(options, only=("masked-lm",))) == rows


@NEEDS_TOKENIZERS
def test_a_fit_that_was_cut_short_is_not_kept(options, monkeypatch):
    class Interrupted:
        interrupted, best = True, None

    monkeypatch.setattr(MaskedLanguageModel, "fit", lambda self, *given, **named: self)
    monkeypatch.setattr(MaskedLanguageModel, "history_", Interrupted())
    text = prepare_text(["a b a b"], min_count=1)
    settings = FITTED["masked-lm"].settings(options)
    with pytest.raises(KeyboardInterrupt, match="cut short"):
        analogy_sets.fit_masked_words(text, settings, seed=0, options=options)


def test_a_model_whose_package_is_absent_is_told(options, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = analogy_sets.fitted_set("masked-lm", lambda: pytest.fail("read"), options)
    assert result.vectors == () and result.note == "not installed"


def test_vectors_of_all_kinds_can_be_given(options, tmp_path):
    place = tmp_path / "given"
    place.mkdir()
    random = np.random.default_rng(1)
    matrix = random.normal(size=(len(WORDS), 5)).astype(np.float32)
    WordVectors(tuple(WORDS), matrix).save(place / "glove.txt")
    (place / ".hidden").write_text("not looked at")
    save_tiny_bert(place / "bert", WORDS)
    text = [" ".join(random.choice(WORDS, size=200)) for _ in range(3)]
    own = SkipGram(dim=4, epochs=1, min_count=1, progress=False).fit(text)
    own.save(place / "own")
    result = {each.model: each for each in given_sets(place)}
    assert list(result) == ["bert", "glove.txt", "own"]
    np.testing.assert_array_equal(result["own"].vectors[0]["ban"], own.vectors_["ban"])
    np.testing.assert_allclose(result["glove.txt"].vectors[0]["ban"], matrix[0], rtol=1e-5)
    assert result["bert"].settings == {
        "corpus": "not known", "tokens": "not known", "words": len(WORDS), "dim": 16
    }  # fmt: skip
    rows = analogies.run(replace(options, only=("words",), vectors=place))
    assert {"bert", "glove.txt", "own", "bert-c-alone"} <= {row.model for row in rows}
    (alone,) = given_sets(place / "bert")
    assert alone.vectors[0].words == tuple(WORDS) and list(given_sets(None)) == []


@NEEDS_TOKENIZERS
def test_a_saved_masked_language_model_can_be_given(tmp_path):
    model = MaskedLanguageModel(
        subwords="word", embed_dim=8, n_heads=2, n_layers=1, feed_forward_dim=8, length=16,
        max_epochs=1, progress=False,
    ).fit([" ".join(WORDS)] * 9)  # fmt: skip
    model.save(tmp_path / "model")
    (given,) = given_sets(tmp_path / "model")
    assert sorted(given.vectors[0].words) == sorted(WORDS)


def test_what_has_no_vectors_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="got an empty folder at"):
        list(given_sets(tmp_path / "empty"))

    from exfam import Marginal

    frame = pd.DataFrame({"u": [0, 0, 1], "i": ["a", "b", "a"]})
    Marginal(group="u", item="i").fit(frame).save(tmp_path / "model")
    with pytest.raises(DataError, match="`vectors` must be a model of words, got a Marginal"):
        list(given_sets(tmp_path / "model"))


def test_lines_are_the_text_that_word_vectors_are_fitted_to():
    text = prepare_text([["a", "b", "rare"], ["b", "a"] * 600], min_count=2)
    lines = list(text_lines(text))
    assert [len(line) for line in lines] == [2, 1000, 200]
    assert lines[0] == ["a", "b"] and lines[1][:3] == ["b", "a", "b"]
    assert sum(map(len, lines)) == (text.tokens >= 0).sum()


def test_the_real_questions_are_those_of_the_papers_file(data_folder, monkeypatch):
    if not (data_folder / "wordsim").is_dir():
        pytest.skip("the folder has no wordsim")
    rows = values(reproduce("analogies", options=Options(fast=True, only=["words"])))
    assert 0 < rows["words", "questions", "count-overall"] < 19_544


def test_terms_of_errors_are_told_of_all_explained_sets(options, monkeypatch):
    rows = analogies.run(replace(options, only=("explanation",)))
    result = values(rows)
    for model in EXPLAINED:
        assert result["explanation", model, "count-questions"] == 12
        shares = [
            value for (_, own, name), value in result.items() if own == model and "share" in name
        ]
        assert sum(shares) == pytest.approx(1.0) and len(shares) == 4
        assert 0 < result["explanation", model, "coverage-seen"] < 1
    ranked = [row for row in rows if row.metric == "auc-gap"]
    assert ranked and all(
        row.settings["low"] <= row.value <= row.settings["high"] for row in ranked
    )
    monkeypatch.setattr(analogy_errors, "_explained", lambda *_: pytest.fail("measured again"))
    assert analogies.run(replace(options, only=("explanation",))) == rows


def test_answers_of_the_explanation_are_among_the_words_of_the_law(options, monkeypatch):
    monkeypatch.setitem(analogy_errors._FAST_LAW, "words", 16)
    result = values(analogies.run(replace(options, only=("explanation",))))
    (file,) = options.folder.glob("analogies/text-head/cbow-*/00.safetensors")
    vectors = WordVectors.load(file, limit=16)
    known = common_questions([vectors], questions())
    assert result["explanation", "cbow", "count-questions"] == len(known) < 12
    accuracy = answer_by_offsets(vectors, known).overall.accuracy
    assert result["explanation", "cbow", "accuracy-overall"] == pytest.approx(accuracy)


def test_a_text_without_the_words_of_a_question_has_none_to_explain(options, monkeypatch):
    monkeypatch.setitem(analogy_errors._FAST_LAW, "words", 3)
    rows = analogies.run(replace(options, only=("explanation",)))
    assert {(row.metric, row.value) for row in rows} == {("count-questions", 0.0)}


def test_attention_is_less_symmetric_than_counts_and_by_as_much_as_its_weights_say(options):
    rows = analogies.run(replace(options, only=("symmetry",), seeds=2))
    result = values(rows)
    name = "factor-asymmetry"
    assert result["symmetry", "cbow", name] < 1e-12 < 1e-6 < result["symmetry", "attention", name]
    assert result["symmetry", "attention", "nats"] > 0 and rows[0].n_seeds == 2
    text = stretches(read_corpus(options, min_count=5), n_words=30, n_tokens=4000)
    (file,) = options.folder.glob("analogies/text-head/symmetry-*/00.json")
    kept = json.loads(file.read_text())
    *log_tau, of_mask = kept["arrays"]["log-tau"]
    tau = np.exp(np.array(log_tau) - of_mask)
    weighed = WordLaw(attention_windows(text_windows(text), tau, mask=1.0))
    witness = asymmetry(weighed.pairs * weighed.context)
    assert kept["figures"][f"attention {name}"] == pytest.approx(witness, rel=1e-6)
    assert kept["figures"]["unigram nats"] < np.log(30)


def test_stretches_are_of_frequent_words_in_their_order():
    random = np.random.default_rng(0)
    words = random.choice(WORDS, size=500, p=np.arange(1, 31) / 465).tolist()
    cut = stretches(prepare_text([words], min_count=1), n_words=7, n_tokens=300, length=4)
    known = set(cut.vocabulary.words)
    result = [cut.vocabulary.words[code] for code in cut.tokens[cut.tokens >= 0]]
    kept = [word for word in words[:300] if word in known]
    assert len(known) == 7 and result == kept[: len(result)] and len(kept) - len(result) <= 1
    lengths = np.diff(np.flatnonzero(np.append(-1, cut.tokens) == -1)) - 1
    assert (lengths[:-1] == 4).all() and 2 <= lengths[-1] <= 4
