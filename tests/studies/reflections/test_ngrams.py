"""Counts of words and pairs."""

import numpy as np
import pytest

from exfam_studies.reflections.ngrams import NGRAMS


@pytest.mark.parametrize("model", NGRAMS)
def test_counts_give_probabilities_that_sum_to_one(model):
    random = np.random.default_rng(0)
    train = random.choice(6, 300, p=[0.4, 0.3, 0.15, 0.1, 0.05, 0.0])
    for before in range(6):
        pairs = [np.array([before, word]) for word in range(6)]
        log_p = [NGRAMS[model](train, pair, n_words=6, start=0)[1] for pair in pairs]
        assert np.exp(log_p).sum() == pytest.approx(1.0) and min(log_p) > -np.inf
    cycle = np.tile([0, 1, 2], 50)
    mean = NGRAMS[model](cycle, cycle, n_words=3, start=2).mean()
    assert mean == pytest.approx(-np.log(3) if model == "unigram" else 0, abs=0.01)
