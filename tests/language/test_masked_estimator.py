"""The masked language model as an estimator: fits, scores, vectors, files."""

import json
import math

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

pytest.importorskip("tokenizers", reason="tokenizers (extra hf) is not installed")

import exfam
from exfam.checks import CheckpointError, DataError, ExfamError, ExfamWarning, UnknownItemError
from exfam.language import MaskedLanguageModel, masked_scoring, text_encoders
from exfam.language.networks.token_pieces import MaskedTokens
from exfam.training.checkpoints import Checkpoint
from language.masked_cases import NAMES, SMALL, TEST, TRAIN


def small(**changes):
    return MaskedLanguageModel(**{**SMALL, **changes})


@pytest.fixture(scope="module")
def fitted():
    return small(encoding="tupe", max_epochs=60, patience=60, dropout=0.0, embed_dim=16).fit(
        TRAIN, validation=TEST
    )


def same_bits(one, other):
    states = [each.state_dict() for each in (one.model_, other.model_)]
    return all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_a_fit_is_better_than_counts(fitted):
    pieces = fitted.encoder().pieces(TRAIN)
    codes = np.concatenate([piece[1:-1] for piece in pieces])
    share = np.bincount(codes, minlength=len(fitted.subwords_)) / len(codes)
    counted = float(np.sum(share[share > 0] * np.log(share[share > 0])))
    assert fitted.score(TEST) > counted + 0.5
    assert fitted.perplexity(TEST) == pytest.approx(math.exp(-fitted.score(TEST)))


def test_validation_is_scored_as_a_text_is(fitted):
    assert fitted.history_.best.validation_nats == pytest.approx(-fitted.score(TEST), rel=1e-4)


@pytest.mark.parametrize("encoding", NAMES)
def test_every_encoding_can_be_fitted_saved_and_loaded(tmp_path, encoding):
    model = small(encoding=encoding, max_epochs=1).fit(TRAIN)
    model.save(tmp_path / "model")
    loaded = exfam.load(tmp_path / "model")
    assert same_bits(model, loaded) and loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.embed(TEST), model.embed(TEST))
    assert loaded.score(TEST) == model.score(TEST)
    assert not any(path.suffix in {".pt", ".pkl"} for path in (tmp_path / "model").iterdir())


def test_a_saved_model_names_its_encoding_whatever_the_default_is(tmp_path):
    assert MaskedLanguageModel().encoding == "rotary"
    for encoding in ("rotary", "learned"):
        path = tmp_path / encoding
        small(max_epochs=1, encoding=encoding).fit(TRAIN).save(path)
        stored = json.loads((path / "config.json").read_text())["config"]
        assert stored["parameters"]["encoding"] == stored["fitted"]["encoding"] == encoding


def test_byte_pairs_can_be_fitted_too(tmp_path):
    model = small(subwords="bpe", vocabulary_size=300, max_epochs=1).fit(TRAIN)
    model.save(tmp_path / "model")
    loaded = MaskedLanguageModel.load(tmp_path / "model")
    assert loaded.score(["caf\u00e9"]) == model.score(["caf\u00e9"])


def test_whole_words_can_be_fitted_too(tmp_path):
    model = small(subwords="word", min_count=9, max_epochs=1).fit([*TRAIN, "a rare word"])
    known = set(model.vocabulary_["token"].tolist())
    assert {"dog", "women"} <= known and "rare" not in known
    model.save(tmp_path / "model")
    loaded = MaskedLanguageModel.load(tmp_path / "model")
    left_out = "1 of the 3 tokens of `X` are unknown to the model, and left out"
    with pytest.warns(ExfamWarning, match=left_out):
        score = loaded.score(["a rare dog"])
    with pytest.warns(ExfamWarning, match=left_out):
        assert score == model.score(["a unseen dog"])


def test_parameters_set_after_a_fit_are_for_the_next_one(tmp_path):
    model = small(encoding="relative", max_epochs=1).fit(TRAIN)
    vectors, score = model.embed(TEST), model.score(TEST)
    model.set_params(n_heads=4, encoding="none", length=5)
    model.save(tmp_path / "model")
    for each in (model, exfam.load(tmp_path / "model")):
        np.testing.assert_array_equal(each.embed(TEST), vectors)
        assert each.score(TEST) == score and each.n_heads == 4


