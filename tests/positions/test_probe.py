"""The identical word probe: what it asks of encoders, what it makes of their attention."""

import json
import shutil
import sys

import numpy as np
import pytest
import torch

from encoder_cases import SPECIAL, save_tiny_bert
from exfam.checks import DataError, ExfamError, UnknownItemError
from exfam.language.pretrained import PretrainedEncoder
from exfam.positions import identical_word_probe, locality, renormalized, symmetry

transformers = pytest.importorskip(
    "transformers", reason="transformers (extra hf) is not installed"
)
close = torch.testing.assert_close
WORDS = [*SPECIAL, "a", "cat", "dog", "##s", "x1", "été", "runs", "sat"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    save_tiny_bert(folder, WORDS[4:], n_layers=3)
    return folder


@pytest.fixture(scope="module")
def encoder(folder):
    return PretrainedEncoder.load(folder)


def test_a_probe_is_the_mean_over_the_words_drawn(encoder, monkeypatch):
    assert encoder.probe_words() == ["cat", "dog", "runs", "sat"]
    vectors, table = encoder.word_vectors(), encoder.model.embeddings.word_embeddings.weight
    assert vectors.words == ("a", "cat", "dog", "x1", "été", "runs", "sat")
    np.testing.assert_array_equal(vectors["été"], table[WORDS.index("été")].detach().numpy())
    probe = identical_word_probe(encoder, words=3, length=12)
    drawn = np.random.default_rng(0).choice(encoder.probe_words(), 3, replace=False)
    assert probe.words == tuple(drawn.tolist()) and probe.weights.shape == (3, 2, 12, 12)
    own = torch.tensor([[WORDS.index(word)] * 12 for word in probe.words])
    with torch.no_grad():
        layers = encoder.model(input_ids=own, output_attentions=True).attentions
    close(probe.weights, torch.stack(layers).double().mean(1), atol=1e-6, rtol=0)
    close(probe.weights.sum(-1), torch.ones(3, 2, 12, dtype=torch.float64), atol=1e-5, rtol=0)
    # How many words go at once changes nothing, and their number may be NumPy's.
    monkeypatch.setattr("exfam.positions.probe._WORDS_AT_ONCE", 2)
    in_turn = identical_word_probe(encoder, words=np.int64(3), length=12)
    assert in_turn.words == probe.words
    close(in_turn.weights, probe.weights, atol=1e-6, rtol=0)


def test_special_tokens_are_absent_kept_or_cut(encoder):
    none, kept, cut = (
        identical_word_probe(encoder, words=["cat"], length=8, special_tokens=choice).weights
        for choice in ("none", "kept", "cut")
    )
    assert none.shape == kept.shape == (3, 2, 8, 8) and cut.shape == (3, 2, 6, 6)
    close(cut, renormalized(kept[..., 1:-1, 1:-1]))
    sentence = torch.tensor([[WORDS.index(w) for w in ("[CLS]", *["cat"] * 6, "[SEP]")]])
    close(kept, encoder.attention(sentence)[0].double(), atol=1e-6, rtol=0)
    assert (none - kept).abs().max() > 1e-3


def test_matrices_are_averaged_before_they_are_scored(encoder):
    probe = identical_word_probe(encoder, words=2, length=9)
    assert probe.model_scores().symmetry == symmetry(probe.weights.mean((0, 1)))
    assert probe.layer_scores().locality.shape == (3,)
    heads = probe.head_scores()
    assert heads.symmetry.shape == (3, 2)
    # Locality is linear, symmetry is not.
    close(heads.locality.mean(), locality(probe.mean))
    assert heads.symmetry.mean() != probe.model_scores().symmetry


@pytest.mark.parametrize("kind", ["MPNet", "Roberta"])
def test_positions_that_no_token_has_are_not_counted(kind, encoder):
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=8, max_position_embeddings=14,
    )  # fmt: skip
    model = transformers.AutoModel.from_config(config, attn_implementation="eager")
    counting = PretrainedEncoder(model, encoder.tokenizer)
    assert counting.most_tokens == 12
    assert counting.repeated(["cat"], 12, special_tokens=False).shape == (1, 1, 2, 12, 12)
    with pytest.raises(ExfamError, match="`length` must be at most 12 for this encoder, got 13"):
        counting.repeated(["cat"], 13, special_tokens=False)
    # Ten words, and two special tokens.
    assert counting.fits([["cat"] * 10, ["cat"] * 11]).tolist() == [True, False]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"words": 5}, "`words` must be at most the 4 words of one token"),
        ({"length": 21}, "`length` must be at most 20 for this encoder, got 21"),
        ({"words": ["zebra"]}, "`words` must be tokens .* got 'zebra'"),
        ({"words": "cat"}, "`words` must be a number or a list of words, got"),
        ({"special_tokens": "some"}, "`special_tokens` must be one of 'none', 'kept', 'cut'"),
    ],
    ids=str,
)
def test_sizes_that_the_encoder_does_not_have_are_refused(encoder, options, message):
    kind = UnknownItemError if options == {"words": ["zebra"]} else ExfamError
    with pytest.raises(kind, match=message):
        identical_word_probe(encoder, **{"words": 1, "length": 5} | options)


