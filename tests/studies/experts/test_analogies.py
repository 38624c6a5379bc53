"""Analogies by b + c - a, and the study of them on a text drawn from a few words."""

import importlib.util
import json
from dataclasses import replace

import numpy as np
import pytest

from encoder_cases import save_tiny_bert
from exfam.checks import DataError
from exfam.language import MaskedLanguageModel
from exfam.reading.public_sets.word_questions import WordQuestions
from exfam.reading.text import prepare_text
from exfam.training.history import History
from exfam.vectors import WordVectors
from exfam_studies.common.harness import Options, reproduce
from exfam_studies.common.kept import Store
from exfam_studies.common.word_corpus import read_corpus
from exfam_studies.experts import analogies, analogy_errors, analogy_sets
from exfam_studies.experts.analogy_errors import EXPLAINED, stretches
from exfam_studies.experts.analogy_sets import (
    answer_by_offsets,
    common_questions,
    fit_vectors,
    given_sets,
    single_words,
    text_lines,
    words_in_common,
)
from exfam_studies.experts.factorized import asymmetry
from exfam_studies.experts.paraphrases.analogies import TERMS
from exfam_studies.experts.paraphrases.windows import attention_windows, text_windows
from exfam_studies.experts.paraphrases.word_sets import WordSets
from words.vector_cases import some_vectors

WORDS = [f"{first}{last}" for first in "bcdfg" for last in ("an", "en", "in", "on", "un", "yn")]


def questions_of(*questions):
    return WordQuestions("x", questions, ("x",) * len(questions), {})


def drawn_questions(n=40):
    """Questions of four different words drawn by chance, of three categories and two kinds."""
    random = np.random.default_rng(0)
    drawn = [tuple(f"w{row}" for row in random.choice(12, 4, replace=False)) for _ in range(n)]
    categories = tuple(("capital", "gram1", "family")[number % 3] for number in range(n))
    kinds = {"capital": "semantic", "family": "semantic", "gram1": "syntactic"}
    return WordQuestions("x", tuple(drawn), categories, kinds)


def test_answers_are_what_loops_find():
    vectors, questions = some_vectors(rows=12), drawn_questions()
    answers = answer_by_offsets(vectors, questions)
    rights = {d for *_, d in questions.questions}
    for number, (a, b, c, d) in enumerate(questions.questions):
        sums = vectors[b] + vectors[c] - vectors[a]
        cosine = {word: vectors.similarity(sums, word) for word in vectors.words}
        nearest = max(set(cosine) - {a, b, c}, key=cosine.get)
        assert answers.correct[number] == (nearest == d)
        others = np.mean([cosine[word] for word in rights])
        result = answers.cosine[number], answers.cosine_others[number]
        assert result == pytest.approx((cosine[d], others), abs=1e-6)
    alone = answer_by_offsets(vectors, questions, c_alone=True)
    assert alone.cosine[0] == pytest.approx(vectors.similarity(*questions.questions[0][2:]))
    assert 0 < answers.correct.sum() < 40


def test_questions_are_parted_by_kind_and_by_category():
    questions = drawn_questions()
    kinds, categories = analogies._parts(questions)
    assert list(kinds) == ["semantic", "syntactic", "overall"] and kinds["overall"].all()
    assert list(categories) == ["capital", "gram1", "family"]
    np.testing.assert_array_equal(kinds["semantic"], categories["capital"] | categories["family"])
    np.testing.assert_array_equal(kinds["syntactic"], categories["gram1"])
    assert list(analogies._parts(replace(questions, kinds={}))[0]) == ["overall"]


def test_answers_that_cannot_be_right_or_near():
    result = answer_by_offsets(some_vectors(rows=3), questions_of(("w0", "w1", "w2", "w2")))
    assert result.correct.tolist() == [False]
    zero = WordVectors(("a", "b", "c", "d"), np.array([[1], [2], [-1], [3]], dtype=np.float32))
    assert answer_by_offsets(zero, questions_of(("a", "b", "c", "d"))).cosine.tolist() == [0.0]
    unknown = questions_of(("w0", "w1", "w2", "w3"), ("w0", "W1", "w2", "gone"))
    with pytest.raises(DataError, match=r"got 'gone' in question 1\. Take `common_questions`"):
        answer_by_offsets(some_vectors(), unknown)


def test_common_questions_are_those_that_every_set_knows():
    one = WordVectors(("athens", "greece", "oslo", "norway", "Rome"), np.eye(5, dtype=np.float32))
    other = WordVectors(("norway", "oslo", "greece", "athens"), np.eye(4, dtype=np.float32))
    listed = (("Athens", "Greece", "Rome", "Norway"), ("Oslo", "Norway", "Athens", "Greece"))
    questions = WordQuestions("x", listed, ("one", "two"), {"one": "semantic"})
    kept = common_questions([one, other], questions)
    assert kept.questions == (("oslo", "norway", "athens", "greece"),)
    assert kept.categories == ("two",) and kept.kinds == questions.kinds
    gone = WordVectors(other.words, other.center * np.array([[0], [1], [1], [1]], np.float32))
    with pytest.raises(DataError, match="four words of a question in common, got none of 2"):
        common_questions([one, gone], questions)