def test_word_vectors_are_those_that_tokens_enter_with(fitted):
    vectors, index = fitted.encoder().word_vectors(), fitted.subwords_.index
    assert "man" in vectors and not any(word.startswith(("[", "##")) for word in vectors)
    assert list(vectors) == sorted(vectors, key=index.get) and len(vectors) > 9
    for word in vectors:
        row = fitted.model_.words.table.weight[index[word]]
        np.testing.assert_array_equal(vectors[word], row.detach().numpy())


def test_the_same_seed_gives_the_same_bits_and_another_does_not():
    model = small().fit(TRAIN)
    assert same_bits(model, clone(model).fit(iter(TRAIN)))
    assert not same_bits(model, clone(model).set_params(seed=1).fit(TRAIN))


def test_a_fit_leaves_torchs_generator_as_it_was():
    before = torch.get_rng_state()
    small(max_epochs=1).fit(TRAIN).score(TEST)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_file_is_read_as_its_lines_are(tmp_path):
    (tmp_path / "text").write_text("\n".join(TRAIN) + "\n", encoding="utf-8")
    assert same_bits(small().fit(tmp_path / "text"), small().fit(TRAIN))


def test_log_probabilities_of_a_token_are_of_all_tokens_there_might_be(fitted):
    (result,) = fitted.log_prob(["a man sees it"])
    (piece,) = fitted.encoder().pieces(["a man sees it"])
    assert len(result) == len(piece) - 2 and result.std() > 0.1
    total = 0.0
    for code in range(len(fitted.subwords_)):
        changed = piece.copy()
        changed[2] = code
        total += math.exp(
            masked_scoring.sentence_log_probs(fitted.model_, [changed], n_special=0)[0][2]
        )
    assert total == pytest.approx(1.0, rel=1e-5)


