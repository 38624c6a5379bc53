"""Counts of words and pairs."""

import numpy as np
import pytest

from exfam_studies.reflections.ngrams import NGRAMS


@pytest.mark.parametrize("model", NGRAMS)
def test_counts_give_probabilities_that_sum_to_one(model):
    random = np.random.default_rng(0)
    train = random.choice(6, 300, p=[0.4, 0.3, 0.15, 0.1, 0.05, 0.0])
    for before in range(6):
        text = [
            NGRAMS[model](train, np.array([before, word]), n_words=6, start=0)[1]
            for word in range(6)
        ]
        assert np.exp(text).sum() == pytest.approx(1.0) and min(text) > -np.inf
    assert np.std(text) > 0


def test_pairs_tell_what_words_alone_do_not():
    train = np.tile([0, 1, 2], 50)
    one, two = (
        NGRAMS[model](train, train, n_words=3, start=2).mean()
        for model in ("unigram", "bigram-kneser-ney")
    )
    assert one == pytest.approx(-np.log(3)) and two > -0.01