def test_sets_that_are_cut_keep_their_vectors():
    words = ("w0", "cat", "New", "dog", "a b")
    center, context = np.arange(10, dtype=np.float32).reshape(2, 5, 1) + 1
    kept = single_words(WordVectors(words, center, context))
    assert kept.words == ("cat", "dog")
    assert kept.center.ravel().tolist() == [2, 4] and kept.context.ravel().tolist() == [7, 9]
    one, other = some_vectors(rows=9), some_vectors(1, rows=20)
    for cut, whole in zip(words_in_common([other, one]), (other, one), strict=True):
        assert set(cut.words) == set(one.words)
        np.testing.assert_array_equal(cut.center, np.stack([whole[word] for word in cut.words]))


def google():
    """A few questions of known words, in capitals too, and one of a word that no text has."""
    known = [tuple(WORDS[row : row + 4]) for row in range(0, 24, 2)]
    known[0] = tuple(word.capitalize() for word in known[0])
    listed = [*known, (*WORDS[:3], "gone")]
    categories = tuple("gram1-plural" if number % 2 else "family" for number in range(len(listed)))
    kinds = {"family": "semantic", "gram1-plural": "syntactic"}
    return WordQuestions("google", tuple(listed), categories, kinds)


@pytest.fixture
def options(tmp_path, monkeypatch):
    """A smoke run over a text of its own, without the package of an encoder."""
    random = np.random.default_rng(0)
    chance = 1 / np.arange(2, len(WORDS) + 2)
    path = tmp_path / "text.txt"
    path.write_text(" ".join(random.choice(WORDS, size=6000, p=chance / chance.sum())))
    for study in (analogies, analogy_errors):
        monkeypatch.setattr(study, "word_questions", lambda name: google())
    monkeypatch.setattr(analogy_sets, "packaged_encoder", lambda: None)
    return Options(fast=True, corpus=path, folder=tmp_path / "kept")


def values(rows):
    result = {(row.task, row.model, row.metric): row.value for row in rows}
    assert len(result) == len(rows)
    return result


def test_all_sets_answer_the_questions_that_all_know(options, monkeypatch):
    options = replace(options, only=("words",), seeds=2)
    rows = analogies.run(options)
    result = values(rows)
    assert result["words", "questions", "count-overall"] == 12
    assert result["words", "questions", "count-semantic"] == 6
    assert result["words-categories", "questions", "count-gram1-plural"] == 6
    known = replace(google(), questions=google().questions[:12], categories=("x",) * 12)
    for model in ("sgns", "sgns-tied", "cbow"):
        row = next(row for row in rows if row.model == model)
        assert row.settings["tokens"] == 6000 and row.settings["words"] == len(WORDS)
        overall = result["words", model, "cosine-overall"]
        assert result["words", f"{model}-c-alone", "cosine-overall"] != overall
        # Scores are those of the vectors that are kept.
        files = sorted(options.folder.glob(f"analogies/text-head/{model}-????????/*.safetensors"))
        cosines = [answer_by_offsets(WordVectors.load(file), known).cosine.mean() for file in files]
        assert len(cosines) == 2 and np.mean(cosines) == pytest.approx(overall)
    missing = [row for row in rows if row.model == "minilm"]
    assert [(row.value, row.note) for row in missing] == [(None, "not installed")]
    monkeypatch.setattr(analogy_sets, "fit_words", lambda *_, **__: pytest.fail("fitted again"))
    assert analogies.run(options) == rows


def test_a_masked_language_model_is_compared_where_its_task_is_run(options, monkeypatch):
    pytest.importorskip("tokenizers", reason="tokenizers (extra hf) is not installed")
    options = replace(options, only=("masked-lm",))
    rows = analogies.run(options)
    row = next(row for row in rows if row.model == "masked-lm")
    assert row.settings["tokens"] == 6000 and row.settings["words"] == len(WORDS)
    assert {row.model for row in rows} >= {"sgns", "cbow", "minilm", "paper's bert"}
    with monkeypatch.context() as patch:
        patch.setattr(MaskedLanguageModel, "fit", lambda *_, **__: pytest.fail("fitted again"))
        assert analogies.run(options) == rows
    # A fit that was cut short is not kept.
    monkeypatch.setattr(History, "interrupted", property(lambda history: True))
    text = prepare_text(["a b a b"] * 9, min_count=1)
    with pytest.raises(KeyboardInterrupt, match="cut short"):
        fit_vectors("masked-lm", text, 0, replace(options, folder=None))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    absent = analogy_sets.fitted_set("masked-lm", lambda: pytest.fail("read"), options)
    assert absent.vectors == () and absent.note == "not installed"


