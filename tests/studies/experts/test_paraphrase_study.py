"""Identities of the toy grammar, and errors of analogies by term."""

import pytest

from exfam_studies.common.harness import Options
from exfam_studies.experts import paraphrase
from exfam_studies.experts.toy_sentences import toy_sentences


def figures(rows, model):
    return {row.metric: row.value for row in rows if row.model == model}


def test_the_identities_hold_to_rounding():
    rows = paraphrase.run(Options(fast=True, only=["toy-grammar"]))
    for model in ("cbow", "attention"):
        result = figures(rows, model)
        assert result["max-difference-lemma"] < 1e-8
        assert max(result[f"max-difference-proposition-{dim}"] for dim in paraphrase.DIMS) < 1e-6
        assert (result["count-finite-cells"], result["count-cells"]) == (5549, 17820)
    assert figures(rows, "cbow")["paraphrase-asymmetry"] < 1e-12
    assert figures(rows, "attention")["paraphrase-asymmetry"] > 0.1


def test_fitted_vectors_have_a_residual_and_truncated_ones_none(tmp_path, monkeypatch):
    options = Options(fast=True, only=["toy-corpus"], folder=tmp_path)
    rows = paraphrase.run(options)
    assert figures(rows, "truncated-svd")["paraphrase-norm-residual"] < 1e-10
    result = figures(rows, "cbow-softmax")
    assert result["paraphrase-norm-residual"] > 0.01
    shares = [result[f"paraphrase-share-{name}"] for name in paraphrase.TERMS]
    assert sum(shares) == pytest.approx(1)
    monkeypatch.setattr(paraphrase, "_toy_errors", lambda *_: pytest.fail("fitted again"))
    assert paraphrase.run(options) == rows


def test_a_text_is_asked_with_both_smoothings(tmp_path):
    path = tmp_path / "toy.txt"
    # Words repeat in sentences so that there are enough in reach.
    sentences = toy_sentences(4000, seed=0)
    path.write_text("\n".join(" ".join(each) for each in sentences))
    rows = paraphrase.run(Options(fast=True, only=["corpus"], corpus=path))
    by_sets = {}
    for row in rows:
        by_sets.setdefault(row.settings["sets"], {})[row.metric] = row
    mixed, shrunk = by_sets["mixed"], by_sets["shrunk"]
    for metric in ("accuracy", "paraphrase-auc-gap", "paraphrase-auc-statistics"):
        assert mixed[metric].value == pytest.approx(shrunk[metric].value)
    assert mixed["paraphrase-norm-rho"].value != shrunk["paraphrase-norm-rho"].value
    auc = mixed["paraphrase-auc-gap"]
    assert auc.settings["low"] <= auc.value <= auc.settings["high"]
    assert 0 < mixed["accuracy"].value < 1
