"""The LSTM language model as an estimator: fits, scores, draws, files."""

import json
import math
import signal

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import exfam
from exfam.checks import CheckpointError, DataError, ExfamError, ExfamWarning, ModelFileError
from exfam.language import LSTMLanguageModel, lstm, network_estimator, scoring
from exfam.language.networks.lstm_network import LSTM_TIES, LSTMNetwork
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
    with pytest.warns(ExfamWarning, match="1 of the 3 words of `X` are unknown"):
        assert len(model.log_prob(["a b fox"])) == 3


@pytest.mark.parametrize("tie", LSTM_TIES)
def test_a_text_that_repeats_is_learned(tie):
    model = small(tie=tie, dim=8, epochs=12, learning_rate=20.0, dropout=0.0)
    text = ["a b c d"] * 60
    model.fit(text)
    assert 1.0 <= model.perplexity(text) < 1.1
    (drawn,) = model.sample(10, after="a b c d\na")
    assert drawn.tolist() == ["b", "c", "d", "<eos>", "a"] * 2


def test_a_fit_is_better_than_counts_and_than_no_fit(fitted):
    tokens = fitted.tokens(TRAIN)
    share = np.bincount(tokens) / len(tokens)
    assert fitted.score(TRAIN) > np.log(share)[tokens].mean()
    assert fitted.history_.to_dict()["train_nats"][0] > fitted.history_.to_dict()["train_nats"][-1]


def test_the_same_seed_gives_the_same_bits_and_another_does_not(fitted):
    same = clone(fitted).fit(iter(TRAIN), validation=VALIDATION)
    assert same_bits(same.model_, fitted.model_)
    other = clone(fitted).set_params(seed=1).fit(TRAIN, validation=VALIDATION)
    assert not same_bits(other.model_, fitted.model_)


def test_rounding_in_training_costs_a_fit_little_and_its_scores_nothing(fitted):
    rounded = clone(fitted).set_params(precision="bfloat16").fit(TRAIN, validation=VALIDATION)
    assert not same_bits(rounded.model_, fitted.model_)
    assert rounded.score(TEST) == pytest.approx(fitted.score(TEST), abs=0.05)
    exact = clone(fitted).set_params(epochs=1).fit(TRAIN)
    exact.model_.load_state_dict(rounded.model_.state_dict())
    np.testing.assert_array_equal(exact.log_prob(TEST), rounded.log_prob(TEST))


def test_a_fit_leaves_torchs_generator_as_it_was():
    before = torch.get_rng_state()
    small(epochs=1).fit(TRAIN).sample(3)
    assert torch.equal(torch.get_rng_state(), before)


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
        scoring.token_log_probs(
            model.model_, tokens[first : first + length], start=int(before[first])
        )
        for first in range(0, len(tokens), length)
    ]
    nats = -np.concatenate(pieces).mean()
    assert model.history_.best.validation_nats == pytest.approx(nats, rel=1e-5)
    if columns == 1:
        assert nats == pytest.approx(-model.score(VALIDATION))


def test_validation_is_the_texts_end_unless_given():
    model = small(epochs=3, validation_fraction=0.25).fit(TRAIN)
    cut = int(len(model.tokens(TRAIN)) * 0.25)
    # A text as codes with line ends of its own.
    codes = model.tokens(TRAIN)
    other = small(epochs=3).fit(codes[:-cut], validation=codes[-cut:])
    assert [row.validation_nats for row in model.history_.rows] == pytest.approx(
        [row.validation_nats for row in other.history_.rows], abs=0.3
    )
    assert model.history_.steps == other.history_.steps
    none = small(epochs=1, validation_fraction=0.0).fit(TRAIN)
    assert none.history_.best is None and none.history_.rows[0].validation_nats is None


# Scores and draws


