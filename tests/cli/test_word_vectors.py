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


class TestFit:
    def test_the_folder_is_the_estimators(self, run, vectors, tmp_path):
        words = ["--model", "skip-gram", *TINY, "--tie", "reflection", "--deterministic"]
        status, out, err = run(
            "fit",
            "words",
            vectors / "corpus.txt",
            *words,
            "-o",
            f"{tmp_path}/v/",
            "--format",
            "csv",
        )
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
        assert float(row["nats"]) < 0

    def test_a_factorization_has_no_epochs(self, run, vectors, tmp_path):
        words = ["--model", "pmi", "--dim", "2", "--min-count", "5"]
        status, out, err = run(
            "fit", "words", vectors / "corpus.txt", *words, "-o", tmp_path / "v", "--format", "json"
        )
        assert status == 0, err
        (row,) = json.loads(out)
        assert (row["model"], row["dim"], row["tied"], row["nats"]) == ("pmi", 2, "yes", None)
        assert isinstance(exfam.load(tmp_path / "v"), PMIFactorization)
        status, out, _ = run("neighbors", tmp_path / "v", "cat", "-k", "1", "--format", "csv")
        assert status == 0 and len(read(out)) == 1

    def test_options_come_from_a_configuration_too(self, run, vectors, tmp_path):
        file = tmp_path / "run.yaml"
        file.write_text("model: cbow\nlikelihood: softmax\nwindow: null\nepochs: 2\ndim: 4\n")
        words = ["-o", tmp_path / "v", "--config", file, "--dim", "3"]
        assert run("fit", "words", vectors / "corpus.txt", *words)[0] == 0
        loaded = exfam.load(tmp_path / "v")
        assert (loaded.likelihood, loaded.window, loaded.dim) == ("softmax", None, 3)

    def test_data_called_words_are_fitted(self, run, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "words").mkdir()
        rows = [f"u{k},{k % 3}.{k}" for k in range(20) for _ in range(2)]
        (tmp_path / "words" / "r.csv").write_text("\n".join(["user,stars", *rows]))
        words = [
            "--group",
            "user",
            "--value",
            "stars",
            "--model",
            "marginal",
            "-o",
            "m",
            "--duplicates",
            "keep",
        ]
        for place in (["./words", *words], [*words, "words"]):
            status, _, err = run("fit", *place, "--overwrite")
            assert status == 0, err

    def test_an_interrupted_fit_is_kept(self, run, vectors, tmp_path, monkeypatch):
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

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["nowhere.txt", "-o", "v"], "`CORPUS` must name a file"),
            (["empty.txt", "-o", "v"], "`CORPUS` must"),
            (["corpus.txt"], "`-?-?o?.*output VECTORS` must be given"),
            (["corpus.txt", "-o", "."], "`--output` must be free or a saved model"),
            (["corpus.txt", "-o", "tied"], "`--output` must be free, .*--overwrite"),
            (["corpus.txt", "-o", "v", "--tie", "knot"], "`--tie` must be one of .*reflection"),
            (["corpus.txt", "-o", "v", "--dim", "0"], "`--dim` must be an integer >= 1, got 0"),
            (["corpus.txt", "-o", "v", "--dimm", "3"], "Did you mean --dim?"),
            (
                ["corpus.txt", "-o", "v", "--model", "glove"],
                "`--model` must be one of skip-gram, c",
            ),
            (
                ["corpus.txt", "-o", "v", "--model", "cbow", "--window", "null"],
                "`--window` must be",
            ),
            (["corpus.txt", "-o", "v", "--model", "pmi", "--epochs", "3"], "`exfam fit words --mo"),
            (["corpus.txt", "-o", "v", "--model", "pmi"], "`CORPUS` must hold more than dim = 200"),
            (["corpus.txt", "-o", "v", "--min-count", "1000"], "--min-count"),
            (["corpus.txt", "-o", "v", "--group", "user"], "`--group` must be an option of"),
        ],
    )
    def test_what_cannot_be_fitted_is_one_line(
        self, run, vectors, tmp_path, monkeypatch, words, message
    ):
        (tmp_path / "empty.txt").write_text("")
        for name in ("corpus.txt", "tied"):
            (tmp_path / name).symlink_to(vectors / name)
        monkeypatch.chdir(tmp_path)
        status, out, err = run("fit", "words", *words)
        assert (status, out, err.count("\n")) == (2, "", 1) and re.search(message, err), err


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


