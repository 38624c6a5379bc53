"""`exfam probe`: encoders by their attention to positions and to heads, and swapped words."""

import json

import pytest

pytest.importorskip("tokenizers", reason="tokenizers (extra hf) is not installed")

from encoder_cases import save_tiny_bert
from exfam.efa.baselines import Marginal
from exfam.language import MaskedLanguageModel, SentenceClassifier
from exfam_studies.positions.snli import LABELS

SENTENCE = (
    "1\tcat\tcat\tNOUN\t_\t_\t2\tnsubj\t_\t_\n2\teats\teat\tVERB\t_\t_\t0\troot\t_\t_\n"
    "3\tfish\tfish\tNOUN\t_\t_\t2\tobj\t_\t_\n\n"
)
PAIR = {
    "sentence1": "Cats eat a big fish.",
    "sentence2": "Cats.",
    "gold_label": "entailment",
    "sentence1_parse": "(S (NP (NNS Cats)) (VP (VBP eat) (NP (DT a) (JJ big) (NN fish))) (. .))",
}
TEXT = ["cats eat a big fish", "the dog sleeps", "cats sleep"] * 30
SMALL = {
    "vocabulary_size": 60, "embed_dim": 8, "n_heads": 2, "n_layers": 2, "feed_forward_dim": 8,
    "length": 24, "batch_size": 8, "max_epochs": 1, "progress": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An encoder of transformers, models of ours, parses and pairs; all are only read."""
    folder = tmp_path_factory.mktemp("probes")
    save_tiny_bert(folder / "encoder", ["cat", "eats", "fish"])
    model = MaskedLanguageModel(**SMALL, encoding="tupe").fit(TEXT)
    model.save(folder / "model")
    pairs = [(line, other) for line in TEXT[:3] for other in TEXT[:3]]
    for name, labels in (("nli", LABELS), ("other", ("yes", "no", "maybe"))):
        classifier = SentenceClassifier(max_epochs=1, progress=False)
        classifier.fit(pairs, list(labels) * 3, encoder=model).save(folder / name)
    marginal = Marginal(group="g", item="x").fit({"g": [0, 0, 1], "x": ["a", "b", "a"]})
    marginal.save(folder / "marginal")
    (folder / "good.conllu").write_text(SENTENCE * 3)
    neutral = PAIR | {"sentence2": "Dogs eat.", "gold_label": "neutral"}
    (folder / "pairs.jsonl").write_text(f"{json.dumps(PAIR)}\n{json.dumps(neutral)}\n")
    return folder


@pytest.fixture
def records(run):
    def run_probe(*words):
        status, out, err = run("probe", *words, "--format", "json")
        assert (status, err) == (0, "")
        return json.loads(out)

    return run_probe


def dependencies(folder, encoder="encoder", dev="good", test="good"):
    files = [folder / f"{name}.conllu" for name in (dev, test)]
    return ["dependencies", folder / encoder, "--dev", files[0], "--test", files[1]]


def test_an_encoder_is_scored_as_a_whole_and_by_layer_and_head(folder, records):
    words = ["positions", folder / "encoder", "--words", 2, "--length", 6]
    rows = {by: records(*words, "--by", by) for by in ("model", "layer", "head")}
    (whole,) = rows["model"]
    assert list(whole) == ["locality", "symmetry", "symmetry (macro)", "symmetry (raw)"]
    heads = [(row["layer"], row["head"]) for row in rows["head"]]
    assert heads == [(1, 1), (1, 2), (2, 1), (2, 2)]
    # Locality is linear.
    total = sum(row["locality"] for row in rows["head"])
    assert total / 4 == pytest.approx(whole["locality"])
    assert [row["layer"] for row in rows["layer"]] == [1, 2]
    assert records(*words, "--special-tokens", "cut") != rows["model"]


@pytest.mark.parametrize("name", ["model", "nli"])
def test_positions_of_our_own_models_are_scored_by_term(folder, records, name):
    words = ["positions", folder / name, "--words", 2, "--length", 6, "--term"]
    assert records(*words, "both") != records(*words, "positional")


def test_relations_have_a_head_and_an_offset_each(folder, run, records):
    rows = {row["relation"]: row for row in records(*dependencies(folder))}
    assert set(rows) == {"nsubj", "root", "obj"} and rows["obj"]["n"] == 3
    assert rows["obj"]["offset"] == "offset -1 to-head"
    assert rows["obj"]["accuracy of the offset"] == 1.0
    assert all(row["low"] <= row["accuracy"] <= row["high"] for row in rows.values())
    status, out, _ = run("probe", *dependencies(folder), "--least", 4)
    assert status == 0 and "nsubj" not in out


def test_sentences_that_are_too_long_are_left_out_and_counted(folder, run):
    long = "".join(
        f"{n}\tcat\tcat\tNOUN\t_\t_\t{n - 1}\t{'dep' if n > 1 else 'root'}\t_\t_\n"
        for n in range(1, 31)
    )
    (folder / "long.conllu").write_text(SENTENCE + long + "\n")
    status, out, err = run("probe", *dependencies(folder, test="long"), "--format", "json")
    assert status == 0 and "1 of 2 sentences of" in err and "more than the 20 tokens" in err
    assert {row["n"] for row in json.loads(out)} == {1}


def test_pairs_are_counted_shown_and_written_whole(folder, run, tmp_path):
    words = ["probe", "swaps", folder / "pairs.jsonl"]
    status, out, err = run(*words, "--out", tmp_path / "swaps.jsonl")
    assert (status, err) == (0, "")
    counts = [line.split() for line in out.splitlines()[:6]]
    assert counts[0] == ["swap", "n", "pairs", "premises"]
    assert counts[1] == ["shuffle-3", "2", "2", "1"] and counts[5] == ["swap-roles", "1", "1", "1"]
    assert "swap-roles: Cats eat a big fish.\n            A big fish eat cats." in out
    assert out == run(*words)[1] != run(*words, "--seed", 5, "--examples", 1)[1]
    records = [json.loads(line) for line in (tmp_path / "swaps.jsonl").read_text().splitlines()]
    assert len(records) == 7 and {record["version"] for record in records} == {"swaps-1"}
    last = records[-1]
    assert last["swap"] == "swap-roles" and last["gold_label"] == "contradiction"
    assert last["sentence1"] == "A big fish eat cats." and last["sentence2"] == "Cats."
    assert last["before"] == {key: PAIR[key] for key in last["before"]}
    # They are pairs in the same format.
    out = run("probe", "swaps", tmp_path / "swaps.jsonl")[1]
    assert out.splitlines()[-1].split() == ["swap-roles", "0", "0", "0"]


def test_a_model_of_pairs_is_scored_on_swaps(folder, run):
    status, out, err = run("probe", "swaps", folder / "pairs.jsonl", "--model", folder / "nli")
    assert (status, err) == (0, "")
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()[:6]}
    assert rows["swap"] == ["n", "pairs", "premises", "before", "after", "low", "high"]
    assert len(rows["swap-roles"]) == 7 and set(rows["swap-roles"][3:5]) <= {"0", "1", "0.0", "1.0"}
    # No phrase of five words: nothing to score.
    assert rows["shuffle-5"][1] == "0"


def test_the_file_that_is_read_is_never_written_over(refusal, tmp_path):
    pairs, link = tmp_path / "pairs.jsonl", tmp_path / "link.jsonl"
    pairs.write_text(json.dumps(PAIR))
    link.symlink_to(pairs)
    for out in (pairs, link, tmp_path / "." / pairs.name):
        line = refusal("probe", "swaps", pairs, "--out", out)
        assert "`--out` must be another file than FILE, got" in line
    assert pairs.read_text() == json.dumps(PAIR)
    # A file that is not there is named, not compared.
    line = refusal("probe", "swaps", tmp_path / "none.jsonl", "--out", pairs)
    assert "`FILE` must be a file, got no such file" in line


REFUSED = {
    "positions .": "must hold a transformers model",
    "positions encoder --words 9": "`--words` must be at most the 3 words of one token",
    "positions encoder --term contextual": "`--term` must be 'both' for an encoder of transformers",
    "positions marginal": "`ENCODER` must be a masked language model",
    "dependencies encoder --dev broken.conllu --test good.conllu": "`--dev` must have heads",
    "dependencies encoder --dev good.conllu --test empty": "`--test` must not be empty, got an emp",
    "dependencies encoder --dev good.conllu --test good.conllu --seed -1": "`--seed` must be",
    "swaps pairs.jsonl --model other": "`--model` must predict labels among",
    "swaps pairs.jsonl --model model": "must hold a saved SentenceClassifier",
    "swaps pairs.jsonl --out .": "`--out` must be a file, got a folder at",
    "swaps broken.jsonl": "`FILE` must have one JSON",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_cannot_be_probed_is_refused(folder, refusal, line, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "broken.conllu").write_text(SENTENCE.replace("\t2\tobj", "\t7\tobj"))
    (folder / "broken.jsonl").write_text(f"{json.dumps(PAIR)}\ncats\n")
    (folder / "empty").touch()
    assert REFUSED[line] in refusal("probe", *line.split())
