"""Word vectors on the command line: fitted, asked, evaluated, converted, without torch."""

import csv
import hashlib
import io
import json
import re
import subprocess
import sys

import numpy as np
import pytest

import exfam
from exfam import cli
from exfam.cli.signatures import WORD_MODELS, estimator_options, parameters_of
from exfam.cli.vectors import convert
from exfam.cli.vectors.fit_words import form
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
    return [" ".join(each) for each in drawn]


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


def read(out):
    return list(csv.DictReader(io.StringIO(out)))


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
    (row,) = read(out)
    fitted = row["model"], row["words"], row["dim"], row["tied"]
    assert fitted == ("skip-gram", str(len(own.vectors_)), "4", "yes")
    assert float(row["nats"]) == pytest.approx(-own.history_.rows[-1].train_nats)


def test_a_factorization_has_no_epochs(run, vectors, tmp_path):
    words = ["--model", "pmi", "--dim", "2", "--min-count", "5", "--format", "json"]
    status, out, err = run("fit", "words", vectors / "corpus.txt", *words, "-o", tmp_path / "v")
    assert status == 0, err
    (row,) = json.loads(out)
    assert (row["model"], row["dim"], row["tied"], row["nats"]) == ("pmi", 2, "yes", None)
    assert isinstance(exfam.load(tmp_path / "v"), PMIFactorization)