def test_every_token_has_a_log_probability(fitted, monkeypatch):
    nats_of_tokens = fitted.log_prob(TEST)
    assert len(nats_of_tokens) == sum(len(line.split()) + 1 for line in TEST)
    assert nats_of_tokens.max() < 0 and nats_of_tokens.std() > 0.1
    assert fitted.score(TEST) == pytest.approx(nats_of_tokens.mean())
    assert fitted.perplexity(TEST) == pytest.approx(np.exp(-nats_of_tokens.mean()))
    monkeypatch.setattr(scoring, "_CHUNK", 7)
    np.testing.assert_allclose(fitted.log_prob(TEST), nats_of_tokens, rtol=1e-4)


def test_all_texts_of_two_tokens_have_probabilities_that_sum_to_one(fitted):
    n_words = len(fitted.vocabulary_["token"])
    total = sum(
        math.exp(fitted.log_prob(np.array([first, second])).sum())
        for first in range(n_words)
        for second in range(n_words)
    )
    assert total == pytest.approx(1.0, rel=1e-5)


def test_codes_are_scored_as_their_words(fitted):
    codes = fitted.tokens(TEST)
    np.testing.assert_array_equal(fitted.log_prob(codes), fitted.log_prob(TEST))
    eos = fitted.tokens([""])[0]
    ends = np.where(codes == eos, -1, codes)
    np.testing.assert_array_equal(fitted.log_prob(ends), fitted.log_prob(TEST))


def test_draws_are_as_frequent_as_they_are_probable(fitted):
    drawn = fitted.sample(1, n_texts=20_000, after="the cat")[:, 0]
    labels = fitted.vocabulary_["token"].tolist()
    frequency = [(drawn == label).mean() for label in labels]
    before = fitted.tokens(["the cat"])[:-1]
    chance = [math.exp(fitted.log_prob(np.append(before, code))[-1]) for code in range(len(labels))]
    np.testing.assert_allclose(frequency, chance, atol=0.015)
    assert max(chance) > 2 * min(chance)


def test_draws_depend_on_their_seed_alone(fitted):
    first, same, other = (fitted.sample(30, seed=seed) for seed in (0, 0, 1))
    assert first.tolist() == same.tolist() != other.tolist()
    assert first.shape == (1, 30) and fitted.sample(0).shape == (1, 0)


# Files


@pytest.mark.parametrize("tie", LSTM_TIES)
def test_a_saved_model_is_the_same_bits(tmp_path, tie):
    model = small(tie=tie, epochs=1).fit(TRAIN)
    model.save(tmp_path / "model")
    for loaded in (exfam.load(tmp_path / "model"), LSTMLanguageModel.load(tmp_path / "model")):
        assert loaded.get_params() == model.get_params()
        np.testing.assert_array_equal(loaded.log_prob(TEST), model.log_prob(TEST))
        assert loaded.history_ == model.history_
        assert loaded.sample(9).tolist() == model.sample(9).tolist()
    loaded.save(tmp_path / "model", overwrite=True)
    assert not any(path.suffix in {".pt", ".pkl"} for path in (tmp_path / "model").iterdir())


def test_parameters_set_after_a_fit_are_for_the_next_one(tmp_path):
    model = small(epochs=1, dim=8, n_layers=1).fit(TRAIN)
    nats_of_tokens = model.log_prob(TEST)
    model.set_params(dim=9, n_layers=2).save(tmp_path / "model")
    loaded = exfam.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.log_prob(TEST), nats_of_tokens)
    assert loaded.dim == 9


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
        small(tie=tie, epochs=1, dim=40).fit(TRAIN).save(tmp_path / str(tie))
        sizes.append((tmp_path / str(tie) / "model.safetensors").stat().st_size)
    table = 40 * 4 * len(small(epochs=1).fit(TRAIN).vocabulary_["token"])
    assert sizes[0] - sizes[1] > table and sizes[2] - sizes[1] < 500


def test_a_model_that_is_no_longer_whole_is_refused(tmp_path, fitted):
    fitted.save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    document = json.loads(path.read_text())
    document["config"]["parameters"]["dim"] = 7
    path.write_text(json.dumps(document))
    with pytest.raises(ModelFileError, match="must be as it was saved"):
        LSTMLanguageModel.load(tmp_path / "model")


# Interrupted


class PowerCut(Exception):
    pass


