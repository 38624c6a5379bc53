"""Classifiers and regressors of sentences by an encoder that is trained along."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

pytest.importorskip("tokenizers", reason="tokenizers (extra hf) is not installed")

from exfam.checks import DataError, ExfamError, ExfamWarning
from exfam.language import MaskedLanguageModel, SentenceClassifier, SentenceRegressor
from exfam.language.networks.sentence_networks import SentenceHead, SentenceNats
from exfam.layers import linear
from language.masked_cases import SMALL, TEST, TRAIN

LABELS = np.array(["it" if line.endswith("it") else "car" for line in TRAIN])
PAIRS = [(line, other) for line, other in zip(TRAIN, TRAIN[1:] + TRAIN[:1], strict=True)]
NUMBERS = np.array([float(len(set(a.split()) & set(b.split()))) for a, b in PAIRS])
CHANGES = {"learning_rate": 1e-2, "max_epochs": 5, "batch_size": 8, "progress": False}


@pytest.fixture(scope="module")
def encoder():
    return MaskedLanguageModel(**{**SMALL, "length": 24}, encoding="relative").fit(TRAIN)


@pytest.fixture(scope="module")
def classifier(encoder):
    return SentenceClassifier(**CHANGES).fit(TRAIN, LABELS, encoder=encoder)


@pytest.fixture(scope="module")
def regressor(encoder):
    return SentenceRegressor(**{**CHANGES, "max_epochs": 20}).fit(PAIRS, NUMBERS, encoder=encoder)


def test_labels_that_words_decide_are_learned(encoder, classifier):
    expected = ["it" if line.endswith("it") else "car" for line in TEST]
    assert classifier.score(TEST, expected) > 0.95
    predicted = classifier.predict_log_proba(TEST)
    np.testing.assert_allclose(np.exp(predicted).sum(1), 1.0)
    np.testing.assert_allclose(classifier.predict_proba(TEST), np.exp(predicted))
    assert classifier.classes_.tolist() == ["car", "it"]
    assert not np.allclose(predicted, classifier.predict_log_proba(TEST, term="positional"))
    y = ["bus", "tram", *classifier.predict(TRAIN[2:4])]
    with pytest.warns(ExfamWarning, match="2 of the 4 labels of `y` .* 'bus' at index 0") as warned:
        assert classifier.score(TRAIN[:4], y) == 0.5
    assert len(warned) == 1
    # The encoder is trained along, and the one that was given is not.
    before = encoder.embed(TEST)
    assert not np.allclose(classifier.encoder().vectors(TEST), before)
    again = clone(classifier).fit(TRAIN[:20], LABELS[:20], encoder=encoder)
    np.testing.assert_array_equal(encoder.embed(TEST), before)
    # A fit that is refused leaves no other labels behind.
    with pytest.raises(DataError, match="as a word"):
        again.fit([["a man", "it"], "a"], ["x", "y"], encoder=encoder)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        again.predict(TEST)


def test_numbers_of_pairs_are_learned(regressor):
    assert regressor.score(PAIRS, NUMBERS) > 0.6
    assert 0 < regressor.predict_std(PAIRS[:2])[0] < NUMBERS.std()
    predicted = regressor.predict(PAIRS[:9])
    assert not np.allclose(predicted, regressor.predict(PAIRS[:9], term="contextual"))
    one, other = regressor.predict([("a man", "it"), ("it", "a man")])
    assert one != other


def test_a_regressors_nats_are_those_of_normal_densities(encoder):
    output = linear(encoder.model_.words.dim, 1, generator=torch.Generator().manual_seed(0))
    head = SentenceHead(encoder.model_, output, pooling="mean", dropout=0.0).eval()
    with torch.no_grad():
        head.spread.fill_(0.3)
    source = SentenceRegressor()
    source.vocabulary_, source.center_, source.scale_ = encoder.vocabulary_, 1.0, 2.0
    batch = source._source(encoder.model_, TRAIN[:5], NUMBERS[:5], name="X").pad(np.arange(5))
    nats, weight = SentenceNats()(head, batch)
    normal = torch.distributions.Normal(head(batch)[:, 0], torch.tensor(0.3).exp())
    torch.testing.assert_close(nats, -normal.log_prob(batch.target).sum().to(nats))
    assert weight == 5


def with_one(y, index, value):
    return [*y[:index], value, *y[index + 1 :]]


@pytest.mark.parametrize(
    ("y", "more", "message"),
    [
        (LABELS[:3], {}, r"`y` must have a target for each of 120 sentences .* shape \(3,\)"),
        (["it"] * 120, {}, "`y` must have at least two labels, got 1"),
        (with_one(LABELS, 9, None), {}, "`y` must be texts, numbers or truth .* NoneType, str"),
        (LABELS, {"X": []}, "`X` must have sentences, got none"),
        (LABELS, {"validation": TEST[0]}, "`validation` must be a pair"),
        (LABELS, {"validation": (["a", {}], ["it", "car"])}, "In `validation`: Sentence 1 must be"),
        (
            LABELS,
            {"validation": (TEST, with_one(["it"] * 30, 29, "bus"))},
            "labels of the training sentences, got 'bus' at index 29",
        ),
        (with_one(NUMBERS, 7, np.nan), {}, "`y` must be finite, got nan at index 7"),
        (np.full(120, 0.1), {}, "`y` must not be all alike, got 0.1 120 times"),
        ([10**400] * 120, {}, r"`y` must be numbers, one per sentence of `X` \(int too large"),
    ],
)
def test_what_cannot_be_learned_is_refused(encoder, y, more, message):
    is_number = not isinstance(y[0], str)
    kind = SentenceRegressor if is_number else SentenceClassifier
    with pytest.raises(DataError, match=message):
        kind(**CHANGES).fit(**{"X": TRAIN, "y": y, "encoder": encoder, **more})


@pytest.mark.parametrize(
    ("a", "b"), [(7.3, 1e3), (2.0**-990, 0.0), (2.0**1020, 0.0), (1e10, -1e12)]
)
def test_the_unit_of_the_numbers_changes_nothing_but_the_unit(encoder, a, b):
    def fitted(y):
        return SentenceRegressor(**{**CHANGES, "max_epochs": 1}).fit(PAIRS, y, encoder=encoder)

    one, other = fitted(NUMBERS), fitted(a * NUMBERS + b)
    predicted = (other.predict(PAIRS) - b) / a
    np.testing.assert_allclose(predicted, one.predict(PAIRS), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(other.predict_std(PAIRS) / a, one.predict_std(PAIRS), rtol=1e-6)
    assert other.score(PAIRS, a * NUMBERS + b) == pytest.approx(one.score(PAIRS, NUMBERS))


def test_what_cannot_be_scored_or_fitted_is_refused(encoder, classifier, regressor):
    for model, y in ((classifier, ["it"]), (regressor, LABELS[:30, None])):
        with pytest.raises(DataError, match="`y` must have a target for each of 30 sentences"):
            model.score(TEST, y)
    with pytest.raises(DataError, match="must not be all alike to be ranked"):
        regressor.score(PAIRS[:5], np.ones(5))
    with pytest.raises(ExfamError, match="`encoder` must be a MaskedLanguageModel, got"):
        SentenceClassifier().fit(TRAIN, LABELS, encoder=classifier)
