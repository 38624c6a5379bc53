"""CBOW by softmax and by negative sampling."""

import numpy as np
import pytest
import scipy.stats
import torch

from exfam.checks import ExfamError
from exfam.families import Bernoulli, Categorical
from exfam.words import CBOW
from exfam.words.matrices import initial_matrices
from exfam.words.softmax import AdamPass, adam_arrays, contexts, log_likelihood

SUBJECTS = ["mathematics", "statistics", "sociology", "history"]
ADJECTIVES = ["fun", "boring", "easy", "difficult"]
SCORES = np.array([[4, 2, 4, 2], [6, 0, 5, 1], [1, 5, 2, 4], [0, 6, 0, 6]])


def toy_corpus(n_sentences, *, seed):
    """The toy grammar of the paper on bidirectional attention, appendix I."""
    random = np.random.default_rng(seed)
    liked = np.array([4, 5, 1, 1]) / 11
    result = []
    for kind in random.integers(3, size=n_sentences):
        one, two = random.choice(4, size=2, p=liked) if kind == 0 else random.integers(4, size=2)
        if kind == 0:
            result.append(f"i like {SUBJECTS[one]} and {SUBJECTS[two]}")
            continue
        scores = SCORES[one] + SCORES[two] if kind == 1 else SCORES[one]
        first, second = (ADJECTIVES[k] for k in random.choice(4, size=2, p=scores / scores.sum()))
        result.append(
            f"{SUBJECTS[one]} and {SUBJECTS[two]} is {first}"
            if kind == 1
            else f"{SUBJECTS[one]} is {first} and {second}"
        )
    return result


def joint(sentences, words):
    """How often word i is the center and j one of its sentence's others, as a share."""
    counts = np.zeros((len(words), len(words)))
    for sentence in sentences:
        codes = [words.index(word) for word in sentence.split()]
        for i, center in enumerate(codes):
            for j, other in enumerate(codes):
                counts[center, other] += i != j
    return counts / counts.sum()


@pytest.fixture(scope="module")
def corpus():
    return toy_corpus(10_000, seed=0)


@pytest.fixture(scope="module")
def fitted(corpus):
    return CBOW(likelihood="softmax", window=None, dim=30, learning_rate=1e-3).fit(corpus)


def test_products_follow_what_cbow_factorizes(corpus, fitted):
    """Paper: rank correlation .74 with p(w, c) / p(c), correlation .67 with the log; measured .73
    and .71."""
    p = joint(corpus, fitted.vectors_.words)
    ratio = p / p.sum(axis=0)
    products = fitted.output_vectors_ @ fitted.input_vectors_.T
    ranks = scipy.stats.spearmanr(products.ravel(), ratio.ravel())[0]
    assert len(fitted.vectors_) == 12 and ranks == pytest.approx(0.74, abs=0.06)
    seen = ratio > 0
    result = np.corrcoef(products[seen], np.log(ratio[seen]))[0, 1]
    assert result == pytest.approx(0.70, abs=0.06)


def test_softmax_beats_the_words_frequencies(corpus, fitted):
    held_out = toy_corpus(1000, seed=1)
    frequency = fitted.vocabulary_.counts / fitted.vocabulary_.counts.sum()
    index = fitted.vocabulary_.index
    marginal = np.mean([np.log(frequency[index[w]]) for s in held_out for w in s.split()])
    assert fitted.score(held_out) > marginal + 0.2
    rows = fitted.history_.rows
    assert [row.learning_rate for row in rows] == [1e-3] * 5
    assert rows[-1].train_nats < rows[0].train_nats < np.log(12)


def test_score_is_the_categorical_family(fitted):
    """Each word of "i like history" by the exact softmax of the mean of the other two."""
    codes = [fitted.vocabulary_.code(word) for word in ("i", "like", "history")]
    given = fitted.input_vectors_
    eta = [
        fitted.output_vectors_ @ np.mean([given[other] for other in codes if other != code], axis=0)
        for code in codes
    ]
    expected = torch.log_softmax(torch.tensor(np.array(eta)), dim=1)[range(3), codes].mean()
    assert fitted.score(["i like history"]) == pytest.approx(expected.item(), rel=1e-5)
    assert isinstance(fitted.family, Categorical)


