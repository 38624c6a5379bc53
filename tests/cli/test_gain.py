"""What attention added to a base is one sentence wherever a fit is shown."""

import re
from dataclasses import replace

import numpy as np
import pytest

import exfam
from estimator_cases import ratings
from exfam import EFA
from exfam.estimator.gain import gain_sentences
from exfam.report import write_report
from exfam.report.words import figure

FRAME = ratings(n_users=40, n_movies=8, least=2)
SMALL = {"embed_dim": 4, "n_heads": 2, "head_dim": 2, "n_layers": 1, "max_epochs": 2}
ITEMS = {"group": "user", "item": "movie", "base": "auto", **SMALL}


def shown(text):
    """The words of a terminal, without colors and ends of lines."""
    return " ".join(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).split())


@pytest.fixture(scope="module")
def model():
    return EFA(**ITEMS, progress=False).fit(FRAME)


def test_the_sentence_of_a_fit(model, tmp_path):
    sentence = str(model.gain_)
    assert repr(model).splitlines() == [repr(EFA(**model.get_params())), sentence]
    assert sentence in model._repr_html_()
    model.save(tmp_path / "model")
    assert repr(exfam.load(tmp_path / "model")) == repr(model)
    page = write_report(model, FRAME, path=tmp_path / "page.html").read_text()
    assert sentence in page and figure(model.gain_.base_nats) in page


def test_attention_that_is_switched_off_is_not_drawn(model, tmp_path):
    page = write_report(model, FRAME, path=tmp_path / "page.html").read_text()
    weights = "Darkest: the largest weight of an element of the group"
    assert (weights in page) == bool(model.gain_.gate)
    off = replace(model.gain_, gate=0.0 if model.gain_.gate else 1.0)
    model.gain_, kept = off, model.gain_
    try:
        page = write_report(model, FRAME, path=tmp_path / "other.html").read_text()
    finally:
        model.gain_ = kept
    assert (weights in page) == bool(off.gate)


def test_models_without_a_gain_show_none():
    for parameters in ({"base": "none"}, {"attention": "none"}, {"validation_fraction": 0.0}):
        other = EFA(**{**ITEMS, **parameters}, progress=False).fit(FRAME)
        assert other.gain_ is None and repr(other) == repr(EFA(**other.get_params()))


def test_a_new_fit_forgets_the_gain_of_the_last():
    again = EFA(**ITEMS, progress=False).fit(FRAME)
    assert again.gain_ is not None
    again.set_params(attention="none", base="none")
    with pytest.raises(exfam.ExfamError, match="`attention` must not be 'none' without a base"):
        again.fit(FRAME)
    assert "\n" not in repr(again)


@pytest.mark.parametrize("progress", [True, False])
def test_a_terminal_shows_it_once(run, tmp_path, monkeypatch, progress):
    monkeypatch.setenv("FORCE_COLOR", "1")
    FRAME.to_csv(tmp_path / "ratings.csv", index=False)
    options = [f"--{name.replace('_', '-')}={value}" for name, value in ITEMS.items()]
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    words = [*options, f"--progress={progress}".lower(), "-o", tmp_path / "model"]
    err = run("fit", tmp_path / "ratings.csv", *words)[2]
    sentence = str(exfam.load(tmp_path / "model").gain_)
    assert shown(err).count(sentence) == 1


def test_commands_say_it(run, tmp_path):
    FRAME.to_csv(tmp_path / "ratings.csv", index=False)
    options = [f"--{name.replace('_', '-')}={value}" for name, value in ITEMS.items()]
    err = run("fit", tmp_path / "ratings.csv", *options, "-o", tmp_path / "model")[2]
    sentence = str(exfam.load(tmp_path / "model").gain_)
    assert err.splitlines().count(sentence) == 1
    err = run("score", tmp_path / "model", tmp_path / "ratings.csv")[2]
    assert err.splitlines().count(sentence) == 1
    assert sentence in run("info", tmp_path / "model", "--format", "json")[1]


def test_items_and_values_have_a_sentence_each(run, tmp_path):
    FRAME.to_csv(tmp_path / "ratings.csv", index=False)
    options = [f"--{name.replace('_', '-')}={value}" for name, value in ITEMS.items()]
    words = [*options, "--value", "stars", "-o", tmp_path / "model"]
    err = run("fit", tmp_path / "ratings.csv", *words)[2]
    model = exfam.load(tmp_path / "model")
    sentences = [f"Items: {model.gain_}", f"Values: {model.value_gain_}"]
    assert gain_sentences(model) == sentences and repr(model).splitlines()[1:] == sentences
    assert [line for line in err.splitlines() if line in sentences] == sentences
    page = write_report(model, FRAME, path=tmp_path / "page.html").read_text()
    assert all(sentence in page for sentence in sentences)
    assert " ".join(sentences) in run("info", tmp_path / "model", "--format", "json")[1]


def test_a_base_is_explained_context_by_context(run, results, model, tmp_path):
    FRAME.to_csv(tmp_path / "ratings.csv", index=False)
    model.save(tmp_path / "model")
    words = ["explain", tmp_path / "model", tmp_path / "ratings.csv"]
    because = model.explain_item(FRAME)
    rows = results(*words, "--next")
    assert list(rows[0]) == ["group", "item", "context", "contribution"]
    added = [float(row["contribution"]) for row in rows]
    np.testing.assert_allclose(added, because.contribution, rtol=1e-6)
    assert len(results(*words, "--next", "--top", "2")) == 2 * len(because.items)
    for more in ([], ["--per-head"]):
        rows = results(*words, "--groups", "u1", *more)
        (u1,) = (group for group in model.explain(FRAME) if group.group == "u1")
        own = [row for row in rows if row["part"] == "base"]
        assert {row["part"] for row in rows} == {"base", "items"}
        assert {row.get("layer", "0") for row in own} == {"0"}
        weights = [float(row["weight"]) for row in own]
        np.testing.assert_allclose(weights, u1.contributions.contribution, rtol=1e-6)
