"""The LSTM language model as an estimator: fits, scores, draws, files."""

import math
import signal

import numpy as np
import pytest
import torch
from sklearn.base import clone

import exfam
from exfam.checks import DataError, ExfamError, ExfamWarning
from exfam.language import lstm, network_estimator
from exfam.language.networks import lstm_network
from exfam.language.networks.lstm_network import LSTM_TIES, LSTMNetwork, token_log_probs
from exfam.training import steps
from exfam.training.checkpoints import Checkpoint
from exfam.training.steps import TorchEngine
from words.lstm_cases import TEST, TRAIN, VALIDATION, same_bits, small


@pytest.fixture(scope="module")
def fitted():
    model = small(tie="reflection", n_layers=1, dropout=0.0, epochs=12, learning_rate=5.0, clip=1.0)
    return model.fit(TRAIN, validation=VALIDATION)


# What a fit learns


def test_words_never_seen_are_counted_and_left_out_of_the_score():
    model = small().fit(["a b c d"] * 30)
    with pytest.warns(ExfamWarning, match="2 of the 6 words of `X` are unknown") as warned:
        nats = model.score(["a b fox", "c d dog"])
    assert len(warned) == 1 and nats == model.score(["a b", "c d"])


@pytest.mark.parametrize("tie", LSTM_TIES)
def test_a_text_that_repeats_is_learned(tie):
    model = small(tie=tie, dim=8, epochs=12, learning_rate=20.0, dropout=0.0)
    text = ["a b c d"] * 60
    model.fit(text)
    assert 1.0 <= model.perplexity(text) < 1.1
    (drawn,) = model.sample(10, after="a b c d\na")
    assert drawn.tolist() == ["b", "c", "d", "<eos>", "a"] * 2


def test_rounding_in_training_costs_a_fit_little_and_its_scores_nothing(fitted):
    rounded = clone(fitted).set_params(precision="bfloat16").fit(TRAIN, validation=VALIDATION)
    assert not same_bits(rounded.model_, fitted.model_)
    assert rounded.score(TEST) == pytest.approx(fitted.score(TEST), abs=0.05)
    exact = clone(fitted).set_params(epochs=1).fit(TRAIN)
    exact.model_.load_state_dict(rounded.model_.state_dict())
    np.testing.assert_array_equal(exact.log_prob(TEST), rounded.log_prob(TEST))


def test_the_rate_falls_to_a_quarter_whenever_validation_is_no_better():
    model = small(epochs=12, dim=12, bptt=10, learning_rate=20.0, dropout=0.0)
    history = model.fit(TRAIN, validation=VALIDATION).history_
    assert 2 <= sum(row.best for row in history.rows) <= len(history) - 2
    for before, after in zip(history.rows[:-1], history.rows[1:], strict=True):
        factor = 1.0 if before.best else 0.25
        assert after.learning_rate == pytest.approx(before.learning_rate * factor)
    # The best epoch's weights are kept, not the last ones.
    assert not history.rows[-1].best
    assert history.best.validation_nats == min(row.validation_nats for row in history.rows)


@pytest.mark.parametrize("columns", [1, 10])
def test_validation_scores_all_of_its_tokens(monkeypatch, columns):
    monkeypatch.setattr(lstm, "_VALIDATION_COLUMNS", columns)
    monkeypatch.setattr(lstm, "_VALIDATION_LENGTH", 1)
    model = small(epochs=1).fit(TRAIN, validation=VALIDATION)
    tokens, eos = model.tokens(VALIDATION), model.tokens([""])[0]
    length = math.ceil(len(tokens) / columns)
    before = [eos, *tokens[:-1]]
    pieces = [
        token_log_probs(model.model_, tokens[first : first + length], start=int(before[first]))
        for first in range(0, len(tokens), length)
    ]
    nats = -np.concatenate(pieces).mean()
    assert model.history_.best.validation_nats == pytest.approx(nats, rel=1e-5)
    if columns == 1:
        assert nats == pytest.approx(-model.score(VALIDATION))