@pytest.fixture(scope="module")
def uninterrupted():
    return small(epochs=5, learning_rate=25.0, clip=None).fit(TRAIN, validation=VALIDATION)


def cut_at(monkeypatch, method, at, model, folder):
    """The fit, failing at the call number `at` of the engine's method."""
    calls = []
    real = getattr(TorchEngine, method)

    def failing(self, *arguments):
        calls.append(method)
        if len(calls) == at:
            raise PowerCut("the lights went out")
        return real(self, *arguments)

    with monkeypatch.context() as patch, pytest.raises(PowerCut, match="lights"):
        patch.setattr(TorchEngine, method, failing)
        model.fit(TRAIN, validation=VALIDATION, checkpoint=folder)


@pytest.mark.parametrize(
    ("method", "at"),
    [("step", 1), ("step", 14), ("step", 33), ("step", 60)]
    + [("begin_epoch", 3), ("begin_epoch", 5), ("validation", 3), ("keep_best", 2)],
)
@pytest.mark.parametrize("seconds", [0.0, 1000.0])
def test_a_fit_cut_anywhere_goes_on_to_the_same_bits(
    tmp_path, monkeypatch, uninterrupted, method, at, seconds
):
    model = clone(uninterrupted)
    folder = Checkpoint(tmp_path, seconds=seconds)
    cut_at(monkeypatch, method, at, model, folder)
    assert not hasattr(model, "members_")
    model.fit(TRAIN, validation=VALIDATION, checkpoint=folder)
    assert same_bits(model.model_, uninterrupted.model_)
    nats_of_tokens, whole = model.history_.to_dict(), uninterrupted.history_.to_dict()
    assert {**nats_of_tokens, "cpu_seconds": 0} == {**whole, "cpu_seconds": 0}
    # There is something to lose: rates that fell, a best epoch before the last.
    assert len(set(whole["learning_rate"])) > 1 and not all(whole["best"])


def test_a_fit_stopped_by_ctrl_c_in_validation_goes_on(tmp_path, monkeypatch, uninterrupted):
    # In a validation that is no better than the best: its verdict must not count twice.
    at = next(row.epoch for row in uninterrupted.history_.rows if not row.best)
    parts = math.ceil(len(uninterrupted.tokens(VALIDATION)) / (5 * 4))
    assert parts > 1
    calls, sampled = [], steps._SAMPLED
    real = LSTMNetwork.log_prob

    def pressed(self, *arguments):
        calls.append(at)
        if len(calls) == sampled + (at - 1) * parts + 1:
            signal.raise_signal(signal.SIGINT)
        return real(self, *arguments)

    model = clone(uninterrupted)
    with monkeypatch.context() as patch:
        patch.setattr(LSTMNetwork, "log_prob", pressed)
        model.fit(TRAIN, validation=VALIDATION, checkpoint=tmp_path)
    assert model.history_.interrupted and len(model.history_) == at - 1
    model.fit(TRAIN, validation=VALIDATION, checkpoint=tmp_path)
    assert same_bits(model.model_, uninterrupted.model_)
    rates = (each.history_.to_dict()["learning_rate"] for each in (model, uninterrupted))
    assert next(rates) == next(rates)


def test_a_finished_fit_is_returned(tmp_path, monkeypatch):
    model = small().fit(TRAIN, validation=VALIDATION, checkpoint=tmp_path)

    def never(self, index):
        raise AssertionError("a finished fit trains no more")

    monkeypatch.setattr(TorchEngine, "step", never)
    again = clone(model).fit(TRAIN, validation=VALIDATION, checkpoint=tmp_path)
    assert same_bits(again.model_, model.model_)


@pytest.mark.parametrize(
    ("changes", "text", "message"),
    [
        ({"dropout": 0.5}, TRAIN, r"dropout is 0\.2 there and 0\.5 here"),
        ({"seed": 3}, TRAIN, "seed is 0 there and 3 here"),
        ({}, TRAIN[:50], "text of train is '"),
    ],
)
def test_a_checkpoint_of_another_fit_is_refused(tmp_path, changes, text, message):
    small(epochs=1).fit(TRAIN, checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match=f"must belong to this fit.*{message}"):
        small(epochs=1, **changes).fit(text, checkpoint=tmp_path)