def test_vectors_of_all_kinds_can_be_given(options, tmp_path):
    folder, random = tmp_path / "given", np.random.default_rng(1)
    folder.mkdir()
    matrix = random.normal(size=(len(WORDS), 5)).astype(np.float32)
    WordVectors(tuple(WORDS), matrix).save(folder / "glove.txt")
    (folder / ".hidden").write_text("not looked at")
    save_tiny_bert(folder / "bert", WORDS)
    result = {given.model: given for given in given_sets(folder)}
    assert list(result) == ["bert", "glove.txt"]
    np.testing.assert_allclose(result["glove.txt"].vectors[0]["ban"], matrix[0], rtol=1e-5)
    assert result["bert"].settings["corpus"] == "not known"
    rows = analogies.run(replace(options, only=("words",), vectors=folder))
    assert {"bert", "glove.txt", "bert-c-alone"} <= {row.model for row in rows}
    (alone,) = given_sets(folder / "bert")
    assert alone.vectors[0].words == tuple(WORDS) and list(given_sets(None)) == []
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="got an empty folder at"):
        list(given_sets(tmp_path / "empty"))


def test_the_real_questions_are_those_of_the_papers_file(data_folder):
    if not (data_folder / "wordsim").is_dir():
        pytest.skip("the folder has no wordsim")
    rows = values(reproduce("analogies", options=Options(fast=True, only=["words"])))
    assert 0 < rows["words", "questions", "count-overall"] < 19_544


def test_errors_of_all_explained_sets_are_taken_apart(options, monkeypatch):
    options = replace(options, only=("explanation",))
    rows = analogies.run(options)
    result = values(rows)
    for model in EXPLAINED:
        assert result["explanation", model, "count-questions"] == 12
        shares = [result["explanation", model, f"share-{term}"] for term in TERMS]
        assert sum(shares) == pytest.approx(1.0)
        assert 0 < result["explanation", model, "coverage-seen"] < 1
    ranked = [row for row in rows if row.metric == "auc-gap"]
    assert ranked and all(
        row.settings["low"] <= row.value <= row.settings["high"] for row in ranked
    )
    with monkeypatch.context() as patch:
        patch.setattr(Store, "put", lambda *_: pytest.fail("measured again"))
        assert analogies.run(options) == rows
    # Answers are among the most frequent words alone.
    monkeypatch.setitem(analogy_errors._FAST_SETS, "words", 16)
    result = values(analogies.run(options))
    (file,) = options.folder.glob("analogies/text-head/cbow-*/00.safetensors")
    vectors = WordVectors.load(file, limit=16)
    known = common_questions([vectors], google())
    assert result["explanation", "cbow", "count-questions"] == len(known) < 12
    accuracy = answer_by_offsets(vectors, known).correct.mean()
    assert result["explanation", "cbow", "accuracy-overall"] == pytest.approx(accuracy)
    monkeypatch.setitem(analogy_errors._FAST_SETS, "words", 3)
    rows = analogies.run(options)
    assert {(row.metric, row.value) for row in rows} == {("count-questions", 0.0)}


def test_attention_is_less_symmetric_than_counts_and_by_as_much_as_its_weights_say(options):
    rows = analogies.run(replace(options, only=("symmetry",), seeds=2))
    result, name = values(rows), "factor-asymmetry"
    assert result["symmetry", "cbow", name] < 1e-12 < 1e-6 < result["symmetry", "attention", name]
    assert result["symmetry", "attention", "nats"] > 0 and rows[0].n_seeds == 2
    text = stretches(read_corpus(options, min_count=5), n_words=30, n_tokens=4000)
    (file,) = options.folder.glob("analogies/text-head/symmetry-*/00.json")
    kept = json.loads(file.read_text())
    *log_tau, of_mask = kept["arrays"]["log-tau"]
    tau = np.exp(np.array(log_tau) - of_mask)
    weighed = WordSets(attention_windows(text_windows(text), tau, mask=1.0))
    witness = asymmetry(weighed.pairs * weighed.context)
    assert kept["figures"][f"attention {name}"] == pytest.approx(witness, rel=1e-6)


def test_stretches_are_of_frequent_words_in_their_order():
    random = np.random.default_rng(0)
    words = random.choice(WORDS, size=1500, p=np.arange(1, 31) / 465).tolist()
    text = prepare_text([words], min_count=1)
    assert [len(line) for line in text_lines(text)] == [1000, 500]
    cut = stretches(text, n_words=7, n_tokens=300)
    result = [cut.vocabulary.words[code] for code in cut.tokens[cut.tokens >= 0]]
    kept = [word for word in words[:300] if word in cut.vocabulary.words]
    assert len(set(result)) == 7
    assert result == kept[: len(result)] and len(kept) - len(result) <= 1
    lengths = np.diff(np.flatnonzero(np.append(-1, cut.tokens) == -1)) - 1
    assert len(lengths) > 2 and (lengths[:-1] == 11).all() and 2 <= lengths[-1] <= 11
