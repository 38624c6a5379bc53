"""A small text, and small masked language models of it."""

import numpy as np
import torch

from exfam.encodings import ENCODINGS
from exfam.language.networks.masked_lm import MaskedLM, MaskedLMSizes
from model_cases import generator, randomize

SUBJECTS, VERBS, OBJECTS = ["a man", "the dog", "two women"], ["sees", "likes"], ["a red car", "it"]
NAMES = sorted(ENCODINGS)


def lines(n=120, *, seed=0):
    """Sentences whose words depend on one another."""
    random = np.random.default_rng(seed)
    sentences = []
    for _ in range(n):
        subject = int(random.integers(3))
        verb, what = VERBS[subject % 2], OBJECTS[int(random.integers(2))]
        sentences.append(f"{SUBJECTS[subject]} {verb} {what}")
    return sentences


TRAIN, TEST = lines(), lines(30, seed=1)
SMALL = {
    "vocabulary_size": 60, "embed_dim": 8, "n_heads": 2, "n_layers": 2, "feed_forward_dim": 8,
    "length": 16, "batch_size": 8, "max_epochs": 2, "progress": False, "learning_rate": 5e-3,
}  # fmt: skip


def network(encoding="learned", *, seed=0, **changes):
    """A network of random weights whose tokens differ clearly."""
    sizes = {"n_tokens": 12, "n_positions": 9, "mask": 4, "embed_dim": 8, "n_heads": 2}
    sizes |= {"n_layers": 2, "feed_forward_dim": 8}
    sizes = MaskedLMSizes(**{**sizes, **changes}, encoding=encoding)
    model = MaskedLM(sizes, generator=generator(seed)).eval()
    return randomize(model, generator(seed + 1))


def sentences(n=3, length=6, *, seed=0):
    return torch.randint(5, 12, (n, length), generator=generator(seed))
