"""`exfam probe` of models that exfam fitted."""

import json

import pytest

pytest.importorskip("tokenizers", reason="tokenizers (extra hf) is not installed")

from cli.test_probe_swaps import PAIR
from cli.test_probes import SENTENCE
from exfam.efa.baselines import Marginal
from exfam.language import MaskedLanguageModel, SentenceClassifier
from exfam_studies.positions.snli import LABELS

TEXT = ["cats eat a big fish", "the dog sleeps", "cats sleep"] * 30
SMALL = {
    "vocabulary_size": 60, "embed_dim": 8, "n_heads": 2, "n_layers": 2, "feed_forward_dim": 8,
    "length": 24, "batch_size": 8, "max_epochs": 1, "progress": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    model = MaskedLanguageModel(**SMALL, encoding="tupe").fit(TEXT)
    model.save(folder / "model")
    pairs = [(line, other) for line in TEXT[:3] for other in TEXT[:3]]
    for name, labels in (("nli", LABELS), ("other", ("yes", "no", "maybe"))):
        classifier = SentenceClassifier(max_epochs=1, progress=False)
        classifier.fit(pairs, list(labels) * 3, encoder=model).save(folder / name)
    Marginal(group="g", item="x").fit({"g": [0, 0, 1], "x": ["a", "b", "a"]}).save(
        folder / "marginal"
    )
    (folder / "parses.conllu").write_text(SENTENCE * 3)
    (folder / "pairs.jsonl").write_text(json.dumps(PAIR))
    return folder


@pytest.mark.parametrize("name", ["model", "nli"])
def test_positions_are_mentioned_a_term(folder, run, name):
    result = {}
    for term in ("both", "positional"):
        words = ["--words", 2, "--length", 6, "--format", "json", "--term", term]
        status, out, err = run("probe", "positions", folder / name, *words)
        assert (status, err) == (0, "")
        result[term] = json.loads(out)[0]["locality"]
    assert result["both"] != result["positional"]


def test_dependencies_are_found_by_our_own_model(folder, run):
    files = ["--dev", folder / "parses.conllu", "--test", folder / "parses.conllu"]
    status, out, err = run("probe", "dependencies", folder / "model", *files, "--format", "json")
    assert (status, err) == (0, "")
    assert {row["relation"] for row in json.loads(out)} == {"nsubj", "root", "obj"}


def test_words_with_blanks_are_words(folder, run, tmp_path):
    """French writes 10 000, and a treebank may count it as one word."""
    path = tmp_path / "blanks.conllu"
    path.write_text(SENTENCE.replace("cat\tcat", "10 000\tcat") * 3)
    files = ["--dev", folder / "parses.conllu", "--test", path]
    status, out, err = run("probe", "dependencies", folder / "model", *files, "--format", "json")
    assert (status, err) == (0, "")
    assert {row["relation"]: row["n"] for row in json.loads(out)} == {
        "nsubj": 3,
        "root": 3,
        "obj": 3,
    }


def test_a_model_of_pairs_is_scored_on_swaps(folder, run):
    status, out, err = run("probe", "swaps", folder / "pairs.jsonl", "--model", folder / "nli")
    assert (status, err) == (0, "")
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()[:6]}
    assert rows["swap"] == ["n", "pairs", "premises", "before", "after", "low", "high"]
    assert len(rows["swap-roles"]) == 7 and set(rows["swap-roles"][3:5]) <= {"0", "1", "0.0", "1.0"}
    # No phrase of five words: nothing to score.
    assert rows["shuffle-5"][1] == "0"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["positions", "marginal"], "`ENCODER` must be a masked language model"),
        (["swaps", "pairs.jsonl", "--model", "other"], "`--model` must predict labels among"),
        (["swaps", "pairs.jsonl", "--model", "model"], "must hold a saved SentenceClassifier"),
    ],
)
def test_models_that_cannot_be_probed_are_refused(folder, run, words, message, monkeypatch):
    monkeypatch.chdir(folder)
    status, out, err = run("probe", *words)
    assert (status, out) == (2, "") and message in err


def test_encoders_of_transformers_have_no_terms(folder, run):
    status, out, err = run("probe", "positions", folder, "--term", "contextual")
    assert (status, out) == (2, "")
    assert "`--term` must be 'both' for an encoder of transformers, got 'contextual'" in err