@pytest.mark.parametrize("window", [1, 2, None])
def test_contexts_are_averages_by_the_definition(window):
    tokens = np.array([0, 1, 2, -1, 3, -1, -1, 1, 1, 0, 2, -1, 3, 2], np.int32)
    mean, centers = contexts(tokens, n_words=4, window=window)
    rows, expected = [], []
    for position, center in enumerate(tokens):
        near = []
        for other in range(len(tokens)):
            between = tokens[min(position, other) : max(position, other) + 1]
            if 0 < abs(other - position) <= (window or 99) and (between >= 0).all():
                near.append(tokens[other])
        if near and center >= 0:
            rows.append(np.bincount(near, minlength=4) / len(near))
            expected.append(center)
    np.testing.assert_allclose(mean.toarray(), rows, atol=1e-7)
    assert centers.tolist() == expected


def test_a_step_of_adam_is_torchs():
    tokens = np.array([0, 1, 2, -1, 3, 2, 1, 0], np.int32)
    matrices = initial_matrices(4, 3, tie=None, positive_share=0.5, seed=0)
    matrices.center[:, :3] = np.random.default_rng(0).normal(size=(4, 3))
    given, weights = (
        torch.tensor(array.copy(), requires_grad=True)
        for array in (matrices.inputs, matrices.outputs)
    )
    mean, centers = contexts(tokens, n_words=4, window=None)
    optimizer = torch.optim.Adam([given, weights], lr=0.01)
    result = AdamPass(matrices, adam_arrays(matrices), window=None, batch_size=100)
    for seed in range(4):
        optimizer.zero_grad()
        logits = torch.tensor(mean.toarray()) @ given @ weights.T
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor(centers))
        loss.backward()
        optimizer.step()
        nats, n = result(tokens, rate=0.01, seed=seed)
        assert nats / n == pytest.approx(loss.item(), rel=1e-5)
    np.testing.assert_allclose(matrices.inputs, given.detach().numpy(), rtol=1e-4)
    np.testing.assert_allclose(matrices.outputs, weights.detach().numpy(), rtol=1e-4, atol=1e-6)
    assert matrices.outputs.any()
    logits = torch.tensor(mean.toarray()) @ given @ weights.T
    expected = torch.log_softmax(logits, dim=1)[range(len(centers)), centers]
    nats = log_likelihood(mean, centers, matrices)
    np.testing.assert_allclose(nats, expected.detach().numpy(), rtol=1e-4)


@pytest.mark.parametrize("tie", [None, "reflection", "linear"])
def test_negative_sampling_learns(tie, corpus):
    options = {"dim": 8, "tie": tie, "subsample": 0.0, "deterministic": True}
    model = CBOW(**options, learning_rate=0.05).fit(corpus[:2000])
    held_out = toy_corpus(500, seed=1)
    start = CBOW(**options, epochs=1, learning_rate=1e-9).fit(corpus[:2000])
    assert start.score(held_out) == pytest.approx(np.log(0.5), abs=1e-3)
    assert model.score(held_out) > start.score(held_out) + 0.1
    assert isinstance(model.family, Bernoulli)


def test_a_softmax_fit_goes_on_to_the_same_bits(tmp_path, corpus):
    options = {"likelihood": "softmax", "window": None, "dim": 4, "epochs": 2}
    whole = CBOW(**options).fit(corpus[:400])
    for _ in range(2):
        again = CBOW(**options).fit(corpus[:400], checkpoint=tmp_path)
        np.testing.assert_array_equal(whole.output_vectors_, again.output_vectors_)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"window": None}, "`window` must be an integer >= 1 for negative sampling, got None"),
        ({"likelihood": "softmax", "tie": "linear"}, "`tie` must be None for likelihood='softmax'"),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(changed, message):
    with pytest.raises(ExfamError, match=message):
        CBOW(**changed).fit(["a b c"] * 5)