def test_results_do_not_depend_on_how_much_is_computed_at_a_time(fitted, monkeypatch):
    result, vectors, score = fitted.log_prob(TEST), fitted.embed(TEST), fitted.score(TEST)
    monkeypatch.setattr(masked_scoring, "_TOKENS_AT_ONCE", 8)
    monkeypatch.setattr(text_encoders, "_TOKENS_AT_ONCE", 8)
    for one, other in zip(result, fitted.log_prob(TEST), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    np.testing.assert_allclose(fitted.embed(TEST), vectors, atol=1e-5)
    assert fitted.score(TEST) == pytest.approx(score)


def test_vectors_are_of_layers_and_poolings(fitted):
    last, first_layer = fitted.embed(TEST), fitted.embed(TEST, layer=0)
    assert last.shape == (len(TEST), 16) and not np.allclose(last, first_layer)
    np.testing.assert_array_equal(fitted.embed(TEST, layer=2), last)
    assert not np.allclose(fitted.embed(TEST, pooling="first"), last)
    np.testing.assert_allclose(
        fitted.embed([TEST[0].split(), ("a man", ["it"])]),
        [fitted.embed(TEST[:1])[0], fitted.embed([("a man", "it")])[0]],
        atol=1e-5,
    )


def test_unknown_words_have_no_log_probability(fitted):
    result, same = fitted.log_prob(["a man <unk> it", "a man \u6f22 it"])
    np.testing.assert_allclose(result, same, atol=1e-5)
    assert len(result) == 3 and result.min() > -6


def test_what_is_cut_of_a_pair_is_the_end_of_the_longer_one():
    model = small(encoding="learned", max_epochs=1, long_sentences="cut")
    encoder = model.fit(TRAIN).encoder()
    index = encoder.subwords.index
    (piece,) = encoder.pieces([("the " * 30, "a man")])
    ends = np.flatnonzero(piece == index["[SEP]"]).tolist()
    assert len(piece) == 16 and ends == [12, 15]
    assert piece[13:15].tolist() == [index["a"], index["man"]]
    (both,) = encoder.pieces([("the " * 30, "a " * 30)])
    assert len(both) == 16 and abs(int((both == index["a"]).sum()) - 7) <= 1


def test_sentences_that_fit_are_known(fitted):
    assert fitted.encoder().fits(["it " * 14, "it " * 15]).tolist() == [True, False]
    assert small(encoding="alibi", max_epochs=1).fit(TRAIN).encoder().fits(["it " * 99]).all()


def test_a_sentence_without_words_has_a_vector_too(fitted):
    assert np.isfinite(fitted.embed(["", "a man"])).all()
    assert [len(each) for each in fitted.log_prob(["", "a man"])] == [0, 2]


def test_a_text_of_one_line_is_read_in_parts(monkeypatch):
    from exfam.language import masked

    whole = small(max_epochs=1).fit([" ".join(TRAIN)])
    monkeypatch.setattr(masked, "_WORDS_AT_ONCE", 7)
    assert same_bits(whole, small(max_epochs=1).fit([" ".join(TRAIN)]))


def test_a_text_of_one_step_asks_for_something_in_every_epoch():
    model = small(max_epochs=6, mask_share=0.01, validation_fraction=0.0).fit(["a man", "a dog"])
    assert len(model.history_) == 6


def test_masked_tokens_are_those_that_are_scored(fitted):
    asked = fitted.masked_tokens(TEST)
    assert len(asked) > 10 and (asked >= 5).all()
    assert len(fitted.masked_tokens([""])) == 0


def test_a_pipeline_takes_it(fitted):
    kind = ["man" in line for line in TEST]
    pipeline = make_pipeline(fitted, LogisticRegression(C=100.0))
    vectors = fitted.transform(TEST)
    pipeline.steps[-1][1].fit(vectors, kind)
    assert (pipeline.predict(TEST) == kind).mean() > 0.9


def test_attention_between_words_is_that_between_their_pieces(fitted):
    (result,) = fitted.encoder().word_attention([("women", "unseen", "it")])
    assert result.shape == (2, 2, 3, 3)
    # The rest is paid to the special tokens at the ends.
    assert (result.sum(-1) < 1).all() and (result > 0).all()
    (text,) = fitted.encoder().word_attention(["women unseen it"])
    torch.testing.assert_close(text, result)


def test_repeated_words_are_of_the_length_asked_for(fitted):
    encoder = fitted.encoder()
    words = encoder.probe_words()
    assert "man" in words and "a" not in words
    result = encoder.repeated(words[:2], 7, special_tokens=True)
    assert result.shape == (2, 2, 2, 7, 7)
    torch.testing.assert_close(result.sum(-1), torch.ones(2, 2, 2, 7))
    alone = fitted.encoder(term="positional").repeated(words[:2], 7, special_tokens=False)
    torch.testing.assert_close(alone[0], alone[1])
    assert not torch.allclose(result[0], result[1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"embed_dim": 9}, "`n_heads` must divide `embed_dim`, 9, got 2"),
        ({"encoding": "rotery"}, "`encoding` must be one of .*Did you mean 'rotary'"),
        ({"length": 2}, "`length` must be an integer >= 3"),
        ({"mask_share": 0.0}, "`mask_share` must be a number > 0"),
        ({"subwords": "words"}, "`subwords` must be one of"),
        ({"min_count": 0}, "`min_count` must be an integer >= 1"),
        ({"subwords": "word", "min_count": 999}, "`X` must have a word that is read at least 999"),
        ({"vocabulary_size": "x"}, "`vocabulary_size` must be an integer >= 1, got 'x'"),
        ({"vocabulary_size": None}, "`vocabulary_size` must be an integer >= 1, got None"),
        ({"vocabulary_size": 9}, "`vocabulary_size` must be at least"),
        ({"dropout": 1.0}, "`dropout` must be a number in"),
        ({"long_sentences": "keep"}, "`long_sentences` must be one of"),
        ({"precision": "float16"}, "`precision` must be one of"),
        ({"max_epochs": 0}, "`max_epochs` must be an integer >= 1"),
    ],
)
def test_parameters_that_are_none_are_refused(changes, message):
    with pytest.raises(ExfamError, match=message):
        small().set_params(**changes).fit(TRAIN)


def test_a_sentence_that_is_too_long_is_refused_or_cut(fitted):
    long = ["a man", "it " * 20]
    for ask in (fitted.embed, fitted.log_prob, fitted.encoder().word_attention):
        with pytest.raises(DataError, match="Sentence 1 must have at most 16 tokens .*, got 22"):
            ask(long)
    with pytest.raises(ExfamError, match="`length` must be at most 16"):
        fitted.encoder().repeated(["man"], 17, special_tokens=False)
    cut = clone(fitted).set_params(long_sentences="cut")
    cut.members_, cut.vocabulary_ = fitted.members_, fitted.vocabulary_
    np.testing.assert_allclose(cut.embed(long), cut.embed(["a man", "it " * 14]), atol=1e-6)
    any_length = small(encoding="alibi", max_epochs=1).fit(TRAIN)
    assert any_length.embed(long).shape == (2, 8)


