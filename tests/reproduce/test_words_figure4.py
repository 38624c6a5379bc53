"""Word vectors by the share of reflected dimensions, on a text drawn from a few words."""

import bz2
import gzip
from dataclasses import replace

import numpy as np
import pytest

from exfam.checks import DataError
from exfam.data.public_sets.word_pairs import WordPairs
from exfam.data.public_sets.word_questions import WordQuestions
from exfam.reproduce import (
    word_corpus,
    word_fits,
    words_figure4,
)
from exfam.reproduce.harness import Options
from exfam.reproduce.word_corpus import USUAL_CORPUS, corpus_name, corpus_path, read_corpus
from exfam.reproduce.word_fits import Recipe, fit_words, judged

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
    told = WordPairs("x", (*pairs, ("w1", "unknown")), scores)
    asked = WordQuestions(
        "x", (("w0", "w1", "w2", "w3"), ("w0", "w1", "w2", "gone")), ("x",) * 2, {}
    )
    monkeypatch.setattr(word_fits, "word_pairs", lambda name: told)
    monkeypatch.setattr(word_fits, "word_questions", lambda name: asked)
    return Options(fast=True, corpus=path, folder=tmp_path / "kept", out=tmp_path / "plots")


def test_the_share_of_reflected_dimensions_changes_vectors(options):
    rows = words_figure4.run(options)
    own = [row for row in rows if row.metric == "spearman-men-kept"]
    assert [row.settings["percent"] for row in own] == [0, 50, 100]
    assert all(row.value is not None and row.cpu_seconds > 0 for row in own)
    shown = [replace(row, value=0.5, sd=0.1) for row in own]
    words_figure4.plot([*shown, *(row for row in rows if row not in own)], options.folder)
    assert [*options.folder.glob("*.png")][0].name.startswith("words-figure4-")


def test_smoke_runs_read_the_head_of_a_text_plain_or_packed(tmp_path, monkeypatch):
    monkeypatch.setattr(word_corpus, "_FAST_BYTES", 40)
    content = b"a b c d " * 100
    for name, pack in {"x": bytes, "x.gz": gzip.compress, "x.bz2": bz2.compress}.items():
        path = tmp_path / name
        path.write_bytes(pack(content))
        options = Options(corpus=path, folder=tmp_path / "kept")
        assert read_corpus(replace(options, fast=True), min_count=1).n_tokens == 20
        assert (corpus_name(options), corpus_path(options)) == ("x", path)
    assert read_corpus(options, min_count=1).n_tokens == 400
    assert (tmp_path / "kept" / "texts" / "x-1").is_dir()


def test_a_corpus_that_is_not_there_is_told(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="`corpus` must be a file, got no such file"):
        corpus_path(Options(corpus=tmp_path / "none"))
    monkeypatch.setattr(word_corpus, "find_file", lambda name: None)
    with pytest.raises(DataError, match=f"EXFAM_DATA names, got no {USUAL_CORPUS} there"):
        corpus_path(Options())


def test_a_fit_that_was_cut_short_is_not_judged(options, monkeypatch):
    real = word_fits.SkipGram.fit

    def cut(self, *texts, **rest):
        real(self, *texts, **rest)
        self.histories_ = [replace(self.history_, stopped="interrupted")]
        return self

    monkeypatch.setattr(word_fits.SkipGram, "fit", cut)
    text, settings = read_corpus(options, min_count=5), Recipe().settings(options)
    with pytest.raises(KeyboardInterrupt, match="a fit was cut short"):
        fit_words(text, settings, seed=0, checkpoint=None)


def test_figures_that_are_not_defined_are_left_out(options, monkeypatch):
    from exfam.analysis.vectors import WordVectors

    unknown = WordVectors(("a", "b"), np.eye(2, dtype=np.float32))
    told = judged(unknown)
    assert told["coverage-men"] == 0 and "spearman-men-skipped" not in told
    assert "accuracy-msr-skipped" not in told and told["accuracy-msr-kept"] == 0