class TestNeighbors:
    def test_are_those_of_the_library(self, run, vectors):
        file = vectors / "plane.safetensors"
        words = ["one", "2014", "[sic]", "one"]
        for of in ("center", "context", "both"):
            _, out, _ = run("neighbors", file, *words, "-k", "2", "--of", of, "--format", "csv")
            own = WordVectors.load(file).neighbors(words[:3], k=2, of=of)
            answers = [(row["word"], row["neighbor"], float(row["cosine"])) for row in read(out)]
            rows = [(word, near.word, near.score) for word in own for near in own[word]]
            assert [row[:2] for row in answers] == [row[:2] for row in rows]
            np.testing.assert_allclose([each[2] for each in answers], [each[2] for each in rows])

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["tied", "kat"], "`word` must be one of .* known words, got 'kat'. Near: .*'cat'"),
            (["tied"], "`WORD...` must be given"),
            (["nowhere", "cat"], "nowhere"),
            (["corpus.txt", "cat"], "`VECTORS` must be a file of vectors"),
            (["empty", "cat"], "must be a saved exfam model, got a folder without"),
            (["tied", "cat", "-k", "0"], "`--k` must be"),
            (["tied", "cat", "--of", "left"], "`--of` must be one of center, context, both"),
            (["tied", "cat", "--limit", "3"], "`--limit` must be left out for a saved model"),
            (["plane.safetensors", "one", "--limit", "0"], "`--limit` must be"),
            (["tied", "cat", "-o", "out.doc"], "`--output` must end in"),
        ],
    )
    def test_what_is_wrong_is_one_line(self, run, vectors, tmp_path, monkeypatch, words, message):
        (tmp_path / "empty").mkdir()
        for name in ("corpus.txt", "tied", "plane.safetensors"):
            (tmp_path / name).symlink_to(vectors / name)
        monkeypatch.chdir(tmp_path)
        status, out, err = run("neighbors", *words)
        assert (status, out, err.count("\n")) == (2, "", 1) and re.search(message, err), err


@pytest.mark.parametrize("rule", ["3cosadd", "3cosmul"])
def test_analogies_are_those_of_the_library(run, vectors, rule):
    file = vectors / "plane.safetensors"
    asked = ["one", "three", "two"]
    _, out, _ = run("analogy", file, *asked, "--rule", rule, "-k", "2", "--format", "json")
    own = WordVectors.load(file).analogy(*asked, rule=rule, k=2)
    assert [row["word"] for row in json.loads(out)] == [each.word for each in own]
    assert [row["score"] for row in json.loads(out)] == pytest.approx([each.score for each in own])


class TestEvaluate:
    def test_coverage_is_reported_and_missing_words_are_kept_and_skipped(self, run, vectors, tests):
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

    def test_published_sets_are_found(self, run, vectors, tmp_path, monkeypatch):
        from exfam.reading.public_sets import files, word_pairs

        monkeypatch.setattr(files, "cache_folder", lambda: tmp_path / "cache")
        monkeypatch.setenv("EXFAM_DATA", str(tmp_path))
        status, _, err = run("evaluate", "words", vectors / "tied")
        assert status == 2 and "Test sets of words must be in EXFAM_DATA's folder" in err
        (tmp_path / "wordsim").mkdir()
        content = b"cat dog 8\ncat fish 2\ndog meat 1\n"
        (tmp_path / "wordsim" / "EN-RG-65.txt").write_bytes(content)
        md5 = {**word_pairs.SOURCE.md5, "wordsim/EN-RG-65.txt": hashlib.md5(content).hexdigest()}
        monkeypatch.setattr(word_pairs, "SOURCE", files.Source("pairs", how_to_get="", md5=md5))
        status, out, err = run("evaluate", "words", vectors / "tied", "--format", "csv")
        assert status == 0 and "not found: wordsim-353," in err, err
        (row,) = read(out)
        assert (row["set"], row["n"], row["covered"]) == ("rg-65", "3", "3")

    def test_wrong_folders_are_refused(self, run, vectors, tmp_path):
        for given, message in (
            (tmp_path / "none", "`--tests` must be a folder, got nothing at"),
            (vectors / "corpus.txt", "`--tests` must be a folder, got a file at"),
            (tmp_path, "`--tests` must hold files that end in .txt, .csv, .tsv"),
        ):
            status, out, err = run("evaluate", "words", vectors / "tied", "--tests", given)
            assert (status, out, err.count("\n")) == (2, "", 1) and message in err
        (tmp_path / "a.txt").write_text("cat dog 8\ncat fish much\n")
        status, _, err = run("evaluate", "words", vectors / "tied", "--tests", tmp_path)
        assert status == 2 and "`--tests` must have two words and a finite number" in err
        assert "line 2 of" in err


