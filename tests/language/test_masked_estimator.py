"""The masked language model as an estimator: fits, scores, vectors, files."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

pytest.importorskip("tokenizers", reason="tokenizers (extra hf) is not installed")

import exfam
from exfam.checks import DataError, ExfamError, ExfamWarning, UnknownItemError
from exfam.language import MaskedLanguageModel, masked, text_encoders
from exfam.language.networks import token_pieces
from exfam.language.networks.token_pieces import sentence_log_probs
from language.masked_cases import SMALL, TEST, TRAIN


def small(**changes):
    return MaskedLanguageModel(**{**SMALL, **changes})


@pytest.fixture(scope="module")
def fitted():
    return small(encoding="tupe", max_epochs=60, patience=60, dropout=0.0, embed_dim=16).fit(
        TRAIN, validation=TEST
    )


def test_a_fit_is_better_than_counts(fitted):
    pieces = fitted.encoder().pieces(TRAIN)
    codes = np.concatenate([piece[1:-1] for piece in pieces])
    share = np.bincount(codes, minlength=len(fitted.subwords_)) / len(codes)
    counted = float(np.sum(share[share > 0] * np.log(share[share > 0])))
    assert fitted.score(TEST) > counted + 0.5
    assert fitted.perplexity(TEST) == pytest.approx(math.exp(-fitted.score(TEST)))
    assert fitted.history_.best.validation_nats == pytest.approx(-fitted.score(TEST), rel=1e-4)
    masked_tokens = fitted.masked_tokens(TEST)
    assert len(masked_tokens) > 10 and (masked_tokens >= 5).all()
    assert len(fitted.masked_tokens([""])) == 0
    # The log-probability of a token is of all tokens that there might be.
    (result,) = fitted.log_prob(["a man sees it"])
    (piece,) = fitted.encoder().pieces(["a man sees it"])
    assert len(result) == len(piece) - 2 and result.std() > 0.1
    changed = np.repeat(piece[None], len(fitted.subwords_), axis=0)
    changed[:, 2] = range(len(changed))
    nats = [sentence_log_probs(fitted.model_, row, n_special=0)[2] for row in changed]
    assert np.exp(nats).sum() == pytest.approx(1.0, rel=1e-5)
    result, same = fitted.log_prob(["a man <unk> it", "a man \u6f22 it"])
    np.testing.assert_allclose(result, same, atol=1e-5)


def test_byte_pairs_and_whole_words_can_be_fitted_too(tmp_path):
    model = small(subwords="bpe", vocabulary_size=300, max_epochs=1).fit(TRAIN)
    model.save(tmp_path / "bpe")
    assert exfam.load(tmp_path / "bpe").score(["caf\u00e9"]) == model.score(["caf\u00e9"])
    model = small(subwords="word", min_count=9, max_epochs=1).fit([*TRAIN, "a rare word"])
    known = set(model.vocabulary_["token"].tolist())
    assert {"dog", "women"} <= known and "rare" not in known
    left_out = "1 of the 3 tokens of `X` are unknown to the model, and left out"
    with pytest.warns(ExfamWarning, match=left_out):
        score = model.score(["a rare dog"])
    with pytest.warns(ExfamWarning, match=left_out):
        assert score == model.score(["a unseen dog"])


def test_word_vectors_are_those_that_tokens_enter_with(fitted):
    vectors, index = fitted.encoder().word_vectors(), fitted.subwords_.index
    assert "man" in vectors and not any(word.startswith(("[", "##")) for word in vectors)
    assert list(vectors) == sorted(vectors, key=index.get) and len(vectors) > 9
    table = fitted.model_.words.table.weight.detach()
    np.testing.assert_array_equal(vectors.center, table[[index[word] for word in vectors]])


def test_results_do_not_depend_on_how_much_is_computed_at_a_time(fitted, monkeypatch, tmp_path):
    result, vectors = fitted.log_prob(TEST), fitted.embed(TEST)
    monkeypatch.setattr(token_pieces, "_TOKENS_AT_ONCE", 8)
    monkeypatch.setattr(text_encoders, "_TOKENS_AT_ONCE", 8)
    for one, other in zip(result, fitted.log_prob(TEST), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    np.testing.assert_allclose(fitted.embed(TEST), vectors, atol=1e-5)
    # A file is read as its lines are, a long line in parts.
    text = tmp_path / "text"
    text.write_text("\n".join([" ".join(TRAIN), *TRAIN]) + "\n", encoding="utf-8")
    whole = small(max_epochs=1).fit([" ".join(TRAIN), *TRAIN])
    monkeypatch.setattr(masked, "_WORDS_AT_ONCE", 7)
    np.testing.assert_array_equal(small(max_epochs=1).fit(text).embed(TEST), whole.embed(TEST))


def test_vectors_are_of_layers_and_poolings(fitted):
    last, first_layer = fitted.embed(TEST), fitted.embed(TEST, layer=0)
    assert last.shape == (len(TEST), 16) and not np.allclose(last, first_layer)
    np.testing.assert_array_equal(fitted.embed(TEST, layer=2), last)
    assert not np.allclose(fitted.embed(TEST, pooling="first"), last)
    given = fitted.embed([TEST[0].split(), ("a man", ["it"])])
    alone = [fitted.embed(TEST[:1])[0], fitted.embed([("a man", "it")])[0]]
    np.testing.assert_allclose(given, alone, atol=1e-5)
    assert np.isfinite(fitted.embed(["", "a man"])).all()
    assert [len(nats) for nats in fitted.log_prob(["", "a man"])] == [0, 2]
    kind = ["man" in line for line in TEST]
    pipeline = make_pipeline(fitted, LogisticRegression(C=100.0))
    pipeline.steps[-1][1].fit(fitted.transform(TEST), kind)
    assert (pipeline.predict(TEST) == kind).mean() > 0.9


def test_a_text_of_one_step_has_something_to_learn_in_every_epoch():
    model = small(max_epochs=6, mask_share=0.01, validation_fraction=0.0).fit(["a man", "a dog"])
    assert len(model.history_) == 6


def test_repeated_words_are_of_the_length_wanted(fitted):
    encoder = fitted.encoder()
    words = encoder.probe_words()
    assert "man" in words and "a" not in words
    result = encoder.repeated(words[:2], 7, special_tokens=True)
    assert result.shape == (2, 2, 2, 7, 7)
    torch.testing.assert_close(result.sum(-1), torch.ones(2, 2, 2, 7))
    alone = fitted.encoder(term="positional").repeated(words[:2], 7, special_tokens=False)
    torch.testing.assert_close(alone[0], alone[1])
    assert not torch.allclose(result[0], result[1])
    (result,) = encoder.word_attention([("women", "unseen", "it")])
    assert result.shape == (2, 2, 3, 3)
    # The rest is paid to the special tokens at the ends.
    assert (result.sum(-1) < 1).all() and (result > 0).all()


def test_a_sentence_that_is_too_long_is_refused_or_cut(fitted):
    long = ["a man", "it " * 20]
    for use in (fitted.embed, fitted.log_prob, fitted.encoder().word_attention):
        with pytest.raises(DataError, match="Sentence 1 must have at most 16 tokens .*, got 22"):
            use(long)
    assert fitted.encoder().fits(["it " * 14, "it " * 15]).tolist() == [True, False]
    with pytest.raises(ExfamError, match="`length` must be at most 16"):
        fitted.encoder().repeated(["man"], 17, special_tokens=False)
    cut = clone(fitted).set_params(long_sentences="cut")
    cut.members_, cut.vocabulary_ = fitted.members_, fitted.vocabulary_
    np.testing.assert_allclose(cut.embed(long), cut.embed(["a man", "it " * 14]), atol=1e-6)
    # Of a pair the end of the longer one is cut.
    index = fitted.subwords_.index
    (piece,) = cut.encoder().pieces([("the " * 30, "a man")])
    assert len(piece) == 16 and np.flatnonzero(piece == index["[SEP]"]).tolist() == [12, 15]
    assert piece[13:15].tolist() == [index["a"], index["man"]]
    any_length = small(encoding="alibi", max_epochs=1).fit(TRAIN)
    assert any_length.embed(long).shape == (2, 8) and any_length.encoder().fits(["it " * 99]).all()


@pytest.mark.parametrize(
    ("changes", "text", "message"),
    [
        ({"embed_dim": 9}, TRAIN, "`n_heads` must divide `embed_dim`, 9, got 2"),
        ({"mask_share": 0.0}, TRAIN, "`mask_share` must be a number > 0"),
        ({"vocabulary_size": 9}, TRAIN, "`vocabulary_size` must be at least"),
        ({}, ["\0"], "`X` must have words, got only characters that no piece"),
        (
            {"validation_fraction": 0.2},
            [*TRAIN, *["<unk> " * 9] * 60],
            "`validation_fraction` must hold out words of `X`, got no",
        ),
    ],
)
def test_what_cannot_be_fitted_is_refused(changes, text, message):
    with pytest.raises(ExfamError, match=message):
        small(**changes).fit(text)


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda model: model.embed(TEST, layer=3), ExfamError, "`layer` must be at most 2, got 3"),
        (lambda model: model.embed(TEST, pooling="last"), ExfamError, "`pooling` must be one of"),
        (lambda model: model.embed("a man"), DataError, "`X` must be a list of .* got one str"),
        (lambda model: model.score([""]), DataError, "`X` must have tokens to score, got none"),
        (
            lambda model: model.fit(pd.DataFrame({"text": TEST})),
            DataError,
            r"`X` must be texts, got a table .* such as df\['text",
        ),
        (
            lambda model: model.embed(["a", "a \ud800"]),
            DataError,
            r"Sentence 1 must be text that UTF-8 can write, got '\\ud800' as character 2. Read the",
        ),
        (lambda _: small().fit(TRAIN, validation=[""]), DataError, "`validation` must have words"),
        (
            lambda model: model.encoder().repeated(["zebra"], 3, special_tokens=False),
            UnknownItemError,
            "got 'zebra'",
        ),
    ],
)
def test_what_cannot_be_used_is_refused(fitted, use, error, message):
    with pytest.raises(error, match=message):
        use(fitted)


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        (("a", "b", "c"), "Sentence 1 must be a text, .* got a tuple of 3"),
        (["a man", "it"], "Sentence 1 must be .* got 'a man' as a word. Give pairs .* as tuples"),
        (np.array(["a", "it"]), "got ndarray. Give pairs of sentences as tuples"),
    ],
)
def test_what_is_no_sentence_is_refused(fitted, sentence, message):
    with pytest.raises(DataError, match=message):
        fitted.embed([("a", "b"), sentence])