def test_options_come_from_a_configuration_too(run, vectors, tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("model: cbow\nlikelihood: softmax\nwindow: null\nepochs: 2\ndim: 4\n")
    words = ["-o", tmp_path / "v", "--config", file, "--dim", "3"]
    assert run("fit", "words", vectors / "corpus.txt", *words)[0] == 0
    loaded = exfam.load(tmp_path / "v")
    assert (loaded.likelihood, loaded.window, loaded.dim) == ("softmax", None, 3)


def test_data_called_words_are_fitted(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words").mkdir()
    rows = [f"u{k},{k % 3}.{k}" for k in range(20)]
    (tmp_path / "words" / "r.csv").write_text("\n".join(["user,stars", *rows]))
    words = ["--group", "user", "--value", "stars", "--model", "marginal", "-o", "m", "--overwrite"]
    for line in (["./words", *words], [*words, "words"]):
        assert run("fit", *line)[0] == 0


def test_an_interrupted_fit_is_kept(run, vectors, tmp_path, monkeypatch):
    real = SkipGram.fit

    def interrupted(self, *given, **named):
        real(self, *given, **named)
        self.histories_ = [History(self.histories_[-1].rows[:kept], "interrupted")]

    monkeypatch.setattr(SkipGram, "fit", interrupted)
    for kept, message in ((1, "what was learned so far is kept"), (0, "interrupted")):
        words = [vectors / "corpus.txt", *TINY, "-o", tmp_path / str(kept)]
        status, _, err = run("fit", "words", *words)
        assert status == 130 and message in err
        assert (tmp_path / str(kept)).exists() == bool(kept)


@pytest.mark.parametrize("model", WORD_MODELS)
def test_every_parameter_of_a_model_is_an_option(model):
    module, name = WORD_MODELS[model].module, WORD_MODELS[model].name
    own = getattr(__import__(module, fromlist=[name]), name)().get_params()
    assert {each.name: each.default for each in parameters_of(model)} == own
    options = form(["--model", model]).options
    names = [option.name for option in options]
    assert len(names) == len(set(names))
    for option in estimator_options(model):
        assert option.name in names and option.help and option.section
        assert option.default is None or option.kind(option.default) == option.default


# A command line in a folder with a corpus, a tied model and vectors in a file -> what it says.
REFUSED = {
    "fit words nowhere.txt -o v": "`CORPUS` must name a file",
    "fit words empty.txt -o v": "`CORPUS` must",
    "fit words corpus.txt": "`-?-?o?.*output VECTORS` must be given",
    "fit words corpus.txt -o .": "`--output` must be free or a saved model",
    "fit words corpus.txt -o tied": "`--output` must be free, .*--overwrite",
    "fit words corpus.txt -o v --tie knot": "`--tie` must be one of .*reflection",
    "fit words corpus.txt -o v --dim 0": "`--dim` must be an integer >= 1, got 0",
    "fit words corpus.txt -o v --dimm 3": "Did you mean --dim?",
    "fit words corpus.txt -o v --model glove": "`--model` must be one of skip-gram, c",
    "fit words corpus.txt -o v --model cbow --window null": "`--window` must be",
    "fit words corpus.txt -o v --model pmi --epochs 3": "`exfam fit words --model pmi",
    "fit words corpus.txt -o v --model pmi": "`CORPUS` must hold more than dim = 200",
    "fit words corpus.txt -o v --min-count 1000": "--min-count",
    "neighbors tied kat": "`word` must be one of .* known words, got 'kat'. Near: .*'cat'",
    "neighbors tied": "`WORD...` must be given",
    "neighbors nowhere cat": "nowhere",
    "neighbors corpus.txt cat": "`VECTORS` must be a file of vectors",
    "neighbors empty cat": "must be a saved exfam model, got a folder without",
    "neighbors groups cat": "`VECTORS` must hold a model of words with vectors, got one of k",
    "neighbors tied cat -k 0": "`--k` must be",
    "neighbors tied cat --of left": "`--of` must be one of center, context, both",
    "neighbors tied cat --limit 3": "`--limit` must be left out for a saved model",
    "neighbors plane.safetensors one --limit 0": "`--limit` must be",
    "neighbors tied cat -o out.doc": "`--output` must end in",
    "analogy tied cat cats dogg": "got 'dogg'. Near: 'dog'",
    "analogy tied cat cats": "`C` must be given",
    "analogy tied cat cats dog dogs": "got 'dogs' besides",
    "evaluate tied": "Did you mean evaluate words?",
    "evaluate words tied --tests none": "`--tests` must be a folder, got nothing at",
    "evaluate words tied --tests corpus.txt": "`--tests` must be a folder, got a file at",
    "evaluate words tied --tests empty": "`--tests` must hold files that end in .txt, .csv, .tsv",
    "evaluate words tied --tests wrong": "`--tests` must have two words and a .* line 2 of",
    "convert tied -o a.doc": "`--output` must end in .txt, .*word2vec-binary",
    "convert tied -o a.txt --format pickle": "`--format` must be one of word2vec, ",
    "convert tied -o .": "`--output` must be a file, got a folder",
    "convert tied -o corpus.txt/b.txt": "`--output` must lie in a folder",
    "convert tied": "output FILE` must be given",
    "convert spaces.safetensors -o b.txt": "new york",
    "score tied corpus.txt --per-row": "`--per-row` must be left out for a model of words",
    "score tied corpus.txt --unknown unk": "`--unknown` must be left out for a model of words",
    "score tied other.txt": "words of the vocabulary",
    "predict tied corpus.txt": "must be of groups, not of words, got SkipGram. Use `exfam score",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_is_wrong_is_one_line(run, vectors, tmp_path, monkeypatch, line):
    for name in ("corpus.txt", "tied", "plane.safetensors"):
        (tmp_path / name).symlink_to(vectors / name)
    for name, text in (("empty.txt", ""), ("other.txt", "nothing of this\n")):
        (tmp_path / name).write_text(text)
    for name in ("empty", "wrong"):
        (tmp_path / name).mkdir()
    (tmp_path / "wrong" / "a.txt").write_text("cat dog 8\ncat fish much\n")
    save_folder(tmp_path / "groups", tensors={}, config={"estimator": "efa"}, vocabulary={})
    WordVectors(("new york",), PLANE[:1]).save(tmp_path / "spaces.safetensors")
    monkeypatch.chdir(tmp_path)
    status, out, err = run(*line.split())
    assert (status, out, err.count("\n")) == (2, "", 1) and re.search(REFUSED[line], err), err


@pytest.mark.parametrize("of", ["center", "context", "both"])
def test_neighbors_are_those_of_the_library(run, vectors, of):
    file, words = vectors / "plane.safetensors", ["one", "2014", "[sic]", "one"]
    _, out, _ = run("neighbors", file, *words, "-k", "2", "--of", of, "--format", "csv")
    own = WordVectors.load(file).neighbors(words[:3], k=2, of=of)
    expected = [(word, near.word) for word in own for near in own[word]]
    assert [(row["word"], row["neighbor"]) for row in read(out)] == expected
    cosines = [near.score for word in own for near in own[word]]
    np.testing.assert_allclose([float(row["cosine"]) for row in read(out)], cosines)


@pytest.mark.parametrize("rule", ["3cosadd", "3cosmul"])
def test_analogies_are_those_of_the_library(run, vectors, rule):
    file, words = vectors / "plane.safetensors", ["one", "three", "two"]
    _, out, _ = run("analogy", file, *words, "--rule", rule, "-k", "2", "--format", "json")
    own = WordVectors.load(file).analogy(*words, rule=rule, k=2)
    assert [row["word"] for row in json.loads(out)] == [answer.word for answer in own]
    scores = [answer.score for answer in own]
    assert [row["score"] for row in json.loads(out)] == pytest.approx(scores)


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
    (row,) = read(out)
    assert (row["set"], row["n"], row["covered"]) == ("rg-65", "3", "3")


@pytest.mark.parametrize(
    ("name", "format", "start"),
    [
        ("a.x", "word2vec-binary", b"6 2\none \x00"),
        ("a.x", "word2vec", b"6 2\none 1 0\n"),
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
    assert tuple(VECTOR_FORMATS) == convert._FORMATS


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
    folder = tmp_path / "v"
    lines = [
        ["fit", "words", str(vectors / "corpus.txt"), *TINY, "-o", str(folder)],
        ["neighbors", str(folder), "cat"],
        ["analogy", str(folder), "cat", "cats", "dog"],
        ["evaluate", "words", str(vectors / "plane.safetensors"), "--tests", str(tests)],
        ["convert", str(folder), "-o", str(tmp_path / "a.txt")],
    ]
    code = f"""
import sys
from exfam.cli import main
assert [main([*line, "--help"]) for line in {lines!r}] == [0] * 5
print(sorted({{"torch", "scipy", "sklearn", "numba", "pandas"}} & set(sys.modules)))
print([main(line) for line in {lines!r}], "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[0, 0, 0, 0, 0] False"
    assert "\n[]\n" in done.stdout
