"""A small text, and small masked language models of it."""

import numpy as np
import torch

from exfam.encodings import ENCODINGS
from exfam.language.networks.masked_lm import MaskedLM, MaskedLMSizes

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
    model = MaskedLM(
        MaskedLMSizes(**{**sizes, **changes}, encoding=encoding),
        generator=torch.Generator().manual_seed(seed),
    ).eval()
    random = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=random)
    return model


def sentences(n=3, length=6, *, seed=0):
    random = torch.Generator().manual_seed(seed)
    return torch.randint(5, 12, (n, length), generator=random)
