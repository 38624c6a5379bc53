"""Word vectors on the command line: fitted, looked up, evaluated, converted, without torch."""

import hashlib
import json
import re
import subprocess
import sys

import numpy as np
import pytest

import exfam
from cli.cases import table
from exfam import cli
from exfam.cli.commands import form_of
from exfam.estimator.storage import save_folder
from exfam.training.history import History
from exfam.vectors import WordVectors
from exfam.vectors.files import VECTOR_FORMATS
from exfam.words import PMIFactorization, SkipGram

TINY = ("--dim", "4", "--epochs", "2", "--threads", "1", "--subsample", "0")
PLANE = np.array([[1, 0], [0, 1], [1, 1], [-1, 1], [0, 2], [3, 3]], dtype=np.float32)
KNOWN = ("one", "two", "three", "four", "2014", "[sic]")


def sentences():
    rng = np.random.default_rng(0)
    parts = (["cat", "cats", "dog", "dogs"], ["eats", "eat", "sees"], ["fish", "bread", "meat"])
    drawn = [["the", *(part[rng.integers(len(part))] for part in parts)] for _ in range(120)]
    return [" ".join(words) for words in drawn]


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    """A corpus, a tied model of it in `tied`, and small vectors in a file; all are only read."""
    folder = tmp_path_factory.mktemp("words")
    (folder / "corpus.txt").write_text("\n".join(sentences()))
    given = [str(folder / "corpus.txt"), *TINY, "--tie", "reflection", "-o", str(folder / "tied")]
    assert cli.main(["fit", "words", *given]) == 0
    WordVectors(KNOWN, PLANE, PLANE[::-1].copy()).save(folder / "plane.safetensors")
    return folder