def test_validation_is_the_texts_end_unless_given():
    model = small(epochs=3, validation_fraction=0.25).fit(TRAIN)
    # A text as codes with line ends of its own.
    codes = model.tokens(TRAIN)
    cut = int(len(codes) * 0.25)
    other = small(epochs=3).fit(codes[:-cut], validation=codes[-cut:])
    assert [row.validation_nats for row in model.history_.rows] == pytest.approx(
        [row.validation_nats for row in other.history_.rows], abs=0.3
    )
    assert model.history_.steps == other.history_.steps
    none = small(epochs=1, validation_fraction=0.0).fit(TRAIN)
    assert none.history_.best is None and none.history_.rows[0].validation_nats is None


# Scores and draws


def test_every_token_has_a_log_probability(fitted, monkeypatch):
    nats = fitted.log_prob(TEST)
    assert len(nats) == sum(len(line.split()) + 1 for line in TEST)
    assert nats.max() < 0 and nats.std() > 0.1
    assert fitted.score(TEST) == pytest.approx(nats.mean())
    assert fitted.perplexity(TEST) == pytest.approx(np.exp(-nats.mean()))
    monkeypatch.setattr(lstm_network, "_CHUNK", 7)
    np.testing.assert_allclose(fitted.log_prob(TEST), nats, rtol=1e-4)
    monkeypatch.undo()
    codes = fitted.tokens(TEST)
    for given in (codes, np.where(codes == fitted.tokens([""])[0], -1, codes)):
        np.testing.assert_array_equal(fitted.log_prob(given), nats)


def test_draws_are_as_frequent_as_they_are_probable(fitted):
    drawn = fitted.sample(1, n_texts=20_000, after="the cat")[:, 0]
    labels = fitted.vocabulary_["token"].tolist()
    frequency = [(drawn == label).mean() for label in labels]
    before = fitted.tokens(["the cat"])[:-1]
    chance = [math.exp(fitted.log_prob(np.append(before, code))[-1]) for code in range(len(labels))]
    np.testing.assert_allclose(frequency, chance, atol=0.015)
    assert max(chance) > 2 * min(chance)
    first, same, other = (fitted.sample(30, seed=seed) for seed in (0, 0, 1))
    assert first.tolist() == same.tolist() != other.tolist()
    assert first.shape == (1, 30) and fitted.sample(0).shape == (1, 0)


# Files


def test_a_model_of_codes_is_saved_too(tmp_path):
    codes = np.append(np.tile([0, 1, 2], 40), -1)
    model = small(epochs=1).fit(codes)
    model.save(tmp_path / "model")
    loaded = exfam.load(tmp_path / "model")
    assert loaded.vocabulary_["token"].tolist() == [0, 1, 2, "<eos>"]
    np.testing.assert_array_equal(loaded.log_prob(codes), model.log_prob(codes))


def test_tied_vectors_are_stored_once(tmp_path):
    sizes = []
    for tie in LSTM_TIES:
        model = small(tie=tie, epochs=1, dim=40).fit(TRAIN)
        model.save(tmp_path / str(tie))
        sizes.append((tmp_path / str(tie) / "model.safetensors").stat().st_size)
        assert same_bits(exfam.load(tmp_path / str(tie)).model_, model.model_)
    table = 40 * 4 * len(model.vocabulary_["token"])
    assert sizes[0] - sizes[1] > table and sizes[2] - sizes[1] < 500


# Interrupted


@pytest.fixture(scope="module")
def uninterrupted():
    return small(epochs=5, learning_rate=25.0, clip=None).fit(TRAIN, validation=VALIDATION)


