"""Dependencies that attention heads find, and the experiment about them."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from encoder_cases import SPECIAL, save_tiny_bert, save_tiny_roberta
from exfam.checks import DataError, ExfamError
from exfam.language.pretrained import PretrainedEncoder
from exfam.scores.metrics import paired_bootstrap
from exfam_studies.common.harness import Options, reproduce
from exfam_studies.positions import dependencies, positions_dependencies
from exfam_studies.positions.dependencies import (
    attention_hits,
    best_predictors,
    distance_accuracy,
    offset_hits,
    score_predictors,
)
from exfam_studies.positions.parses import PARTS, english_parses
from studies.positions.probing_cases import parse


class Scripted:
    """Heads that attend to the word before, to the word itself, and to the sentence's first."""

    def word_attention(self, sentences):
        result = []
        for n in map(len, sentences):
            targets = [np.maximum(np.arange(n) - 1, 0), np.arange(n), np.zeros(n, int)]
            result.append(0.1 + 0.8 * torch.eye(n)[torch.from_numpy(np.stack(targets))][None])
        return result


PARSES = [parse([1, -1, 1]), parse([-1, 0, 0, 2]), parse([-1])]


def test_a_dependency_is_found_where_most_attention_is():
    hits = attention_hits(Scripted(), PARSES)
    assert hits.hits.shape == (8, 6) and hits.relation.tolist()[:3] == ["r1", "root", "r-1"]
    assert hits.sentence.tolist() == [0, 0, 0, 1, 1, 1, 1, 2]
    assert hits.distance.tolist() == [1, 0, 1, 0, 1, 2, 1, 0]
    result = dict(zip(hits.predictors, hits.hits.T.tolist(), strict=True))
    before = result["layer 1 head 1 to-head"]
    # Words whose head is the one before; at the start of a sentence that is the word itself.
    assert before == [False, False, True, True, True, False, True, True]
    # The head attends to its dependent: w1 to w0.
    assert result["layer 1 head 1 to-dependent"][0] and not result["layer 1 head 1 to-dependent"][2]
    # A root's edge is to itself.
    assert [result["layer 1 head 2 to-head"][at] for at in (1, 3, 7)] == [True] * 3
    assert sum(result["layer 1 head 2 to-head"]) == 3
    assert result["layer 1 head 3 to-head"][4:6] == [True, True]


def test_a_word_with_a_blank_is_given_as_several_and_counts_as_one():
    class Parted(Scripted):
        def word_attention(self, sentences):
            assert sentences == [["w0", "w1", "b", "w2", "x", "y"]]
            weights = torch.zeros(1, 1, 6, 6)
            for part, row in enumerate(
                ([1, 0, 0, 0, 0, 0], [0.6, 0, 0, 0.2, 0.2, 0], [0.2, 0, 0, 0.2, 0.3, 0.3])
            ):
                weights[0, 0, part] = torch.tensor(row, dtype=torch.float32)
            weights[0, 0, 3:, 1:3] = torch.tensor([0.1, 0.5])
            return [weights]

    words = replace(parse([-1, 2, 1]), words=("w0", "w1 b", "w2\u00a0x y"))
    hits = attention_hits(Parted(), [words])
    assert hits.predictors[0] == "layer 1 head 1 to-head"
    assert hits.hits[:, 0].tolist() == [True, True, True]


def test_the_best_of_each_relation_is_chosen_and_scored_elsewhere():
    first = [parse([1, -1], ["a", "root"]), parse([-1, 0], ["root", "a"])] * 5
    first += [parse([1, -1], ["a", "root"])] * 5
    chosen = best_predictors(offset_hits(first, furthest=1))
    assert chosen == {"a": "offset +1 to-head", "root": "offset +0 to-head"}
    second = [parse([1, -1], ["a", "root"])] * 3 + [parse([-1, 0], ["root", "a"])]
    second.append(parse([-1, 0], ["root", "b"]))
    scores = score_predictors(offset_hits(second, furthest=1), chosen)
    shown = [(score.relation, score.n_edges, score.accuracy.mean) for score in scores]
    assert shown == [("root", 5, 1.0), ("a", 4, 0.75)]
    a = scores[1].accuracy
    assert a.low < 0.75 < a.high <= 1.0 and scores[0].accuracy.low == 1.0


def test_short_and_long_dependencies_are_apart():
    hits = offset_hits([parse([-1, 0, 0, 0, 0, 0, 0])])
    assert hits.apart(0, 4).distance.tolist() == [0, 1, 2, 3, 4]
    assert hits.apart(5).distance.tolist() == [5, 6]


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(DataError, match="`parses` must hold at least one sentence, got none"):
        offset_hits([])
    hits = offset_hits(PARSES, furthest=1)
    chosen = {"r1": "offset +1 to-head", "root": "offset -1 to-head"}
    assert distance_accuracy(hits, chosen) == {0: 0.0, 1: 1.0}
    with pytest.raises(ExfamError, match="`seed` must be an integer >= 0, got -1"):
        score_predictors(hits, {"root": "offset +1 to-head"}, seed=-1)
    with pytest.raises(DataError, match="`hits` must have dependencies of a relation in `chosen`"):
        score_predictors(hits, {"nsubj": "offset +0 to-head"})


# Pre-trained encoders, word by word

