"""The experiment of tied LSTM language models."""

import bz2

import numpy as np
import pytest
import torch

from exfam.checks import DataError
from exfam.language import LSTMLanguageModel
from exfam.training.history import History
from exfam_studies.common.harness import Options, reproduce
from exfam_studies.common.kept import Measured
from exfam_studies.common.token_streams import CORPORA, read_texts
from exfam_studies.reflections import lstm_table3
from exfam_studies.reflections.lstm_table3 import ngram_log_probs
from words.lstm_cases import TEST, TRAIN, VALIDATION

NAME = "lstm-table3"
SETTINGS = ("epochs", "dim", "dropout", "tie")


@pytest.fixture
def corpora(tmp_path, monkeypatch):
    """Both corpora, of a few lines, in the forms that they may have."""
    folder = tmp_path / "data" / "lm"
    folder.mkdir(parents=True)
    for part, lines in {"train": TRAIN, "valid": VALIDATION, "test": TEST}.items():
        content = ("\n".join(lines) + "\n").encode()
        (folder / f"ptb.{part}.txt").write_bytes(content)
        name = "train.permuted" if part == "train" else part
        (folder / f"wiki.{name}.tokens.bz2").write_bytes(bz2.compress(content))
    monkeypatch.setenv("EXFAM_DATA", str(tmp_path / "data"))
    return folder


def test_both_tyings_are_fitted_by_equal_steps_and_kept(corpora, tmp_path, capsys, monkeypatch):
    options = Options(fast=True, seeds=2, folder=tmp_path / "kept")
    rows = reproduce(NAME, options=options)
    printed = capsys.readouterr().out
    assert "equal in distribution to lstm-tied" in printed and "seeds 0 to 1" in printed
    assert [row.task for row in rows] == ["ptb"] * 5 + ["wikitext-2"] * 5
    models = {row.model: row for row in rows if row.metric == "perplexity" and row.task == "ptb"}
    assert set(models) == {"unigram", "bigram-kneser-ney", "lstm-tied", "lstm-reflection"}
    tied, reflected = models["lstm-tied"], models["lstm-reflection"]
    assert tied.steps == reflected.steps > 0 and tied.n_seeds == 2 and tied.sd > 0
    assert tied.cpu_seconds > 0 and tied.validation > 1 and tied.value != reflected.value
    differences = [row.value for row in rows if row.metric == "max-difference-to-tied"]
    assert len(differences) == 2 and max(differences) < 1e-5
    monkeypatch.setattr(LSTMLanguageModel, "fit", None)
    again = reproduce(NAME, options=options)
    assert [row.value for row in again] == [row.value for row in rows]


def test_a_fit_that_was_cut_short_makes_no_row(corpora, monkeypatch):
    monkeypatch.setattr(History, "interrupted", property(lambda history: True))
    rows = lstm_table3.run(Options(fast=True, only=["ptb"]))
    assert {row.model for row in rows} == {"unigram", "bigram-kneser-ney"}


@pytest.mark.parametrize(("knows", "precision"), [(True, "bfloat16"), (False, "float32")])
def test_long_runs_have_to_be_named_and_have_the_papers_figures(monkeypatch, knows, precision):
    fitted = []

    def fit(names, read, parameters, options, seed):
        fitted.append((names[0], *(parameters[name] for name in SETTINGS)))
        return Measured({"perplexity": 90.0, "validation-perplexity": 95.0}, details={"steps": 10})

    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": knows, "avx2": True})
    monkeypatch.setattr(lstm_table3, "_fit", fit)
    monkeypatch.setattr(lstm_table3, "_count_rows", lambda task, read: [])
    usual = lstm_table3.run(Options())
    assert {fit[:4] for fit in fitted} == {("ptb", 40, 200, 0.2), ("wikitext-2", 2, 200, 0.2)}
    full = lstm_table3.run(Options(only=["wikitext-2-full"]))
    assert fitted[-2:] == [("wikitext-2", 40, 200, 0.2, tie) for tie in ("tied", "reflection")]
    assert [row.paper for row in usual + full] == [86.1, 86.5, None, None, 99.6, 100.4]
    large = lstm_table3.run(Options(only=["ptb-650", "wikitext-2-650"]))
    assert {fit[:4] for fit in fitted[-4:]} == {(name, 40, 650, 0.5) for name in CORPORA}
    assert [row.paper for row in large] == [76.2, 76.4, 86.6, 86.7]
    assert {row.settings["precision"] for row in usual} == {precision}


def test_other_texts_are_refused(corpora):
    with pytest.raises(DataError, match="`ptb` must be the published text of 10000 words and"):
        read_texts(CORPORA["ptb"])
    (corpora / "wiki.test.tokens.bz2").unlink()
    with pytest.raises(DataError, match="`wikitext-2` must have its test part in the folder"):
        read_texts(CORPORA["wikitext-2"])


def test_the_published_texts_are_known(data_folder):
    if not (data_folder / "lm").is_dir():
        pytest.skip("the folder has no texts of language models")
    texts = read_texts(CORPORA["ptb"])
    assert texts.lexicon.labels[:3].tolist() == ["the", "<unk>", "<eos>"]


@pytest.mark.parametrize("model", ["unigram", "bigram-kneser-ney"])
def test_counts_give_probabilities_that_sum_to_one(model):
    random = np.random.default_rng(0)
    train = random.choice(6, 300, p=[0.4, 0.3, 0.15, 0.1, 0.05, 0.0])
    for before in range(6):
        pairs = [np.array([before, word]) for word in range(6)]
        log_p = [ngram_log_probs(train, pair, n_words=6, start=0)[model][1] for pair in pairs]
        assert np.exp(log_p).sum() == pytest.approx(1.0) and min(log_p) > -np.inf
    cycle = np.tile([0, 1, 2], 50)
    mean = ngram_log_probs(cycle, cycle, n_words=3, start=2)[model].mean()
    assert mean == pytest.approx(-np.log(3) if model == "unigram" else 0, abs=0.01)