class TestConvert:
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
    def test_a_file_holds_the_same_vectors(self, run, vectors, tmp_path, name, format, start):
        words = ["--format", format] if format else []
        source, made = vectors / "plane.safetensors", tmp_path / name
        status, out, err = run("convert", source, "-o", made, *words)
        assert (status, out) == (0, "") and "6 words of 2 numbers written to" in err, err
        assert made.read_bytes().startswith(start)
        found = WordVectors.load(made)
        assert found.words == KNOWN
        np.testing.assert_array_equal(found.center, PLANE)
        assert (found.context is not None) == (name == "a.safetensors")

    def test_formats_are_those_of_the_library(self):
        assert tuple(VECTOR_FORMATS) == convert._FORMATS

    def test_tied_vectors_stay_tied_and_others_can_be_chosen(self, run, vectors, tmp_path):
        own = exfam.load(vectors / "tied").vectors_
        run("convert", vectors / "tied", "-o", tmp_path / "a.safetensors")
        assert WordVectors.load(tmp_path / "a.safetensors").tied
        run("convert", vectors / "tied", "-o", tmp_path / "c.txt", "--of", "context")
        np.testing.assert_array_equal(
            WordVectors.load(tmp_path / "c.txt").center, own.matrix("context")
        )

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["-o", "a.doc"], "`--output` must end in .txt, .*word2vec-binary"),
            (["-o", "a.txt", "--format", "pickle"], "`--format` must be one of word2vec, "),
            (["-o", "."], "`--output` must be a file, got a folder"),
            (["-o", "a.txt/b.txt"], "`--output` must lie in a folder"),
            ([], "output FILE` must be given"),
        ],
    )
    def test_what_is_wrong_is_one_line(self, run, vectors, tmp_path, monkeypatch, words, message):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "a.txt").write_text("x")
        status, out, err = run("convert", vectors / "plane.safetensors", *words)
        assert (status, out, err.count("\n")) == (2, "", 1), err
        assert re.search(message, err) or (not words and "-o FILE` must be given" in err), err

    def test_a_word_with_a_space_is_refused(self, run, tmp_path):
        WordVectors(("new york",), PLANE[:1]).save(tmp_path / "a.safetensors")
        status, _, err = run("convert", tmp_path / "a.safetensors", "-o", tmp_path / "b.txt")
        assert status == 2 and "new york" in err and err.count("\n") == 1


def test_other_commands_say_what_to_use(run, vectors, tmp_path):
    status, _, err = run("predict", vectors / "tied", vectors / "corpus.txt")
    assert status == 2 and "must be of groups, not of words, got SkipGram. Use `exfam score" in err
    status, out, _ = run("info", vectors / "tied", "--format", "json")
    info = json.loads(out)
    assert status == 0 and info["tied"] and info["numbers"] == info["words"] * info["dim"]


class TestScore:
    def test_nats_are_those_of_the_model(self, run, vectors):
        corpus = vectors / "corpus.txt"
        status, out, _ = run("score", vectors / "tied", corpus, "--format", "json")
        [scores] = json.loads(out)
        assert status == 0 and scores["perplexity"] is None
        assert scores["nats"] == pytest.approx(exfam.load(vectors / "tied").score(str(corpus)))

    def test_exact_models_have_a_perplexity(self, run, vectors, tmp_path):
        corpus = str(vectors / "corpus.txt")
        PMIFactorization(dim=4, min_count=1).fit(corpus).save(tmp_path / "pmi")
        status, out, _ = run("score", tmp_path / "pmi", corpus, "--format", "json")
        [scores] = json.loads(out)
        assert status == 0 and scores["perplexity"] == pytest.approx(np.exp(-scores["nats"]))

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            (["--per-row"], "`--per-row` must be left out for a model of words, got True"),
            (["--unknown", "unk"], "`--unknown` must be left out for a model of words"),
        ],
    )
    def test_options_of_rows_are_refused(self, run, vectors, more, message):
        status, out, err = run("score", vectors / "tied", vectors / "corpus.txt", *more)
        assert (status, out, err.count("\n")) == (2, "", 1) and message in err

    def test_a_text_of_unknown_words_is_refused(self, run, vectors, tmp_path):
        (tmp_path / "other.txt").write_text("nothing of this\n")
        status, _, err = run("score", vectors / "tied", tmp_path / "other.txt")
        assert status == 2 and err.count("\n") == 1 and "words of the vocabulary" in err


def test_a_model_without_words_is_refused(run, tmp_path):
    save_folder(tmp_path / "model", tensors={}, config={"estimator": "efa"}, vocabulary={})
    status, _, err = run("neighbors", tmp_path / "model", "cat")
    assert status == 2 and "`VECTORS` must hold a model of words with vectors, got one of k" in err


def test_no_command_imports_torch(vectors, tests, tmp_path):
    made = tmp_path / "v"
    lines = [
        ["fit", "words", str(vectors / "corpus.txt"), *TINY, "-o", str(made)],
        ["neighbors", str(made), "cat"],
        ["analogy", str(made), "cat", "cats", "dog"],
        ["evaluate", "words", str(vectors / "plane.safetensors"), "--tests", str(tests)],
        ["convert", str(made), "-o", str(tmp_path / "a.txt")],
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
