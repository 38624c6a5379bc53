"""Attention by position alone: the network's laws, and the classifier's fits, errors and files."""

import numpy as np
import pytest
import torch

from exfam.checks import DataError, ExfamError
from exfam.encodings import Attenuated
from exfam.language import PositionalSentenceClassifier
from exfam.language.networks.sentence_networks import PositionalSentenceNetwork, SentenceBatch
from exfam.language.sentences import LabeledSentences, known_words
from exfam.positions import encoding_weights
from exfam.vectors import WordVectors

WORDS = tuple(f"w{number}" for number in range(12))
DIM = 12


def vectors(seed=0):
    drawn = np.random.default_rng(seed).normal(size=(len(WORDS), DIM))
    return WordVectors(WORDS, drawn.astype(np.float32))


def sentences(n=120, *, seed=0):
    """1 to 9 words each; the label says whether the words of the first half prevail."""
    random = np.random.default_rng(seed)
    drawn = [random.integers(len(WORDS), size=random.integers(1, 10)) for _ in range(n)]
    X = [" ".join(WORDS[code] for code in codes) for codes in drawn]
    y = np.array(["low" if np.mean(codes < 6) >= 0.5 else "high" for codes in drawn])
    return X, y


TINY = {"n_positions": 16, "learning_rate": 2e-2, "batch_size": 16, "max_epochs": 8}


def small(**changes):
    return PositionalSentenceClassifier(**{**TINY, "progress": False, **changes})


def network(w, *, s=1.0, padding="zeroed", seed=0):
    return PositionalSentenceNetwork(
        encoding_weights(Attenuated(w=w, s=s), 16)[0],
        dim=DIM,
        n_labels=3,
        dropout=0.5,
        padding=padding,
        generator=torch.Generator().manual_seed(seed),
    ).eval()


def batch(n=20):
    words, _ = known_words([x.split() for x in sentences(n)[0]], vectors().index, longest=16)
    source = LabeledSentences(words, vectors().center, np.zeros(n, dtype=np.int64))
    return source, source.pad(np.arange(n))


@pytest.fixture(scope="module")
def fitted():
    X, y = sentences()
    return small().fit(X, y, vectors=vectors(), validation=sentences(40, seed=1))


@pytest.mark.parametrize("s", [0.2, 5.0])
def test_weights_beyond_a_sentence_are_zeroed_as_in_the_listing(s):
    """Each row by itself: sentences side by side do not change each other."""
    model, (_, result) = network(0.05, s=s), batch()
    for row, n_words in enumerate(result.n_words.tolist()):
        scores = model.weights[:9, :9].clone()
        scores[:, n_words:] = 0.0
        h = model.value(scores @ result.vectors[row])[:n_words]
        expected = model.output(h.mean(0))
        torch.testing.assert_close(model(result)[row], expected)


def test_renormalized_weights_sum_to_one_over_the_words_there_are():
    model, (_, result) = network(0.05, s=3.0, padding="renormalized"), batch()
    ones = result.present[..., None].expand(-1, -1, DIM).float()
    ones = SentenceBatch(ones, result.n_words, result.target)
    seen = model.mixed(ones)[result.present]
    torch.testing.assert_close(seen, torch.ones_like(seen))
    zeroed = network(0.05, s=3.0).mixed(ones)[result.present]
    assert zeroed.max() <= 1 + 1e-6 and zeroed.min() < 0.9
    nothing = SentenceBatch(torch.zeros(1, 1, DIM), torch.tensor([0]), torch.tensor([0]))
    torch.testing.assert_close(model(nothing)[0], model.output.bias)


def test_the_mean_cannot_separate_uniform_attention_from_attention_to_the_word_itself():
    _, result = batch()
    uniform, itself, between = (
        network(w, padding="renormalized")(result) for w in (1e-9, 1e6, 0.05)
    )
    torch.testing.assert_close(uniform, itself)
    assert (between - itself).abs().max() > 1e-3
    # With the padding's share lost, the uniform one is n / 16 of it.
    share = result.n_words[:, None] / 16
    torch.testing.assert_close(network(1e-9)(result), share * network(1e6)(result))


def test_probabilities_sum_to_one_and_choose_the_label_and_the_best_epoch(fitted):
    X, y = sentences(80, seed=2)
    result = fitted.predict_proba(X)
    np.testing.assert_allclose(result.sum(1), 1.0)
    np.testing.assert_array_equal(fitted.predict(X), fitted.classes_[result.argmax(1)])
    assert fitted.score(X, y) == np.mean(fitted.predict(X) == y)
    learned = small(padding="renormalized", max_epochs=30).fit(*sentences(), vectors=vectors())
    assert learned.score(X, y) > 0.8 > max(np.mean(y == label) for label in learned.classes_)
    np.testing.assert_array_equal(fitted.predict_proba([x.split() for x in X]), result)
    X, y = sentences(40, seed=1)
    nats = -fitted.predict_log_proba(X)[np.arange(40), np.searchsorted(fitted.classes_, y)].mean()
    assert nats == pytest.approx(min(fitted.history_.to_dict()["validation_nats"]), abs=1e-5)
    with pytest.raises(DataError, match="`X` must have sentences to score, got none"):
        fitted.score([], [])


def test_unknown_words_are_dropped_and_their_share_is_reported(fitted):
    known = WordVectors(("The", "the", "cat"), np.eye(3, dtype=np.float32))
    words, share = known_words([["The", "THE", "Cat", "dxg"]], known.index, longest=2)
    assert words.item.tolist() == [0, 1] and share == 0.75
    assert fitted.coverage_ == 1.0 and fitted.coverage(["w1 zz w2 w3"]) == 0.75
    given, alike = ["w1 zz w2", "zz", list(WORDS) * 3], ["w1 w2", "", [*WORDS, *WORDS[:4]]]
    np.testing.assert_array_equal(fitted.predict_proba(given), fitted.predict_proba(alike))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("w1 w2", "`X` must be a list of sentences, got one str. Put it into a list"),
        (["w1", [7]], "`X` must be sentences, each a text or a list of words, got list at index 1"),
    ],
)
def test_what_are_no_sentences_is_refused(fitted, X, message):
    with pytest.raises(DataError, match=message):
        fitted.predict(X)


@pytest.mark.parametrize(
    ("y", "more", "message"),
    [
        (["a", ["b"]], {}, "`y` must have one target per sentence, got ones of several lengths"),
        (["a", "b"], {"validation": 1}, r"`validation` must be a pair \(X, y\), got int"),
        (["a", "b"], {"vectors": WordVectors(("x",), np.ones((1, 2), "f4"))}, "a word of `X`, got"),
        (["a", "b"], {"vectors": None}, "`vectors` must be WordVectors, got"),
        (["a", "b"], {"w": 2.0, "s": 1e20}, r"`w` and `s` \* `w` must be at most 1e\+20, got w="),
    ],
)
def test_what_cannot_be_learned_is_refused(y, more, message):
    with pytest.raises(ExfamError, match=message):
        model = small(**{name: more.pop(name) for name in ("w", "s") if name in more})
        model.fit(["w1", "w2"], y, **{"vectors": vectors(), **more})
