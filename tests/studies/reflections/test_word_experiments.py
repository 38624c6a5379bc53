"""Experiments of word vectors, on texts drawn from a few words."""

import bz2
import gzip
from dataclasses import replace

import numpy as np
import pytest

from exfam.checks import DataError
from exfam.reading.public_sets.word_pairs import WordPairs
from exfam.reading.public_sets.word_questions import WordQuestions
from exfam.training.history import History
from exfam.vectors import WordVectors
from exfam_studies.common import word_corpus, word_fits
from exfam_studies.common.harness import Options
from exfam_studies.common.word_corpus import USUAL_CORPUS, corpus_name, corpus_path, read_corpus
from exfam_studies.common.word_fits import Recipe, fit_words, judged
from exfam_studies.reflections import involution, pmi_spectrum, words_figure4, words_table2

WORDS = [f"w{number}" for number in range(60)]


@pytest.fixture
def options(tmp_path, monkeypatch):
    """A smoke run over a text of its own, with small test sets."""
    random = np.random.default_rng(0)
    chance = 1 / np.arange(2, len(WORDS) + 2)
    drawn = random.choice(WORDS, size=12_000, p=chance / chance.sum())
    path = tmp_path / "text.txt"
    path.write_text(" ".join(drawn))
    pairs = [(WORDS[i], WORDS[j]) for i, j in ((0, 1), (2, 3), (4, 5), (6, 7))]
    scores = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    word_pairs = WordPairs("x", (*pairs, ("w1", "unknown")), scores)
    questions = WordQuestions(
        "x", (("w0", "w1", "w2", "w3"), ("w0", "w1", "w2", "gone")), ("x",) * 2, {}
    )
    monkeypatch.setattr(word_fits, "word_pairs", lambda name: word_pairs)
    monkeypatch.setattr(word_fits, "word_questions", lambda name: questions)
    return Options(fast=True, corpus=path, folder=tmp_path / "kept", out=tmp_path / "plots")


def test_the_spectrum_is_that_of_its_words_and_is_kept(options, monkeypatch):
    rows = pmi_spectrum.run(options)
    assert [row.task for row in rows[:1] + rows[-1:]] == ["window-2", "window-5"]
    for task in pmi_spectrum.TASKS:
        figures = {row.metric: row.value for row in rows if row.task == task}
        assert figures["count-positive"] + figures["count-negative"] == figures["count-words"] == 60
        assert figures["spectrum-positive"] == figures["count-positive"] / 60
        assert (options.out / f"pmi-spectrum-{task}.png").stat().st_size > 1000
    monkeypatch.setattr(pmi_spectrum, "_measure", lambda *_, **__: pytest.fail("counted again"))
    assert pmi_spectrum.run(options) == rows
    assert pmi_spectrum.run(replace(options, only=("window-5",))) == rows[len(rows) // 2 :]


def test_the_report_of_an_involution_is_that_of_fitted_vectors(options, monkeypatch):
    rows = involution.run(replace(options, seeds=2))
    figures = {row.metric: row for row in rows}
    assert {row.task for row in rows} == {"negatives-25"} and figures["count-positive"].n_seeds == 2
    assert figures["count-positive"].value + figures["count-negative"].value == 16
    assert 0 <= figures["reflection-squared-off-diagonal-share"].value <= 1
    assert len(list(options.out.glob("involution-negatives-25-*.png"))) == 2
    monkeypatch.setattr(involution, "_measure", lambda *_: pytest.fail("fitted again"))
    assert involution.run(replace(options, seeds=2)) == rows


def test_all_ties_are_judged_as_the_paper_does_and_with_unknown_words_skipped(options, monkeypatch):
    rows = words_table2.run(options)
    assert {row.model for row in rows} == {"sgns", "sgns-wt", "sgns-wtr"}
    figures = {(row.model, row.metric): row.value for row in rows}
    assert figures["sgns-wt", "coverage-wordsim"] == 0.8 and figures["sgns", "coverage-msr"] == 0.5
    kept = [figures[model, "spearman-wordsim-kept"] for model in words_table2.MODELS]
    assert len(set(kept)) > 1 and {row.paper for row in rows} == {None}
    monkeypatch.setattr(words_table2, "judged_fit", lambda *_: pytest.fail("fitted again"))
    assert words_table2.run(options) == rows


def test_the_share_of_reflected_dimensions_changes_vectors(options):
    rows = words_figure4.run(options)
    own = [row for row in rows if row.metric == "spearman-men-kept"]
    assert [row.settings["percent"] for row in own] == [0, 50, 100]
    assert all(row.value is not None and row.cpu_seconds > 0 for row in own)
    paper = words_table2.paper_figure
    assert paper("text8", "sgns-wt", "accuracy-google-kept") == 0.309
    assert paper("enwik9", "sgns", "spearman-rare-kept") == 0.213
    assert paper("enwik9", "sgns", "spearman-rare-skipped") is None
    assert word_fits.wanted_tasks(Options()) == ["negatives-25"]
    assert word_fits.wanted_tasks(Options(only=["negatives-100"])) == ["negatives-100"]


def test_the_corpus_is_read_packed_or_not_and_by_its_head(tmp_path):
    content = b"a b c d " * 100
    for name, pack in {"x": bytes, "x.gz": gzip.compress, "x.bz2": bz2.compress}.items():
        path = tmp_path / name
        path.write_bytes(pack(content))
        options = Options(corpus=path, folder=tmp_path / "kept")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(word_corpus, "_FAST_BYTES", 40)
            assert read_corpus(replace(options, fast=True), min_count=1).n_tokens == 20
        assert (corpus_name(options), corpus_path(options)) == ("x", path)
    assert read_corpus(options, min_count=1).n_tokens == 400
    assert (tmp_path / "kept" / "texts" / "x-1").is_dir()


def test_a_corpus_that_is_not_there_is_named(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="`corpus` must be a file, got no such file"):
        corpus_path(Options(corpus=tmp_path / "none"))
    monkeypatch.setattr(word_corpus, "find_file", lambda name: None)
    with pytest.raises(DataError, match=f"EXFAM_DATA names, got no {USUAL_CORPUS} there"):
        corpus_path(Options())


def test_a_fit_that_was_cut_short_is_not_judged(options, monkeypatch):
    # Figures that are not defined are left out.
    figures = judged(WordVectors(("a", "b"), np.eye(2, dtype=np.float32)))
    assert figures["coverage-men"] == 0 and "spearman-men-skipped" not in figures
    assert "accuracy-msr-skipped" not in figures and figures["accuracy-msr-kept"] == 0
    monkeypatch.setattr(History, "interrupted", property(lambda history: True))
    text, settings = read_corpus(options, min_count=5), Recipe().settings(options)
    with pytest.raises(KeyboardInterrupt, match="a fit was cut short"):
        fit_words(text, settings, seed=0, options=Options())