@pytest.mark.parametrize(
    ("method", "at", "seconds"),
    [("step", 60, 1000.0), ("begin_epoch", 5, 0.0), ("validation", 3, 0.0), ("keep_best", 2, 0.0)],
)
def test_a_fit_cut_anywhere_goes_on_to_the_same_bits(
    tmp_path, monkeypatch, uninterrupted, method, at, seconds
):
    model, calls, real = clone(uninterrupted), [], getattr(TorchEngine, method)
    folder = Checkpoint(tmp_path, seconds=seconds)

    def failing(self, *arguments):
        calls.append(method)
        if len(calls) == at:
            raise OSError("the lights went out")
        return real(self, *arguments)

    with monkeypatch.context() as patch, pytest.raises(OSError, match="lights"):
        patch.setattr(TorchEngine, method, failing)
        model.fit(TRAIN, validation=VALIDATION, checkpoint=folder)
    assert not hasattr(model, "members_")
    model.fit(TRAIN, validation=VALIDATION, checkpoint=folder)
    assert same_bits(model.model_, uninterrupted.model_)
    history, whole = model.history_.to_dict(), uninterrupted.history_.to_dict()
    assert {**history, "cpu_seconds": 0} == {**whole, "cpu_seconds": 0}
    # There is something to lose: rates that fell, a best epoch before the last.
    assert len(set(whole["learning_rate"])) > 1 and not all(whole["best"])


def test_a_fit_stopped_by_ctrl_c_in_validation_goes_on(tmp_path, monkeypatch, uninterrupted):
    # In a validation that is no better than the best: its verdict must not count twice.
    at = next(row.epoch for row in uninterrupted.history_.rows if not row.best)
    parts = math.ceil(len(uninterrupted.tokens(VALIDATION)) / (5 * 4))
    assert parts > 1
    calls, real = [], LSTMNetwork.log_prob

    def pressed(self, *arguments):
        calls.append(at)
        if len(calls) == steps._SAMPLED + (at - 1) * parts + 1:
            signal.raise_signal(signal.SIGINT)
        return real(self, *arguments)

    model = clone(uninterrupted)
    with monkeypatch.context() as patch:
        patch.setattr(LSTMNetwork, "log_prob", pressed)
        model.fit(TRAIN, validation=VALIDATION, checkpoint=tmp_path)
    assert model.history_.interrupted and len(model.history_) == at - 1
    model.fit(TRAIN, validation=VALIDATION, checkpoint=tmp_path)
    assert same_bits(model.model_, uninterrupted.model_)
    rates = [each.history_.to_dict()["learning_rate"] for each in (model, uninterrupted)]
    assert rates[0] == rates[1]


# Mistakes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 1000}, "`batch_size` must be at most the number of tokens, .* got 1000"),
        ({"device": "nowhere"}, "`device` must be one that torch finds"),
        # Vectors far from 0 and no limit: the second step has no finite nats.
        (
            {"learning_rate": 1e38, "clip": None},
            "Training nats must be finite, got .*learning_rate",
        ),
    ],
)
def test_what_cannot_be_fitted_is_refused(changes, message):
    with pytest.raises(ExfamError, match=message):
        small(**changes).fit(TRAIN)


def test_gradients_that_are_not_finite_leave_the_weights(monkeypatch):
    monkeypatch.setattr(steps, "clip_gradients", lambda gradients, limit: math.inf)
    networks = []

    def kept(network, **options):
        networks.append((network, {k: v.clone() for k, v in network.state_dict().items()}))
        return steps.fit(network, **options)

    monkeypatch.setattr(network_estimator, "fit", kept)
    with pytest.raises(ExfamError, match="Training nats must be finite, got nan at epoch 1, step"):
        small(epochs=1).fit(TRAIN)
    ((network, before),) = networks
    assert all(torch.equal(network.state_dict()[name], each) for name, each in before.items())


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda _: small().fit([]), "`X` must be a text with words"),
        (lambda _: small().fit(TRAIN, validation=[]), "`validation` must have tokens, got none"),
        (lambda model: model.score([]), "`X` must have tokens to score, got none"),
        (lambda model: model.sample(-1), "`n_tokens` must be an integer >= 0"),
        (lambda model: model.sample(1, after=5), "`after` must be text, got 5"),
        (lambda model: model.sample(2**62), "`n_tokens` times `n_texts` must be at most 100000000"),
        (lambda model: model.sample(10**5, n_texts=10**5), "`n_tokens` times `n_texts` must be at"),
    ],
)
def test_texts_and_draws_are_checked(fitted, use, message):
    with pytest.raises((DataError, ExfamError), match=message):
        use(fitted)