# Mistakes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim": 0}, "`dim` must be an integer >= 1, got 0"),
        ({"n_layers": 0}, "`n_layers` must be an integer >= 1"),
        ({"epochs": 0}, "`epochs` must be an integer >= 1"),
        ({"bptt": 0}, "`bptt` must be an integer >= 1"),
        ({"seed": -1}, "`seed` must be an integer >= 0"),
        ({"tie": "linear"}, "`tie` must be one of None, 'tied', 'reflection', got 'linear'"),
        ({"dropout": 1.0}, r"`dropout` must be a number in \[0, 1\)"),
        ({"learning_rate": 0.0}, "`learning_rate` must be a number > 0"),
        ({"clip": -1.0}, "`clip` must be a number > 0"),
        ({"precision": "float16"}, "`precision` must be"),
        ({"validation_fraction": 1.0}, "`validation_fraction` must be a number in"),
        ({"batch_size": 1000}, "`batch_size` must be at most the number of tokens, .* got 1000"),
        ({"device": "nowhere"}, "`device` must be one that torch finds"),
    ],
)
def test_parameters_are_checked(changes, message):
    with pytest.raises(ExfamError, match=message):
        small(**changes).fit(TRAIN)


def test_steps_that_explode_are_refused_with_what_to_do():
    # Vectors far from 0 and no limit: the second step has no finite nats.
    with pytest.raises(ExfamError, match="Training nats must be finite, got .*learning_rate"):
        small(learning_rate=1e38, clip=None).fit(TRAIN)


def test_gradients_that_are_not_finite_leave_the_weights(monkeypatch):
    monkeypatch.setattr(steps, "clip_gradients", lambda gradients, limit: math.inf)
    model = small(epochs=1)
    networks = []

    def kept(network, **options):
        networks.append((network, {k: v.clone() for k, v in network.state_dict().items()}))
        return steps.fit(network, **options)

    monkeypatch.setattr(network_estimator, "fit", kept)
    with pytest.raises(ExfamError, match="Training nats must be finite, got nan at epoch 1, step"):
        model.fit(TRAIN)
    ((network, before),) = networks
    assert all(torch.equal(network.state_dict()[name], each) for name, each in before.items())


def test_texts_are_checked(fitted):
    with pytest.raises(DataError, match="`X` must be a text with words"):
        small().fit([])
    with pytest.raises(DataError, match="`validation` must have tokens, got none"):
        small().fit(TRAIN, validation=[])
    with pytest.raises(DataError, match="`X` must have tokens to score, got none"):
        fitted.score([])
    with pytest.raises(ExfamError, match="`n_tokens` must be an integer >= 0"):
        fitted.sample(-1)
    with pytest.raises(ExfamError, match="`after` must be text, got 5"):
        fitted.sample(1, after=5)


def test_what_is_not_fitted_says_so(tmp_path):
    for ask in (
        lambda model: model.score(TEST),
        lambda model: model.sample(3),
        lambda model: model.history_,
        lambda model: model.model_,
        lambda model: model.save(tmp_path / "model"),
    ):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            ask(small())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_fit_on_a_gpu_goes_on_too(tmp_path, monkeypatch):
    model = small(device="cuda", epochs=3)
    whole = clone(model).fit(TRAIN, validation=VALIDATION)
    cut_at(monkeypatch, "begin_epoch", 3, model, tmp_path)
    model.fit(TRAIN, validation=VALIDATION, checkpoint=tmp_path)
    assert model.perplexity(TEST) == pytest.approx(whole.perplexity(TEST), rel=1e-3)


@pytest.mark.parametrize("sizes", [{"n_tokens": 2**62}, {"n_tokens": 10**5, "n_texts": 10**5}])
def test_more_tokens_than_memory_holds_are_not_drawn(fitted, sizes):
    with pytest.raises(ExfamError, match="`n_tokens` times `n_texts` must be at most 100000000"):
        fitted.sample(**sizes)