@pytest.fixture(scope="module")
def tests(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tests")
    (folder / "pairs.txt").write_text("one three 9\none two 5\none four 2\none unicorn 1\n")
    (folder / "quiz.txt").write_text(
        ": gram1-turn\none three two four\none three two lost\n: family\nthree one four two\n"
    )
    (folder / "notes.md").write_text("not a test set")
    return folder


def test_a_fit_of_words_is_the_estimators(run, vectors, tmp_path):
    words = [vectors / "corpus.txt", *TINY, "--tie", "reflection", "--deterministic"]
    status, out, err = run("fit", "words", *words, "-o", f"{tmp_path}/v/", "--format", "csv")
    assert status == 0 and err == f"saved in {tmp_path}/v/\n", err
    loaded = exfam.load(tmp_path / "v")
    own = SkipGram(
        dim=4, epochs=2, threads=1, subsample=0.0, tie="reflection", deterministic=True
    ).fit(vectors / "corpus.txt")
    np.testing.assert_array_equal(loaded.vectors_.center, own.vectors_.center)
    assert loaded.get_params() == own.get_params() and loaded.vectors_.tied
    (row,) = table(out)
    fitted = row["model"], row["words"], row["dim"], row["tied"]
    assert fitted == ("skip-gram", str(len(own.vectors_)), "4", "yes")
    assert float(row["nats"]) == pytest.approx(-own.history_.rows[-1].train_nats)


def test_a_factorization_has_no_epochs(results, vectors, tmp_path):
    words = ["--model", "pmi", "--dim", "2", "--min-count", "5", "-o", tmp_path / "v"]
    (row,) = results("fit", "words", vectors / "corpus.txt", *words)
    assert (row["model"], row["dim"], row["tied"], row["nats"]) == ("pmi", "2", "yes", "")
    assert isinstance(exfam.load(tmp_path / "v"), PMIFactorization)


@pytest.mark.parametrize(
    ("kept", "message"), [(1, "what was learned so far is kept"), (0, "interrupted")]
)
def test_an_interrupted_fit_is_kept(run, vectors, tmp_path, monkeypatch, kept, message):
    real = SkipGram.fit

    def interrupted(self, *given, **named):
        real(self, *given, **named)
        self.histories_ = [History(self.histories_[-1].rows[:kept], "interrupted")]

    monkeypatch.setattr(SkipGram, "fit", interrupted)
    words = [vectors / "corpus.txt", *TINY, "-o", tmp_path / "v"]
    status, _, err = run("fit", "words", *words)
    assert status == 130 and message in err
    assert (tmp_path / "v").exists() == bool(kept)


# A command line in a folder with a corpus, a tied model and vectors in a file -> what it says.
REFUSED = {
    "fit words nowhere.txt -o v": "`CORPUS` must name a file",
    "fit words corpus.txt -o v --model glove": "`--model` must be one of skip-gram, c",
    "fit words corpus.txt -o v --model pmi --epochs 3": "`exfam fit words --model pmi",
    "fit words corpus.txt -o v --model pmi": "`CORPUS` must hold more than dim = 200",
    "neighbors tied kat": "`word` must be one of .* known words, got 'kat'. Near: .*'cat'",
    "neighbors corpus.txt cat": "`VECTORS` must be a file of vectors",
    "neighbors groups cat": "`VECTORS` must hold a model of words with vectors, got one of k",
    "neighbors tied cat --limit 3": "`--limit` must be left out for a saved model",
    "analogy tied cat cats": "`C` must be given",
    "evaluate tied": "Did you mean evaluate words?",
    "evaluate words tied --tests none": "`--tests` must be a folder, got nothing at",
    "evaluate words tied --tests empty": "`--tests` must hold files that end in .txt, .csv, .tsv",
    "evaluate words tied --tests wrong": "`--tests` must have two words and a .* line 2 of",
    "score tied other.txt": "words of the vocabulary",
    "convert tied -o a.doc": "`--output` must end in .txt, .*word2vec-binary",
    "convert tied -o .": "`--output` must be a file, got a folder",
    "convert spaces.safetensors -o b.txt": "new york",
    "score tied corpus.txt --per-row": "`--per-row` must be left out for a model of words",
    "neighbors tied cat:0.5 dog": "`WORD` must have no weight where .* got 'cat:0.5'. Add --sum",
    "neighbors tied cat:-1 dog --sum": "`WORD` must have a weight > 0, got 'cat:-1'",
    "neighbors tied cat --minus x": "`word` must be one of .* known words, got 'x'",
    "analogy tied cat cats dog fish": "`A B C` must be three words, or several .* got 4: cat",
    "report tied nowhere.txt -o p.html": "`DATA` must name a file",
    "report corpus.txt -o p.html": "`MODEL` must be a file of vectors",
    "report plane.safetensors corpus.txt -o p.html": "`DATA` must be left out for word vectors",
    "predict tied corpus.txt": "must be of groups, not of words, got SkipGram. Use `exfam score",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_is_wrong_is_one_line(refusal, vectors, tmp_path, monkeypatch, line):
    for name in ("corpus.txt", "tied", "plane.safetensors"):
        (tmp_path / name).symlink_to(vectors / name)
    (tmp_path / "other.txt").write_text("nothing of this\n")
    for name in ("empty", "wrong"):
        (tmp_path / name).mkdir()
    (tmp_path / "wrong" / "a.txt").write_text("cat dog 8\ncat fish much\n")
    save_folder(tmp_path / "groups", tensors={}, config={"estimator": "efa"}, vocabulary={})
    WordVectors(("new york",), PLANE[:1]).save(tmp_path / "spaces.safetensors")
    monkeypatch.chdir(tmp_path)
    message = refusal(*line.split())
    assert re.search(REFUSED[line], message), message


@pytest.mark.parametrize("of", ["center", "context", "both"])
def test_neighbors_and_analogies_are_those_of_the_library(results, vectors, of):
    file, words = vectors / "plane.safetensors", ["one", "2014", "[sic]", "one"]
    rows = results("neighbors", file, *words, "-k", "2", "--of", of)
    own = WordVectors.load(file).neighbors(words[:3], k=2, of=of)
    assert [
        (row["word"], row["neighbor"], pytest.approx(float(row["cosine"]))) for row in rows
    ] == [(word, near.word, near.score) for word in own for near in own[word]]
    rule = "3cosmul" if of == "both" else "3cosadd"
    rows = results("analogy", file, "one", "three", "two", "--rule", rule, "-k", "2", "--of", of)
    answers = WordVectors.load(file).analogy("one", "three", "two", rule=rule, k=2, of=of)
    assert [row["word"] for row in rows] == [answer.word for answer in answers]
    scores = [answer.score for answer in answers]
    assert [float(row["score"]) for row in rows] == pytest.approx(scores)


def test_words_are_added_and_subtracted_with_weights(results, vectors, tmp_path):
    file = vectors / "plane.safetensors"
    rows = results("neighbors", file, "one:0.5", "two", "--minus", "four", "--minus", "2014:2")
    own = WordVectors.load(file).most_similar([("one", 0.5), "two"], ["four", ("2014", 2)])
    assert [(row["neighbor"], pytest.approx(float(row["cosine"]))) for row in rows] == own
    assert {row["word"] for row in rows} == {"0.5 one + two - four - 2 2014"}
    (row,) = results("neighbors", file, "one", "two", "--sum", "-k", "1")
    assert (row["word"], row["neighbor"]) == ("one + two", "three")
    # A word that is written so is that word.
    WordVectors(("a:2", "a", "b"), PLANE[:3]).save(tmp_path / "colon.safetensors")
    rows = results("neighbors", tmp_path / "colon.safetensors", "a:2", "-k", "1")
    assert (rows[0]["word"], rows[0]["neighbor"]) == ("a:2", "b")


def test_several_analogies_are_answered_one_after_the_other(results, vectors):
    file, first, second = (
        vectors / "plane.safetensors",
        ("one", "three", "two"),
        ("two", "four", "one"),
    )
    rows = results("analogy", file, *first, *second, "-k", "2")
    own = WordVectors.load(file)
    expected = [(*q, near.word) for q in (first, second) for near in own.analogy(*q, k=2)]
    assert [tuple(row[name] for name in ("a", "b", "c", "word")) for row in rows] == expected


@pytest.mark.parametrize("of", ["tied corpus.txt", "tied", "plane.safetensors"])
def test_a_page_about_vectors_is_one_command(run, vectors, tmp_path, monkeypatch, of):
    monkeypatch.setenv("EXFAM_DATA", str(tmp_path))
    page = tmp_path / "page.html"
    status, out, err = run("report", *(vectors / name for name in of.split()), "-o", page)
    assert (status, out, err) == (0, "", f"written to {page}\n")
    text = page.read_text(encoding="utf-8")
    assert "How good" in text and "Spectrum" in text
    assert ("by frequency alone" in text) == ("corpus.txt" in of)


def test_coverage_is_reported_and_missing_words_are_kept_and_skipped(run, vectors, tests):
    words = ["--tests", tests, "--format", "json"]
    status, out, err = run("evaluate", "words", vectors / "plane.safetensors", *words)
    assert status == 0 and err == "", err
    rows = {(row.pop("set"), row.pop("what")): row for row in json.loads(out)}
    pairs = rows["pairs.txt", "pairs"]
    assert (pairs["n"], pairs["covered"], pairs["coverage"]) == (4, 3, 0.75)
    assert pairs["skipped"] == pytest.approx(1.0) and pairs["kept"] != pairs["skipped"]
    quiz = rows["quiz.txt", "analogies"]
    assert (quiz["n"], quiz["covered"]) == (3, 2)
    assert quiz["kept"] * 3 == pytest.approx(quiz["skipped"] * 2)
    assert rows["quiz.txt", "syntactic analogies"]["n"] == 2
    assert rows["quiz.txt", "semantic analogies"]["n"] == 1


def test_published_sets_are_used_where_they_are(run, vectors, tmp_path, monkeypatch):
    from exfam.reading.public_sets import published as files
    from exfam.reading.public_sets import word_pairs

    monkeypatch.setattr(files, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setenv("EXFAM_DATA", str(tmp_path))
    status, _, err = run("evaluate", "words", vectors / "tied")
    assert status == 2 and "Test sets of words must be in EXFAM_DATA's folder" in err
    (tmp_path / "wordsim").mkdir()
    content = b"cat dog 8\ncat fish 2\ndog meat 1\n"
    (tmp_path / "wordsim" / "EN-RG-65.txt").write_bytes(content)
    md5 = {**word_pairs.SOURCE.md5, "wordsim/EN-RG-65.txt": hashlib.md5(content).hexdigest()}
    monkeypatch.setattr(word_pairs, "SOURCE", files.PublicFiles("pairs", how_to_get="", md5=md5))
    status, out, err = run("evaluate", "words", vectors / "tied", "--format", "csv")
    assert status == 0 and "not found: wordsim-353," in err, err
    (row,) = table(out)
    assert (row["set"], row["n"], row["covered"]) == ("rg-65", "3", "3")


@pytest.mark.parametrize(
    ("name", "format", "start"),
    [
        ("a.x", "word2vec-binary", b"6 2\none \x00"),
        ("a.x", "glove", b"one 1 0\n"),
        ("a.x", "fasttext", b"6 2\none 1 0"),
        ("a.bin", None, b"6 2\none \x00"),
        ("a.txt", None, b"6 2\none 1 0\n"),
        ("a.safetensors", None, b""),
    ],
)
def test_a_converted_file_holds_the_same_vectors(run, vectors, tmp_path, name, format, start):
    words = ["--format", format] if format else []
    source, file = vectors / "plane.safetensors", tmp_path / name
    status, out, err = run("convert", source, "-o", file, *words)
    assert (status, out) == (0, "") and "6 words of 2 numbers written to" in err, err
    assert file.read_bytes().startswith(start)
    converted = WordVectors.load(file)
    assert converted.words == KNOWN
    np.testing.assert_array_equal(converted.center, PLANE)
    assert (converted.context is not None) == (name == "a.safetensors")
    (option,) = (option for option in form_of("convert").options if option.name == "format")
    assert option.metavar == "{" + ",".join(VECTOR_FORMATS) + "}"


def test_tied_vectors_stay_tied_and_others_can_be_chosen(run, vectors, tmp_path):
    own = exfam.load(vectors / "tied").vectors_
    run("convert", vectors / "tied", "-o", tmp_path / "a.safetensors")
    assert WordVectors.load(tmp_path / "a.safetensors").tied
    run("convert", vectors / "tied", "-o", tmp_path / "c.txt", "--of", "context")
    contexts = WordVectors.load(tmp_path / "c.txt").center
    np.testing.assert_array_equal(contexts, own.matrix("context"))
    info = json.loads(run("info", vectors / "tied", "--format", "json")[1])
    assert info["tied"] and info["numbers"] == info["words"] * info["dim"]


def test_nats_are_those_of_the_model_and_exact_ones_have_a_perplexity(run, vectors, tmp_path):
    corpus = str(vectors / "corpus.txt")
    PMIFactorization(dim=4, min_count=1).fit(corpus).save(tmp_path / "pmi")
    for model in (vectors / "tied", tmp_path / "pmi"):
        status, out, _ = run("score", model, corpus, "--format", "json")
        (scores,) = json.loads(out)
        assert status == 0 and scores["nats"] == pytest.approx(exfam.load(model).score(corpus))
        expected = None if model.name == "tied" else pytest.approx(np.exp(-scores["nats"]))
        assert scores["perplexity"] == expected


def test_no_command_imports_torch(vectors, tests, tmp_path):
    folder, plane = tmp_path / "v", vectors / "plane.safetensors"
    lines = [
        f"fit words {vectors / 'corpus.txt'} {' '.join(TINY)} -o {folder}",
        f"neighbors {folder} cat",
        f"analogy {folder} cat cats dog",
        f"evaluate words {plane} --tests {tests}",
        f"convert {folder} -o {tmp_path / 'a.txt'}",
    ]
    code = f"""
import sys
from exfam.cli import main
assert not any(main([*line.split(), "--help"]) for line in {lines!r})
assert not {{"torch", "scipy", "sklearn", "numba", "pandas"}} & set(sys.modules)
assert not any(main(line.split()) for line in {lines!r}) and "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
