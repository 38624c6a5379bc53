"""The LSTM language model as an estimator: fits, scores, draws, files."""

import math
import signal

import numpy as np
import pytest
from sklearn.base import clone

from exfam.checks import DataError, ExfamError, ExfamWarning
from exfam.language import lstm
from exfam.language.networks import lstm_network
from exfam.language.networks.lstm_network import LSTM_TIES, LSTMNetwork, token_log_probs
from exfam.training import torch_engine
from toy_fit import same_bits
from words.lstm_cases import TEST, TRAIN, VALIDATION, small


@pytest.fixture(scope="module")
def fitted():
    model = small(tie="reflection", n_layers=1, dropout=0.0, epochs=12, learning_rate=5.0, clip=1.0)
    return model.fit(TRAIN, validation=VALIDATION)


@pytest.mark.parametrize("tie", LSTM_TIES)
def test_a_text_that_repeats_is_learned(tie):
    model = small(tie=tie, dim=8, epochs=12, learning_rate=20.0, dropout=0.0)
    text = ["a b c d"] * 60
    model.fit(text)
    assert 1.0 <= model.perplexity(text) < 1.1
    (drawn,) = model.sample(10, after="a b c d\na")
    assert drawn.tolist() == ["b", "c", "d", "<eos>", "a"] * 2
    with pytest.warns(ExfamWarning, match="2 of the 6 words of `X` are unknown") as warned:
        nats = model.score(["a b fox", "c d dog"])
    assert len(warned) == 1 and nats == model.score(["a b", "c d"])


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
    model = small(epochs=2, validation_fraction=0.25).fit(TRAIN)
    # A text as codes with line ends of its own.
    codes = model.tokens(TRAIN)
    cut = int(len(codes) * 0.25)
    other = small(epochs=2).fit(codes[:-cut], validation=codes[-cut:])
    assert model.history_.steps == other.history_.steps
    none = small(epochs=1, validation_fraction=0.0).fit(TRAIN)
    assert none.history_.best is None and none.history_.rows[0].validation_nats is None


def test_every_token_has_a_log_probability(fitted, monkeypatch):
    nats = fitted.log_prob(TEST)
    assert len(nats) == sum(len(line.split()) + 1 for line in TEST)
    assert nats.max() < 0 and nats.std() > 0.1
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
    first, same, other = (fitted.sample(30, seed=seed).tolist() for seed in (0, 0, 1))
    assert first == same != other
    assert fitted.sample(0).shape == (1, 0)


def test_a_fit_stopped_by_ctrl_c_in_validation_goes_on(tmp_path, monkeypatch):
    """In a validation that is no better than the best: its verdict must not count twice."""
    uninterrupted = small(epochs=5, learning_rate=25.0, clip=None)
    uninterrupted.fit(TRAIN, validation=VALIDATION)
    rates = uninterrupted.history_.to_dict()["learning_rate"]
    assert len(set(rates)) > 1
    at = next(row.epoch for row in uninterrupted.history_.rows if not row.best)
    parts = math.ceil(len(uninterrupted.tokens(VALIDATION)) / (5 * 4))
    assert parts > 1
    calls, real = [], LSTMNetwork.log_prob

    def pressed(self, *arguments):
        calls.append(at)
        if len(calls) == torch_engine._SAMPLED + (at - 1) * parts + 1:
            signal.raise_signal(signal.SIGINT)
        return real(self, *arguments)

    model = clone(uninterrupted)
    with monkeypatch.context() as patch:
        patch.setattr(LSTMNetwork, "log_prob", pressed)
        model.fit(TRAIN, validation=VALIDATION, checkpoint=tmp_path)
    assert model.history_.interrupted and len(model.history_) == at - 1
    model.fit(TRAIN, validation=VALIDATION, checkpoint=tmp_path)
    assert same_bits(model.model_, uninterrupted.model_)
    assert model.history_.to_dict()["learning_rate"] == rates


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 1000}, "`batch_size` must be at most the number of tokens, .* got 1000"),
        # Vectors far from 0 and no limit: the second step has no finite nats.
        ({"learning_rate": 1e38, "clip": None}, "Training nats must be finite, got .*learning_rat"),
    ],
)
def test_what_cannot_be_fitted_is_refused(changes, message):
    with pytest.raises(ExfamError, match=message):
        small(**changes).fit(TRAIN)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda _: small().fit(TRAIN, validation=[]), "`validation` must have tokens, got none"),
        (lambda model: model.score([]), "`X` must have tokens to score, got none"),
        (lambda model: model.sample(1, after=5), "`after` must be text, got 5"),
        (lambda model: model.sample(10**5, n_texts=10**5), "`n_tokens` times `n_texts` must be at"),
    ],
)
def test_texts_and_draws_are_checked(fitted, use, message):
    with pytest.raises((DataError, ExfamError), match=message):
        use(fitted)