@pytest.mark.parametrize(("special_tokens", "least"), [("none", 1), ("kept", 2), ("cut", 3)])
def test_special_tokens_must_leave_positions(special_tokens, least, encoder):
    given = {"words": 1, "special_tokens": special_tokens}
    assert identical_word_probe(encoder, length=least, **given).weights.shape[-1] > 0
    with pytest.raises(ExfamError, match=f"`length` must be .*{least}.*, got {least - 1}"):
        identical_word_probe(encoder, length=least - 1, **given)


def test_folders_without_a_whole_encoder_are_refused(folder, tmp_path):
    def refused(message):
        with pytest.raises(DataError, match=f"`folder` must {message}"):
            PretrainedEncoder.load(tmp_path)

    refused("hold a transformers model, got .* config")
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    weights, config = tmp_path / "model.safetensors", tmp_path / "config.json"
    changed = {**json.loads(config.read_text()), "hidden_size": 32}
    config.write_text(json.dumps(changed))
    refused("hold a transformers encoder and its token.*cannot be read.* RuntimeError: ")
    weights.write_bytes(weights.read_bytes()[:200])
    refused(".*cannot be read.*SafetensorError: ")


def test_models_without_weights_are_refused(folder, encoder):
    fused = transformers.AutoModel.from_pretrained(folder, attn_implementation="sdpa")
    with pytest.raises(ExfamError, match="`model` must have eager attention .* got 'sdpa'"):
        PretrainedEncoder(fused, encoder.tokenizer)

    class Silent(torch.nn.Module):
        config = encoder.model.config

        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def forward(self, **options):
            return None

    with pytest.raises(
        ExfamError, match="`model` must return its attention weights, got none from"
    ):
        identical_word_probe(PretrainedEncoder(Silent(), encoder.tokenizer), words=1, length=5)


def test_special_tokens_must_be_known(encoder, monkeypatch):
    class Bare:
        cls_token_id = sep_token_id = None

        def get_vocab(self):
            return {"\u0120cat": 5, "\u0120dog": 6, "s": 7}

    bare = PretrainedEncoder(encoder.model, Bare())
    assert bare.probe_words() == ["cat", "dog"]
    assert identical_word_probe(bare, words=2, length=5).weights.isfinite().all()
    with pytest.raises(ExfamError, match="`special_tokens` must be 'none' for an encoder that has"):
        identical_word_probe(bare, words=1, length=5, special_tokens="kept")


def test_transformers_is_needed(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ExfamError, match=r"transformers must be installed .* Install exfam\[hf\]"):
        PretrainedEncoder.load(folder)