def test_what_cannot_be_scored_is_refused(fitted):
    with pytest.raises(ExfamError, match="`layer` must be at most 2, got 3"):
        fitted.embed(TEST, layer=3)
    with pytest.raises(ExfamError, match="`pooling` must be one of"):
        fitted.embed(TEST, pooling="last")
    for sentence, message in (
        (("a", "b", "c"), "Sentence 1 must be a text, .* got a tuple of 3"),
        (("a", 3), "Sentence 1 must be a text or a list of words, got int"),
        (["a man", "it"], "Sentence 1 must be .* got 'a man' as a word. Give pairs .* as tuples"),
        (np.array(["a", "it"]), "got ndarray. Give pairs of sentences as tuples"),
    ):
        with pytest.raises(DataError, match=message):
            fitted.embed([("a", "b"), sentence])
    for one in ("a man", iter(["a man"])):
        with pytest.raises(DataError, match="`X` must be a list of sentences, .* got one"):
            fitted.embed(one)
    with pytest.raises(DataError, match="`X` must have tokens to score, got none"):
        fitted.score([""])
    with pytest.raises(DataError, match="`X` must have words to learn pieces of"):
        small().fit(["<unk> <unk>"])
    with pytest.raises(DataError, match="`X` must have words, got only characters that no piece"):
        small().fit(["\0"])
    with pytest.raises(DataError, match="`validation` must have words that `X` has pieces of"):
        small().fit(TRAIN, validation=[""])
    with pytest.raises(DataError, match="`validation_fraction` must hold out words of `X`, got no"):
        small(validation_fraction=0.2).fit([*TRAIN, *["<unk> " * 9] * 60])
    with pytest.raises(UnknownItemError, match="got 'zebra'"):
        fitted.encoder().repeated(["zebra"], 3, special_tokens=False)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        small().embed(TEST)


class Frame:
    """What frames of any package have in common."""

    columns, shape = ["text", "label"], (2, 2)

    def __len__(self):
        return 2

    def __iter__(self):
        return iter(self.columns)


@pytest.mark.parametrize("table", [{"text": TEST}, Frame()])
def test_a_table_is_not_read_as_the_names_of_its_columns(fitted, table):
    asks = (fitted.embed, fitted.log_prob, fitted.score, small().fit)
    for ask in asks:
        with pytest.raises(DataError, match=r"`X` must be texts, got a table .* such as df\['text"):
            ask(table)
    with pytest.raises(DataError, match="`validation` must be texts, got a table"):
        small().fit(TRAIN, validation=table)


@pytest.mark.parametrize("broken", ["a \ud800", ["a", "\ud800"]])
def test_what_utf8_cannot_write_is_refused(fitted, broken):
    message = r"must be text that UTF-8 can write, got '\\ud800' as character 2. Read the file"
    for ask in (fitted.embed, fitted.log_prob, lambda X: fitted.embed([TEST[0], ("a", X[1])])):
        with pytest.raises(DataError, match=f"Sentence 1 {message}"):
            ask([TEST[0], broken])
    for ask in (fitted.score, small().fit, lambda X: small().fit(TRAIN, validation=X)):
        with pytest.raises(DataError, match=f"Line 2 {message}"):
            ask([TEST[0], broken])


# Interrupted


class PowerCut(Exception):
    pass


@pytest.mark.parametrize("at", [1, 9, 14])
def test_a_fit_cut_anywhere_goes_on_to_the_same_bits(tmp_path, monkeypatch, at):
    whole = small().fit(TRAIN)
    model, folder = small(), Checkpoint(tmp_path, seconds=0.0)
    real, calls = MaskedTokens.__call__, []

    def failing(self, *arguments):
        calls.append(at)
        if len(calls) == at:
            raise PowerCut("the lights went out")
        return real(self, *arguments)

    with monkeypatch.context() as patch, pytest.raises(PowerCut, match="lights"):
        patch.setattr(MaskedTokens, "__call__", failing)
        model.fit(TRAIN, checkpoint=folder)
    assert not hasattr(model, "members_")
    model.fit(TRAIN, checkpoint=folder)
    assert same_bits(model, whole)
    with pytest.raises(CheckpointError, match="dropout"):
        small(dropout=0.2).fit(TRAIN, checkpoint=folder)
