"""A small text for language models, and what tests of them share."""

import numpy as np
import torch

from exfam.language import LSTMLanguageModel
from exfam.language.networks.lstm_network import build_lstm_lm

WORDS = ["the", "cat", "dog", "sees", "hears", "a", "bird", "<unk>"]


def lines(n=60, *, seed=0):
    """Lines of 1 to 6 words, each drawn by the one before it."""
    random = np.random.default_rng(seed)
    drawn = []
    for _ in range(n):
        word, line = 0, []
        for _ in range(random.integers(1, 7)):
            word = (word + random.choice([1, 1, 1, 3])) % len(WORDS)
            line.append(WORDS[word])
        drawn.append(" ".join(line))
    return drawn


TRAIN, VALIDATION, TEST = lines(), lines(12, seed=1), lines(10, seed=2)


def small(**changes):
    settings = {"dim": 6, "batch_size": 4, "bptt": 5, "epochs": 2, "progress": False}
    return LSTMLanguageModel(**{**settings, "learning_rate": 2.0, **changes})


def network(*, n_words=7, dim=6, seed=0, **changes):
    generator = torch.Generator().manual_seed(seed)
    return build_lstm_lm(n_words=n_words, dim=dim, generator=generator, **changes).eval()


def tokens(*shape, n_words=7, seed=0):
    drawn = torch.randint(n_words, shape, generator=torch.Generator().manual_seed(seed))
    assert len(drawn.unique()) > 1
    return drawn