TOKENS = [*SPECIAL, "the", "cat", "##s", "##walk", "dog", "ran"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    save_tiny_bert(folder, TOKENS[4:], longest=12)
    return PretrainedEncoder.load(folder)


def test_attention_to_a_word_is_summed_and_from_it_averaged(encoder):
    (words,) = encoder.word_attention([["the", "catswalk", "ran"]])
    ids = [TOKENS.index(t) for t in ("[CLS]", "the", "cat", "##s", "##walk", "ran", "[SEP]")]
    tokens = encoder.attention(torch.tensor([ids]))[0]
    assert words.shape == (2, 2, 3, 3)
    close = torch.testing.assert_close
    close(words[..., 0, 1], tokens[..., 1, 2:5].sum(-1))
    close(words[..., 1, 0], tokens[..., 2:5, 1].mean(-1))
    close(words[..., 1, 1], tokens[..., 2:5, 2:5].sum(-1).mean(-1))
    assert (words.sum(-1) < 1).all()


def test_words_of_byte_level_tokens_stay_apart(tmp_path):
    save_tiny_roberta(tmp_path)
    encoder = PretrainedEncoder.load(tmp_path)
    (words,) = encoder.word_attention([["a", "man", "runs", "man's"]])
    tokens = ["<s>", *(f"\u0120{word}" for word in ("a", "man", "runs", "man")), "'", "s", "</s>"]
    ids = encoder.tokenizer.convert_tokens_to_ids(tokens)
    whole = encoder.attention(torch.tensor([ids]))[0]
    torch.testing.assert_close(words[..., :3, :3], whole[..., 1:4, 1:4])
    torch.testing.assert_close(words[..., 1, 3], whole[..., 2, 4:7].sum(-1))


def test_sentences_and_tokenizers_that_do_not_serve_are_refused(encoder):
    with pytest.raises(DataError, match="Sentence 1 must have at most 12 tokens .*, got 13"):
        encoder.word_attention([["the"], ["the"] * 11])

    class Slow:
        is_fast = False

    with pytest.raises(ExfamError, match="`tokenizer` must be a fast one, .* got Slow"):
        PretrainedEncoder(encoder.model, Slow()).word_attention([["the"]])


@pytest.fixture
def treebank(monkeypatch):
    """Subjects before their verb at dev; at test half of them are further away."""
    near = parse([1, -1], ["nsubj", "root"])
    far = parse([2, 2, -1], ["nsubj", "rare", "root"])
    parts = {"dev": [near] * 30, "test": [near] * 15 + [far] * 15}
    monkeypatch.setattr(positions_dependencies, "english_parses", parts.__getitem__)


def test_predictors_are_chosen_at_dev_and_scored_at_test(treebank, tmp_path, capsys):
    rows = positions_dependencies.run(Options(only=["offset"]))
    result = {(row.task, row.metric): row for row in rows}
    nsubj = result["relation-nsubj", "accuracy"]
    assert nsubj.value == 0.5 and nsubj.validation == 1.0
    assert nsubj.settings["predictor"] == "offset +1 to-head"
    assert nsubj.settings["dependencies"] == 30
    assert 0.3 < nsubj.settings["low"] < 0.5 < nsubj.settings["high"] < 0.7
    assert result["relation-root", "accuracy"].value == 1.0
    # Seen in the test part alone: nothing was chosen for it.
    assert ("relation-rare", "accuracy") not in result
    assert result["all", "accuracy"].value == result["all", "accuracy-mean"].value == 0.75


def test_an_encoder_is_scored_like_offsets_and_noted_where_absent(monkeypatch, treebank):
    monkeypatch.setattr(positions_dependencies, "packaged_encoder", lambda: None)
    (row,) = positions_dependencies.run(Options(only=["minilm"]))
    assert row.note == "not installed" and row.value is None
    monkeypatch.setattr(positions_dependencies, "packaged_encoder", lambda: "encoder")
    monkeypatch.setattr(dependencies, "attention_hits", lambda encoder, parses: offset_hits(parses))
    rows = positions_dependencies.run(Options(only=["offset", "minilm"]))
    of = {
        model: [(row.task, row.metric, row.value) for row in rows if row.model == model]
        for model in ("offset", "minilm")
    }
    assert of["offset"] == of["minilm"] and len(of["offset"]) > 4


def test_the_published_treebank_is_scored(data_folder, monkeypatch):
    if not (data_folder / "parses").is_dir():
        pytest.skip("the folder has no parses")
    with pytest.raises(ExfamError, match="`part` must be one of 'dev', 'test', got 'train'"):
        english_parses("train")
    parts = {part: english_parses(part) for part in PARTS}
    assert list(map(len, parts.values())) == [2001, 2077]
    monkeypatch.setattr(positions_dependencies, "english_parses", parts.__getitem__)
    # Intervals cost most of the time, and are not looked at.
    monkeypatch.setattr(dependencies, "paired_bootstrap", partial(paired_bootstrap, n=20))
    rows = reproduce("positions-dependencies", options=Options(only=["offset"]))
    result = {(row.task, row.metric): row.value for row in rows}
    assert result["all", "accuracy"] == pytest.approx(0.466, abs=0.001)
    assert result["short", "accuracy"] > result["long", "accuracy"]
