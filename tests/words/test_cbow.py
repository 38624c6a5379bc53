"""CBOW by softmax and by negative sampling."""

import numpy as np
import pytest
import torch

from exfam.checks import ExfamError
from exfam.families import Bernoulli, Categorical
from exfam.words.cbow import CBOW, AdamPass, adam_arrays, contexts, log_likelihood
from exfam.words.matrices import initial_matrices

SUBJECTS = ["mathematics", "statistics", "sociology", "history"]
ADJECTIVES = ["fun", "boring", "easy", "difficult"]


def corpus(n_sentences, *, seed):
    """Of each subject two of four adjectives are said."""
    random = np.random.default_rng(seed)
    lines = []
    for subject, first, second in random.integers([4, 2, 2], size=(n_sentences, 3)).tolist():
        said = [ADJECTIVES[(subject + k) % 4] for k in (first, second)]
        lines.append(f"{SUBJECTS[subject]} is {said[0]} and {said[1]}")
    return lines


TRAIN, TEST = corpus(2000, seed=0), corpus(500, seed=1)
SOFTMAX = {"likelihood": "softmax", "window": None, "dim": 8}


def test_softmax_beats_the_words_frequencies_by_the_categorical_family():
    fitted = CBOW(**SOFTMAX, learning_rate=1e-2).fit(TRAIN)
    frequency = fitted.vocabulary_.counts / fitted.vocabulary_.counts.sum()
    codes = [fitted.vocabulary_.code(word) for line in TEST for word in line.split()]
    assert fitted.score(TEST) > np.log(frequency[codes]).mean() + 0.2
    rows = fitted.history_.rows
    assert [row.learning_rate for row in rows] == [1e-2] * 5
    assert rows[-1].train_nats < rows[0].train_nats < np.log(10)
    # Each word of a sentence by the exact softmax of the mean of the other two.
    codes = [fitted.vocabulary_.code(word) for word in ("history", "is", "fun")]
    eta = [
        fitted.output_vectors_ @ fitted.input_vectors_[np.setdiff1d(codes, code)].mean(axis=0)
        for code in codes
    ]
    expected = torch.log_softmax(torch.tensor(np.array(eta)), dim=1)[range(3), codes].mean()
    assert fitted.score(["history is fun"]) == pytest.approx(expected.item(), rel=1e-5)
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
def test_negative_sampling_learns(tie):
    options = {"dim": 8, "tie": tie, "subsample": 0.0, "deterministic": True}
    model = CBOW(**options, learning_rate=0.05).fit(TRAIN)
    start = CBOW(**options, epochs=1, learning_rate=1e-9).fit(TRAIN)
    assert start.score(TEST) == pytest.approx(np.log(0.5), abs=1e-3)
    assert model.score(TEST) > start.score(TEST) + 0.1
    assert isinstance(model.family, Bernoulli)


def test_a_softmax_fit_goes_on_to_the_same_bits(tmp_path):
    whole = CBOW(**SOFTMAX, epochs=2).fit(TRAIN[:400])
    for _ in range(2):
        again = CBOW(**SOFTMAX, epochs=2).fit(TRAIN[:400], checkpoint=tmp_path)
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
